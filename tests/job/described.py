"""Model descriptions for tests of everything that happens before a model is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from veo_cli.errors import ModelMissing
from veo_cli.models.model_info import ModelInfo

_VEO_MINI: dict[str, Any] = {
    "name": "veo-mini",
    "path": Path("models/veo-mini"),
    "family": "wan",
    "pipeline_class": "WanPipeline",
    "title": "veo-mini",
    "defaults": {
        "width": 256,
        "height": 144,
        "num_frames": 33,
        "fps": 12,
        "num_inference_steps": 24,
        "guidance_scale": 5.0,
        "flow_shift": 3.0,
    },
    "sizes": ((256, 144),),
    "size_multiple": 16,
    "frame_step": 4,
    "max_num_frames": 129,
    "latent_channels": 16,
    "spatial_compression": 8,
    "temporal_compression": 4,
    "max_text_tokens": 64,
    "num_parameters": 20_000_000,
    "weight_bytes": 40_000_000,
    "fingerprint": "f" * 64,
    "prompt_language_hint": "English only",
    "extra": {"flow_shift": 3.0},
}


def veo_mini(**changes: Any) -> ModelInfo:
    return ModelInfo(**{**_VEO_MINI, **changes})


def wan_14b() -> ModelInfo:
    return veo_mini(
        name="wan2.1-t2v-14b",
        title="Wan2.1 T2V 14B",
        defaults={
            "width": 832,
            "height": 480,
            "num_frames": 81,
            "fps": 16,
            "num_inference_steps": 50,
            "guidance_scale": 5.0,
            "flow_shift": 3.0,
        },
        sizes=((832, 480), (480, 832), (1280, 720), (720, 1280)),
        max_num_frames=1001,
        prompt_language_hint="",
        extra={"flow_shift": 3.0, "flow_shift_by_size": {(1280, 720): 5.0, (720, 1280): 5.0}},
    )


def ltx() -> ModelInfo:
    return veo_mini(
        name="ltx",
        family="generic",
        pipeline_class="LTXPipeline",
        title="LTX",
        defaults={
            "width": 704,
            "height": 480,
            "num_frames": 161,
            "fps": 25,
            "num_inference_steps": 50,
            "guidance_scale": 3.0,
        },
        sizes=(),
        size_multiple=32,
        frame_step=1,
        max_num_frames=4097,
        prompt_language_hint="",
        extra={},
    )


def describe(name: str) -> ModelInfo:
    models = {"veo-mini": veo_mini, "wan2.1-t2v-14b": wan_14b, "ltx": ltx}
    if name not in models:
        raise ModelMissing(
            "there is no such model", where=name, fix="list the models that are here:  veo models"
        )
    return models[name]()
