"""A thousand jobs of one matrix file: planned in a moment, and skipped in a moment once they are done.

Times are of this process's own CPU, since the machine may be shared.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tiny_models import make_wan21
from veo_cli import error_boundary

MATRIX = """\
model: {model}
width: 32
height: 32
num_frames: 9
fps: 8
num_inference_steps: 6
encode: {{codec_preset: ultrafast}}
matrix:
  seed: [{seeds}]
  prompt: [a red ball, a blue ball, a green ball, a white ball]
"""
NUM_JOBS = 1000


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    model = make_wan21(tmp_path / "model")
    path = tmp_path / "matrix.yaml"
    seeds = ", ".join(map(str, range(NUM_JOBS // 4)))
    path.write_text(MATRIX.format(model=model, seeds=seeds))
    return path


def veo(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, list[str], float]:
    """Exit code, lines of stdout, CPU seconds."""
    begin = time.process_time()
    code = error_boundary.main([*map(str, arguments)])
    seconds = time.process_time() - begin
    return code, capsys.readouterr().out.splitlines(), seconds


def finish_all(planned: list[str]) -> None:
    """What a run leaves of every job that matters to the next run: a clip, and a sidecar with its job_id."""
    for line in planned:
        job = json.loads(line)
        clip = Path(job["output"])
        clip.parent.mkdir(exist_ok=True)
        clip.write_bytes(b"")
        clip.with_suffix(".json").write_text(json.dumps({"job_id": job["job_id"]}))


def test_are_planned_and_skipped_quickly(
    tmp_path: Path, prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "clips"
    veo(capsys, "plan", prompts, "-o", out)  # imports are not what is measured
    code, planned, seconds = veo(capsys, "plan", prompts, "-o", out, "--json")
    assert code == 0
    assert len(planned) == NUM_JOBS
    assert len({json.loads(line)["output"] for line in planned}) == NUM_JOBS
    assert seconds < 2

    finish_all(planned)
    made = {path: path.stat().st_mtime_ns for path in out.iterdir() if path.is_file()}
    events = tmp_path / "events.jsonl"
    code, skipped, seconds = veo(capsys, "render", prompts, "-o", out, "--events", events)
    assert code == 0
    assert sorted(skipped) == sorted(json.loads(line)["output"] for line in planned)
    assert seconds < 5
    assert {path: path.stat().st_mtime_ns for path in out.iterdir() if path.is_file()} == made
    # A process of its own is as quick: nothing heavy is imported to find that there is nothing to do.
    code_of_process = (
        "import sys; from veo_cli import error_boundary; "
        "code = error_boundary.main(sys.argv[1:]); sys.exit(code or 'torch' in sys.modules)"
    )
    arguments = ["render", str(prompts), "-o", str(out), "-q"]
    process = subprocess.run(
        [sys.executable, "-c", code_of_process, *arguments], capture_output=True, check=True
    )
    assert len(process.stdout.splitlines()) == NUM_JOBS
    told = [json.loads(line)["event"] for line in events.read_text().splitlines()]
    assert told == ["run_started", *["job_skipped"] * NUM_JOBS, "run_done"]


def test_take_little_memory(tmp_path: Path, prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import tracemalloc

    veo(capsys, "plan", prompts, "-o", tmp_path / "clips")
    tracemalloc.start()
    try:
        assert veo(capsys, "plan", prompts, "-o", tmp_path / "clips")[0] == 0
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes / NUM_JOBS < 32 * 1024
