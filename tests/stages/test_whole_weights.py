"""A tensor that is missing, or of another shape, is an error before anything is rendered with chance in its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.tiny_models import make_wan21
from veo_cli.errors import ModelMissing
from veo_cli.models import registry


@pytest.fixture(scope="module")
def wan21(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_wan21(tmp_path_factory.mktemp("models") / "wan21")


def load_all(folder: Path) -> None:
    model = registry.load(registry.describe(str(folder)), device="cpu")
    for name in ("text_encoder", "transformer", "vae"):
        model._load(name)


def changed(wan21: Path, tmp_path: Path, component: str, change) -> Path:
    """A copy by links of the folder, with the tensors of one component's file as `change` leaves them."""
    copy = tmp_path / "copy"
    for path in wan21.rglob("*"):
        if path.is_file():
            target = copy / path.relative_to(wan21)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(path)
    (weights,) = (copy / component).glob("*.safetensors")
    tensors = load_file(weights)
    weights.unlink()
    change(tensors)
    save_file(tensors, weights, {"format": "pt"})
    return copy


def test_a_whole_folder_loads(wan21: Path) -> None:
    load_all(wan21)


@pytest.mark.parametrize("component", ["text_encoder", "transformer", "vae"])
def test_a_missing_tensor(wan21: Path, tmp_path: Path, component: str) -> None:
    def drop(tensors: dict[str, torch.Tensor]) -> None:
        del tensors[sorted(tensors)[-1]]

    with pytest.raises(ModelMissing, match="not those of this configuration") as caught:
        load_all(changed(wan21, tmp_path, component, drop))
    assert component in caught.value.faults[0].where
    assert "missing" in caught.value.faults[0].why


@pytest.mark.parametrize("component", ["text_encoder", "transformer", "vae"])
def test_another_shape(wan21: Path, tmp_path: Path, component: str) -> None:
    def widen(tensors: dict[str, torch.Tensor]) -> None:
        name = sorted(tensors)[-1]
        tensors[name] = torch.cat([tensors[name], tensors[name]])

    with pytest.raises(ModelMissing, match="not those of this configuration"):
        load_all(changed(wan21, tmp_path, component, widen))


def test_a_wider_configuration(wan21: Path, tmp_path: Path) -> None:
    copy = changed(wan21, tmp_path, "transformer", lambda tensors: None)
    config = copy / "transformer" / "config.json"
    values = json.loads(config.read_text()) | {"ffn_dim": 999}
    config.unlink()
    config.write_text(json.dumps(values))
    with pytest.raises(ModelMissing):
        load_all(copy)
