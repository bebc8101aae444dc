"""Prompt files as people write them, through the command: exit codes and streams. What they resolve to is tested in
tests/job."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.job.described import veo_mini
from veo_cli import error_boundary
from veo_cli.models import registry

CASES = sorted((Path(__file__).resolve().parents[1] / "cases" / "dev").glob("[0-9]*"))
JOBS = {"03": 3, "04": 6, "05": 2}
WRONG = ("06", "09", "10", "11", "14", "15", "16", "17", "21", "22")
POSITIONED = ("09", "10", "11", "14", "15", "16", "22")


@pytest.fixture(autouse=True)
def described(monkeypatch: pytest.MonkeyPatch) -> None:
    """veo-mini's limits as tests/job has them: no weights are needed to plan."""
    monkeypatch.setattr(registry, "describe", lambda name: veo_mini())


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_plan(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(case, tmp_path)
    monkeypatch.chdir(tmp_path)
    code = error_boundary.main(["plan", case.name, "--json"])
    shown = capsys.readouterr()
    number = case.name[:2]
    assert "Traceback" not in shown.err
    assert os.listdir(tmp_path) == [case.name]
    if number in WRONG:
        assert (code, shown.out) == (2, "")
        errors = [line for line in shown.err.splitlines() if not line.startswith("  ")]
        assert errors
        for line in errors:
            assert line.startswith((f"error: {case.name}", "warning: "))
        if number in POSITIONED:
            line_and_column = errors[0].removeprefix(f"error: {case.name}:").split(":")[:2]
            assert all(int(part) >= 1 for part in line_and_column)
    else:
        assert code == 0, shown.err
        jobs = [json.loads(line) for line in shown.out.splitlines()]
        assert len(jobs) == JOBS.get(number, 1)
        assert "error:" not in shown.err


def test_all_faults_of_all_files_in_one_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for case in CASES:
        shutil.copy(case, tmp_path)
    assert error_boundary.main(["render", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    errors = [line for line in shown.err.splitlines() if line.startswith("error: ")]
    named = {case.name[:2] for case in CASES if any(case.name in line for line in errors)}
    assert named == set(WRONG)
    assert [path for path in (tmp_path / "out").rglob("*.*") if path.is_file()] == []
