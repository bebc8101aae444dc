"""`veo stats` on events written by hand, so that every figure can be worked out on paper."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from veo_cli.errors import SpecificationError
from veo_cli.stats import Percentiles, compute, percentile, read_events

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(*events: dict[str, Any], name: str = "run.jsonl") -> Path:
        path = tmp_path / name
        lines = [
            {"v": 1, "time": "2026-03-01T12:00:00.000+00:00", "run_id": "r", **event} for event in events
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    return write


def done(seconds: float, *, model: str = "veo-mini", num_frames: int = 33) -> dict[str, Any]:
    return {"event": "job_done", "job_id": "j", "model": model, "seconds": seconds, "num_frames": num_frames}


def failed(code: str, *, model: str = "veo-mini", will_retry: bool = False) -> dict[str, Any]:
    return {"event": "job_failed", "job_id": "j", "model": model, "code": code, "will_retry": will_retry}


def stage(name: str, seconds: float) -> dict[str, Any]:
    return {"event": "stage_done", "job_id": "j", "stage": name, "seconds": seconds}


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([7.0], 50, 7.0),
        ([7.0], 95, 7.0),
        ([1.0, 2.0], 50, 1.0),
        ([3.0, 1.0, 2.0], 50, 2.0),
        ([float(i) for i in range(1, 21)], 95, 19.0),
        ([float(i) for i in range(1, 22)], 95, 20.0),
        ([float(i) for i in range(100, 0, -1)], 95, 95.0),
    ],
)
def test_percentiles_are_nearest_rank(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == expected


def test_figures(write: Write) -> None:
    first = write(
        {"event": "run_started"},
        {"event": "job_skipped", "job_id": "s"},
        stage("denoise", 4.0),
        stage("denoise", 1.0),
        stage("denoise", 3.0),
        stage("decode", 0.5),
        done(10.0, num_frames=30),
        done(30.0, num_frames=50),
        done(20.0, model="wan", num_frames=81),
        failed("encode_failed", will_retry=True),
        failed("encode_failed"),
        {"event": "run_done"},
    )
    second = write(
        {"event": "run_started"},
        {"event": "job_skipped", "job_id": "s"},
        failed("out_of_memory", model="wan"),
        failed("quality_gate", will_retry=True),
        failed("bug", will_retry=True),
        failed("bug", will_retry=True),
        failed("bug", will_retry=True),
        failed("out_of_memory", will_retry=True),
        name="second.jsonl",
    )
    stats = compute(*read_events([first, second]))
    assert (stats.runs, stats.done, stats.failed, stats.skipped) == (2, 3, 2, 2)
    assert stats.availability == 3 / 5
    assert stats.job_seconds == Percentiles(3, 20.0, 30.0)
    assert stats.stage_seconds == {"denoise": Percentiles(3, 3.0, 4.0), "decode": Percentiles(1, 0.5, 0.5)}
    assert stats.top_errors[0] == ("bug", 3)
    assert sorted(stats.top_errors[1:]) == [("encode_failed", 2), ("out_of_memory", 2)]
    mini, wan = stats.models["veo-mini"], stats.models["wan"]
    assert (mini.done, mini.failed, mini.frames_per_second) == (2, 1, 80 / 40)
    assert (wan.done, wan.failed, wan.frames_per_second) == (1, 1, 81 / 20)


def test_nothing_ended_is_no_availability(write: Write) -> None:
    stats = compute(*read_events([write({"event": "run_started"}, {"event": "job_skipped", "job_id": "s"})]))
    assert stats.availability is None
    assert stats.job_seconds is None


def test_refused_runs_are_counted_and_their_codes_are_errors(write: Write) -> None:
    refused = {"event": "run_refused", "exit_code": 4, "code": "folder_locked", "faults": ["busy"]}
    stats = compute(*read_events([write(refused, refused)]))
    assert (stats.runs, stats.refused) == (0, 2)
    assert stats.top_errors == [("folder_locked", 2)]
    assert stats.availability is None


def test_since_leaves_out_what_came_before(write: Write) -> None:
    path = write(
        done(1.0) | {"time": "2026-03-01T11:59:59.999+00:00"},
        done(2.0) | {"time": "2026-03-01T12:00:00.000+00:00"},
        done(3.0) | {"time": "2026-03-01T14:00:00.000+02:00"},
    )
    found, _ = read_events([path], since=datetime(2026, 3, 1, 12, tzinfo=UTC))
    assert [event["seconds"] for event in found] == [2.0, 3.0]


def test_lines_that_a_kill_tore_are_counted_and_left_out(write: Write) -> None:
    path = write(done(1.0))
    with path.open("a") as file:
        file.write('{"v": 1, "time": "2026-03-01T12:\n[]\n\n{"v": 1}\n' + json.dumps("text") + "\n")
    found, unreadable = read_events([path])
    assert (len(found), unreadable) == (1, 4)


def test_what_is_no_event_file_is_refused(write: Write, tmp_path: Path) -> None:
    prompt_file = tmp_path / "a.yaml"
    prompt_file.write_text("prompt: a boat\nseed: 7\n")
    with pytest.raises(SpecificationError, match=r"a\.yaml: no event could be read"):
        read_events([prompt_file])
    empty = write(name="empty.jsonl")
    assert read_events([empty]) == ([], 0)
    # Events that --since leaves out were read all the same.
    late = datetime(2027, 1, 1, tzinfo=UTC)
    assert read_events([prompt_file, write(done(1.0))], since=late) == ([], 2)


def test_events_of_later_versions_do_not_stop_it(write: Write) -> None:
    stats = compute(*read_events([write(done(1.0) | {"new_field": 1}, {"event": "something_new"})]))
    assert stats.done == 1
