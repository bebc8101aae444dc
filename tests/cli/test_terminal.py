"""The output contract: results on stdout, the rest on stderr, control codes on a TTY alone, lost readers."""

from __future__ import annotations

import errno
import io
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import VEO, environment
from veo_cli.errors import EncodeFailed, Fault, SpecificationError
from veo_cli.terminal import QUIET, TRACEBACKS, VERBOSE, Terminal, shorten


class FakeTty(io.StringIO):
    def isatty(self) -> bool:
        return True


class BrokenStream(io.StringIO):
    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def write(self, text: str) -> int:
        raise OSError(self._number, os.strerror(self._number))


def make(stderr: io.StringIO | None = None) -> tuple[Terminal, io.StringIO, io.StringIO]:
    stdout, stderr = io.StringIO(), stderr or io.StringIO()
    return Terminal(stdout, stderr), stdout, stderr


@pytest.mark.parametrize(
    ("verbosity", "said"),
    [
        (QUIET, ["W", "E"]),
        (0, ["n", "W", "E"]),
        (VERBOSE, ["n", "d", "W", "E"]),
        (TRACEBACKS, ["n", "d", "W", "E"]),
    ],
)
def test_verbosity_and_streams(verbosity: int, said: list[str]) -> None:
    terminal, stdout, stderr = make()
    terminal.verbosity = verbosity
    terminal.note("n")
    terminal.detail("d")
    terminal.warning("W")
    terminal.error("E")
    terminal.result("clip.mp4")
    assert [
        line.removeprefix("warning: ").removeprefix("error: ") for line in stderr.getvalue().split("\n")[:-1]
    ] == said
    assert stdout.getvalue() == "clip.mp4\n"


def test_an_error_says_what_where_why_the_fix_and_what_is_kept() -> None:
    terminal, stdout, stderr = make()
    terminal.veo_error(
        EncodeFailed("ffmpeg died", where="a.mp4", why="killed", fix="run it again", kept="12 of 24 steps")
    )
    assert stderr.getvalue() == "error: a.mp4: ffmpeg died (killed)\n  run it again\n  kept: 12 of 24 steps\n"
    assert stdout.getvalue() == ""


def test_all_faults_of_one_error_are_shown() -> None:
    terminal, _, stderr = make()
    terminal.veo_error(
        SpecificationError([Fault("one", where="a.yaml:1:1"), Fault("two", where="b.yaml:2:3")])
    )
    assert stderr.getvalue() == "error: a.yaml:1:1: one\nerror: b.yaml:2:3: two\n"


def test_colour_is_for_a_tty_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def shown() -> str:
        terminal, stdout, stderr = make(FakeTty())
        terminal.error("E")
        terminal.result("R")
        assert stdout.getvalue() == "R\n"
        return stderr.getvalue()

    assert "\x1b[" in shown()
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown() == "error: E\n"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert shown() == "error: E\n"


HOSTILE = "a\x1b[31m\x07\x9b2J\r\x7fz"
SHOWN = r"a\x1b[31m\x07\x9b2J\x0d\x7fz"


def test_control_characters_from_outside_are_written_out() -> None:
    terminal, stdout, stderr = make()
    terminal.verbosity = VERBOSE
    for say in (terminal.note, terminal.detail, terminal.warning, terminal.error, terminal.raw):
        say(f"{HOSTILE}\n\tmore")
    terminal.veo_error(EncodeFailed("no", where=f"new\nline{HOSTILE}", why=HOSTILE, kept=HOSTILE))
    assert stderr.getvalue() == (
        "".join(f"{word}{SHOWN}\n\tmore\n" for word in ("", "", "warning: ", "error: ", ""))
        + rf"error: new\x0aline{SHOWN}: no ({SHOWN})"
        + f"\n  kept: {SHOWN}\n"
    )
    terminal.table(["A", "B"], [["x\ny", HOSTILE]])
    assert stdout.getvalue() == f"A       B\nx\\x0ay  {SHOWN}\n"


def test_results_are_exact() -> None:
    terminal, stdout, _ = make()
    terminal.result(HOSTILE)
    assert stdout.getvalue() == HOSTILE + "\n"


def test_veos_own_colour_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, _, stderr = make(FakeTty())
    terminal.error("\x1b[2J")
    assert stderr.getvalue() == "\x1b[1;31merror:\x1b[0m \\x1b[2J\n"


