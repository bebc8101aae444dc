"""`veo models`: the models on this machine, one model's limits and defaults, announced downloads."""

from __future__ import annotations

from typing import Any

from veo_cli.byte_size import in_words
from veo_cli.errors import ModelMissing
from veo_cli.models import registry
from veo_cli.models.model_info import ModelInfo
from veo_cli.terminal import Terminal


def list_all(terminal: Terminal) -> None:
    """Every model here, and the names by which others can be downloaded."""
    found = registry.list_models()
    models = [entry for entry in found if isinstance(entry, ModelInfo)]
    here = {entry.name for entry in models}
    absent = [(alias, hub_id) for alias, hub_id in registry.ALIASES.items() if hub_id not in here]
    if terminal.json:
        for model in models:
            terminal.result_json({"state": "here", **_values(model)})
        for alias, hub_id in absent:
            terminal.result_json({"state": "absent", "name": alias, "hub_id": hub_id})
    else:
        rows = [[model.name, model.title, in_words(model.weight_bytes), _frames(model)] for model in models]
        rows += [[alias, hub_id, "not here", f"veo models {alias} --download"] for alias, hub_id in absent]
        terminal.table(["MODEL", "WHAT IT IS", "SIZE", "BY DEFAULT"], rows)
    for entry in found:
        if isinstance(entry, ModelMissing):
            terminal.warning(str(entry))


def describe_one(terminal: Terminal, name: str, *, download: bool) -> None:
    """All that is known of one model. Raises ModelMissing."""
    model = describe(terminal, name, download=download)
    values = _values(model)
    if terminal.json:
        terminal.result_json(values)
        return
    sizes = ", ".join(f"{width}x{height}" for width, height in model.sizes)
    rows = [
        ["what it is", model.title],
        ["folder", str(model.path)],
        ["pipeline", model.pipeline_class],
        ["parameters", f"{model.num_parameters / 1e6:,.1f} million"],
        ["weights", in_words(model.weight_bytes)],
        ["generates", sizes or f"any size in steps of {model.size_multiple}"],
        [
            "frames",
            f"{model.frame_step}n + 1, at most {model.max_num_frames}"
            if model.frame_step > 1
            else "any number",
        ],
        [
            "text",
            f"{model.max_text_tokens} tokens"
            + (f", {model.prompt_language_hint}" if model.prompt_language_hint else ""),
        ],
        *([name, str(value)] for name, value in model.defaults.items()),
        ["fingerprint", model.fingerprint],
    ]
    terminal.table(["FIELD", "VALUE"], rows)


def describe(terminal: Terminal, name: str, *, download: bool) -> ModelInfo:
    """The model of that name; with `download`, fetched first if it is on the hub and not on this machine."""
    try:
        return registry.describe(name)
    except ModelMissing:
        if not download:
            raise

    def announce(hub_id: str, license_name: str, num_bytes: int) -> None:
        terminal.note(f"downloading {hub_id}: {in_words(num_bytes)}, licence {license_name}")

    registry.download(name, announce=announce)
    return registry.describe(name)


def _frames(model: ModelInfo) -> str:
    default = model.defaults
    return (
        f"{default.get('width')}x{default.get('height')}, {default.get('num_frames')} frames at "
        f"{default.get('fps')} fps, {default.get('num_inference_steps')} steps"
    )


def _values(model: ModelInfo) -> dict[str, Any]:
    return {
        "name": model.name,
        "title": model.title,
        "path": str(model.path),
        "family": model.family,
        "pipeline_class": model.pipeline_class,
        "defaults": model.defaults,
        "sizes": model.sizes,
        "size_multiple": model.size_multiple,
        "frame_step": model.frame_step,
        "max_num_frames": model.max_num_frames,
        "max_text_tokens": model.max_text_tokens,
        "num_parameters": model.num_parameters,
        "weight_bytes": model.weight_bytes,
        "fingerprint": model.fingerprint,
    }
