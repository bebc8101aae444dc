"""Noise and guidance schedules against closed forms and against diffusers' own schedulers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from veo_cli.job import Interval
from veo_cli.schedules import DPM, EULER, UNIPC, beta_quantile, guidance_at, sigmas

SCHEDULES = ("default", "linear", "cosine", "karras", "exponential", "beta")


@pytest.mark.parametrize("noise_schedule", SCHEDULES)
@pytest.mark.parametrize("num_steps", [1, 2, 3, 20, 50, 1000])
@pytest.mark.parametrize("flow_shift", [1.0, 3.0, 12.0])
def test_sigmas_fall_from_one_to_zero(noise_schedule, num_steps, flow_shift):
    values = sigmas(noise_schedule, num_steps, flow_shift)
    assert len(values) == num_steps + 1
    assert values[0] == pytest.approx(1, abs=1e-12)
    assert values[-1] == 0
    assert all(later < earlier for earlier, later in itertools.pairwise(values))


def test_linear_and_shift_in_figures():
    assert sigmas("linear", 4, 1.0) == [1, 0.75, 0.5, 0.25, 0]
    assert sigmas("linear", 4, 3.0) == pytest.approx([1, 0.9, 0.75, 0.5, 0])


def test_cosine_in_figures():
    t = math.tan(math.pi / 8)
    assert sigmas("cosine", 4, 1.0) == pytest.approx([1, 1 / (1 + t), 0.5, t / (1 + t), 0])


def test_karras_and_exponential_run_from_one_to_one_over_the_steps():
    assert sigmas("exponential", 3, 1.0) == pytest.approx([1, 3**-0.5, 1 / 3, 0])
    middle = ((1 + (1 / 3) ** (1 / 7)) / 2) ** 7
    assert sigmas("karras", 3, 1.0) == pytest.approx([1, middle, 1 / 3, 0])


def test_beta_matches_scipy():
    scipy_stats = pytest.importorskip("scipy.stats")
    probabilities = np.linspace(0, 1, 101)
    for a, b in [(0.6, 0.6), (2.0, 5.0)]:
        ours = [beta_quantile(float(p), a, b) for p in probabilities]
        assert ours == pytest.approx(scipy_stats.beta.ppf(probabilities, a, b), abs=1e-12)
    expected = 0.1 + 0.9 * scipy_stats.beta.ppf(1 - np.linspace(0, 1, 10), 0.6, 0.6)
    assert sigmas("beta", 10, 1.0)[:-1] == pytest.approx(expected)


@pytest.mark.parametrize("flow_shift", [1.0, 3.0, 5.0])
@pytest.mark.parametrize("num_steps", [1, 7, 20])
def test_default_is_what_each_scheduler_makes_by_itself(flow_shift, num_steps):
    import diffusers

    multistep = {"prediction_type": "flow_prediction", "use_flow_sigmas": True, "flow_shift": flow_shift}
    for name, config in [(EULER, {"shift": flow_shift}), (UNIPC, multistep), (DPM, multistep)]:
        scheduler = getattr(diffusers, name)(**config)
        scheduler.set_timesteps(num_steps)
        ours = sigmas("default", num_steps, flow_shift, scheduler_class=name)
        assert ours == pytest.approx(scheduler.sigmas.tolist(), abs=1e-6), name


def test_shifted_linear_is_diffusers_shift_of_the_linear_grid():
    import diffusers

    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=5.0)
    scheduler.set_timesteps(sigmas=np.linspace(1, 1 / 20, 20))
    assert sigmas("linear", 20, 5.0) == pytest.approx(scheduler.sigmas.tolist(), abs=1e-6)


def test_guidance_schedules():
    assert [guidance_at("constant", 5.0, t, 4) for t in range(4)] == [5, 5, 5, 5]
    decay = [guidance_at("sqrt_decay", 2.0, t, 4) for t in range(4)]
    assert decay == pytest.approx([2, 3**0.5, 2**0.5, 1])
    assert guidance_at("sqrt_decay", 1.5, 3, 4) == 1  # never below 1
    window = Interval(interval=(0.2, 0.6))
    assert [guidance_at(window, 4.0, t, 10) for t in range(10)] == [1, 1, 4, 4, 4, 4, 1, 1, 1, 1]
    assert guidance_at("constant", 0.5, 0, 4) == 1  # as diffusers: no guidance at or below 1
