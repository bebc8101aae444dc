"""Noise schedules and guidance schedules: pure functions of the step number, in plain floats.

A flow model's sigma is the share of noise in the sample, x = (1 - sigma) * clean + sigma * noise; sampling
walks it from 1 down to 0. With T steps and u = i/T:

    linear       1 - u
    cosine       tan(v) / (1 + tan(v)), v = pi (1 - u) / 2      the variance-preserving cosine, as a flow
    karras       (1 + w (T^(-1/7) - 1))^7, w = i/(T-1)          Karras et al. 2022, equation 5, on [1/T, 1]
    exponential  T^(-w)                                         geometric, on [1/T, 1]
    beta         1/T + (1 - 1/T) Q(1 - w; 0.6, 0.6)             Q the beta quantile (Lee et al. 2024)

(the last three end in a step to 0), then the shift s of Esser et al. 2024: s sigma / (1 + (s - 1) sigma).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from veo_cli.job import Interval, Job, NoiseSchedule
    from veo_cli.models.model_info import ModelInfo

EULER = "FlowMatchEulerDiscreteScheduler"
UNIPC = "UniPCMultistepScheduler"
DPM = "DPMSolverMultistepScheduler"
SCHEDULER_CLASSES = {"euler": EULER, "unipc": UNIPC, "dpm++": DPM}  # the `sampler.scheduler` field

FIRST_SIGMA_GAP = 1e-6  # the multistep solvers take log(1 - sigma): diffusers starts them at 1 - 1e-6
_NUM_TRAIN_TIMESTEPS = 1000  # of every flow model in diffusers
_KARRAS_RHO = 7.0
_BETA = 0.6  # both shape parameters


def shifted(sigma: float, flow_shift: float) -> float:
    """`sigma` in [0, 1] moved towards noise by `flow_shift` > 1; 0 and 1 stay where they are."""
    return flow_shift * sigma / (1 + (flow_shift - 1) * sigma)


def sigmas(
    noise_schedule: NoiseSchedule, num_steps: int, flow_shift: float, *, scheduler_class: str = EULER
) -> list[float]:
    """The num_steps + 1 sigmas of a run: falling, in [0, 1], the last one 0.

    "default" is what diffusers' scheduler of class `scheduler_class` makes of `flow_shift` by itself (it
    differs between classes); every other schedule is the same whichever scheduler it is installed in.
    """
    if noise_schedule == "default":
        return _scheduler_default(scheduler_class, num_steps, flow_shift)
    unshifted = _SCHEDULES[noise_schedule](num_steps)
    return [shifted(sigma, flow_shift) for sigma in unshifted]


def guidance_at(schedule: str | Interval, scale: float, step: int, num_steps: int) -> float:
    """The guidance scale of step `step` (from 0). 1.0 means that the unconditional pass is skipped.

    constant: `scale`. sqrt_decay: scale * sqrt(1 - t/T). interval [a, b]: `scale` where a <= t/T < b.
    Scales below 1 would guide away from the prompt and are taken as 1, as in diffusers.
    """
    if schedule == "sqrt_decay":
        scale *= math.sqrt(1 - step / num_steps)
    elif not isinstance(schedule, str):
        start, stop = schedule.interval
        scale = scale if start <= step / num_steps < stop else 1.0
    return max(1.0, scale)


@dataclass(frozen=True)
class Step:
    """One row of the table that `veo plan -v` prints."""

    step: int
    sigma: float
    guidance_scale: float  # 1.0: no unconditional pass
    expert: int  # 1, or 2 for the low-noise expert of a two-expert model


def steps_of(job: Job, model: ModelInfo) -> list[Step]:
    """Sigma, guidance and expert of every step; [] for generic pipelines, which sample by themselves."""
    if model.family == "generic":
        return []
    scheduler_class = scheduler_class_of(job, model)
    values = sigmas(
        job.noise_schedule,
        job.num_inference_steps,
        flow_shift_of(job, model),
        scheduler_class=scheduler_class,
    )
    boundary = (model.boundary_ratio or 0.0) * _NUM_TRAIN_TIMESTEPS
    rows = []
    for step, sigma in enumerate(values[:-1]):
        timestep = sigma * _NUM_TRAIN_TIMESTEPS
        if scheduler_class != EULER:  # the multistep schedulers count timesteps in whole numbers
            timestep = math.floor(min(sigma, 1 - FIRST_SIGMA_GAP) * _NUM_TRAIN_TIMESTEPS)
        low_noise = timestep < boundary
        scale = guidance_scale_of(job, low_noise=low_noise)
        guidance = guidance_at(job.guidance_schedule, scale, step, job.num_inference_steps)
        rows.append(Step(step, sigma, guidance, 2 if low_noise else 1))
    return rows


def scheduler_class_of(job: Job, model: ModelInfo) -> str:
    """The diffusers class that the job samples with: the one asked for, else the model folder's."""
    return SCHEDULER_CLASSES.get(job.sampler.scheduler) or str(model.extra.get("scheduler_class", EULER))


