"""One prompt file for each exit code, run by the installed command in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.command import VEO, environment, veo
from veo_cli.exit_codes import ExitCode

JOB = """\
model: {model}
prompt: a red ball
seed: {seed}
num_frames: 5
num_inference_steps: {steps}
memory: {{checkpoint_every: 1}}
encode: {{codec_preset: ultrafast}}
"""


def write(path: Path, model: Path, *, seed: int = 1, steps: int = 2) -> Path:
    path.write_text(JOB.format(model=model, seed=seed, steps=steps))
    return path


def test_0_all_done_and_again_skipped(tmp_path: Path, tiny_model: Path) -> None:
    prompt = write(tmp_path / "good.yaml", tiny_model)
    first = veo("render", prompt, "-o", "clips", cwd=tmp_path)
    assert first.returncode == ExitCode.OK, first.stderr
    (path,) = first.stdout.splitlines()
    clip = tmp_path / path
    assert clip.is_file()
    assert clip.with_suffix(".json").is_file()
    assert "\x1b" not in first.stderr
    assert "\r" not in first.stderr
    assert "[1/1] a red ball" in first.stderr
    assert sorted(p.name for p in (tmp_path / "clips").iterdir()) == [
        ".veo",
        clip.with_suffix(".json").name,
        clip.name,
    ]

    made = clip.stat().st_mtime_ns
    again = veo("render", prompt, "-o", "clips", "--json", "-q", cwd=tmp_path)
    assert again.returncode == ExitCode.OK
    assert clip.stat().st_mtime_ns == made
    record = json.loads(again.stdout)
    assert (record["state"], record["output"]) == ("skipped", path)
    assert again.stderr == ""


def test_1_one_failed_job_leaves_the_others_done(
    tmp_path: Path, tiny_model: Path, broken_model: Path
) -> None:
    write(tmp_path / "a.yaml", broken_model)
    write(tmp_path / "b.yaml", tiny_model)
    done = veo("render", tmp_path, "-o", tmp_path / "clips", "--in-order", "--json")
    assert done.returncode == ExitCode.JOB_FAILED, done.stderr
    failed, finished = map(json.loads, done.stdout.splitlines())
    assert (failed["state"], failed["code"]) == ("failed", "quality_gate")
    assert finished["state"] == "done"
    assert Path(finished["output"]).is_file()
    assert not Path(failed["output"]).exists()
    assert "error: [1/2]" in done.stderr
    assert "1 done, 1 failed" in done.stderr

    listed = veo("status", tmp_path / "clips", "--json")
    assert sorted(json.loads(line)["state"] for line in listed.stdout.splitlines()) == ["done", "failed"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prompt: a boat\nnum_inference_step: 8\n", "bad.yaml:2:1: "),
        ("prompt: a boat\nseed: -1\n", "bad.yaml:2:7: "),
        ("model: {model}\nprompt: a boat\nnum_frames: 18\n", "bad.yaml:3:13: "),
        ("prompt: [a\n", "bad.yaml:"),
    ],
)
def test_2_a_wrong_prompt_file(tmp_path: Path, tiny_model: Path, text: str, said: str) -> None:
    (tmp_path / "bad.yaml").write_text(text.format(model=tiny_model))
    done = veo("render", "bad.yaml", cwd=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: {said}")
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == ["bad.yaml"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rendr"], "error: No such command 'rendr'. Did you mean 'render'?\n  see `veo --help`\n"),
        (["render"], "error: Missing argument 'FILE'.\n  see `veo render --help`\n"),
        (["render", "--sed", "7", "x.yaml"], "error: No such option: --sed"),
        (["render", "nosuch.yaml"], "error: nosuch.yaml: "),
        (
            ["render", "-", "--deadline", "soon"],
            "error: --deadline: “soon” is no time of day and no duration\n",
        ),
        (["render", "-", "--max-vram", "lots"], "error: --max-vram: “lots” is no amount of memory\n"),
        (["render", "-", "--output", ""], "error: Invalid value for '--output' / '-o': it is empty"),
        (["plan", "-", "--name="], "error: Invalid value for '--name': it is empty"),
        (["plan", ""], "error: Invalid value for 'FILE': it is empty"),
        (["inspect", ""], "error: Invalid value for 'CLIP': it is empty"),
        (["inspect", "."], "error: .: it is a folder\n"),
        (
            ["render", "-", "--shuffle", "--in-order"],
            "error: Invalid value for '--shuffle': it excludes --in-order\n",
        ),
        (["status", "nosuch"], "error: nosuch: there is no such folder\n"),
        (["presets", "nosuch"], "error: "),
    ],
)
def test_2_a_wrong_command_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = veo(*arguments, cwd=tmp_path, stdin="prompt: a boat\n")
    assert done.returncode == ExitCode.USAGE
    assert done.stdout == ""
    assert done.stderr.startswith(said)


def test_2_without_arguments_help_is_on_stderr() -> None:
    done = veo()
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert done.stderr.startswith("Usage: veo ")


def test_3_a_bug_in_veo(tmp_path: Path) -> None:
    # A stand-in fault, since no prompt file is known to be one: Python runs sitecustomize before veo.
    (tmp_path / "sitecustomize.py").write_text(
        "import veo_cli.prompt_file\n"
        "def broken(*arguments, **options):\n    raise RuntimeError('made by the test')\n"
        "veo_cli.prompt_file.read_specs = broken\n"
    )
    (tmp_path / "p.yaml").write_text("prompt: a boat\n")
    done = veo("plan", tmp_path / "p.yaml", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == ExitCode.BUG
    assert done.stdout == ""
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert "error: this is a bug in veo: RuntimeError: made by the test\n" in done.stderr


def test_4_a_model_that_is_not_here(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("prompt: a boat\nmodel: wan2.1-t2v-1.3b\n")
    done = veo("render", "p.yaml", cwd=tmp_path, env={"HF_HUB_CACHE": str(tmp_path / "cache")})
    assert done.returncode == ExitCode.ENVIRONMENT
    assert done.stdout == ""
    assert "is not on this machine" in done.stderr
    assert "veo models Wan-AI/Wan2.1-T2V-1.3B-Diffusers --download" in done.stderr


def test_4_without_ffmpeg(tmp_path: Path, tiny_model: Path) -> None:
    prompt = write(tmp_path / "p.yaml", tiny_model)
    done = veo("render", prompt, "-o", tmp_path, env={"VEO_FFMPEG": str(tmp_path / "nosuch")})
    assert done.returncode == ExitCode.ENVIRONMENT, done.stderr
    assert "VEO_FFMPEG" in done.stderr


def test_5_the_deadline(tmp_path: Path, tiny_model: Path) -> None:
    prompt = write(tmp_path / "long.yaml", tiny_model, steps=1000)
    done = veo("render", prompt, "-o", tmp_path / "clips", "--deadline", "5s")
    assert done.returncode == ExitCode.DEADLINE, done.stderr
    assert done.stdout == ""
    assert "run the same command again to go on" in done.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]
)
def test_130_and_143_signals(tmp_path: Path, tiny_model: Path, number: int, code: ExitCode) -> None:
    prompt = write(tmp_path / "long.yaml", tiny_model, steps=1000)
    events = tmp_path / "events.jsonl"
    process = subprocess.Popen(
        [str(VEO), "render", str(prompt), "-o", str(tmp_path / "clips"), "--events", str(events)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    give_up = time.monotonic() + 120
    while not (events.exists() and '"checkpoint_saved"' in events.read_text()):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < give_up
        time.sleep(0.05)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    assert stdout == ""
    assert "kept: " in stderr
    assert "of 1000 steps" in stderr
    assert "run the same command again to go on" in stderr
    assert list((tmp_path / "clips").iterdir()) == [tmp_path / "clips" / ".veo"]
