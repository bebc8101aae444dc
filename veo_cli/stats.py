"""`veo stats EVENTS...`: what the event files say about speed and dependability."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from veo_cli.errors import Fault, SpecificationError


@dataclass(frozen=True)
class Percentiles:
    """Nearest-rank percentiles, in seconds."""

    count: int
    p50: float
    p95: float


@dataclass(frozen=True)
class ModelStats:
    done: int
    failed: int
    frames_per_second: float  # frames delivered over the seconds of the jobs that delivered them


@dataclass(frozen=True)
class Stats:
    """availability: jobs done / (done + failed for good); None when there were none.

    runs: those that began; refused: those that did not. top_errors: codes of failed attempts and of refusals.
    """

    runs: int
    refused: int
    done: int
    failed: int
    skipped: int
    availability: float | None
    job_seconds: Percentiles | None
    stage_seconds: dict[str, Percentiles]
    top_errors: list[tuple[str, int]]
    models: dict[str, ModelStats]
    unreadable_lines: int


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest value with at least `percent` % of the values at or below it."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def read_events(paths: Iterable[Path], since: datetime | None = None) -> tuple[list[dict[str, Any]], int]:
    """The events of all files, and how many lines could not be read (a killed run may leave half a line).

    since: an aware datetime; earlier events are left out. Raises SpecificationError for a file that cannot be read, and
    if the files have lines of which not one is an event: they are no event files then.
    """
    events: list[dict[str, Any]] = []
    unreadable = readable = 0
    paths = list(paths)
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise SpecificationError(Fault(f"cannot read it: {error.strerror}", where=str(path))) from error
        for line in text.splitlines():
            if not line.strip():
                continue
            try:
                event = json.loads(line)
                moment = datetime.fromisoformat(event["time"]).astimezone(UTC)
                if "event" not in event:
                    raise ValueError
            except (ValueError, KeyError, TypeError):
                unreadable += 1
                continue
            readable += 1
            if since is None or moment >= since:
                events.append(event)
    if unreadable and not readable:
        fix = "give it files that `veo render --events FILE` wrote"
        raise SpecificationError(
            [Fault("no event could be read", where=str(path), fix=fix) for path in paths]
        )
    return events, unreadable


def compute(events: Iterable[dict[str, Any]], unreadable_lines: int = 0) -> Stats:
    """Figures over events of schema version 1 (see events.py)."""
    jobs: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    refusals: list[dict[str, Any]] = []
    stages: dict[str, list[float]] = defaultdict(list)
    runs = skipped = 0
    for event in events:
        match event["event"]:
            case "run_started":
                runs += 1
            case "run_refused":
                refusals.append(event)
            case "job_skipped":
                skipped += 1
            case "stage_done":
                stages[event["stage"]].append(event["seconds"])
            case "job_done":
                jobs.append(event)
            case "job_failed":
                failures.append(event)
    final = [failure for failure in failures if not failure["will_retry"]]
    ended = len(jobs) + len(final)
    return Stats(
        runs=runs,
        refused=len(refusals),
        done=len(jobs),
        failed=len(final),
        skipped=skipped,
        availability=len(jobs) / ended if ended else None,
        job_seconds=_percentiles([job["seconds"] for job in jobs]),
        stage_seconds={name: found for name, values in stages.items() if (found := _percentiles(values))},
        top_errors=Counter(event["code"] for event in failures + refusals).most_common(3),
        models=_by_model(jobs, final),
        unreadable_lines=unreadable_lines,
    )


def _percentiles(values: list[float]) -> Percentiles | None:
    return Percentiles(len(values), percentile(values, 50), percentile(values, 95)) if values else None


def _by_model(jobs: list[dict[str, Any]], failed: list[dict[str, Any]]) -> dict[str, ModelStats]:
    found = {}
    for name in sorted({event["model"] for event in jobs + failed}):
        mine = [job for job in jobs if job["model"] == name]
        seconds = sum(job["seconds"] for job in mine)
        frames = sum(job["num_frames"] for job in mine)
        failures = sum(event["model"] == name for event in failed)
        found[name] = ModelStats(len(mine), failures, frames / seconds if seconds else 0.0)
    return found
