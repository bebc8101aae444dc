"""One writer per output folder, whichever processes and hosts try."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from veo_cli.errors import EnvironmentFault, FolderLocked
from veo_cli.journal import STATE_FOLDER

_GRACE_S = 0.5  # `veo status` holds the lock for a moment to see whether it is free


@contextmanager
def folder_lock(output_folder: Path, *, wait: bool) -> Iterator[None]:
    """Be the only writer of an output folder. The kernel drops the lock of a process that died; on file systems
    without flock, filelock's O_EXCL marker stands in, and a dead holder on the same host is noticed.

    Raises FolderLocked, naming the holder's pid and host, unless `wait`; EnvironmentFault if the folder can't be made.
    """
    from filelock import FileLock, Timeout

    folder = output_folder / STATE_FOLDER
    lock = FileLock(folder / "lock")
    holder_file = folder / "lock.holder"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=-1 if wait else _GRACE_S)
    except Timeout:
        raise FolderLocked(
            f"{_holder(holder_file)} is writing to this folder",
            where=str(output_folder),
            fix="wait for it (--wait), or choose another folder with --output",
        ) from None
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write into the output folder: {error.strerror or error}",
            where=str(output_folder),
            fix="choose another with --output, or mend its permissions",
        ) from error
    try:
        _say_who(holder_file)
        yield
    finally:
        holder_file.unlink(missing_ok=True)
        lock.release()


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
    except OSError:  # a folder that we may only read: its owner's run cannot be seen
        return False
    lock.release()
    return False


def _holder(holder_file: Path) -> str:
    try:
        return holder_file.read_text().strip() or "another process"
    except OSError:
        return "another process"


def _say_who(holder_file: Path) -> None:
    """For the message of those who find the folder taken; a full disk is no reason not to work."""
    try:
        holder_file.write_text(f"pid {os.getpid()} on {socket.gethostname()}\n")
    except OSError:
        holder_file.unlink(missing_ok=True)
