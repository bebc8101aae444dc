"""One writer per folder, on file systems with and without flock."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from veo_cli.errors import EnvironmentFault, FolderLocked
from veo_cli.folder_lock import folder_lock, is_locked


def with_flock() -> None:
    pass


def without_flock() -> None:
    """As on some network file systems."""
    import fcntl

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    fcntl.flock = flock


def hold(folder: Path, file_system: Callable[[], None], held: Any) -> None:
    file_system()
    with folder_lock(folder, wait=False):
        held.set()
        time.sleep(60)


def try_it(folder: Path, file_system: Callable[[], None], wait: bool, answers: Any) -> None:
    file_system()
    begin = time.monotonic()
    try:
        with folder_lock(folder, wait=wait):
            answers.put(("got it", time.monotonic() - begin))
    except FolderLocked as error:
        answers.put((str(error), time.monotonic() - begin))


@pytest.mark.parametrize("file_system", [with_flock, without_flock])
def test_one_holder_and_a_killed_one_does_not_block_the_next(
    tmp_path: Path, file_system: Callable[[], None]
) -> None:
    context = multiprocessing.get_context("spawn")
    held, answers = context.Event(), context.SimpleQueue()
    holder = context.Process(target=hold, args=(tmp_path, file_system, held))
    holder.start()
    assert held.wait(60)

    other = context.Process(target=try_it, args=(tmp_path, file_system, False, answers))
    other.start()
    other.join()
    said, seconds = answers.get()
    assert f"pid {holder.pid} on {socket.gethostname()}" in said
    assert "--wait" in said
    assert seconds < 3

    waiting = context.Process(target=try_it, args=(tmp_path, file_system, True, answers))
    waiting.start()
    time.sleep(1)
    assert waiting.is_alive()
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    waiting.join(20)
    assert answers.get()[0] == "got it"


def test_the_folder_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), folder_lock(tmp_path, wait=False):
        raise ZeroDivisionError
    assert not is_locked(tmp_path)
    assert not (tmp_path / ".veo" / "lock.holder").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match="--output"), folder_lock(tmp_path / "file", wait=False):
        pass
