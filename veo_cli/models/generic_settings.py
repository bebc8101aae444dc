"""Which settings of a job a generic pipeline cannot follow; asked when jobs are resolved, without torch."""

from __future__ import annotations

from veo_cli.errors import Fault
from veo_cli.job import Job


def unsupported_settings(job: Job) -> list[Fault]:
    """The settings of a job that only veo's own sampling loop can follow, each with what to change."""
    asked = {
        "noise_schedule": job.noise_schedule != "default",
        "guidance_schedule": job.guidance_schedule != "constant",
        "guidance_scale_2": job.guidance_scale_2 is not None,
        "sampler.scheduler": job.sampler.scheduler != "default",
    }
    return [
        Fault(
            f"{name} cannot be set on this model",
            where=name,
            why="it runs through diffusers' own pipeline, which samples by itself",
            fix=f"leave {name} out",
        )
        for name, is_set in asked.items()
        if is_set
    ]
