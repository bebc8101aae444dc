"""`veo status DIR` and `veo clean DIR`: what an output folder holds, read from sidecars and job records."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from veo_cli.errors import VeoError
from veo_cli.journal import STATE_FOLDER, JobRecord, read_records
from veo_cli.stages import sidecar

JobState = Literal["done", "running", "failed", "stopped"]


@dataclass(frozen=True)
class JobStatus:
    """state "stopped" covers jobs that a signal, the deadline, a kill or a reboot ended: they go on in the next run."""

    state: JobState
    output: str
    job_id: str
    reason: str = ""
    kept: str = ""


@dataclass(frozen=True)
class Leftover:
    """Something `clean` may remove."""

    path: Path
    why: str
    size_bytes: int


def read_status(output_folder: Path) -> list[JobStatus]:
    """All jobs known from the folder, done ones first. A record that says "running" is believed only while some
    process holds the folder's lock."""
    found = []
    for path in sorted(output_folder.glob("*.json")):
        try:
            record = sidecar.read(path)
        except VeoError:
            continue
        clip = path.with_suffix(".mp4")
        if clip.is_file():
            found.append(JobStatus("done", str(clip), record.job_id))
    busy = is_locked(output_folder)
    for unfinished in read_records(output_folder):
        found.append(_unfinished(unfinished, busy))
    return found


def _unfinished(record: JobRecord, busy: bool) -> JobStatus:
    if record.state == "running" and not busy:
        return JobStatus("stopped", record.output, record.job_id, "the run was killed", "")
    reason = record.message or ("a signal or the deadline" if record.state == "stopped" else "")
    return JobStatus(record.state, record.output, record.job_id, reason, record.kept)


def is_locked(output_folder: Path) -> bool:
    """Whether a process is writing to the folder right now."""
    from filelock import FileLock, Timeout

    path = output_folder / STATE_FOLDER / "lock"
    if not path.exists():
        return False
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def leftovers(output_folder: Path) -> list[Leftover]:
    """Unfinished jobs' state, half-written clips and temporary files. Finished clips and sidecars are never listed."""
    found = []
    state = output_folder / STATE_FOLDER
    outputs = {record.job_id: record for record in read_records(output_folder)}
    for folder in sorted(state.iterdir()) if state.is_dir() else []:
        if folder.is_dir():
            record = outputs.get(folder.name)
            why = f"{record.state} job: {record.prompt[:60]}" if record else "state of an unknown or damaged job"
            found.append(Leftover(folder, why, _size(folder)))
    for part in sorted(output_folder.glob("*.part")):
        found.append(Leftover(part, "a half-written file", _size(part)))
    return found


def remove(items: Sequence[Leftover]) -> None:
    """Remove what `leftovers` found."""
    for item in items:
        if item.path.is_dir():
            shutil.rmtree(item.path)
        else:
            item.path.unlink(missing_ok=True)


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(os.path.getsize(Path(folder) / name) for folder, _, names in os.walk(path) for name in names)
