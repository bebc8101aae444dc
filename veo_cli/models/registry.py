"""Which models there are: names, aliases, folders, hub ids in the local cache; each described by its JSON.

Nothing here imports torch, except `load`, which brings a described model onto a device.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veo_cli.errors import EnvironmentFault, ModelMissing
from veo_cli.host_memory import return_freed_memory
from veo_cli.models import hub_cache
from veo_cli.models.fingerprint import fingerprint
from veo_cli.models.model_info import ModelInfo
from veo_cli.models.weight_files import Weights, find_weights
from veo_cli.package_data import data_path

if TYPE_CHECKING:
    from veo_cli.job import Lora
    from veo_cli.models.offload import Offload
    from veo_cli.models.video_model import VideoModel

SHIPPED = "veo-mini"
ALIASES = {
    "wan2.1-t2v-1.3b": "Wan-AI/Wan2.1-T2V-1.3B-Diffusers",
    "wan2.1-t2v-14b": "Wan-AI/Wan2.1-T2V-14B-Diffusers",
    "wan2.2-t2v-a14b": "Wan-AI/Wan2.2-T2V-A14B-Diffusers",
    "wan2.2-ti2v-5b": "Wan-AI/Wan2.2-TI2V-5B-Diffusers",
}
_480P = ((832, 480), (480, 832))
_720P = ((1280, 720), (720, 1280))
_HUB_ID = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}", re.ASCII)
_MAX_LATENT_FRAMES = 1024  # WanTransformer3DModel's rope_max_seq_len, unless its config says otherwise


@dataclass(frozen=True)
class KnownModel:
    """What the authors of a published model recommend, which its folder does not say."""

    title: str
    sizes: tuple[tuple[int, int], ...]
    defaults: Mapping[str, Any]
    flow_shift_720p: float | None = None


_WAN21_DEFAULTS = {
    "num_frames": 81, "fps": 16, "num_inference_steps": 50, "guidance_scale": 5.0, "flow_shift": 3.0,
}  # fmt: skip
_WAN21_1_3B = KnownModel("Wan2.1 T2V 1.3B", _480P, _WAN21_DEFAULTS)
_WAN21_14B = KnownModel("Wan2.1 T2V 14B", _480P + _720P, _WAN21_DEFAULTS, flow_shift_720p=5.0)
_WAN22_A14B = KnownModel(
    "Wan2.2 T2V A14B",
    _720P + _480P,
    {
        "num_frames": 81,
        "fps": 16,
        "num_inference_steps": 40,
        "guidance_scale": 4.0,
        "guidance_scale_2": 3.0,
        "flow_shift": 12.0,
    },
)
_WAN22_TI2V_5B = KnownModel(
    "Wan2.2 TI2V 5B",
    ((1280, 704), (704, 1280)),
    {"num_frames": 121, "fps": 24, "num_inference_steps": 50, "guidance_scale": 5.0, "flow_shift": 5.0},
)
_UNKNOWN_WAN = KnownModel(
    "", (), {"num_frames": 81, "fps": 16, "num_inference_steps": 50, "guidance_scale": 5.0}
)
_VEO_MINI_DEFAULTS = {
    "width": 256,
    "height": 144,
    "num_frames": 33,
    "fps": 12,
    "num_inference_steps": 24,
    "guidance_scale": 5.0,
}
_GENERIC_DEFAULTS = {
    "width": 512,
    "height": 320,
    "num_frames": 33,
    "fps": 24,
    "num_inference_steps": 50,
    "guidance_scale": 5.0,
}
# What the authors of each pipeline's model generate; a folder does not say it.
_GENERIC_KNOWN: dict[str, dict[str, Any]] = {
    "LTXPipeline": {"width": 704, "height": 480, "num_frames": 161, "fps": 25, "guidance_scale": 3.0},
    "CogVideoXPipeline": {"width": 720, "height": 480, "num_frames": 49, "fps": 8, "guidance_scale": 6.0},
    "HunyuanVideoPipeline": {
        "width": 1280,
        "height": 720,
        "num_frames": 129,
        "fps": 15,
        "guidance_scale": 1.0,
    },
    "MochiPipeline": {"width": 848, "height": 480, "num_frames": 85, "fps": 30, "guidance_scale": 4.5},
    "SanaVideoPipeline": {"width": 832, "height": 480, "num_frames": 81, "fps": 16, "guidance_scale": 6.0},
}


def list_models() -> list[ModelInfo | ModelMissing]:
    """veo-mini and every diffusers pipeline in the local hub cache, described; a damaged one as its error."""
    found: list[ModelInfo | ModelMissing] = []
    for name in (SHIPPED, *hub_cache.cached_pipelines()):
        try:
            found.append(describe(name))
        except ModelMissing as error:
            found.append(error)
    return found


def describe(name_or_path: str) -> ModelInfo:
    """What the JSON files and weight headers of a model folder say; nothing heavy is loaded.

    Raises ModelMissing: no such model here, not a model folder, a missing shard, a truncated or damaged file,
    weights that are not safetensors, a model that does not make video from text.
    """
    path = find_folder(name_or_path)
    if not os.path.isfile(path / "model_index.json"):  # before the folder is walked: it may be any at all
        raise ModelMissing(
            "this is not a model folder in diffusers format",
            where=str(path),
            why="it has no model_index.json",
            fix="give the folder that holds model_index.json"
            if name_or_path != SHIPPED and os.path.isdir(os.path.expanduser(name_or_path))
            else _fix_for(name_or_path),
        )
    files = (file for file in sorted([*path.glob("*"), *path.glob("*/*")]) if os.path.isfile(file))
    stats = ((str(file), file.stat()) for file in files)
    stamp = tuple((file, stat.st_mtime_ns, stat.st_size) for file, stat in stats)
    return _describe(name_or_path, path, stamp)


def find_folder(name_or_path: str) -> Path:
    """The model folder that a name, alias, path or hub id means on this machine. Raises ModelMissing."""
    if name_or_path == SHIPPED:
        return data_path("weights") / SHIPPED
    if not name_or_path.strip():
        raise ModelMissing("the model's name is empty", fix="list the models that are here:  veo models")
    path = Path(os.path.expanduser(name_or_path))
    if os.path.isdir(path):  # of os.path, which takes names that no file system could hold
        return path.resolve()
    if os.path.exists(path):
        raise ModelMissing(
            "a model is a folder, this is a file",
            where=name_or_path,
            fix="give the folder with model_index.json",
        )
    hub_id = ALIASES.get(name_or_path.lower(), name_or_path)
    if hub_id in ALIASES.values() or _HUB_ID.fullmatch(name_or_path):
        cached = hub_cache.find(hub_id)
        if cached is not None:
            return cached
        raise ModelMissing(
            f"the model {hub_id} is not on this machine",
            where=name_or_path,
            why=f"no such folder, and it is not in the hub cache {hub_cache.cache_folder()}",
            fix=f"download it:  veo models {hub_id} --download",
        )
    near = difflib.get_close_matches(name_or_path, [SHIPPED, *ALIASES], n=1)
    raise ModelMissing(
        "there is no such model",
        where=name_or_path,
        why=f"did you mean {near[0]}?" if near else "it is neither a known name nor a folder",
        fix="list the models that are here:  veo models",
    )


def load(
    info: ModelInfo,
    *,
    device: str,
    loras: Sequence[Lora] = (),
    offload: Offload = "auto",
    budget_bytes: int | None = None,
) -> VideoModel:
    """Bring a described model to `device` ("cpu", "cuda", "cuda:1"). Imports torch.

    loras: put on for good; for others, load the model again. budget_bytes: device memory that may be used
    (`--max-vram`); None: what is free. Raises SpecificationError for a LoRA that does not fit, ModelMissing
    for a text encoder that is not there.
    """
    _quieten_libraries()
    if device == "cpu":
        return_freed_memory()
    if info.family == "wan":
        from veo_cli.models.wan import WanModel

        return WanModel(info, device=device, loras=loras, offload=offload, budget_bytes=budget_bytes)
    from veo_cli.models.diffusers_generic import GenericModel

    return GenericModel(info, device=device, loras=loras, offload=offload, budget_bytes=budget_bytes)


def download(name: str, *, announce: Callable[[str, str, int], None]) -> Path:
    """Bring a hub model into the local cache; an earlier broken download goes on where it stopped.

    announce: told the hub id, the licence as its card states it, and the size in bytes, before the first of
    them is fetched. Raises ModelMissing when not on the hub, EnvironmentFault when the hub cannot be reached.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

    hub_id = ALIASES.get(name.lower(), name)
    wanted = ["*.json", "*.safetensors", "*.model", "*.txt", "LICENSE*", "README.md"]
    try:
        listing = HfApi().model_info(hub_id, files_metadata=True)
        license_name = str(getattr(listing.card_data, "license", None) or "not stated")
        names = [Path(entry.rfilename) for entry in listing.siblings or []]
        sizes = [entry.size or 0 for entry in listing.siblings or []]
        size = sum(n for path, n in zip(names, sizes, strict=True) if any(path.match(w) for w in wanted))
        announce(hub_id, license_name, size)
        return Path(snapshot_download(hub_id, allow_patterns=wanted))
    except RepositoryNotFoundError as error:
        raise ModelMissing(
            f"the hub has no model {hub_id}", fix="check its name on huggingface.co"
        ) from error
    except (HfHubHTTPError, OSError) as error:
        raise EnvironmentFault(
            f"the download of {hub_id} stopped",
            why=str(error).splitlines()[0],
            fix="run the same command again: it goes on where it stopped",
        ) from error


