"""Weights that fit their configuration: what the libraries would fill with chance is an error here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from veo_cli.errors import ModelMissing


def load_whole(from_pretrained: Callable[..., Any], folder: Path, *, variant: str | None = None) -> Any:
    """The model that `from_pretrained` of diffusers or transformers makes of a local folder.

    Raises ModelMissing when tensors of the configuration are missing from the files or have other shapes.
    """
    try:
        model, report = from_pretrained(
            folder, variant=variant, local_files_only=True, output_loading_info=True
        )
    except (ValueError, RuntimeError, TypeError) as error:  # their words for weights of other shapes
        raise _unfit(folder, str(error).splitlines()[0]) from error
    absent = sorted(str(key) for key in (*report["missing_keys"], *report["mismatched_keys"]))
    if absent:
        raise _unfit(folder, f"tensors are missing: {len(absent)}, the first is {absent[0]}")
    return model


def _unfit(folder: Path, why: str) -> ModelMissing:
    return ModelMissing(
        "the weights are not those of this configuration",
        where=str(folder),
        why=why,
        fix="copy or download the model folder again",
    )
