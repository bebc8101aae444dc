"""Every way a command can end, as a message and an exit code."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from veo_cli import cli, error_boundary
from veo_cli.errors import DiskFull, EncodeFailed, FolderLocked, OutOfMemory, as_expected
from veo_cli.exit_codes import ExitCode


def raising(error: BaseException) -> Callable[..., None]:
    def body(*arguments: object, **options: object) -> None:
        raise error

    return body


class OutOfMemoryError(RuntimeError):
    """torch's, by its name."""


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (EncodeFailed("ffmpeg died", kept="the latents"), 1, "error: ffmpeg died\n  kept: the latents\n"),
        (
            FolderLocked("pid 7 on host is writing here", where="clips"),
            4,
            "error: clips: pid 7 on host is writing here\n",
        ),
        (MemoryError(), 4, "error: out of memory\n"),
        (
            OutOfMemoryError("CUDA out of memory. Tried\nmore"),
            4,
            "error: out of memory (CUDA out of memory. Tried)\n",
        ),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a.mp4"),
            4,
            "error: a.mp4: no space left on the disk\n",
        ),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), 4, "error: no space left on the disk\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_expected_ends(
    error: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "_resolve", raising(error))
    assert error_boundary.main(["plan", "a.yaml"]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(said)
    assert "Traceback" not in shown.err


def test_two_v_show_the_traceback_of_an_expected_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "_resolve", raising(EncodeFailed("ffmpeg died")))
    assert error_boundary.main(["plan", "a.yaml", "-vv"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last):\n")
    assert said.endswith("error: ffmpeg died\n")


@pytest.mark.parametrize(
    "error", [ValueError("two\nlines"), OSError(errno.EACCES, "denied"), AssertionError()]
)
def test_anything_else_is_a_bug_with_its_traceback(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "_resolve", raising(error))
    assert error_boundary.main(["plan", "a.yaml"]) == ExitCode.BUG
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" in shown.err
    assert f"error: this is a bug in veo: {type(error).__name__}" in shown.err
    assert "veo doctor --json" in shown.err


def test_as_expected_keeps_the_classes() -> None:
    assert isinstance(as_expected(MemoryError()), OutOfMemory)
    assert isinstance(as_expected(OSError(errno.ENOSPC, "x")), DiskFull)
    assert isinstance(as_expected(RuntimeError("DefaultCPUAllocator: can't allocate memory")), OutOfMemory)
    assert as_expected(RuntimeError()) is None
