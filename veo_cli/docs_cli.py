"""`python -m veo_cli.docs_cli [--check]`: docs/cli.md, made from the commands' own help texts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from veo_cli.cli import HELP_WIDTH, app
from veo_cli.terminal import Terminal

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
_HEAD = """# The `veo` command

Made from `veo --help` and `veo COMMAND --help` by `make docs`; edit the help texts in `veo_cli/cli.py` instead.
See also [prompt files](prompt-files.md) and [exit codes](exit-codes.md).
"""


def page() -> str:
    """The whole page. Every help text is set for HELP_WIDTH columns, whatever the terminal."""
    os.environ["COLUMNS"] = str(HELP_WIDTH)
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    root = group.make_context("veo", ["render"], resilient_parsing=True)
    parts = [_HEAD, _section("veo", group.get_help(root))]
    for name, command in group.commands.items():
        context = command.make_context(name, [], parent=root, resilient_parsing=True)
        parts.append(_section(f"veo {name}", command.get_help(context)))
    return "\n".join(parts)


def _section(title: str, help_text: str) -> str:
    lines = "\n".join(line.rstrip() for line in help_text.strip().splitlines())
    return f"## {title}\n\n```text\n{lines}\n```\n"


def main(arguments: list[str]) -> int:
    terminal = Terminal()
    text = page()
    if "--check" in arguments:
        if PAGE.read_text(encoding="utf-8") == text:
            return 0
        terminal.error("docs/cli.md is not what the help texts say; run `make docs`")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    terminal.result(str(PAGE))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
