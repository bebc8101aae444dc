"""Write the model folder: diffusers' layout, fp16 safetensors, each file at most 16 MiB."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from training.architectures import FPS, HEIGHT, NUM_FRAMES, TEXT_TOKENS, WIDTH
from training.text_states import PACKAGE, SCALE, WEIGHTS_SHA256

MAX_SHARD_BYTES = 16_700_000  # files stay under 16 MiB

# Fitted on held-out captions: see README.md.
SAMPLING = {"num_inference_steps": 24, "guidance_scale": 5.0, "flow_shift": 3.0}


def _dump(path: Path, value: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def write_model_folder(
    folder: Path,
    *,
    transformer: Any | None = None,
    vae: Any | None = None,
) -> None:
    """Write (or write anew) the parts given, and the small JSON files around them.

    `transformer`: WanTransformer3DModel, `vae`: AutoencoderKLWan, any dtype; they are saved in fp16 and are
    left in it. Sampling settings that the folder's veo.json has already are kept.
    """
    from diffusers import UniPCMultistepScheduler, __version__

    for name, part in (("transformer", transformer), ("vae", vae)):
        if part is not None:
            for tensor in (*part.parameters(), *part.buffers()):
                tensor.data = tensor.data.to(torch.float16) if tensor.is_floating_point() else tensor.data
            # Beside the old one first: a run that is killed here must not lose both.
            fresh = folder / f"{name}.part"
            shutil.rmtree(fresh, ignore_errors=True)
            part.save_pretrained(fresh, max_shard_size=MAX_SHARD_BYTES)
            for file in fresh.glob("*"):
                file.chmod(0o644)
            shutil.rmtree(folder / name, ignore_errors=True)
            fresh.rename(folder / name)
    settings = folder / "veo.json"
    before = json.loads(settings.read_text(encoding="utf-8")) if settings.exists() else {}
    sampling = {name: before.get(name, value) for name, value in SAMPLING.items()}
    UniPCMultistepScheduler(
        prediction_type="flow_prediction",
        use_flow_sigmas=True,
        flow_shift=sampling["flow_shift"],
        solver_order=2,
    ).save_pretrained(folder / "scheduler")
    _dump(
        folder / "model_index.json",
        {
            "_class_name": "WanPipeline",
            "_diffusers_version": __version__,
            "scheduler": ["diffusers", "UniPCMultistepScheduler"],
            "text_encoder": [None, None],
            "tokenizer": [None, None],
            "transformer": ["diffusers", "WanTransformer3DModel"],
            "vae": ["diffusers", "AutoencoderKLWan"],
        },
    )
    _dump(
        folder / "text_encoder.json",
        {
            "package": PACKAGE,
            "max_length": TEXT_TOKENS,
            "scale": SCALE,
            "sha256": WEIGHTS_SHA256,
        },
    )
    _dump(
        folder / "veo.json",
        {
            "title": "veo-mini",
            "width": WIDTH,
            "height": HEIGHT,
            "num_frames": NUM_FRAMES,
            "fps": FPS,
            **sampling,
            "language": "English",
        },
    )
