"""LoRA files on Wan transformers: read by diffusers' converters, matched key by key, applied by peft."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from veo_cli.errors import Fault, SpecificationError
from veo_cli.job import Lora

_PREFIX = "transformer."


def apply_all(transformers: Sequence[Any], loras: Sequence[Lora]) -> list[str]:
    """Put every file of `loras` on every transformer, at its scale. Returns what is worth a warning.

    Raises SpecificationError for a file that is not there, is not a LoRA, or has no key that fits the model.
    """
    names = [f"lora_{index}" for index in range(len(loras))]
    notes = []
    for name, lora in zip(names, loras, strict=True):
        weights = _read(lora)
        layers = {_layer_of(key) for key in weights}
        fitting = {layer for layer in layers if _fits(transformers[0], layer, weights)}
        if not fitting:
            raise misfit(
                lora,
                f"none of the {len(layers)} layers of this LoRA fits the model",
                "it was made for another model",
            )
        if fitting != layers:
            missed = sorted(layers - fitting)
            notes.append(
                f"{lora.path}: {len(missed)} of {len(layers)} layers of this LoRA do not fit the model and "
                f"are left out, the first is {missed[0]}"
            )
        kept = {_PREFIX + key: value for key, value in weights.items() if _layer_of(key) in fitting}
        for transformer in transformers:
            with several_adapters_are_meant():
                transformer.load_lora_adapter(dict(kept), prefix="transformer", adapter_name=name)
            transformer.requires_grad_(False)
    if loras:
        for transformer in transformers:
            transformer.set_adapters(names, [lora.scale for lora in loras])
    return notes


@contextmanager
def several_adapters_are_meant() -> Iterator[None]:
    """Silences peft's warning about a second adapter on one model."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Already found a `peft_config` attribute", UserWarning)
        yield


def file_of(lora: Lora) -> Path:
    """The LoRA's file. Raises SpecificationError when there is none, or it is not safetensors."""
    path = Path(lora.path).expanduser()
    if not path.is_file():
        raise misfit(lora, "there is no such LoRA file")
    if path.suffix != ".safetensors":
        raise misfit(
            lora, "a LoRA must be a .safetensors file", "other formats can run code when they are read"
        )
    return path


def _read(lora: Lora) -> dict[str, Any]:
    """The file's tensors under diffusers' names for the transformer's layers
    (`blocks.0.attn1.to_q.lora_A.weight`)."""
    from diffusers.loaders import WanLoraLoaderMixin
    from safetensors import SafetensorError

    path = file_of(lora)
    try:
        weights = WanLoraLoaderMixin.lora_state_dict(
            str(path.parent), weight_name=path.name, local_files_only=True, use_safetensors=True
        )
    except (SafetensorError, OSError, ValueError, KeyError, IndexError) as error:
        raise misfit(lora, "this LoRA file cannot be read", str(error).splitlines()[0]) from error
    weights = {key.removeprefix(_PREFIX): value for key, value in weights.items()}
    if not weights or not all("lora" in key for key in weights):
        raise misfit(lora, "this file is not a LoRA", "its tensors have no lora_A / lora_B names")
    return weights


def _layer_of(key: str) -> str:
    """`blocks.0.attn1.to_q` of `blocks.0.attn1.to_q.lora_A.weight`."""
    head = key.split(".lora")[0]
    return head.removesuffix(".alpha")


def _fits(transformer: Any, layer: str, weights: dict[str, Any]) -> bool:
    """Whether the model has this layer and its input and output widths are the LoRA's."""
    try:
        module = transformer.get_submodule(layer)
    except AttributeError:
        return False
    weight = getattr(getattr(module, "base_layer", module), "weight", None)
    if weight is None:
        return False
    for key, value in weights.items():
        if _layer_of(key) != layer or not key.endswith(".weight") or value.ndim < 2:
            continue
        if ".lora_A" in key and value.shape[1] != weight.shape[1]:
            return False
        if ".lora_B" in key and value.shape[0] != weight.shape[0]:
            return False
    return True


def misfit(lora: Lora, what: str, why: str = "") -> SpecificationError:
    """The error for a LoRA that cannot be used."""
    return SpecificationError(
        Fault(what, where=lora.path, why=why, fix="give another file under `loras:`, or leave it out")
    )
