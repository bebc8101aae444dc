"""The oracle: on tiny random checkpoints our sampler and decoder give WanPipeline's frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests import tiny_models
from tests.tiny_models import make_job
from veo_cli.job import Job
from veo_cli.models import registry
from veo_cli.package_data import data_path
from veo_cli.values import StepReport

TOLERANCE = 1e-5  # fp32 on the CPU; frames in [0, 1]
PROMPT, NEGATIVE = "a red ball bounces over a green meadow", "blur, haze"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("wan")
    return {
        "wan21": tiny_models.make_wan21(root / "wan21"),
        "a14b": tiny_models.make_wan22_a14b(root / "a14b"),
        "ti2v": tiny_models.make_wan22_ti2v(root / "ti2v"),
    }


def frames_of_wan_pipeline(folder: Path, job: Job, scheduler: Any = None) -> torch.Tensor:
    """(num_frames, 3, height, width) from diffusers itself."""
    from diffusers import WanPipeline

    pipe = WanPipeline.from_pretrained(folder)
    pipe.set_progress_bar_config(disable=True)
    if scheduler is not None:
        pipe.scheduler = scheduler
    output = pipe(
        prompt=job.prompt,
        negative_prompt=job.negative_prompt,
        width=job.sampler.width,
        height=job.sampler.height,
        num_frames=job.sampler.num_frames,
        num_inference_steps=job.num_inference_steps,
        guidance_scale=job.guidance_scale,
        guidance_scale_2=job.guidance_scale_2,
        generator=torch.Generator("cpu").manual_seed(job.seed),
        output_type="pt",
    )
    return output.frames[0]


def frames_of_veo(folder: Path, job: Job, reports: list[StepReport] | None = None) -> torch.Tensor:
    model = registry.load(registry.describe(str(folder)), device="cpu")
    latents = model.denoise(job, model.encode_text(job), on_step=None if reports is None else reports.append)
    return torch.cat([chunk.frames for chunk in model.decode(job, latents)])


def assert_parity(folder: Path, job: Job, scheduler: Any = None) -> None:
    ours, theirs = frames_of_veo(folder, job), frames_of_wan_pipeline(folder, job, scheduler)
    assert ours.shape == theirs.shape == (job.num_frames, 3, job.height, job.width)
    assert ours.std() > 0.01  # a blank clip would agree too
    assert (ours - theirs).abs().max() <= TOLERANCE


@pytest.mark.parametrize("guidance_scale", [1.0, 5.0])
@pytest.mark.parametrize("negative_prompt", ["", NEGATIVE])
def test_guidance_on_and_off_with_and_without_negative_prompt(folders, guidance_scale, negative_prompt):
    job = make_job(prompt=PROMPT, guidance_scale=guidance_scale, negative_prompt=negative_prompt)
    assert_parity(folders["wan21"], job)


@pytest.mark.parametrize("flow_shift", [3.0, 5.0])
@pytest.mark.parametrize("name", ["euler", "unipc", "dpm++"])
def test_every_scheduler_at_both_shifts(folders, name, flow_shift):
    job = make_job(prompt=PROMPT, flow_shift=flow_shift, sampler={"scheduler": name})
    assert_parity(folders["wan21"], job, tiny_models.make_scheduler(name, flow_shift))


@pytest.mark.parametrize("name", ["euler", "dpm++"])
def test_the_folders_own_scheduler_and_shift_are_the_default(tmp_path, name):
    folder = tiny_models.make_wan21(tmp_path / "model", scheduler=name, flow_shift=4.0)
    assert_parity(folder, make_job(prompt=PROMPT))


@pytest.mark.parametrize("guidance_scale_2", [None, 3.0])
def test_two_experts(folders, guidance_scale_2):
    job = make_job(prompt=PROMPT, guidance_scale_2=guidance_scale_2, num_inference_steps=6)
    assert_parity(folders["a14b"], job)


def test_two_experts_really_take_turns(folders):
    reports: list[StepReport] = []
    job = make_job(prompt=PROMPT, guidance_scale=4.0, guidance_scale_2=3.0, num_inference_steps=6)
    frames_of_veo(folders["a14b"], job, reports)
    scales = [report.guidance_scale for report in reports]
    assert scales == [4.0 if report.sigma * 1000 >= 875 else 3.0 for report in reports]
    assert set(scales) == {3.0, 4.0}


def test_ti2v_form(folders):
    assert_parity(folders["ti2v"], make_job(prompt=PROMPT, width=96, height=64, negative_prompt=NEGATIVE))


def test_long_prompts_and_entities_are_read_as_diffusers_reads_them(folders):
    job = make_job(prompt="caf\u00e9 &amp;amp; bar   " + "far away " * 80)
    assert_parity(folders["wan21"], job)
    model = registry.load(registry.describe(str(folders["wan21"])), device="cpu")
    cut = model.encode_text(job).cut_text
    assert cut and job.prompt.strip().endswith(cut)
    assert model.encode_text(make_job(prompt=PROMPT)).cut_text == ""


def test_linear_schedule_equals_diffusers_with_those_sigmas(folders):
    """`noise_schedule: linear` at shift 3 is what UniPC makes of the grid 1 - i/T given from outside."""
    import numpy as np

    scheduler = tiny_models.make_scheduler("unipc", 3.0)
    plain = scheduler.set_timesteps
    scheduler.set_timesteps = lambda steps, device=None: plain(
        sigmas=1 - np.arange(steps) / steps, device=device
    )
    job = make_job(prompt=PROMPT, noise_schedule="linear", flow_shift=3.0)
    assert_parity(folders["wan21"], job, scheduler)


def test_veo_mini_form_through_stock_diffusers(tmp_path):
    """fp16 weights, fp32 arithmetic: transformer, scheduler and VAE of diffusers in a written-out loop."""
    from diffusers import AutoencoderKLWan, FlowMatchEulerDiscreteScheduler, WanTransformer3DModel

    folder = tiny_models.make_veo_mini(tmp_path / "mini")
    job = make_job(prompt="a lighthouse at night", guidance_scale=4.0)
    model = registry.load(registry.describe(str(folder)), device="cpu")
    text = model.encode_text(job)
    assert text.prompt_embeds.shape == (1, 64, 384)
    latents = model.denoise(job, text).tensor

    transformer = WanTransformer3DModel.from_pretrained(folder / "transformer", torch_dtype=torch.float32)
    scheduler = FlowMatchEulerDiscreteScheduler.from_pretrained(folder / "scheduler")
    scheduler.set_timesteps(job.num_inference_steps)
    sample = torch.randn(latents.shape, generator=torch.Generator("cpu").manual_seed(job.seed))
    with torch.no_grad():
        for t in scheduler.timesteps:
            cond, uncond = (
                transformer(sample, t.expand(1), states, return_dict=False)[0]
                for states in (text.prompt_embeds, text.negative_embeds)
            )
            velocity = uncond + job.guidance_scale * (cond - uncond)
            sample = scheduler.step(velocity, t, sample, return_dict=False)[0]
        assert (latents - sample).abs().max() <= TOLERANCE
        vae = AutoencoderKLWan.from_pretrained(folder / "vae", torch_dtype=torch.float32)
        mean, std = (
            torch.tensor(v).view(1, -1, 1, 1, 1) for v in (vae.config.latents_mean, vae.config.latents_std)
        )
        theirs = vae.decode(sample * std + mean).sample[0].permute(1, 0, 2, 3) / 2 + 0.5
    from veo_cli.values import Latents

    ours = torch.cat([chunk.frames for chunk in model.decode(job, Latents(latents))])
    assert (ours - theirs).abs().max() <= TOLERANCE


def test_the_same_job_gives_the_same_bits_whatever_came_before(folders):
    model = registry.load(registry.describe(str(folders["wan21"])), device="cpu")
    job, other = make_job(prompt=PROMPT, seed=1), make_job(prompt="a storm", seed=2, noise_schedule="karras")
    first = model.denoise(job, model.encode_text(job)).tensor
    torch.manual_seed(99)
    assert not torch.equal(first, model.denoise(other, model.encode_text(other)).tensor)
    assert torch.equal(first, model.denoise(job, model.encode_text(job)).tensor)


@pytest.mark.parametrize("scheduler", ["euler", "unipc", "dpm++"])
@pytest.mark.parametrize("noise_schedule", ["default", "cosine"])
def test_resume_at_any_step_is_bit_equal(folders, scheduler, noise_schedule, tmp_path):
    """Through the journal's own file, in a fresh model, from every step."""
    from veo_cli.journal import JobJournal

    info = registry.describe(str(folders["wan21"]))
    model = registry.load(info, device="cpu")
    job = make_job(
        prompt=PROMPT, noise_schedule=noise_schedule, num_inference_steps=6, sampler={"scheduler": scheduler}
    )
    text = model.encode_text(job)
    reports: list[StepReport] = []
    whole = model.denoise(job, text, on_step=reports.append).tensor
    assert [report.step for report in reports] == list(range(6))
    for report in reports[:-1]:
        journal = JobJournal(tmp_path, "job", pytest.fail)
        assert report.state is not None
        journal.save_step(report.state)
        again = registry.load(info, device="cpu")
        assert torch.equal(again.denoise(job, text, start=journal.load_step()).tensor, whole), report.step