@lru_cache(maxsize=64)
def _describe(name: str, path: Path, stamp: tuple[Any, ...]) -> ModelInfo:
    del stamp  # part of the cache's key: a changed folder is read again
    fix = _fix_for(name)
    index = _read_json(path / "model_index.json", fix)
    pipeline_class = str(index.get("_class_name", ""))
    components = {
        key: value[1]
        for key, value in index.items()
        if isinstance(value, list) and len(value) == 2 and value[1] is not None
    }
    if pipeline_class == "WanPipeline" or pipeline_class in _GENERIC_KNOWN:
        absent = [part for part in ("scheduler", "transformer", "vae") if part not in components]
        if absent:
            raise ModelMissing(
                f"the model is damaged: model_index.json names no {' and no '.join(absent)}",
                where=str(path),
                why=f"a {pipeline_class} has them",
                fix=fix,
            )
    for component in components:
        if not (path / component).is_dir():
            raise ModelMissing(
                f"a part of the model is missing: {component}/",
                where=str(path),
                why="model_index.json names it",
                fix=fix,
            )
    weights: dict[str, Weights] = {}
    files = [path / "model_index.json", *(file for file in path.glob("*.json") if file.is_file())]
    for component in components:
        files += [
            file
            for file in (path / component).iterdir()
            if file.suffix in (".json", ".model", ".txt") and file.is_file()
        ]
        found = find_weights(path / component, fix=fix)
        if found is not None:
            weights[component] = found
            files += found.files
    common: dict[str, Any] = {
        "name": name,
        "path": path,
        "pipeline_class": pipeline_class,
        "num_parameters": sum(entry.num_parameters for entry in weights.values()),
        "weight_bytes": sum(entry.size_bytes for entry in weights.values()),
        "fingerprint": fingerprint(path, files),
    }
    extra: dict[str, Any] = {
        "component_bytes": {key: entry.size_bytes for key, entry in weights.items()},
        "component_parameters": {key: entry.num_parameters for key, entry in weights.items()},
        "variants": {key: entry.variant for key, entry in weights.items() if entry.variant is not None},
    }
    if not pipeline_class.endswith("Pipeline") or "ImageToVideo" in pipeline_class or "vae" not in components:
        raise ModelMissing(
            f"this model does not make video from text: {pipeline_class or 'no pipeline class'}",
            where=str(path),
            fix="choose a text-to-video model; list those that are here:  veo models",
        )
    try:
        if pipeline_class == "WanPipeline":
            return _describe_wan(path, index, common, extra, fix)
        return _describe_generic(path, common, extra, fix)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise ModelMissing(
            "the model's configuration is not understood", where=str(path), why=repr(error), fix=fix
        ) from error


