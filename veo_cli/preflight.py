"""What is checked before any model loads, so that a night's batch does not fail at three in the morning."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from veo_cli.byte_size import in_words
from veo_cli.errors import EnvironmentFault, Fault, SpecificationError, VeoError
from veo_cli.ffmpeg import choose_encoder
from veo_cli.journal import STATE_FOLDER
from veo_cli.plan import plan
from veo_cli.resolve import ResolvedJob
from veo_cli.stages import sidecar
from veo_cli.stages.video_encode import pixel_format, png_folder


class PreflightFailed(EnvironmentFault):
    """Several things this machine lacks, told together."""

    code = "preflight"

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._faults = tuple(faults)
        first = faults[0]
        super().__init__(first.what, where=first.where, why=first.why, fix=first.fix)

    @property
    def faults(self) -> tuple[Fault, ...]:
        return self._faults


def check(
    todo: Sequence[ResolvedJob], output_folder: Path, device: str, *, force: bool, make_folders: bool = True
) -> None:
    """Check the jobs still to be done: outputs are ours to write, folders writable, the disk has room for all of
    them, their encoders work, and the memory fits.

    make_folders False, for a plan: a folder that is not there is not made; the one it would be made in is tried.
    Raises SpecificationError if outputs would overwrite something, else PreflightFailed; each with all faults found.
    """
    taken = [] if force else [fault for job in todo if (fault := _taken(job, output_folder)) is not None]
    faults: dict[Fault, None] = {}
    for folder in dict.fromkeys([output_folder, *(resolved.output_path.parent for resolved in todo)]):
        faults |= dict.fromkeys(_unwritable(folder, make=make_folders))
    for encode in dict.fromkeys(resolved.job.encode for resolved in todo):
        try:
            choose_encoder(encode, pixel_format(encode))
        except VeoError as error:
            faults |= dict.fromkeys(error.faults)
    faults |= dict.fromkeys(_too_large(todo, output_folder, device))
    if taken:
        raise SpecificationError([*taken, *faults])
    if faults:
        raise PreflightFailed(list(faults))


def _taken(resolved: ResolvedJob, output_folder: Path) -> Fault | None:
    """A file under the clip's name that this job did not leave there."""
    path = resolved.output_path
    beside = sidecar.path_of(path)
    if (output_folder / STATE_FOLDER / resolved.job_id).is_dir():
        return None  # a run killed between clip and sidecar leaves its clip and its state folder
    is_ours = _is_sidecar(beside)
    pictures = png_folder(path)
    fix = "write over it with --force, or give the clip another name"
    if resolved.job.encode.frames == "png16" and pictures.exists() and not is_ours:
        return Fault(f"the clip's pictures would replace {pictures.name}", str(path), fix=fix)
    if beside.exists() and not is_ours:
        return Fault(f"the clip's sidecar would replace {beside.name}", str(path), fix=fix)
    if not path.exists():
        return None
    try:
        record = sidecar.read(path)
        if record.job_id == resolved.job_id:
            return None  # this job's own, damaged
        why = f"made by another job, seed {record.job.seed}"
    except VeoError:
        why = "no sidecar says that veo made it"
    return Fault("there is a file of that name already", str(path), why, fix)


def _is_sidecar(path: Path) -> bool:
    try:
        sidecar.read(path)
    except VeoError:
        return False
    return True


def _unwritable(folder: Path, *, make: bool) -> list[Fault]:
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
        with tempfile.TemporaryFile(dir=there):
            return []
    except OSError as error:
        what = f"cannot write into the folder: {error.strerror or error}"
        return [Fault(what, str(folder), fix="choose another with --output, or mend its permissions")]


def _too_large(todo: Sequence[ResolvedJob], output_folder: Path, device: str) -> list[Fault]:
    needs = plan(todo, output_folder, device=device)
    faults = []
    if needs.free_bytes is not None and needs.disk_bytes > needs.free_bytes:
        what = f"the clips need about {in_words(needs.disk_bytes)}, {in_words(needs.free_bytes)} are free"
        faults.append(Fault(what, str(output_folder), fix="free some space, or render fewer with --max-jobs"))
    memory = _memory_bytes() if device == "cpu" else None
    if memory is not None and needs.memory_bytes > memory:
        what = f"the largest job needs about {in_words(needs.memory_bytes)} of memory, the machine has {in_words(memory)}"
        faults.append(
            Fault(what, fix="see which:  veo plan FILE; then ask for a smaller size or fewer frames")
        )
    return faults


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
