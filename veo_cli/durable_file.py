"""Writing a file so that after any crash it is either the old one, or the new one whole."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shlex
from collections.abc import Callable
from pathlib import Path

from veo_cli.errors import NO_SPACE, NO_SPACE_FIX, NO_SPACE_WHAT, DiskFull, EnvironmentFault

MAGIC = b"VEOD1\n"
_DIGEST_BYTES = 32

# Replaced by tests to inject faults; the only three calls through which state reaches the disk.
write_all: Callable[[int, bytes], None]


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


write_all = _write_all
fsync = os.fsync
rename = os.replace


class Damaged(Exception):
    """The file's checksum does not match its bytes."""


def as_veo_error(error: OSError, path: Path) -> EnvironmentFault:
    """The project's error for a failed write to `path`."""
    if error.errno in NO_SPACE:
        return DiskFull(NO_SPACE_WHAT, where=str(path), fix=NO_SPACE_FIX)
    return EnvironmentFault(f"cannot write: {error.strerror or error}", where=str(path))


def require_place(path: Path) -> None:
    """Raise EnvironmentFault unless a file can be meant by `path`: no folder has that name, and there is one to hold it.

    For files that the user names in full: a folder made for a mistyped path would hide the mistake.
    """
    if path.is_dir():
        raise EnvironmentFault("cannot write: it is a folder", where=str(path), fix="name a file")
    if not path.parent.is_dir():
        raise EnvironmentFault(
            f"cannot write: there is no folder {path.parent}",
            where=str(path),
            fix=f"make it: mkdir -p {shlex.quote(str(path.parent))}",
        )


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut; folders that cannot be synced (some network ones) are left."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EROFS):
            raise
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write `data` to a temporary name beside `path`, fsync, rename over `path`, fsync the folder.

    sync False: for what may be lost in a power cut (never in a kill), and is not worth the wait. Raises DiskFull or
    EnvironmentFault; the old file is then untouched and the temporary one removed.
    """
    temporary = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            write_all(descriptor, data)
            if sync:
                fsync(descriptor)
        finally:
            os.close(descriptor)
        rename(temporary, path)
        if sync:
            sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):  # the error that matters is the first one
            temporary.unlink(missing_ok=True)
        raise as_veo_error(error, path) from error


def publish(part: Path, final: Path) -> None:
    """fsync a file that is complete under its temporary name and give it its final one."""
    try:
        descriptor = os.open(part, os.O_RDONLY)
        try:
            fsync(descriptor)
        finally:
            os.close(descriptor)
        rename(part, final)
        sync_folder(final.parent)
    except OSError as error:
        raise as_veo_error(error, final) from error


def replace_checked(path: Path, payload: bytes, *, sync: bool = True) -> None:
    """`replace`, with a SHA-256 of the payload in front, for `read_checked`."""
    replace(path, MAGIC + hashlib.sha256(payload).digest() + payload, sync=sync)


def read_checked(path: Path) -> bytes:
    """The payload of a file written by `replace_checked`. Raises Damaged, or FileNotFoundError."""
    data = path.read_bytes()
    head = len(MAGIC) + _DIGEST_BYTES
    payload = data[head:]
    if data[: len(MAGIC)] != MAGIC or hashlib.sha256(payload).digest() != data[len(MAGIC) : head]:
        raise Damaged(str(path))
    return payload
