"""`veo doctor`: real checks on this machine, and what is said when something is missing."""

from __future__ import annotations

import importlib.machinery
import json
import shutil
import sys
import types
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels_cupy import loader
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


class FakeCupy(types.ModuleType):
    """CuPy as far as doctor asks it; `broken` is a source that its compiler refuses."""

    def __init__(self, broken: str) -> None:
        super().__init__("cupy")
        self.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
        self.__version__ = "13.6.0"
        self.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(runtimeGetVersion=lambda: 12090))
        self.broken = broken
        self.compiled: list[str] = []

    def RawModule(self, code: str, options: tuple[str, ...]) -> types.SimpleNamespace:
        def compile_() -> None:
            if self.broken and code == loader.source(self.broken):
                raise RuntimeError("error: identifier is undefined\n1 error detected")
            self.compiled.append(code)

        assert "-std=c++17" in options
        return types.SimpleNamespace(compile=compile_)


@pytest.mark.parametrize("broken", ["", "lanczos"])
def test_kernels_are_compiled_where_there_is_a_gpu(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    cupy = FakeCupy(broken)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    checks = {check.name: check for check in doctor._kernels()}
    assert checks["cupy"] == Check("cupy", "ok", "13.6.0, CUDA runtime 12090")
    if broken:
        assert checks["kernels"].state == "missing"
        assert checks["kernels"].found == "lanczos.cu does not compile: error: identifier is undefined"
        assert "veo[cuda" in checks["kernels"].fix
    else:
        assert checks["kernels"].state == "ok"
        assert len(cupy.compiled) == len(loader.SOURCES)


def test_a_gpu_without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    (check,) = doctor._kernels()
    assert (check.name, check.state) == ("cupy", "missing")
    assert check.fix.startswith("pip install 'veo[cuda1")