def _describe_wan(
    path: Path, index: dict[str, Any], common: dict[str, Any], extra: dict[str, Any], fix: str
) -> ModelInfo:
    transformer = _read_json(path / "transformer" / "config.json", fix)
    vae = _read_json(path / "vae" / "config.json", fix)
    scheduler = _read_json(path / "scheduler" / "scheduler_config.json", fix)
    if transformer.get("image_dim") or transformer.get("added_kv_proj_dim"):
        raise ModelMissing("this Wan model animates an image; veo makes video from text", where=str(path))
    if not (path / "text_encoder.json").is_file() and not (index.get("text_encoder") or [None, None])[1]:
        raise ModelMissing("the model has no text encoder", where=str(path / "model_index.json"), fix=fix)
    spatial = int(vae.get("scale_factor_spatial") or 8)
    temporal = int(vae.get("scale_factor_temporal") or 4)
    patch = transformer.get("patch_size", [1, 2, 2])
    two_experts = bool(index.get("transformer_2") and index["transformer_2"][1])
    boundary = index.get("boundary_ratio")
    expand_timesteps = bool(index.get("expand_timesteps", False))
    extra["scheduler_class"] = scheduler.get("_class_name", "FlowMatchEulerDiscreteScheduler")
    extra["flow_shift"] = float(scheduler.get("flow_shift", scheduler.get("shift", 1.0)))
    size_multiple = spatial * max(int(patch[1]), int(patch[2]))
    max_num_frames = (int(transformer.get("rope_max_seq_len", _MAX_LATENT_FRAMES)) - 1) * temporal + 1
    language = ""
    if (path / "text_encoder.json").is_file():
        extra["text_encoder"] = _read_json(path / "text_encoder.json", fix)
        own = _read_json(path / "veo.json", fix) if (path / "veo.json").is_file() else {}
        defaults = {key: own.get(key, value) for key, value in _VEO_MINI_DEFAULTS.items()}
        if "flow_shift" in own:
            defaults["flow_shift"] = own["flow_shift"]
        title = str(own.get("title", "veo-mini"))
        language = str(own.get("language", "English only"))
        sizes: tuple[tuple[int, int], ...] = ((defaults["width"], defaults["height"]),)
        max_num_frames = int(own.get("max_num_frames", max_num_frames))
        max_text_tokens = int(extra["text_encoder"].get("max_length", 64))
    else:
        known = _known_wan(transformer, two_experts=two_experts, expand_timesteps=expand_timesteps)
        sizes, title = known.sizes, known.title or f"Wan ({path.name})"
        width, height = (
            sizes[0]
            if sizes
            else (size_multiple * (832 // size_multiple), size_multiple * (480 // size_multiple))
        )
        defaults = {"width": width, "height": height, **known.defaults}
        if known.flow_shift_720p is not None:
            extra["flow_shift_by_size"] = dict.fromkeys(_720P, known.flow_shift_720p)
        max_text_tokens = 512
    return ModelInfo(
        **common,
        family="wan",
        title=title,
        defaults=defaults,
        sizes=sizes,
        size_multiple=size_multiple,
        frame_step=temporal,
        max_num_frames=max_num_frames,
        latent_channels=int(transformer.get("in_channels", 16)),
        spatial_compression=spatial,
        temporal_compression=temporal,
        max_text_tokens=max_text_tokens,
        two_experts=two_experts,
        expand_timesteps=expand_timesteps,
        boundary_ratio=float(boundary) if boundary is not None else None,
        prompt_language_hint=language,
        extra=extra,
    )


def _known_wan(transformer: dict[str, Any], *, two_experts: bool, expand_timesteps: bool) -> KnownModel:
    shape = (
        transformer.get("num_layers"),
        transformer.get("num_attention_heads"),
        transformer.get("in_channels"),
    )
    if shape == (40, 40, 16):
        return _WAN22_A14B if two_experts else _WAN21_14B
    if shape == (30, 12, 16):
        return _WAN21_1_3B
    if shape == (30, 24, 48) and expand_timesteps:
        return _WAN22_TI2V_5B
    return _UNKNOWN_WAN


def _describe_generic(path: Path, common: dict[str, Any], extra: dict[str, Any], fix: str) -> ModelInfo:
    """A pipeline that brings its own loop: the limits are read off its VAE where that names them."""
    vae = _read_json(path / "vae" / "config.json", fix)
    pipeline_class = common["pipeline_class"]
    spatial, temporal = _compression(vae)
    patch = 1
    transformer_config = path / "transformer" / "config.json"
    if transformer_config.is_file():
        configured = _read_json(transformer_config, fix).get("patch_size", 1)
        patch = max(configured) if isinstance(configured, list) else int(configured or 1)
    defaults = _GENERIC_DEFAULTS | _GENERIC_KNOWN.get(pipeline_class, {})
    return ModelInfo(
        **common,
        family="generic",
        title=f"{pipeline_class.removesuffix('Pipeline')} ({path.name})",
        defaults=defaults,
        sizes=(),
        size_multiple=spatial * patch,
        frame_step=1,  # the adapter asks for the next length that the pipeline makes and trims the rest
        max_num_frames=4097,
        latent_channels=int(vae.get("latent_channels", vae.get("z_dim", 16))),
        spatial_compression=spatial,
        temporal_compression=temporal,
        max_text_tokens=226,
        extra=extra,
    )


def _compression(vae: dict[str, Any]) -> tuple[int, int]:
    """(spatial, temporal) compression of a VAE, from its config alone."""
    if "spatio_temporal_scaling" in vae:  # LTX: pixel patches, then a halving in each scaling block
        halvings = sum(bool(flag) for flag in vae["spatio_temporal_scaling"])
        spatial, temporal = vae["patch_size"] * 2**halvings, vae["patch_size_t"] * 2**halvings
    elif "temporal_expansions" in vae:  # Mochi
        spatial, temporal = math.prod(vae["spatial_expansions"]), math.prod(vae["temporal_expansions"])
    elif "block_out_channels" in vae:  # CogVideoX, HunyuanVideo: a halving between blocks
        spatial, temporal = 2 ** (len(vae["block_out_channels"]) - 1), 4
    else:
        spatial, temporal = 8, 4
    # Where the config names a ratio itself, that is it: Wan's names first, then the others'.
    spatial = vae.get("scale_factor_spatial") or vae.get("spatial_compression_ratio") or spatial
    temporal = vae.get("scale_factor_temporal") or vae.get("temporal_compression_ratio") or temporal
    return int(spatial), int(temporal)


def _read_json(path: Path, fix: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelMissing("a part of the model is missing", where=str(path), fix=fix) from error
    except (OSError, ValueError) as error:
        raise ModelMissing(
            "this file cannot be read as JSON", where=str(path), why=str(error), fix=fix
        ) from error
    if not isinstance(value, dict):
        raise ModelMissing("this file is not a JSON object", where=str(path), fix=fix)
    return value


def _fix_for(name: str) -> str:
    """The command or act that brings a model's files again."""
    if name == SHIPPED:
        return "install veo again:  pip install --force-reinstall veo"
    if os.path.isdir(os.path.expanduser(name)):
        return "copy or save the model folder again"
    return f"download what is missing:  veo models {ALIASES.get(name.lower(), name)} --download"


def _quieten_libraries() -> None:
    """Progress bars and load reports of the libraries have no place between veo's own lines."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import diffusers.utils.logging as diffusers_logging
    import transformers.utils.logging as transformers_logging

    for library in (diffusers_logging, transformers_logging):
        library.set_verbosity_error()
        library.disable_progress_bar()