def test_unipc_would_drift_without_its_history(folders):
    """What the checkpoint's history is for: latents alone give another clip."""
    from veo_cli.values import DenoiseState

    model = registry.load(registry.describe(str(folders["wan21"])), device="cpu")
    job = make_job(prompt=PROMPT, num_inference_steps=6)
    text = model.encode_text(job)
    reports: list[StepReport] = []
    whole = model.denoise(job, text, on_step=reports.append).tensor
    bare = DenoiseState(3, reports[2].state.latents)
    assert not torch.allclose(model.denoise(job, text, start=bare).tensor, whole, atol=1e-4)


def test_unguided_steps_skip_the_unconditional_pass(folders):
    """A count of transformer calls: two a guided step, one elsewhere."""
    model = registry.load(registry.describe(str(folders["wan21"])), device="cpu")
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    model._load("transformer").register_forward_hook(count)
    for schedule, expected in [("constant", 20), ({"interval": (0.2, 0.6)}, 14)]:
        calls = 0
        job = make_job(prompt=PROMPT, guidance_schedule=schedule, num_inference_steps=10)
        model.denoise(job, model.encode_text(job))
        assert calls == expected
    unguided = make_job(prompt=PROMPT, guidance_scale=1.0)
    assert model.encode_text(unguided).negative_embeds is None