def test_json_is_one_object_a_line_and_keeps_letters() -> None:
    terminal, stdout, _ = make()
    terminal.result_json({"prompt": "红色的\n船", "path": Path("a")})
    assert stdout.getvalue() == '{"prompt": "红色的\\n船", "path": "a"}\n'


def test_columns_line_up_with_wide_letters() -> None:
    terminal, stdout, _ = make()
    terminal.table(["A", "B"], [["红船", "1"], ["boat", "2"], ["é" + "e\u0301", ""]])
    assert stdout.getvalue() == "A     B\n红船  1\nboat  2\née\u0301\n".replace("A     B", "A     B")


def test_a_column_gives_way_to_a_narrow_terminal_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    rows = [["failed", "out of memory: " + "红" * 40, "24 steps"], ["done", "", ""]]

    def lines(stdout: io.StringIO) -> list[str]:
        Terminal(stdout, io.StringIO()).table(["STATE", "REASON", "KEPT"], rows, shrink="REASON")
        return stdout.getvalue().splitlines()

    assert rows[0][1] in lines(io.StringIO())[1]
    cut = "failed  out of memory: " + "红" * 8 + "…"
    assert lines(FakeTty()) == ["STATE   REASON" + " " * 28 + "KEPT", f"{cut}  24 steps", "done"]
    monkeypatch.setenv("COLUMNS", "10")
    assert lines(FakeTty())[1] == "failed  out of memory: 红红…  24 steps"


@pytest.mark.parametrize(
    ("text", "cells", "expected"),
    [
        ("short", 10, "short"),
        ("a  b\nc", 10, "a b c"),
        ("0123456789", 5, "0123…"),
        ("红红红", 4, "红…"),
        ("", 5, ""),
        ("a\x1b[31m\nb\x07", 20, r"a\x1b[31m b\x07"),
    ],
)
def test_shorten(text: str, cells: int, expected: str) -> None:
    assert shorten(text, cells) == expected


def test_a_full_disk_behind_stdout_is_said_once_and_is_exit_4() -> None:
    stderr = io.StringIO()
    terminal = Terminal(BrokenStream(errno.ENOSPC), stderr)
    terminal.result("a.mp4")
    terminal.result("b.mp4")
    assert stderr.getvalue().count("error: cannot write to standard output (No space left on device)") == 1
    assert terminal.finish(0) == 4
    assert terminal.finish(1) == 1


def test_a_reader_that_went_away_is_met_with_silence() -> None:
    stderr = io.StringIO()
    terminal = Terminal(BrokenStream(errno.EPIPE), stderr)
    terminal.result("a.mp4")
    assert stderr.getvalue() == ""
    assert terminal.finish(0) == 0


def run(arguments: list[str], **streams: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(VEO), *arguments], env=environment(), timeout=60, **streams)


def test_closed_pipe_of_a_real_process() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run(["presets"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_closed_pipe_while_showing_help() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run(["--help"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert done.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_stdout_of_a_real_process() -> None:
    with open("/dev/full", "wb") as full:
        done = run(["presets"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 4
    assert done.stderr.startswith(b"error: cannot write to standard output (No space left on device)")


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_of_a_real_process(closing: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" presets {closing}', str(VEO)], capture_output=True, env=environment()
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert bool(done.stdout) == (">&-" not in closing.replace("2>&-", ""))


def test_no_control_codes_on_a_tty_with_no_color() -> None:
    main, child = pty.openpty()
    done = subprocess.run(
        [str(VEO), "presets", "nosuch"],
        stdout=subprocess.PIPE,
        stderr=child,
        env=environment({"TERM": "xterm", "NO_COLOR": "1"}),
    )
    os.close(child)
    said = os.read(main, 65536)
    os.close(main)
    assert done.returncode == 2
    assert said.startswith(b"error: ")
    assert b"\x1b" not in said


def test_file_names_that_are_no_text_come_out_as_the_bytes_they_are() -> None:
    code = (
        "import os\nfrom veo_cli.terminal import Terminal\n"
        "Terminal().result(os.fsdecode(bytes([0x61, 0xff, 0x62])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=environment({"LC_ALL": "C.UTF-8"})
    )
    assert done.stdout == b"a\xffb\n"


def test_letters_that_a_locale_lacks_do_not_stop_veo() -> None:
    code = "from veo_cli.terminal import Terminal\nTerminal().result('\u7ea2 \u00e9')\n"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=environment({"PYTHONIOENCODING": "latin-1"})
    )
    assert done.stdout == b"\\u7ea2 \xe9\n"
