"""The one place that catches: every way a command can end becomes a message on stderr and an exit code."""

from __future__ import annotations

import contextlib
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING

from veo_cli.errors import as_expected
from veo_cli.exit_codes import ExitCode
from veo_cli.terminal import TRACEBACKS, Terminal, keep_standard_streams

if TYPE_CHECKING:
    from typer import Context, TyperException


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one `veo` command line (default: the process's own) and return its exit code."""
    keep_standard_streams()
    terminal = Terminal()
    return terminal.finish(int(_run(sys.argv[1:] if arguments is None else arguments, terminal)))


def _run(arguments: Sequence[str], terminal: Terminal) -> int:
    interrupts = _noted_interrupts()
    try:
        import typer
    except KeyboardInterrupt:
        terminal.error("interrupted")
        return ExitCode.INTERRUPTED

    try:
        from veo_cli.cli import app

        command = typer.main.get_command(app)
        code = command.main(list(arguments), prog_name="veo", standalone_mode=False, obj=terminal)
        if code == ExitCode.INTERRUPTED and interrupts:  # Typer makes it an exit code, without a word
            terminal.error("interrupted")
        return code if isinstance(code, int) else ExitCode.OK
    except typer.TyperException as error:
        return _usage_error(error, terminal)
    except typer.Abort:
        terminal.error("no answer: nothing was done")
        return ExitCode.USAGE
    except KeyboardInterrupt:
        terminal.error("interrupted")
        return ExitCode.INTERRUPTED
    except SystemExit as stop:  # Typer's own answer to a reader of --help that went away
        return stop.code if isinstance(stop.code, int) else ExitCode.OK
    except Exception as error:
        expected = as_expected(error)
        if expected is None:
            return _bug(error, terminal)
        if terminal.verbosity >= TRACEBACKS:
            terminal.raw("".join(traceback.format_exception(error)))
        terminal.veo_error(expected)
        return expected.exit_code


def _noted_interrupts() -> list[int]:
    """A list that grows with each SIGINT that becomes a KeyboardInterrupt, until a run brings its own handler."""
    noted: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it may be ignored, as under nohup
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, interrupt)
    return noted


def _usage_error(error: TyperException, terminal: Terminal) -> int:
    context: Context | None = getattr(error, "ctx", None)
    if context is None:
        terminal.error(error.format_message())
    elif type(error).__name__ == "NoArgsIsHelpError":  # its message is the help text
        terminal.raw(error.format_message())
    else:
        terminal.error(error.format_message())
        terminal.raw(f"  see `{context.command_path} --help`")
    return ExitCode.USAGE


def _bug(error: Exception, terminal: Terminal) -> int:
    terminal.raw("".join(traceback.format_exception(error)))
    terminal.error(f"this is a bug in veo: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
    terminal.raw("  please report it with the lines above and what `veo doctor --json` prints")
    return ExitCode.BUG
