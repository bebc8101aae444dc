"""LoRA files: applied at their scale, and refused or warned about when they do not fit."""

from __future__ import annotations

import pytest
import torch

from tests import tiny_models
from tests.tiny_models import make_job
from veo_cli.errors import SpecificationError
from veo_cli.job import Lora
from veo_cli.models import registry

LAYERS = ("blocks.0.attn1.to_q", "blocks.1.attn2.to_out.0")


@pytest.fixture(scope="module")
def info(tmp_path_factory):
    return registry.describe(str(tiny_models.make_wan21(tmp_path_factory.mktemp("lora") / "wan21")))


@pytest.fixture
def file(tmp_path):
    return tiny_models.make_wan_lora(tmp_path / "style.safetensors", layers=LAYERS)


def sample(info, job):
    model = registry.load(info, device="cpu", loras=job.loras)
    return model.denoise(job, model.encode_text(job)).tensor


def job_with(*loras):
    return make_job(
        num_inference_steps=2, loras=tuple(Lora(path=str(path), scale=scale) for path, scale in loras)
    )


def test_lora_adds_scale_times_b_a_to_the_layer(info, file):
    """Against weights changed by hand: W + scale * B A (alpha equals the rank in these files)."""
    from safetensors.torch import load_file

    ours = sample(info, job_with((file, 0.5)))

    by_hand = registry.load(info, device="cpu")
    transformer = by_hand._load("transformer")
    weights = load_file(file)
    for layer in LAYERS:
        a, b = (weights[f"transformer.{layer}.lora_{name}.weight"] for name in "AB")
        transformer.get_submodule(layer).weight.data += 0.5 * (b @ a)
    plain = job_with()
    expected = by_hand.denoise(plain, by_hand.encode_text(plain)).tensor
    assert (ours - expected).abs().max() < 1e-4
    assert (ours - sample(info, plain)).abs().max() > 1e-2


def test_two_loras_add_up(info, file, tmp_path):
    other = tiny_models.make_wan_lora(tmp_path / "other.safetensors", layers=("blocks.1.attn1.to_v",), seed=8)
    one = sample(info, job_with((file, 1.0)))
    assert torch.equal(sample(info, job_with((file, 1.0), (other, 0.0))), one)
    assert not torch.equal(sample(info, job_with((file, 1.0), (other, 1.0))), one)


def test_lora_for_another_model_is_an_error_before_sampling(info, tmp_path):
    file = tiny_models.make_wan_lora(
        tmp_path / "other.safetensors", layers=(*LAYERS, "blocks.7.attn1.to_q"), width=48
    )
    with pytest.raises(SpecificationError, match="none of the 3 layers") as caught:
        registry.load(info, device="cpu", loras=job_with((file, 1.0)).loras)
    assert str(file) in str(caught.value)


def test_layers_that_do_not_fit_are_counted(info, tmp_path):
    file = tiny_models.make_wan_lora(tmp_path / "part.safetensors", layers=(*LAYERS, "blocks.7.attn1.to_q"))
    model = registry.load(info, device="cpu", loras=job_with((file, 1.0)).loras)
    [warning] = model.warnings
    assert "1 of 3 layers" in warning and "blocks.7.attn1.to_q" in warning


def test_original_wan_key_names_are_understood(info, tmp_path):
    """The names of the authors' own code (`diffusion_model.blocks.0.self_attn.q.lora_down`)."""
    from safetensors.torch import save_file

    weights = {}
    for block in range(2):
        for attention in ("self_attn", "cross_attn"):
            for name in "qkvo":
                layer = f"diffusion_model.blocks.{block}.{attention}.{name}"
                weights[f"{layer}.lora_down.weight"] = torch.randn(2, 24)
                weights[f"{layer}.lora_up.weight"] = torch.randn(24, 2)
    save_file(weights, tmp_path / "authors.safetensors")
    job = job_with((tmp_path / "authors.safetensors", 1.0))
    assert registry.load(info, device="cpu", loras=job.loras).warnings == []
    assert not torch.allclose(sample(info, job), sample(info, job_with()))


@pytest.mark.parametrize("content", [None, b"not a safetensors file", b""])
def test_files_that_are_no_lora(info, tmp_path, content):
    file = tmp_path / "bad.safetensors"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SpecificationError, match=r"bad\.safetensors"):
        registry.load(info, device="cpu", loras=job_with((file, 1.0)).loras)


def test_a_model_is_not_a_lora(info):
    file = info.path / "transformer" / "diffusion_pytorch_model.safetensors"
    with pytest.raises(SpecificationError, match="not a LoRA"):
        registry.load(info, device="cpu", loras=job_with((file, 1.0)).loras)


def test_both_experts_get_it(tmp_path, file):
    info = registry.describe(str(tiny_models.make_wan22_a14b(tmp_path / "a14b")))
    model = registry.load(info, device="cpu", loras=job_with((file, 1.0)).loras)
    for name in ("transformer", "transformer_2"):
        assert model._load(name).active_adapters() == ["lora_0"]
