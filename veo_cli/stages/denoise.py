"""The sampling loop: noise in, latents out, over diffusers' flow schedulers; resumable to the bit."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from veo_cli.errors import Fault, SpecificationError
from veo_cli.job import Job
from veo_cli.models.model_info import ModelInfo
from veo_cli.schedules import (
    DPM,
    EULER,
    FIRST_SIGMA_GAP,
    UNIPC,
    flow_shift_of,
    guidance_at,
    guidance_scale_of,
    scheduler_class_of,
    sigmas,
)
from veo_cli.values import DenoiseState, Latents, StepReport, TextEmbedding

# (latents float32, timestep (), text states) -> the velocity, noise - clean, of the latents' shape
Predict = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
# timestep -> the expert that predicts there, and whether it is the low-noise one
ExpertAt = Callable[[float], tuple[Predict, bool]]
OnStep = Callable[[StepReport], None]


@torch.no_grad()
def denoise(
    job: Job,
    text: TextEmbedding,
    scheduler: Any,
    expert_at: ExpertAt,
    latents: torch.Tensor,
    *,
    start: DenoiseState | None = None,
    on_step: OnStep | None = None,
) -> Latents:
    """Walk `latents` (1, channels, latent_frames, latent_height, latent_width), float32, down the schedule.

    scheduler: from `make_scheduler`, unused so far. start: an earlier report's state; `latents` then only
    says where to compute. on_step is called after every step and may raise to stop. The result is bit-equal
    however often the run was stopped and taken up.
    """
    num_steps = job.num_inference_steps
    first_step = start.next_step if start is not None else 0
    scheduler.set_begin_index(first_step)
    if start is not None:
        latents = start.latents.to(latents)
        restore_history(scheduler, start, latents.device)

    for step in range(first_step, num_steps):
        began = time.monotonic()
        timestep = scheduler.timesteps[step]
        predict, low_noise = expert_at(float(timestep))
        scale = guidance_at(
            job.guidance_schedule, guidance_scale_of(job, low_noise=low_noise), step, num_steps
        )

        velocity = predict(latents, timestep, text.prompt_embeds).float()
        if scale != 1.0:
            assert text.negative_embeds is not None
            unconditional = predict(latents, timestep, text.negative_embeds).float()
            velocity = unconditional + scale * (velocity - unconditional)
        latents = scheduler.step(velocity, timestep, latents, return_dict=False)[0]

        if on_step is not None:
            if latents.is_cuda:
                torch.cuda.synchronize(latents.device)  # or `seconds` would time the launches
            seconds, sigma = time.monotonic() - began, float(scheduler.sigmas[step])
            on_step(StepReport(step, num_steps, seconds, sigma, scale, state_after(scheduler, step, latents)))
    return Latents(latents)


def needs_negative(job: Job) -> bool:
    """Whether any step of the job is guided, so that the negative prompt's states are needed."""
    num_steps = job.num_inference_steps
    scales = {guidance_scale_of(job, low_noise=low_noise) for low_noise in (False, True)}
    return any(
        guidance_at(job.guidance_schedule, scale, step, num_steps) != 1.0
        for scale in scales
        for step in range(num_steps)
    )


