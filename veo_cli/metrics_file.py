"""`--metrics FILE`: a Prometheus textfile for node_exporter's collector, replaced as a whole after every job."""

from __future__ import annotations

import time
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from veo_cli import durable_file
from veo_cli.events import Event, JobDone, JobFailed, JobSkipped, RunDone, StageDone, StepDone

_STAGE_BUCKETS_S = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)
_STEP_BUCKETS_S = (0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


class MetricsFile:
    """A Listener. Label names and units follow Prometheus' conventions (base units, `_total`)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._registry = CollectorRegistry()
        registry = self._registry
        self._jobs = Counter("veo_jobs", "Jobs by how they ended.", ["state"], registry=registry)
        self._failures = Counter("veo_job_failures", "Failed jobs by code.", ["code"], registry=registry)
        self._stage = Histogram(
            "veo_stage_seconds", "Time spent in each stage.", ["stage"], buckets=_STAGE_BUCKETS_S, registry=registry
        )
        self._step = Histogram(
            "veo_denoise_step_seconds", "Time of one denoising step.", buckets=_STEP_BUCKETS_S, registry=registry
        )
        self._frames = Counter("veo_frames", "Frames delivered.", registry=registry)
        self._vram = Gauge("veo_vram_peak_bytes", "Highest device memory of the jobs so far.", registry=registry)
        self._rss = Gauge("veo_rss_peak_bytes", "Highest host memory of the jobs so far.", registry=registry)
        self._success = Gauge("veo_last_success_timestamp_seconds", "When a job was last done.", registry=registry)
        self._exit = Gauge("veo_last_exit_code", "Exit code of the last finished run.", registry=registry)
        for state in ("done", "skipped", "failed"):
            self._jobs.labels(state)

    def __call__(self, event: Event) -> None:
        match event:
            case StepDone():
                self._step.observe(event.seconds)
                return
            case StageDone():
                self._stage.labels(event.stage).observe(event.seconds)
                return
            case JobDone():
                self._jobs.labels("done").inc()
                self._frames.inc(event.num_frames)
                self._vram.set(max(self._vram._value.get(), event.peak_vram_bytes))
                self._rss.set(max(self._rss._value.get(), event.peak_rss_bytes))
                self._success.set(time.time())
            case JobSkipped():
                self._jobs.labels("skipped").inc()
                return
            case JobFailed(will_retry=will_retry):
                self._failures.labels(event.code).inc()
                if not will_retry:
                    self._jobs.labels("failed").inc()
            case RunDone():
                self._exit.set(event.exit_code)
            case _:
                return
        durable_file.replace(self._path, generate_latest(self._registry))
