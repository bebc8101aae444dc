"""Kill a batch at random moments, start it again until it is done, and check that nothing was lost.

    python -m tests.crash_matrix --kills 200 [--seed 0]

Every run of `veo render` is a process of its own that starts at once (see forked_veo), so that the kills fall into work
and not into imports. A kill is a SIGKILL at a moment drawn uniformly from the length of an
undisturbed run, after the run-started event.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.forked_veo import VeoProcess, start

PROMPTS = """\
model: {model}
width: 32
height: 32
num_frames: 9
fps: 8
num_inference_steps: 6
guidance_scale: 3.0
memory: {{checkpoint_every: 1}}
encode: {{codec_preset: ultrafast}}
matrix:
  seed: [1, 2, 3, 4]
prompt: a red ball
"""


@dataclass(frozen=True)
class CrashReport:
    kills: int
    batches: int
    finished_before_kill: int


def read_events(path: Path) -> list[dict[str, Any]]:
    events = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            events.append(json.loads(line))
        except ValueError:
            continue  # the line that the kill tore
    return events


def kill_after(veo: VeoProcess, events: Path, runs_before: int, delay_s: float) -> bool:
    """SIGKILL the process `delay_s` after its run-started event. False if it ended by itself before that."""
    while sum(event["event"] == "run_started" for event in read_events(events)) <= runs_before:
        if not veo.running:
            break
        time.sleep(0.002)
    time.sleep(delay_s)
    if not veo.running:
        assert veo.wait() == 0, f"a run failed: {veo.stderr.read_text()[-2000:]}"
        return False
    os.kill(veo.pid, signal.SIGKILL)
    veo.wait()
    return True


def frames_of(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Clip name -> (digest of its frames from the sidecar, the file's bytes)."""
    found = {}
    for clip in folder.glob("*.mp4"):
        record = json.loads(clip.with_suffix(".json").read_text())
        found[clip.name] = (record["frames_sha256"], clip.read_bytes())
    return found


def check_batch(folder: Path, events: list[dict[str, Any]], reference: dict[str, tuple[str, bytes]]) -> None:
    """What must hold once a disturbed batch has come to its end."""
    assert frames_of(folder) == reference, "a clip is missing, or its bytes differ from an undisturbed run's"
    strays = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".mp4", ".json")]
    assert {path.name for path in strays} <= {"lock", "queue"}, f"stray files: {strays}"
    assert not [path for path in (folder / ".veo").iterdir() if path.is_dir()], (
        "state of a finished job is left"
    )
    durable: dict[str, int] = {}
    sampled: dict[str, int] = {}
    for event in events:
        job = event.get("job_id", "")
        match event["event"]:
            case "checkpoint_saved":
                durable[job] = event["next_step"]
            case "job_started":
                assert event["next_step"] >= durable.get(job, 0), (
                    f"sampling that was saved is done again: {event}"
                )
                sampled[job] = event["next_step"]
            case "step_done":
                assert event["step"] == sampled[job], f"a step was skipped or repeated: {event}"
                sampled[job] += 1


def run(kills: int, seed: int, work: Path) -> CrashReport:
    """Kill `kills` times. Raises AssertionError with what was lost."""
    from tests.tiny_models import make_wan21

    rng = random.Random(seed)
    model = make_wan21(work / "model")
    prompts = work / "prompts.yaml"
    prompts.write_text(PROMPTS.format(model=model))

    def render(name: str) -> VeoProcess:
        arguments = ["render", str(prompts), "-o", str(work / name), "--events", str(work / f"{name}.jsonl")]
        return start(arguments, work)

    assert render("warmup").wait() == 0
    begin = time.monotonic()
    assert render("reference").wait() == 0
    length_s = time.monotonic() - begin
    reference = frames_of(work / "reference")
    assert len(reference) == 4

    done_kills = batches = finished_early = 0
    while done_kills < kills:
        name = f"batch{batches}"
        batches += 1
        events = work / f"{name}.jsonl"
        # A few kills a batch, then let it end, so that every part of a batch is hit.
        for _ in range(min(rng.randint(1, 6), kills - done_kills)):
            runs_before = sum(event["event"] == "run_started" for event in read_events(events))
            if not kill_after(render(name), events, runs_before, rng.uniform(0, length_s)):
                finished_early += 1
                break
            done_kills += 1
        assert render(name).wait() == 0, "the batch did not come to its end"
        check_batch(work / name, read_events(events), reference)
    return CrashReport(done_kills, batches, finished_early)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        report = run(options.kills, options.seed, Path(folder))
        print(f"{report}, {time.monotonic() - begin:.0f} s: nothing was lost")


if __name__ == "__main__":
    main()