def initial_noise(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Standard normal float32 on the CPU, from `seed` alone: diffusers' draw with a CPU generator."""
    return torch.randn(shape, generator=torch.Generator("cpu").manual_seed(seed), dtype=torch.float32)


def make_scheduler(job: Job, model: ModelInfo, folder_config: Mapping[str, Any]) -> Any:
    """A fresh diffusers scheduler with the job's sigmas installed; timesteps stay on the CPU.

    folder_config: the model folder's scheduler_config.json. With `noise_schedule: default` the scheduler
    makes its own sigmas from the job's shift; otherwise ours are installed, its own shift being 1.
    Raises SpecificationError for a scheduler class that this loop does not know, or one that adds noise.
    """
    import diffusers

    name = scheduler_class_of(job, model)
    if name not in (EULER, UNIPC, DPM):
        raise _unusable(f"the model's scheduler is {name}, which veo does not sample with")
    own_sigmas = job.noise_schedule == "default"
    shift = flow_shift_of(job, model)
    overrides: dict[str, Any] = {"use_dynamic_shifting": False}
    if name == EULER:
        overrides["shift"] = shift if own_sigmas else 1.0
    else:
        overrides |= {"prediction_type": "flow_prediction", "use_flow_sigmas": True}
        overrides["flow_shift"] = shift if own_sigmas else 1.0
    if not own_sigmas:
        overrides |= {"use_karras_sigmas": False, "use_exponential_sigmas": False, "use_beta_sigmas": False}
    if job.sampler.scheduler != "default":  # asked for by name: the deterministic form of it
        overrides |= {"algorithm_type": "dpmsolver++", "stochastic_sampling": False}
    scheduler_class = getattr(diffusers, name)
    known = inspect.signature(scheduler_class.__init__).parameters
    config = {key: value for key, value in {**folder_config, **overrides}.items() if key in known}
    if config.get("stochastic_sampling") or str(config.get("algorithm_type", "")).startswith("sde"):
        raise _unusable("the model's scheduler adds fresh noise at every step")
    scheduler = scheduler_class(**config)
    if own_sigmas:
        scheduler.set_timesteps(job.num_inference_steps)
    else:
        _install(scheduler, sigmas(job.noise_schedule, job.num_inference_steps, shift), is_dpm=name == DPM)
    return scheduler


def state_after(scheduler: Any, step: int, latents: torch.Tensor) -> DenoiseState:
    """The run as it stands after `step`. Nothing is copied: neither loop nor schedulers write in place."""
    tensors: dict[str, torch.Tensor] = {}
    for index, output in enumerate(getattr(scheduler, "model_outputs", ())):
        if output is not None:
            tensors[f"model_outputs.{index}"] = output
    if getattr(scheduler, "last_sample", None) is not None:
        tensors["last_sample"] = scheduler.last_sample
    scalars = {name: getattr(scheduler, name) for name in _COUNTERS if hasattr(scheduler, name)}
    return DenoiseState(step + 1, latents, tensors, scalars)


def restore_history(scheduler: Any, state: DenoiseState, device: torch.device) -> None:
    """Give a fresh scheduler, sigmas installed, what `state_after` kept of the old one; where it begins is
    for `set_begin_index` to say.
    """
    for name, value in state.scheduler_scalars.items():
        setattr(scheduler, name, value)
    for name, tensor in state.scheduler_tensors.items():
        if name == "last_sample":
            scheduler.last_sample = tensor.to(device)
        else:
            scheduler.model_outputs[int(name.removeprefix("model_outputs."))] = tensor.to(device)


_COUNTERS = ("lower_order_nums", "this_order")  # of the multistep schedulers; whole numbers


def _install(scheduler: Any, values: list[float], *, is_dpm: bool) -> None:
    import numpy as np

    if not is_dpm:
        scheduler.set_timesteps(len(values) - 1, sigmas=np.array(values[:-1]))
        return
    # diffusers' DPM++ takes no sigmas from outside: they replace its own, as UniPC would have set them.
    scheduler.set_timesteps(len(values) - 1)
    values = [min(values[0], 1 - FIRST_SIGMA_GAP), *values[1:]]
    scheduler.sigmas = torch.tensor(values, dtype=torch.float32)
    timesteps = torch.tensor(values[:-1], dtype=torch.float64) * scheduler.config.num_train_timesteps
    scheduler.timesteps = timesteps.to(torch.int64)


def _unusable(what: str) -> SpecificationError:
    return SpecificationError(
        Fault(what, where="sampler.scheduler", fix="ask for another one: sampler: {scheduler: unipc}")
    )
