"""What happens during a run, as values. Progress display, `--events` and `--metrics` all listen to the same stream.

A line of `--events FILE` is one JSON object: `v` (schema version), `time` (UTC, ISO 8601), `run_id`, `event` (the class
name in snake case), then the fields below. Fields are only ever added within one schema version. A run that began
ends in run_done, unless it was killed, interrupted twice, or met a bug of its own.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

SCHEMA_VERSION = 1

Stage = Literal["load", "text_encode", "denoise", "decode", "video_encode"]
ResumedFrom = Literal["start", "step", "latents"]


@dataclass(frozen=True)
class Event:
    """Base of all events."""

    @property
    def name(self) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()

    def fields(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class RunStarted(Event):
    num_jobs: int
    output_folder: str
    device: str  # "" when every job is done already
    versions: Mapping[str, str]
    pid: int
    host: str


@dataclass(frozen=True)
class RunRefused(Event):
    """Nothing was begun: the preflight failed, another process has the folder, or there is no such device.

    A command line or prompt file that is wrong (exit 2) is told on stderr alone, before any event.
    """

    exit_code: int
    code: str  # see errors.py
    faults: tuple[str, ...]


@dataclass(frozen=True)
class JobSkipped(Event):
    """The clip with this job_id is there already."""

    job_id: str
    output: str


@dataclass(frozen=True)
class JobStarted(Event):
    job_id: str
    output: str
    model: str
    prompt: str
    seed: int
    num_steps: int
    num_frames: int
    attempt: int  # from 1
    resumed_from: ResumedFrom
    next_step: int  # 0 from the start, num_steps when only decoding is left


@dataclass(frozen=True)
class StageStarted(Event):
    job_id: str
    stage: Stage


@dataclass(frozen=True)
class StepDone(Event):
    job_id: str
    step: int  # from 0
    num_steps: int
    seconds: float
    sigma: float
    guidance_scale: float


@dataclass(frozen=True)
class CheckpointSaved(Event):
    """Work up to here is on disk: `next_step` == num_steps means the finished latents."""

    job_id: str
    next_step: int


@dataclass(frozen=True)
class FramesDone(Event):
    """Frames handed to the encoder so far."""

    job_id: str
    frames_done: int
    num_frames: int


@dataclass(frozen=True)
class StageDone(Event):
    job_id: str
    stage: Stage
    seconds: float


@dataclass(frozen=True)
class JobDone(Event):
    job_id: str
    output: str
    sidecar: str
    model: str
    seconds: float
    num_frames: int
    size_bytes: int
    peak_rss_bytes: int
    peak_vram_bytes: int
    stage_seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class JobFailed(Event):
    """`code` is stable (see errors.py); `kept` says what is safe on disk; `will_retry` whether another attempt follows."""

    job_id: str
    output: str
    model: str
    code: str
    message: str
    kept: str
    attempt: int
    will_retry: bool


@dataclass(frozen=True)
class StopAsked(Event):
    """A signal came; the run ends at its next safe point, after the step or frames at work."""

    reason: str  # "interrupted" or "terminated"


@dataclass(frozen=True)
class JobStopped(Event):
    """Interrupted, terminated or out of time; the next run goes on from `kept`."""

    job_id: str
    output: str
    reason: str
    kept: str


@dataclass(frozen=True)
class Warned(Event):
    code: str
    message: str
    job_id: str = ""


@dataclass(frozen=True)
class RunDone(Event):
    exit_code: int
    done: int
    skipped: int
    failed: int
    waiting: int
    seconds: float


class Listener(Protocol):
    def __call__(self, event: Event) -> None: ...


class Listeners:
    """Hands every event to each listener in turn."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners

    def __call__(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)
