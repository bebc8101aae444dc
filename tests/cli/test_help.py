"""Help: quick, complete, 100 columns, and the generated page current."""

from __future__ import annotations

import json
import resource
import subprocess

import pytest
import typer

from tests.cli.command import VEO, environment, python, veo
from veo_cli import docs_cli
from veo_cli.cli import app

GROUP = typer.main.get_command(app)
COMMANDS = sorted(GROUP.commands)
CPU_LIMIT_S = 0.3
HEAVY = ("torch", "cupy", "numpy", "diffusers", "transformers", "pydantic", "rich")


def cpu_seconds(*arguments: str) -> float:
    """User and system time of one run of the command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(VEO), *arguments], stdout=subprocess.DEVNULL, check=True, env=environment())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.mark.parametrize("arguments", [["--help"], ["presets"]], ids=" ".join)
def test_is_quick(arguments: list[str]) -> None:
    # Other work on the machine only ever makes a run look slower, so the quickest of several counts.
    seconds: list[float] = []
    while not seconds or (min(seconds) >= CPU_LIMIT_S and len(seconds) < 20):
        seconds.append(cpu_seconds(*arguments))
    assert min(seconds) < CPU_LIMIT_S


@pytest.mark.parametrize("arguments", [["--help"], ["presets"]], ids=" ".join)
def test_imports_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
import json, sys
from veo_cli import error_boundary
code = error_boundary.main({arguments!r})
print(json.dumps([code, [name for name in {HEAVY!r} if name in sys.modules]]), file=sys.stderr)
"""
    done = python(code)
    assert json.loads(done.stderr.splitlines()[-1]) == [0, []]


def help_text(command: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    context = GROUP.make_context("veo", ["render"], resilient_parsing=True)
    if not command:
        return GROUP.get_help(context)
    found = GROUP.commands[command]
    return found.get_help(found.make_context(command, [], parent=context, resilient_parsing=True))


@pytest.mark.parametrize("columns", [100, 200])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_100_columns(command: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(map(len, help_text(command, columns, monkeypatch).splitlines())) <= 100


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = help_text(command, 100, monkeypatch)
    examples = text.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert examples
    assert all(f"veo {command}" in line for line in examples)


def test_help_goes_to_stdout_without_control_codes() -> None:
    done = veo("render", "--help", env={"TERM": "xterm-256color"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: veo render")
    assert "\x1b" not in done.stdout


def test_short_help_is_a_whole_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = help_text("", 100, monkeypatch).partition("Commands:\n")[2].splitlines()
    assert sorted(line.split()[0] for line in lines) == COMMANDS
    assert all(line.endswith(".") and not line.endswith("...") for line in lines)


def test_all_options_have_help() -> None:
    for command in GROUP.commands.values():
        for parameter in command.params:
            assert parameter.help, f"{command.name} {parameter.name}"


def test_check_looks_at_the_generated_page() -> None:
    makefile = (docs_cli.PAGE.parents[1] / "Makefile").read_text(encoding="utf-8")
    check = makefile.partition("\ncheck:")[2].partition("\n\n")[0]
    assert "veo_cli.docs_cli --check" in check


def test_cli_page_is_current() -> None:
    assert docs_cli.PAGE.read_text(encoding="utf-8") == docs_cli.page(), "run `make docs`"


def test_version() -> None:
    from veo_cli import __version__

    assert veo("--version").stdout == f"veo {__version__}\n"


def test_completion_script_is_offered() -> None:
    done = veo("--show-completion", "bash", env={"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
    assert "_VEO_COMPLETE=complete_bash" in done.stdout


def test_completion_completes_commands() -> None:
    done = veo(env={"_VEO_COMPLETE": "complete_bash", "COMP_WORDS": "veo re", "COMP_CWORD": "1"})
    assert done.stdout.split() == ["render"]
