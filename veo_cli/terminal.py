r"""The one place from which veo writes to stdout and stderr.

stdout carries results (a clip's path, a table, JSON lines); stderr carries everything else. A reader that
goes away (`veo ... | head`) is met with silence, not an error. Only stderr on a TTY is given control codes, and only
veo's own: those in a prompt or a file name are written out (`\x1b`). Results are not touched.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
import threading
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, Protocol, TextIO

from veo_cli.errors import Fault, VeoError

QUIET, NORMAL, VERBOSE, TRACEBACKS = -1, 0, 1, 2
LEAST_CELLS = 20  # of a column that gives way
Style = Literal["bold", "dim", "red", "yellow", "green"]
_SGR = {"bold": "1", "dim": "2", "red": "1;31", "yellow": "33", "green": "32"}
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_CONTROL_BUT_LAYOUT = {code: shown for code, shown in _CONTROL.items() if chr(code) not in "\n\t"}
_GONE = {errno.EPIPE, errno.EBADF, errno.EIO}  # EIO: the terminal of a background run was closed


class LiveDisplay(Protocol):
    """Something drawn in place at the bottom of the terminal, taken away while a line is written."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Terminal:
    """Both output streams.

    verbosity: -1 errors and warnings only, 0 usual, 1 more, 2 tracebacks of expected errors too.
    """

    def __init__(self, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr
        for stream in (self._stdout, self._stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                # File names that are no valid text go out as the bytes they are; other locales get \uXXXX.
                is_utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
                reconfigure(errors="surrogateescape" if is_utf8 else "backslashreplace")
        self.verbosity = NORMAL
        self.json = False
        self.stdout_fault = ""  # why results could not be written, if so
        self.is_live = self._stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._has_color = self.is_live and not os.environ.get("NO_COLOR")
        self._display: LiveDisplay | None = None
        self._lock = (
            threading.RLock()
        )  # notes come from other threads, too; a lost stdout is told within a write

    @property
    def stderr(self) -> TextIO:
        """For a live display alone."""
        return self._stderr

    @property
    def has_color(self) -> bool:
        return self._has_color

    # results

    def result(self, line: str) -> None:
        """One line of what was asked for, on stdout, flushed so that a pipe's reader has it at once."""
        with self._display_aside():
            try:
                self._stdout.write(line + "\n")
                self._stdout.flush()
            except OSError as error:
                self._lose_stdout(error)

    def result_json(self, value: Mapping[str, Any]) -> None:
        """One JSON object on one line of stdout."""
        self.result(json.dumps(value, ensure_ascii=False, default=str, allow_nan=False))

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], *, shrink: str = "") -> None:
        """Aligned columns on stdout, without trailing spaces. Widths are in terminal cells.

        A table is for people: control characters are written out, so that a row is always one line. shrink: the
        column whose cells are cut, to no less than LEAST_CELLS, where stdout is a terminal too narrow for them.
        """
        table = [list(header), *([visible(str(cell)) for cell in row] for row in rows)]
        widths = [max(_cells(row[column]) for row in table) for column in range(len(header))]
        if shrink and self._stdout.isatty():
            column = header.index(shrink)
            too_wide = sum(widths) + 2 * (len(widths) - 1) - shutil.get_terminal_size().columns
            if too_wide > 0:
                widths[column] = min(widths[column], max(LEAST_CELLS, widths[column] - too_wide))
                for row in table:
                    row[column] = shorten(row[column], widths[column])
        for row in table:
            self.result(
                "  ".join(_pad(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
            )

    # everything else

    def note(self, text: str) -> None:
        """Progress and remarks, unless -q."""
        if self.verbosity > QUIET:
            self._say(_without_control(text))

    def detail(self, text: str) -> None:
        """What only -v shows."""
        if self.verbosity >= VERBOSE:
            self._say(self.styled(_without_control(text), "dim"))

    def warning(self, text: str) -> None:
        self._say(f"{self.styled('warning:', 'yellow')} {_without_control(text)}")

    def error(self, text: str) -> None:
        self._say(f"{self.styled('error:', 'red')} {_without_control(text)}")

    def fault(self, fault: Fault) -> None:
        """What, where, why, and on a line of its own what helps."""
        self.error(str(replace(fault, where=visible(fault.where))))

    def veo_error(self, error: VeoError) -> None:
        """All findings of one error, then what is safe on disk."""
        for fault in error.faults:
            self.fault(fault)
        if error.kept:
            self._say(f"  kept: {_without_control(error.kept)}")

    def raw(self, text: str) -> None:
        """A traceback or a usage text, without a word in front."""
        self._say(_without_control(text.rstrip("\n")))

    def styled(self, text: str, style: Style) -> str:
        return f"\x1b[{_SGR[style]}m{text}\x1b[0m" if self._has_color else text

    @contextmanager
    def displaying(self, display: LiveDisplay) -> Iterator[None]:
        """Show `display` below the lines written inside the block."""
        self._display = display
        display.start()
        try:
            yield
        finally:
            with self._lock:
                self._display = None
                display.stop()

    def finish(self, exit_code: int) -> int:
        """Flush; the exit code, which is 4 if results were lost (a full disk behind stdout)."""
        for stream in (self._stdout, self._stderr):
            try:
                stream.flush()
            except OSError as error:
                self._lose_stdout(error) if stream is self._stdout else _to_devnull(stream)
        if self.stdout_fault and exit_code == 0:
            return 4
        return exit_code

    def _say(self, text: str) -> None:
        with self._display_aside():
            try:
                self._stderr.write(text + "\n")
                self._stderr.flush()
            except OSError:
                _to_devnull(self._stderr)

    def _lose_stdout(self, error: OSError) -> None:
        _to_devnull(self._stdout)
        if error.errno not in _GONE and not self.stdout_fault:
            self.stdout_fault = error.strerror or str(error)
            self.error(
                f"cannot write to standard output ({self.stdout_fault}); results are not shown from here on"
            )

    @contextmanager
    def _display_aside(self) -> Iterator[None]:
        """Take the live display away while something is written, and put it back below; one thread at a time."""
        with self._lock:
            display, self._display = self._display, None
            if display is not None:
                display.stop()
            try:
                yield
            finally:
                if display is not None:
                    display.start()
                    self._display = display


def keep_standard_streams() -> None:
    """Point closed standard streams (`>&-`) at /dev/null: no file of ours may be opened as number 0 to 2."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if descriptor == 0 else os.O_WRONLY)
    sys.stdin = sys.stdin or os.fdopen(0, "r", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def visible(text: str) -> str:
    """The text on one line, every C0 and C1 control character written out: a newline as `\\x0a`."""
    return text.translate(_CONTROL)


def shorten(text: str, max_cells: int) -> str:
    """The text on one line without control characters, cut to at most `max_cells` terminal cells, the cut marked."""
    line = visible(" ".join(text.split()))
    if _cells(line) <= max_cells:
        return line
    kept = ""
    for character in line:
        if _cells(kept + character) > max_cells - 1:
            break
        kept += character
    return kept.rstrip() + "…"


def _without_control(text: str) -> str:
    """`visible`, of a text that may have several lines."""
    return text.translate(_CONTROL_BUT_LAYOUT)


def _to_devnull(stream: TextIO) -> None:
    """Let further writes to a stream whose reader has gone succeed, the interpreter's last flush included."""
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, stream.fileno())
        os.close(devnull)


def _cells(text: str) -> int:
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _pad(text: str, cells: int) -> str:
    return text + " " * (cells - _cells(text))
