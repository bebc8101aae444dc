"""Running the installed `veo` command as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

VEO = Path(sys.executable).with_name("veo")


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment with one thread a process and a plain, 100-column terminal."""
    plain = {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "TERM": "dumb", "HF_HUB_OFFLINE": "1"}
    return {**os.environ, **plain, **(changes or {})}


def veo(
    *arguments: str | Path,
    stdin: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 240,
) -> subprocess.CompletedProcess[str]:
    """`veo ARGUMENTS`, its output captured as UTF-8 text."""
    return subprocess.run(
        [str(VEO), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="surrogateescape",
        cwd=cwd,
        env=environment(env),
        timeout=timeout_s,
    )


def python(code: str, arguments: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """`python -c CODE` with warnings as errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=240,
    )
