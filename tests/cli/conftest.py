"""Tiny models for the command tests, made once."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random veo-mini of 64x32 pixels."""
    from tests.tiny_models import make_veo_mini

    return make_veo_mini(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def broken_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with weights that are not numbers: its sample cannot pass the quality gate."""
    import torch
    from safetensors.torch import load_file, save_file

    from tests.tiny_models import make_veo_mini

    folder = make_veo_mini(tmp_path_factory.mktemp("models") / "broken", seed=1)
    (weights,) = (folder / "transformer").glob("*.safetensors")
    tensors = {name: torch.full_like(tensor, float("nan")) for name, tensor in load_file(weights).items()}
    save_file(tensors, weights, metadata={"format": "pt"})
    return folder
