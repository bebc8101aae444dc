"""`veo doctor`: real checks on this machine, and what is said when something is missing."""

from __future__ import annotations

import json
import shutil
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import veo
from veo_cli import doctor, error_boundary
from veo_cli.doctor import Check
from veo_cli.errors import FfmpegMissing, ModelMissing


def checks_of(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, str]]]:
    """(exit code, check name -> its JSON object) of `veo doctor --json` in this process."""
    code = error_boundary.main(["doctor", "--json"])
    return code, {check["name"]: check for check in map(json.loads, capsys.readouterr().out.splitlines())}


def test_this_machine() -> None:
    done = veo("doctor", "--json")
    checks = [json.loads(line) for line in done.stdout.splitlines()]
    names = [check["name"] for check in checks]
    for name in (
        "python",
        "torch",
        "gpu",
        "cupy",
        "ffmpeg",
        "libx265",
        "hevc_nvenc",
        "disk",
        "memory",
        "model",
    ):
        assert any(found == name or (found.startswith("gpu") and name == "gpu") for found in names), name
    states = {check["name"]: check["state"] for check in checks}
    assert states["libx265"] == "ok"  # imageio-ffmpeg's at least
    faults = [check for check in checks if check["state"] == "fault"]
    assert done.returncode == (4 if faults else 0)
    assert all(check["fix"] for check in faults)
    assert "veo render" in done.stderr


def test_text_form_puts_the_fix_below(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def checks() -> Iterator[Check]:
        yield Check("python", "ok", "3.11")
        yield Check("model", "fault", "it is gone", "install veo again")

    monkeypatch.setattr(doctor, "run_checks", checks)
    assert error_boundary.main(["doctor"]) == 4
    shown = capsys.readouterr()
    assert shown.out == (
        "ok      python        3.11\n"
        "fault   model         it is gone\n"
        "                      → install veo again\n"
    )
    assert "does not work here" in shown.err


def test_without_ffmpeg(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from veo_cli import ffmpeg

    def missing() -> None:
        raise FfmpegMissing("no ffmpeg was found", fix="apt install ffmpeg")

    monkeypatch.setattr(ffmpeg, "ffmpegs", missing)
    code, checks = checks_of(capsys)
    assert code == 4
    assert checks["ffmpeg"] == {
        "name": "ffmpeg",
        "state": "fault",
        "found": "no ffmpeg was found",
        "fix": "apt install ffmpeg",
    }
    assert "disk" in checks  # the others go on


def test_when_no_encoder_works(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from veo_cli import ffmpeg

    def probe(name: str, program: Path) -> ffmpeg.EncoderProbe:
        return ffmpeg.EncoderProbe(name, program, "1", works=False, why="Unknown encoder")

    monkeypatch.setattr(ffmpeg, "probe_encoder", probe)
    code, checks = checks_of(capsys)
    assert code == 4
    assert checks["encoding"]["state"] == "fault"
    assert "imageio-ffmpeg" in checks["encoding"]["fix"]
    assert checks["libx265"]["found"] == "Unknown encoder"


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 10, 100 * 2**20))
    code, checks = checks_of(capsys)
    assert code == 4
    assert checks["disk"]["state"] == "fault"
    assert checks["disk"]["found"].startswith("100.0 MiB free in ")


def test_a_missing_text_encoder(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from veo_cli.models import text_encoder

    def missing(sha256: str) -> Path:
        raise ModelMissing("not here", fix="pip install it")

    monkeypatch.setattr(text_encoder, "find_minilm", missing)
    code, checks = checks_of(capsys)
    assert code == 4
    assert (checks["text encoder"]["state"], checks["text encoder"]["fix"]) == ("fault", "pip install it")


def test_a_check_that_breaks_is_a_fault_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import psutil

    def broken() -> None:
        raise ValueError("no /proc here")

    monkeypatch.setattr(psutil, "virtual_memory", broken)
    code, checks = checks_of(capsys)
    assert code == 4
    assert checks["memory"]["found"] == "ValueError: no /proc here"
    assert "model" in checks
