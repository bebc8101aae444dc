"""inspect, compare, status, clean and stats on a folder that was really rendered into."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked_veo
from veo_cli import error_boundary

PROMPTS = """\
model: {model}
num_frames: 5
num_inference_steps: 2
encode: {{codec_preset: ultrafast}}
prompts:
  - a red ball
  - a blue ball
seed: 5
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[Path]:
    """Two clips in clips/, and the run's events."""
    folder = tmp_path_factory.mktemp("rendered")
    (folder / "balls.yaml").write_text(PROMPTS.format(model=tiny_model))
    code, _, said = forked_veo.run(
        [
            "render",
            str(folder / "balls.yaml"),
            "-o",
            str(folder / "clips"),
            "--events",
            str(folder / "run.jsonl"),
        ],
        folder,
    )
    assert code == 0, said
    yield folder


@pytest.fixture
def clips(folder: Path) -> list[Path]:
    return sorted((folder / "clips").glob("*.mp4"))


def veo(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = error_boundary.main([*map(str, arguments)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_inspect_prints_a_prompt_file_of_the_same_job(
    clips: list[Path], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, _ = veo(capsys, "inspect", clips[0])
    assert code == 0
    (tmp_path / "again.yaml").write_text(text)
    code, planned, _ = veo(capsys, "plan", tmp_path / "again.yaml", "--json")
    assert code == 0
    code, recorded, _ = veo(capsys, "inspect", clips[0].with_suffix(".json"), "--json")
    assert json.loads(planned)["job_id"] == json.loads(recorded)["job_id"]


def test_inspect_of_what_veo_did_not_make(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.mp4").write_bytes(b"\0" * 100)
    code, out, err = veo(capsys, "inspect", tmp_path / "other.mp4")
    assert code != 0
    assert out == ""
    assert "Traceback" not in err
    assert "other" in err


def test_compare(clips: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = veo(capsys, "compare", clips[0], clips[0])
    assert code == 0
    assert re.search(r"^ssim +1$", out, re.MULTILINE)
    assert re.search(r"^psnr_db +–$", out, re.MULTILINE)
    code, out, _ = veo(capsys, "compare", clips[0], clips[1], "--json")
    figures = json.loads(out)
    assert code == 0
    assert 0 < figures["psnr_db"] < 60
    assert figures["ssim"] < 1


def test_compare_of_what_is_no_clip(
    tmp_path: Path, clips: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = veo(capsys, "compare", clips[0], tmp_path / "nosuch.mp4")
    assert (code, out) == (2, "")
    assert "nosuch.mp4" in err


def test_status(folder: Path, clips: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = veo(capsys, "status", folder / "clips")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["STATE", "done", "done"]
    assert err == "2 done\n"
    _, out, _ = veo(capsys, "status", folder / "clips", "--json")
    assert {json.loads(line)["output"] for line in out.splitlines()} == {str(clip) for clip in clips}


def test_plan_knows_what_is_done(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = veo(capsys, "plan", folder / "balls.yaml", "-o", folder / "clips")
    assert code == 0
    assert [line.rsplit(maxsplit=1)[1] for line in out.splitlines()[1:]] == ["done", "done"]
    assert "2 done, 0 to do" in err


def test_verbose_plan_shows_where_values_come_from_and_every_step(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = veo(
        capsys, "plan", folder / "balls.yaml", "-v", "--preset", "draft", "--set", "num_inference_steps=3"
    )
    assert code == 0
    assert re.search(r"^num_inference_steps +3 +set$", out, re.MULTILINE)
    assert re.search(r"^encode.crf +24 +preset:draft$", out, re.MULTILINE)
    assert re.search(r"^seed +5 +\S+balls\.yaml:8:7$", out, re.MULTILINE)
    assert re.search(r"^height +32 +model$", out, re.MULTILINE)
    steps = re.findall(r"^(\d+) +([01]\.\d{6}) +\S+ +1$", out, re.MULTILINE)
    assert [step for step, _ in steps] == ["0", "1", "2"] * 2
    assert float(steps[0][1]) == 1.0


@pytest.mark.parametrize(("device", "word"), [("cpu", "on the CPU"), ("cuda", "on the GPU")])
def test_plan_estimates_for_the_device(
    device: str, word: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = veo(capsys, "plan", folder / "balls.yaml", "-o", tmp_path, "--device", device)
    assert code == 0
    assert word in err


@pytest.mark.parametrize("command", [["plan"], ["render", "--dry-run"]])
def test_a_plan_tells_what_a_render_would_refuse(
    command: list[str], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "clips"
    out.mkdir()
    arguments = [folder / "balls.yaml", "-o", out, "--name", "{slug}"]
    (out / "a-red-ball.mp4").write_bytes(b"a film of mine")
    before = sorted(out.rglob("*"))
    planned = veo(capsys, *command, *arguments)
    rendered = veo(capsys, "render", *arguments)
    assert planned[0] == rendered[0] == 2
    refusal = f"error: {out}/a-red-ball.mp4: there is a file of that name already (no sidecar says that veo made it)"
    assert refusal in planned[2] and refusal in rendered[2]
    assert [line.split()[0] for line in planned[1].splitlines()[1:]] == [
        f"{out}/a-red-ball.mp4",
        f"{out}/a-blue-ball.mp4",
    ]
    assert before == sorted(path for path in out.rglob("*") if ".veo" not in path.parts)

    code, _, said = veo(capsys, *command, folder / "balls.yaml", "-o", "/proc/clips")
    assert code == 4
    assert "error: /proc/clips: cannot write into the folder" in said
    code, _, said = veo(capsys, *command, *arguments, "--device", "gpu")
    assert code == 2
    assert "--device: no such device: gpu" in said


def test_a_dry_run_with_force_or_a_wrong_events_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a-red-ball.mp4").write_bytes(b"a film of mine")
    arguments = ["render", "--dry-run", folder / "balls.yaml", "-o", tmp_path, "--name", "{slug}", "--force"]
    assert veo(capsys, *arguments)[0] == 0
    code, _, said = veo(capsys, *arguments, "--events", tmp_path / "logs" / "run.jsonl")
    assert code == 4
    assert f"there is no folder {tmp_path}/logs" in said


def test_a_home_in_output_is_the_home(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    code, out, _ = veo(capsys, "plan", folder / "balls.yaml", "--output=~/clips")
    assert code == 0
    assert f"\n{tmp_path}/clips/balls-a-red-ball-5-" in out


def leave_things_behind(folder: Path) -> tuple[Path, Path]:
    state = folder / ".veo" / ("f" * 64)
    state.mkdir(parents=True)
    (state / "step.safetensors").write_bytes(b"x" * 2048)
    part = folder / "half-5-ffffffff.mp4.part"
    part.write_bytes(b"x" * 1024)
    return state, part


def test_clean_asks_and_a_no_leaves_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state, part = leave_things_behind(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    code, _, err = veo(capsys, "clean", tmp_path)
    assert code == 0
    assert "Remove all 2?" in err
    assert "nothing was removed" in err
    assert state.exists()
    assert part.exists()


def test_clean_without_an_answer_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state, _ = leave_things_behind(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    code, _, err = veo(capsys, "clean", tmp_path)
    assert code == 2
    assert "no answer" in err
    assert state.exists()


def test_clean_removes_what_is_left_and_no_clip(
    folder: Path, clips: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    state, part = leave_things_behind(folder / "clips")
    code, _, err = veo(capsys, "clean", folder / "clips", "--yes")
    assert code == 0
    assert "removed 3.0 KiB" in err
    assert not state.exists()
    assert not part.exists()
    assert all(clip.exists() and clip.with_suffix(".json").exists() for clip in clips)
    assert veo(capsys, "clean", folder / "clips")[2] == "nothing to remove\n"


def test_stats(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = veo(capsys, "stats", folder / "run.jsonl")
    assert code == 0
    assert out.startswith("runs: 1; clips: 2 done, 0 failed, 0 there already; availability 100.00%\n")
    assert re.search(r"^denoise +2 +\d", out, re.MULTILINE)
    _, out, _ = veo(capsys, "stats", folder / "run.jsonl", "--json", "--since", "1h")
    assert json.loads(out)["done"] == 2
    _, out, _ = veo(capsys, "stats", folder / "run.jsonl", "--json", "--since", "2999-01-01")
    assert json.loads(out)["done"] == 0
    _, out, _ = veo(capsys, "stats", folder / "run.jsonl", "--since", "2999-01-01")
    assert out == "runs: 0; clips: 0 done, 0 failed, 0 there already; availability –\n"


def test_stats_of_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = veo(capsys, "stats", "nosuch.jsonl")
    assert (code, out) == (2, "")
    assert "nosuch.jsonl" in err
