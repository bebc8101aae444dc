"""The generic adapter: tiny LTX and CogVideoX pipelines give the clip that was asked for."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import torch
from diffusers.models.autoencoders.vae import AutoencoderMixin

from tests import tiny_models
from tests.tiny_models import make_job
from veo_cli.errors import ModelMissing, SpecificationError
from veo_cli.job import MemorySettings
from veo_cli.models import registry


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("generic")
    return {"ltx": tiny_models.make_ltx(root / "ltx"), "cogvideox": tiny_models.make_cogvideox(root / "cog")}


@pytest.fixture(scope="module")
def models(folders):
    return {name: registry.load(registry.describe(str(path)), device="cpu") for name, path in folders.items()}


def render(model, job, on_step=None):
    latents = model.denoise(job, model.encode_text(job), on_step=on_step)
    chunks = list(model.decode(job, latents))
    assert [c.first_index for c in chunks] == list(range(0, job.sampler.num_frames, 4))
    return torch.cat([chunk.frames for chunk in chunks])


@pytest.mark.parametrize("name", ["ltx", "cogvideox"])
@pytest.mark.parametrize("num_frames", [1, 9, 11])
def test_clip_of_the_asked_length(models, name, num_frames):
    model = models[name]
    model.warnings.clear()
    steps = []
    job = make_job(width=64, height=64, num_frames=num_frames, num_inference_steps=2)
    frames = render(model, job, steps.append)
    assert frames.shape == (num_frames, 3, 64, 64)
    assert frames.dtype == torch.float32
    assert 0 <= frames.min() < frames.max() <= 1
    assert [(report.step, report.num_steps, report.state) for report in steps] == [(0, 2, None), (1, 2, None)]
    if num_frames == 11:  # neither makes clips of 11 frames
        assert re.search(r"made 1[2-9] frames; the first 11 are kept", model.warnings[-1])


@pytest.mark.parametrize("name", ["ltx", "cogvideox"])
def test_same_job_same_bits(models, name):
    job = make_job(width=64, height=64, num_inference_steps=2)
    first = render(models[name], job)
    render(models[name], make_job(width=64, height=64, num_inference_steps=3, seed=8))
    assert torch.equal(render(models[name], job), first)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"noise_schedule": "karras"}, ["noise_schedule"]),
        (
            {"guidance_schedule": "sqrt_decay", "sampler": {"scheduler": "euler"}},
            ["guidance_schedule", "sampler"],
        ),
        ({"flow_shift": 3.0}, ["flow_shift"]),
    ],
)
def test_what_only_our_loop_can_do_is_an_error(models, fields, named):
    with pytest.raises(SpecificationError) as caught:
        render(models["cogvideox"], make_job(width=64, height=64, **fields))
    assert len(caught.value.faults) == len(named)
    for word in named:
        assert word in str(caught.value)


def test_flow_shift_reaches_a_flow_pipeline(models):
    job = make_job(width=64, height=64, num_inference_steps=3)
    shifted = make_job(width=64, height=64, num_inference_steps=3, flow_shift=4.0)
    plain = render(models["ltx"], job)
    assert not torch.equal(render(models["ltx"], shifted), plain)
    assert torch.equal(render(models["ltx"], job), plain)  # the next job is not touched by it


@pytest.mark.parametrize("name", ["ltx", "cogvideox"])
def test_tiling_ends_with_its_job(models, name):
    size = {"width": 256, "height": 256} if name == "ltx" else {"width": 96, "height": 96}
    plain = make_job(num_frames=5, num_inference_steps=1, **size)
    tiled = plain.model_copy(update={"memory": MemorySettings(tiled_decode=True)})
    model = models[name]
    vae = model._pipe.vae
    untouched = render(model, plain)
    with pytest.MonkeyPatch.context() as patch:
        for side in ("height", "width"):  # tiles so small that a small clip has several
            patch.setattr(vae, f"tile_sample_min_{side}", 64)
            patch.setattr(vae, f"tile_sample_stride_{side}", 32, raising=False)
            patch.setattr(vae, f"tile_latent_min_{side}", 8, raising=False)
        assert not torch.equal(render(model, tiled), untouched)
        assert torch.equal(render(model, plain), untouched)


def test_a_vae_without_tiling_says_so(models, monkeypatch):
    job = make_job(width=64, height=64, memory=MemorySettings(tiled_decode=True))
    monkeypatch.delattr(models["ltx"]._pipe.vae, "use_tiling")
    monkeypatch.setattr(type(models["ltx"]._pipe.vae), "enable_tiling", AutoencoderMixin.enable_tiling)
    with pytest.raises(SpecificationError, match="cannot decode in tiles") as caught:
        render(models["ltx"], job)
    assert caught.value.fault.where == "memory.tiled_decode"


def test_stopping_from_a_step(models):
    class Stop(Exception):
        pass

    def stop(report):
        raise Stop

    with pytest.raises(Stop):
        render(models["ltx"], make_job(width=64, height=64), stop)


def test_a_cut_prompt_is_said(models):
    job = make_job(prompt="far away " * 30)  # one token a character; both pipelines' default window is less
    for name, window in [("ltx", 128), ("cogvideox", 226)]:
        cut = models[name].encode_text(job).cut_text
        assert job.prompt.strip().endswith(cut)
        assert len(cut) == pytest.approx(len(job.prompt.strip()) - window, abs=3)
        assert models[name].encode_text(make_job()).cut_text == ""


def test_loras(folders, tmp_path):
    info = registry.describe(str(folders["ltx"]))
    layer = "transformer_blocks.0.attn1.to_q"
    fitting, other = (tmp_path / f"{name}.safetensors" for name in ("fitting", "other"))
    tiny_models.make_wan_lora(fitting, layers=(layer,), width=16)
    tiny_models.make_wan_lora(other, layers=("blocks.0.self_attn.q",), width=16)

    def with_lora(path, scale=4.0):
        job = make_job(
            width=64, height=64, num_inference_steps=2, loras=({"path": str(path), "scale": scale},)
        )
        return render(registry.load(info, device="cpu", loras=job.loras), job)

    plain = with_lora(fitting, 0.0)
    assert (with_lora(fitting) - plain).abs().max() > 1e-5
    for bad in (other, tmp_path / "absent.safetensors"):
        with pytest.raises(SpecificationError, match=bad.name):
            with_lora(bad)


def test_described_without_loading(folders):
    ltx, cog = (registry.describe(str(folders[name])) for name in ("ltx", "cogvideox"))
    assert (ltx.family, ltx.pipeline_class, cog.pipeline_class) == (
        "generic",
        "LTXPipeline",
        "CogVideoXPipeline",
    )
    assert (ltx.spatial_compression, ltx.temporal_compression) == (4, 4)
    assert (cog.spatial_compression, cog.temporal_compression) == (8, 4)
    assert cog.defaults["num_frames"] == 49


def test_a_pipeline_that_diffusers_does_not_have(folders, tmp_path):
    import json
    import shutil

    folder = tmp_path / "odd"
    shutil.copytree(folders["ltx"], folder)
    index = json.loads((folder / "model_index.json").read_text())
    index["_class_name"] = "NoSuchVideoPipeline"
    (folder / "model_index.json").write_text(json.dumps(index))
    with pytest.raises(ModelMissing, match="NoSuchVideoPipeline"):
        registry.load(registry.describe(str(folder)), device="cpu")


def test_playable_clips_through_the_command(folders, tmp_path):
    """One prompt file, a clip of each family; ffmpeg's own reading of the files is what was asked for."""
    from veo_cli.ffmpeg import read_back

    wan = tiny_models.make_wan21(tmp_path / "wan21")
    documents = [
        f"prompt: a red ball in a meadow\nmodel: {folder}\nwidth: 64\nheight: 64\nnum_frames: {num_frames}\n"
        f"fps: 8\nnum_inference_steps: 2\nseed: 3\noutput: {name}.mp4\n"
        for name, folder, num_frames in [
            ("ltx", folders["ltx"], 11),
            ("cogvideox", folders["cogvideox"], 9),
            ("wan", wan, 9),
        ]
    ]
    (tmp_path / "jobs.yaml").write_text("---\n".join(documents))
    done = subprocess.run(
        [sys.executable, "-m", "veo_cli", "render", "jobs.yaml", "--output", "out", "--device", "cpu"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name, num_frames in [("ltx", 11), ("cogvideox", 9), ("wan", 9)]:
        facts = read_back(tmp_path / "out" / f"{name}.mp4")
        assert (facts.codec, facts.pixel_format, facts.codec_tag) == ("hevc", "yuv420p10le", "hvc1")
        assert (facts.width, facts.height, facts.num_frames, facts.fps) == (64, 64, num_frames, 8)
    assert "made 13 frames; the first 11 are kept" in done.stderr
