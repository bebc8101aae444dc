"""The metrics file, read back with prometheus_client's own parser."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from veo_cli.errors import EnvironmentFault
from veo_cli.events import Event, JobDone, JobFailed, JobSkipped, RunDone, RunRefused, StageDone, StepDone
from veo_cli.metrics_file import MetricsFile

RUN: list[Event] = [
    JobSkipped("s", "s.mp4"),
    StepDone("a", 0, 2, 0.02, 1.0, 5.0),
    StepDone("a", 1, 2, 0.2, 0.5, 5.0),
    StageDone("a", "denoise", 0.22),
    StageDone("a", "decode", 2.0),
    JobDone("a", "a.mp4", "a.json", "veo-mini", 3.0, 33, 1000, 500, 70),
    JobDone("b", "b.mp4", "b.json", "veo-mini", 3.0, 17, 1000, 400, 90),
    JobFailed("c", "c.mp4", "veo-mini", "encode_failed", "it died", "", 1, True),
    JobFailed("c", "c.mp4", "veo-mini", "encode_failed", "it died", "", 2, False),
    JobFailed("d", "d.mp4", "veo-mini", "quality_gate", "all black", "", 1, False),
    RunDone(1, 2, 1, 2, 0, 9.0),
]


def read(path: Path) -> dict[str, float]:
    """`name{label="value"}` -> value."""
    found = {}
    for family in text_string_to_metric_families(path.read_text()):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}[{labels}]" if labels else sample.name] = sample.value
    return found


def write(path: Path, events: list[Event]) -> None:
    metrics = MetricsFile(path, pytest.fail)
    for event in events:
        metrics(event)


def test_figures(tmp_path: Path) -> None:
    path = tmp_path / "veo.prom"
    write(path, RUN)
    found = read(path)
    assert found["veo_jobs_total[state=done]"] == 2
    assert found["veo_jobs_total[state=skipped]"] == 1
    assert found["veo_jobs_total[state=failed]"] == 2
    assert found["veo_job_failures_total[code=encode_failed]"] == 2
    assert found["veo_job_failures_total[code=quality_gate]"] == 1
    assert found["veo_frames_total"] == 50
    assert found["veo_stage_seconds_count[stage=denoise]"] == 1
    assert found["veo_stage_seconds_sum[stage=decode]"] == 2
    assert found["veo_stage_seconds_bucket[le=0.3,stage=denoise]"] == 1
    assert found["veo_stage_seconds_bucket[le=0.1,stage=denoise]"] == 0
    assert found["veo_denoise_step_seconds_count"] == 2
    assert found["veo_denoise_step_seconds_bucket[le=0.03]"] == 1
    assert found["veo_vram_peak_bytes"] == 90
    assert found["veo_rss_peak_bytes"] == 500
    assert found["veo_last_exit_code"] == 1
    assert abs(found["veo_last_success_timestamp_seconds"] - time.time()) < 60
    assert [entry.name for entry in tmp_path.iterdir()] == ["veo.prom"]


def test_a_run_without_success_keeps_the_time_of_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "veo.prom"
    write(path, RUN)
    success = read(path)["veo_last_success_timestamp_seconds"]
    write(path, [JobSkipped("a", "a.mp4"), RunDone(0, 0, 1, 0, 0, 0.1)])
    found = read(path)
    assert found["veo_last_success_timestamp_seconds"] == success
    assert found["veo_last_exit_code"] == 0
    assert found["veo_jobs_total[state=done]"] == 0  # counters are the run's own
    assert found["veo_job_failures_total[code=encode_failed]"] == 0


def test_a_damaged_file_of_an_earlier_run_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "veo.prom"
    path.write_bytes(b"\xff\xfe{{{ 1 nonsense\n")
    write(path, [RunDone(0, 0, 1, 0, 0, 0.1)])
    assert read(path)["veo_last_success_timestamp_seconds"] == 0


def test_a_run_refused_because_another_is_at_work_leaves_that_ones_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "veo.prom"
    write(path, RUN)
    before = path.read_bytes()
    write(path, [RunRefused(4, "folder_locked", ("busy",))])
    assert path.read_bytes() == before
    write(path, [RunRefused(4, "preflight", ("no disk",))])
    assert read(path)["veo_last_exit_code"] == 4


def test_a_file_that_cannot_be_written_is_said_once() -> None:
    warnings: list[str] = []
    metrics = MetricsFile(Path("/proc/veo.prom"), warnings.append)
    for event in RUN:
        metrics(event)
    assert len(warnings) == 1
    assert "/proc/veo.prom" in warnings[0]


@pytest.mark.parametrize(
    ("name", "why"), [(".", "it is a folder"), ("no/such/veo.prom", "there is no folder no/such")]
)
def test_a_path_that_cannot_be_a_file_is_known_before_the_run(
    name: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EnvironmentFault, match=why):
        MetricsFile(Path(name), pytest.fail)
    assert list(tmp_path.iterdir()) == []
