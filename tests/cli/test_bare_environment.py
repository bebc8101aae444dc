"""`veo render` as cron starts it: no HOME, no TERM, a short PATH, LANG=C, stdout closed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.command import VEO

CRON = {"PATH": "/usr/bin:/bin", "LANG": "C", "SHELL": "/bin/sh"}


@pytest.mark.parametrize(
    ("changes", "closing"),
    [({}, ""), ({"HOME": "/proc"}, "<&- >&-")],
    ids=["cron", "read-only home, stdin and stdout closed"],
)
def test_renders(tmp_path: Path, tiny_model: Path, changes: dict[str, str], closing: str) -> None:
    # /proc cannot be written to, not even by root.
    prompt = tmp_path / "red.yaml"
    prompt.write_text(
        f"model: {tiny_model}\nprompt: ein roter Ball über dem Fluß, 红球\nseed: 3\nnum_frames: 5\n"
        "num_inference_steps: 2\nencode: {codec_preset: ultrafast}\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [
            "/bin/sh",
            "-c",
            f'exec "$0" "$@" {closing}',
            str(VEO),
            "render",
            str(prompt),
            "-o",
            str(tmp_path / "clips"),
        ],
        capture_output=True,
        cwd="/",
        env=CRON | changes,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr.decode()
    (clip,) = (tmp_path / "clips").glob("*.mp4")
    assert "红球" in clip.name
    if not closing:
        assert done.stdout.decode() == f"{clip}\n"
    assert b"Traceback" not in done.stderr
    assert b"\x1b" not in done.stderr
