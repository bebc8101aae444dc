"""The exception tree. Every error a user can cause or meet is one of these; anything else is a bug (exit 3).

An error says what is wrong, where, why, and the command or edit that helps.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from veo_cli.exit_codes import ExitCode

NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
NO_SPACE_WHAT = "no space left on the disk"
NO_SPACE_FIX = "free some space and run the same command again"


@dataclass(frozen=True)
class Fault:
    """One finding: `where` is `file:line:column`, a path or an option; `fix` is the edit or command that helps."""

    what: str
    where: str = ""
    why: str = ""
    fix: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        if self.why:
            text += f" ({self.why})"
        if self.fix:
            text += f"\n  {self.fix}"
        return text


class VeoError(Exception):
    """Base of all expected errors. `code` is stable and goes into events; `kept` says what work is safe on disk."""

    exit_code: ClassVar[ExitCode] = ExitCode.JOB_FAILED
    code: ClassVar[str] = "error"
    transient: ClassVar[bool] = False  # whether trying the same job again may help

    def __init__(self, what: str, *, where: str = "", why: str = "", fix: str = "", kept: str = "") -> None:
        self.fault = Fault(what, where, why, fix)
        self.kept = kept
        super().__init__(str(self.fault))

    @property
    def faults(self) -> tuple[Fault, ...]:
        return (self.fault,)


class SpecificationError(VeoError):
    """A prompt file, preset, option or combination of them is wrong. All faults found are carried together."""

    exit_code = ExitCode.USAGE
    code = "specification"

    def __init__(self, faults: Sequence[Fault] | Fault) -> None:
        self._faults = (faults,) if isinstance(faults, Fault) else tuple(faults)
        Exception.__init__(self, "\n".join(str(fault) for fault in self._faults))
        self.fault = self._faults[0]
        self.kept = ""

    @property
    def faults(self) -> tuple[Fault, ...]:
        return self._faults


class EnvironmentFault(VeoError):
    """The machine lacks something: no job can run until it is mended."""

    exit_code = ExitCode.ENVIRONMENT
    code = "environment"


class FfmpegMissing(EnvironmentFault):
    """No ffmpeg, or none with a working encoder of the codec asked for."""

    code = "ffmpeg_missing"


class DiskFull(EnvironmentFault):
    """ENOSPC or EDQUOT while writing a clip, a checkpoint or a frame spool."""

    code = "disk_full"


class ModelMissing(EnvironmentFault):
    """The model is not on this machine, is not a model folder, or is damaged (truncated file, missing shard)."""

    code = "model_missing"


class OutOfMemory(EnvironmentFault):
    """Device or host memory ran out. In a batch one such job is a failed job, not the end of the run."""

    code = "out_of_memory"


class FolderLocked(EnvironmentFault):
    """Another process is writing to this output folder."""

    code = "folder_locked"


class JobFailed(VeoError):
    """One job failed; others are not touched."""

    code = "job_failed"


class EncodeFailed(JobFailed):
    """ffmpeg died, hung or refused; its own reason is in `why`."""

    code = "encode_failed"
    transient = True


class QualityGateFailed(JobFailed):
    """A finished sample or file is not what was asked: NaN, one colour, frozen, wrong size, count or tags."""

    code = "quality_gate"


class Bug(JobFailed):
    """Something in veo or a library broke that nobody foresaw, while a job ran; `why` has the traceback."""

    exit_code = ExitCode.BUG
    code = "bug"


def as_expected(error: BaseException) -> VeoError | None:
    """The project's error for what the machine, rather than veo, did wrong; None for anything else."""
    if isinstance(error, VeoError):
        return error
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or _is_torchs(error):
        why = str(error).partition("\n")[0]
        return OutOfMemory(
            "out of memory", why=why, fix="ask for a smaller clip, or close what else uses the memory"
        )
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        where = str(error.filename or "")
        return DiskFull(NO_SPACE_WHAT, where=where, fix=NO_SPACE_FIX)
    return None


def _is_torchs(error: BaseException) -> bool:
    """Whether torch could not allocate on a CPU; on a GPU it raises an OutOfMemoryError of its own."""
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


class Stopped(VeoError):
    """Base of the resumable stops."""


class Interrupted(Stopped):
    exit_code = ExitCode.INTERRUPTED
    code = "interrupted"


class Terminated(Stopped):
    exit_code = ExitCode.TERMINATED
    code = "terminated"


class DeadlineReached(Stopped):
    exit_code = ExitCode.DEADLINE
    code = "deadline"
