"""Real `veo` processes that start at once: forked from a server which has the heavy packages imported already.

They can be killed, signalled and waited for like any other; what they print is in files. `before` is a function (found
by pickle, so: at the top of a module) that runs in the child first, to inject a fault.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PRELOAD = ("tests.forked_veo_preload",)


@dataclass
class VeoProcess:
    process: Any
    stdout: Path
    stderr: Path

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    @property
    def running(self) -> bool:
        return bool(self.process.is_alive())

    def wait(self, timeout_s: float = 120) -> int:
        """The exit code, or minus the signal that ended it."""
        self.process.join(timeout_s)
        assert self.process.exitcode is not None, f"still running after {timeout_s} s"
        return int(self.process.exitcode)

    def wait_for(self, reached: Callable[[], bool], timeout_s: float = 60) -> None:
        """Until `reached` says so; an early end of the process is a failure."""
        give_up = time.monotonic() + timeout_s
        while not reached():
            assert self.running, (
                f"ended early with {self.process.exitcode}: {self.stderr.read_text()[-2000:]}"
            )
            assert time.monotonic() < give_up, f"not reached within {timeout_s} s"
            time.sleep(0.002)


def start(
    arguments: Sequence[str],
    folder: Path,
    *,
    before: Callable[[], None] | None = None,
    cwd: Path | None = None,
) -> VeoProcess:
    """Start `veo ARGUMENTS`; its stdout and stderr go to files in `folder`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOAD))
    number = len(list(folder.glob("*.stdout")))
    stdout, stderr = folder / f"{number}.stdout", folder / f"{number}.stderr"
    stdout.touch()
    process = context.Process(target=_child, args=(list(arguments), str(stdout), str(stderr), before, cwd))
    process.start()
    return VeoProcess(process, stdout, stderr)


def run(
    arguments: Sequence[str],
    folder: Path,
    *,
    before: Callable[[], None] | None = None,
    timeout_s: float = 120,
) -> tuple[int, str, str]:
    """Start, wait; (exit code, stdout, stderr)."""
    veo = start(arguments, folder, before=before)
    code = veo.wait(timeout_s)
    return code, veo.stdout.read_text(), veo.stderr.read_text()


def _child(
    arguments: list[str], stdout: str, stderr: str, before: Callable[[], None] | None, cwd: Path | None
) -> None:
    for path, descriptor in ((stdout, 1), (stderr, 2)):
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(target, descriptor)
        os.close(target)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    if cwd is not None:
        os.chdir(cwd)
    if before is not None:
        before()
    from veo_cli.__main__ import main

    sys.argv = ["veo", *arguments]
    code: object = 0
    try:
        main()
    except SystemExit as leave:
        code = leave.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)