def flow_shift_of(job: Job, model: ModelInfo) -> float:
    """The shift that the job samples with: the one asked for, else the model folder's own."""
    return job.flow_shift if job.flow_shift is not None else float(model.extra.get("flow_shift", 1.0))


def guidance_scale_of(job: Job, *, low_noise: bool) -> float:
    """The scale for the high-noise expert (or the only one), or for the low-noise one."""
    if low_noise and job.guidance_scale_2 is not None:
        return job.guidance_scale_2
    return job.guidance_scale


def _scheduler_default(scheduler_class: str, num_steps: int, flow_shift: float) -> list[float]:
    """What `set_timesteps(num_steps)` of diffusers 0.42 installs in a flow scheduler of this class."""
    smallest = 1 / _NUM_TRAIN_TIMESTEPS
    if scheduler_class == UNIPC:
        grid = [1 + (smallest - 1) * i / num_steps for i in range(num_steps)]
        first, *rest = (shifted(sigma, flow_shift) for sigma in grid)
        return [min(first, 1 - FIRST_SIGMA_GAP), *rest, 0.0]
    if scheduler_class == DPM:
        grid = [1 - (smallest + (1 - smallest) * i / num_steps) for i in range(num_steps)]
        return [*(shifted(sigma, flow_shift) for sigma in grid), 0.0]
    # Euler shifts its smallest sigma when it is made, and the whole grid again when timesteps are set.
    smallest = shifted(smallest, flow_shift)
    grid = [1 + (smallest - 1) * i / max(1, num_steps - 1) for i in range(num_steps)]
    return [*(shifted(sigma, flow_shift) for sigma in grid), 0.0]


def _linear(num_steps: int) -> list[float]:
    return [1 - i / num_steps for i in range(num_steps + 1)]


def _cosine(num_steps: int) -> list[float]:
    angles = [math.pi / 2 * (1 - i / num_steps) for i in range(num_steps + 1)]
    return [math.sin(v) / (math.sin(v) + math.cos(v)) for v in angles]  # tan(v)/(1+tan(v)) without the pole


def _karras(num_steps: int) -> list[float]:
    smallest = (1 / num_steps) ** (1 / _KARRAS_RHO)
    return [*((1 + w * (smallest - 1)) ** _KARRAS_RHO for w in _ramp(num_steps)), 0.0]


def _exponential(num_steps: int) -> list[float]:
    return [*((1 / num_steps) ** w for w in _ramp(num_steps)), 0.0]


def _beta(num_steps: int) -> list[float]:
    smallest = 1 / num_steps
    return [*(smallest + (1 - smallest) * beta_quantile(1 - w, _BETA, _BETA) for w in _ramp(num_steps)), 0.0]


_SCHEDULES: dict[str, Callable[[int], list[float]]] = {
    "linear": _linear,
    "cosine": _cosine,
    "karras": _karras,
    "exponential": _exponential,
    "beta": _beta,
}


def _ramp(num_steps: int) -> list[float]:
    """num_steps values from 0 to 1; [0] for one step."""
    return [i / max(1, num_steps - 1) for i in range(num_steps)]


def beta_quantile(probability: float, a: float, b: float) -> float:
    """The x in [0, 1] with I_x(a, b) = probability, by bisection to the last bit."""
    if probability <= 0:
        return 0.0
    if probability >= 1:
        return 1.0
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        if _incomplete_beta(middle, a, b) < probability:
            low = middle
        else:
            high = middle
    return low


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), 0 < x < 1 (Numerical Recipes, 3rd edition, 6.4)."""
    if x > (a + 1) / (a + b + 2):  # the continued fraction converges fast on the other side only
        return 1 - _incomplete_beta(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 200):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d)
            c = 1 + term / c
            fraction *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return math.exp(log_front) * fraction / a
