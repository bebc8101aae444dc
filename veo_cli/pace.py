"""How long jobs take, learned from those done so far, so that none starts that would not end by the deadline."""

from __future__ import annotations

from datetime import datetime, timedelta

from veo_cli.job import Job


class Pace:
    """Measured seconds of the last job of each kind. A kind is what decides a job's length."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[object, ...], float] = {}

    def learn(self, job: Job, seconds: float) -> None:
        self._seconds[_kind(job)] = seconds

    def fits(self, job: Job, deadline: datetime | None) -> bool:
        """False only if a job of the same kind was measured and this one would end after the deadline."""
        expected = self._seconds.get(_kind(job))
        return (
            deadline is None or expected is None or datetime.now() + timedelta(seconds=expected) <= deadline
        )


def _kind(job: Job) -> tuple[object, ...]:
    sampler = job.sampler
    generated = (sampler.width, sampler.height, sampler.num_frames)
    delivered = (job.width, job.height, job.num_frames, job.encode)
    return (job.model, generated, job.num_inference_steps, job.guidance_scale != 1, delivered)