@pytest.mark.parametrize("name", ["euler", "unipc", "dpm++"])
@pytest.mark.parametrize("noise_schedule", ["default", "linear", "cosine", "karras", "exponential", "beta"])
@pytest.mark.parametrize("num_steps", [1, 2, 8])
def test_installed_sigmas_are_those_of_the_plan(folders, name, noise_schedule, num_steps):
    from veo_cli.schedules import steps_of
    from veo_cli.stages.denoise import make_scheduler

    info = registry.describe(str(folders["a14b"]))
    job = make_job(noise_schedule=noise_schedule, num_inference_steps=num_steps, sampler={"scheduler": name})
    scheduler = make_scheduler(job, info, {"_class_name": "UniPCMultistepScheduler", "flow_shift": 3.0})
    planned = steps_of(job, info)
    assert [row.sigma for row in planned] == pytest.approx(scheduler.sigmas[:-1].tolist(), abs=2e-6)
    assert float(scheduler.sigmas[-1]) == 0
    assert [row.expert for row in planned] == [1 if t >= 875 else 2 for t in scheduler.timesteps.tolist()]


@pytest.mark.skipif(
    not (data_path("weights") / "veo-mini").is_dir(), reason="veo-mini's weights are not here"
)
def test_shipped_veo_mini_through_stock_diffusers(recwarn):
    """diffusers loads both parts without a word, and its WanPipeline, given our text states, makes our latents."""
    import diffusers
    from diffusers import AutoencoderKLWan, WanPipeline, WanTransformer3DModel

    info = registry.describe("veo-mini")
    job = make_job(prompt="a lighthouse at night", width=256, height=144, num_frames=5, num_inference_steps=2)
    model = registry.load(info, device="cpu")
    text = model.encode_text(job)
    latents = model.denoise(job, text).tensor

    pipe = WanPipeline(
        tokenizer=None,
        text_encoder=None,
        vae=AutoencoderKLWan.from_pretrained(info.path / "vae", torch_dtype=torch.float32),
        transformer=WanTransformer3DModel.from_pretrained(
            info.path / "transformer", torch_dtype=torch.float32
        ),
        scheduler=getattr(diffusers, info.extra["scheduler_class"]).from_pretrained(info.path / "scheduler"),
    )
    pipe.set_progress_bar_config(disable=True)
    theirs = pipe(
        prompt_embeds=text.prompt_embeds,
        negative_prompt_embeds=text.negative_embeds,
        width=256,
        height=144,
        num_frames=5,
        num_inference_steps=2,
        guidance_scale=job.guidance_scale,
        generator=torch.Generator("cpu").manual_seed(job.seed),
        output_type="latent",
    ).frames
    assert (latents - theirs).abs().max() <= TOLERANCE
    assert not recwarn.list
    files = list(info.path.rglob("*.safetensors"))
    assert max(path.stat().st_size for path in files) <= 16 << 20
    assert sum(path.stat().st_size for path in files) <= 40 << 20
