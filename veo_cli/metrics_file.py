"""`--metrics FILE`: a Prometheus textfile for node_exporter's collector, replaced as a whole after every job.

Counters and histograms are those of the run that writes the file, as Prometheus expects of a process that started
anew; only the time of the last success is taken over from the file of the run before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from veo_cli import durable_file
from veo_cli.errors import FolderLocked, VeoError
from veo_cli.events import Event, JobDone, JobFailed, JobSkipped, RunDone, RunRefused, StageDone, StepDone

_STAGE_BUCKETS_S = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)
_STEP_BUCKETS_S = (0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
_LAST_SUCCESS = "veo_last_success_timestamp_seconds"


class MetricsFile:
    """A Listener. Names and units follow Prometheus' conventions (base units, `_total`).

    A path that is a folder, or in none, is an EnvironmentFault. A file that cannot be written later is told to `warn`,
    once; the run goes on, and so do the attempts to write.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        durable_file.require_place(path)
        self._path = path
        self._warn = warn
        self._warned = False
        self._peak_vram_bytes = self._peak_rss_bytes = 0
        self._registry = registry = CollectorRegistry()
        self._jobs = Counter("veo_jobs", "Jobs by how they ended.", ["state"], registry=registry)
        self._failures = Counter(
            "veo_job_failures", "Failed attempts at jobs by code.", ["code"], registry=registry
        )
        self._stage = Histogram(
            "veo_stage_seconds",
            "Time spent in each stage.",
            ["stage"],
            buckets=_STAGE_BUCKETS_S,
            registry=registry,
        )
        self._step = Histogram(
            "veo_denoise_step_seconds",
            "Time of one denoising step.",
            buckets=_STEP_BUCKETS_S,
            registry=registry,
        )
        self._frames = Counter("veo_frames", "Frames delivered.", registry=registry)
        self._vram = Gauge(
            "veo_vram_peak_bytes", "Highest device memory of the jobs so far.", registry=registry
        )
        self._rss = Gauge("veo_rss_peak_bytes", "Highest host memory of the jobs so far.", registry=registry)
        self._success = Gauge(
            _LAST_SUCCESS, "When a job was last done, by this run or one before; 0: never.", registry=registry
        )
        self._exit = Gauge("veo_last_exit_code", "Exit code of the last run that ended.", registry=registry)
        for state in ("done", "skipped", "failed"):
            self._jobs.labels(state)
        self._failures.labels("encode_failed")  # a rate is only seen if the series was there at 0
        self._success.set(_last_success(path))

    def __call__(self, event: Event) -> None:
        match event:
            case StepDone():
                self._step.observe(event.seconds)
            case StageDone():
                self._stage.labels(event.stage).observe(event.seconds)
            case JobSkipped():
                self._jobs.labels("skipped").inc()
            case JobDone():
                self._job_done(event)
                self._write()
            case JobFailed():
                self._failures.labels(event.code).inc()
                if not event.will_retry:
                    self._jobs.labels("failed").inc()
                self._write()
            case RunRefused(code=FolderLocked.code):
                pass  # the file may be the other run's
            case RunDone() | RunRefused():
                self._exit.set(event.exit_code)
                self._write()

    def _job_done(self, event: JobDone) -> None:
        self._jobs.labels("done").inc()
        self._frames.inc(event.num_frames)
        self._peak_vram_bytes = max(self._peak_vram_bytes, event.peak_vram_bytes)
        self._peak_rss_bytes = max(self._peak_rss_bytes, event.peak_rss_bytes)
        self._vram.set(self._peak_vram_bytes)
        self._rss.set(self._peak_rss_bytes)
        self._success.set(time.time())

    def _write(self) -> None:
        try:
            durable_file.replace(self._path, generate_latest(self._registry), sync=False)
        except VeoError as error:
            if not self._warned:
                self._warned = True
                self._warn(
                    f"the metrics file is out of date: {error.fault.what}: {self._path}; the run goes on"
                )


def _last_success(path: Path) -> float:
    """Of the file that an earlier run left; 0 where there is none, or it is not readable as metrics."""
    try:
        families = list(text_string_to_metric_families(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return 0.0
    values = [
        sample.value for family in families for sample in family.samples if sample.name == _LAST_SUCCESS
    ]
    return max(values, default=0.0)
