"""`veo models` and `--download`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from veo_cli import error_boundary
from veo_cli.models import registry


@pytest.fixture(autouse=True)
def empty_hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


def test_names_that_can_be_downloaded_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert error_boundary.main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["MODEL", "WHAT", "IT", "IS", "SIZE", "BY", "DEFAULT"]
    (line,) = (line for line in lines if line.startswith("wan2.1-t2v-1.3b "))
    assert line.endswith("not here  veo models wan2.1-t2v-1.3b --download")


def test_details_of_a_folder(tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_boundary.main(["models", str(tiny_model)]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["folder"] == str(tiny_model)
    assert rows["generates"] == "64x32"
    assert rows["frames"].startswith("4n + 1, at most ")
    assert len(rows["fingerprint"]) >= 16


def test_json(tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_boundary.main(["models", str(tiny_model), "--json"]) == 0
    model = json.loads(capsys.readouterr().out)
    assert model["sizes"] == [[64, 32]]
    assert model["frame_step"] == 4


def test_what_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_boundary.main(["models", str(tmp_path)]) == 4
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "model_index.json" in shown.err


def test_download_says_licence_and_size_and_only_happens_when_asked(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def download(name: str, *, announce: Any) -> Path:
        announce("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "apache-2.0", 29 * 2**30)
        asked.append(name)
        monkeypatch.setattr(registry, "find_folder", lambda name: tiny_model)
        return tiny_model

    monkeypatch.setattr(registry, "download", download)
    assert error_boundary.main(["models", "wan2.1-t2v-1.3b"]) == 4
    assert asked == []
    assert "--download" in capsys.readouterr().err
    assert error_boundary.main(["models", "wan2.1-t2v-1.3b", "--download"]) == 0
    assert asked == ["wan2.1-t2v-1.3b"]
    shown = capsys.readouterr()
    assert "downloading Wan-AI/Wan2.1-T2V-1.3B-Diffusers: 29.0 GiB, licence apache-2.0\n" in shown.err
