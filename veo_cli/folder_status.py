"""`veo status DIR` and `veo clean DIR`: what an output folder holds, read from sidecars, job records and the last queue."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from veo_cli.errors import VeoError
from veo_cli.folder_lock import is_locked
from veo_cli.journal import STATE_FOLDER, JobRecord, QueuedJob, read_queue, read_records
from veo_cli.stages import sidecar
from veo_cli.stages.video_encode import png_folder

JobState = Literal["done", "running", "failed", "stopped", "waiting"]


_HALF_WRITTEN = re.compile(r"-[0-9a-f]{8}(\.mp4|\.json|_frames)\.part$")  # names from the default template


@dataclass(frozen=True)
class JobStatus:
    """state "stopped": begun, and ended by a signal, the deadline, a kill or a reboot; it goes on in the next run.
    "waiting": asked for in the last run and not begun.
    """

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
    """All jobs known from the folder: done ones first, then those that were begun, then those that wait.

    Known are the clips below the folder, wherever they lie, and the jobs of the last run, also those whose `output`
    is elsewhere. A record that says "running" is believed only while some process holds the folder's lock.
    """
    busy = is_locked(output_folder)
    queue = read_queue(output_folder)
    done = _done(output_folder, queue)
    records = [record for record in read_records(output_folder) if record.job_id not in done]
    begun = [_begun(record, output_folder, busy) for record in records]
    known = set(done) | {job.job_id for job in begun}
    reason = "its turn has not come" if busy else "the last run ended before its turn"
    waiting = [
        JobStatus("waiting", _shown(Path(job.output), output_folder), job.job_id, reason)
        for job in queue
        if job.job_id not in known
    ]
    return [*done.values(), *begun, *waiting]


def leftovers(output_folder: Path) -> list[Leftover]:
    """Unfinished jobs' state, and half-written files of clips. Finished clips and sidecars are never listed, nor is
    anything in a folder that no run has written to.
    """
    state = output_folder / STATE_FOLDER
    if not state.is_dir():
        return []
    records = {record.job_id: record for record in read_records(output_folder)}
    found = []
    for folder in sorted(path for path in state.iterdir() if path.is_dir()):
        record = records.get(folder.name)
        why = f"{record.state} job: {record.prompt[:60]}" if record else "state of an unknown or damaged job"
        found.append(Leftover(folder, why, _size(folder)))
    # By their names, or because a job we know of writes there: other programs have .part files as well.
    parts = [path for path in _below(output_folder, ".part") if _HALF_WRITTEN.search(path.name)]
    outputs = [record.output for record in records.values()]
    outputs += [job.output for job in read_queue(output_folder)]
    parts += [part for output in outputs for part in parts_of(Path(output)) if part.exists()]
    for part in {os.path.abspath(part): part for part in parts}.values():
        found.append(Leftover(part, "a half-written file", _size(part)))
    return found


def remove(paths: Iterable[Path]) -> None:
    """Remove files and folders, those that are there."""
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def parts_of(clip: Path) -> tuple[Path, ...]:
    """The temporary names under which a clip, its sidecar and its pictures are written."""
    finals = (clip, sidecar.path_of(clip), png_folder(clip))
    return tuple(final.with_name(final.name + ".part") for final in finals)


def _done(output_folder: Path, queue: list[QueuedJob]) -> dict[str, JobStatus]:
    elsewhere = [Path(job.output) for job in queue]
    records = [*_below(output_folder, ".json"), *map(sidecar.path_of, elsewhere)]
    found = {}
    for path in records:
        clip = path.with_suffix(".mp4")
        try:
            job_id = sidecar.read(path).job_id if clip.is_file() else None
        except VeoError:
            continue
        if job_id is not None and job_id not in found:
            found[job_id] = JobStatus("done", _shown(clip, output_folder), job_id)
    return found


def _below(output_folder: Path, suffix: str) -> Iterator[Path]:
    """Files and folders of that suffix in the output folder and those below it, but not veo's state."""
    for folder, folders, names in os.walk(output_folder):
        folders[:] = sorted(name for name in folders if name != STATE_FOLDER)
        for name in sorted(names + folders):
            if name.endswith(suffix):
                yield Path(folder) / name


def _begun(record: JobRecord, output_folder: Path, busy: bool) -> JobStatus:
    output = _shown(Path(record.output), output_folder)
    if record.state == "running" and not busy:
        return JobStatus("stopped", output, record.job_id, "the run was killed", "")
    reason = record.message or ("a signal or the deadline" if record.state == "stopped" else "")
    return JobStatus(record.state, output, record.job_id, reason, record.kept)


def _shown(clip: Path, output_folder: Path) -> str:
    """A path below the folder as the user wrote the folder; another as it is."""
    try:
        return str(output_folder / Path(os.path.abspath(clip)).relative_to(os.path.abspath(output_folder)))
    except ValueError:
        return str(clip)


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(os.path.getsize(Path(folder) / name) for folder, _, names in os.walk(path) for name in names)
