"""Kill a batch at random moments, start it again until it is done, and check that nothing was lost.

    python -m tests.crash_matrix --kills 200 [--seed 0]

Every run of `veo render` is a process of its own, forked from one that has the heavy packages loaded already, so that
the kills fall into work and not into imports. A kill is a SIGKILL at a moment drawn uniformly from the length of an
undisturbed run, after the run-started event.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def preload() -> None:
    """Import what a render imports, so that a fork starts at once."""
    import diffusers  # noqa: F401
    import torch
    import transformers  # noqa: F401
    from diffusers import AutoencoderKLWan, WanTransformer3DModel  # noqa: F401

    import veo_cli.batch
    import veo_cli.cli  # noqa: F401

    torch.set_num_threads(1)


def start(arguments: list[str]) -> int:
    """Fork a `veo` process; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 3
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        from veo_cli.__main__ import main

        sys.argv = ["veo", *arguments]
        main()
        code = 0
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else 1
    finally:
        os._exit(code)


def wait(pid: int) -> int:
    """The exit code of a process, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def read_events(path: Path) -> list[dict[str, Any]]:
    events = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            events.append(json.loads(line))
        except ValueError:
            continue  # the line that the kill tore
    return events


def kill_after(pid: int, events: Path, runs_before: int, delay_s: float) -> bool:
    """SIGKILL the process `delay_s` after its run-started event. False if it ended by itself before that."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0, f"a run failed: {status}"
            return False
        if sum(event["event"] == "run_started" for event in read_events(events)) > runs_before:
            break
        time.sleep(0.002)
    deadline = time.monotonic() + delay_s
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0, f"a run failed: {status}"
            return False
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
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
    assert [path.name for path in strays] in ([], ["lock"]), f"stray files: {strays}"
    assert not [path for path in (folder / ".veo").iterdir() if path.is_dir()], "state of a finished job is left"
    durable: dict[str, int] = {}
    sampled: dict[str, int] = {}
    for event in events:
        job = event.get("job_id", "")
        match event["event"]:
            case "checkpoint_saved":
                durable[job] = event["next_step"]
            case "job_started":
                assert event["next_step"] >= durable.get(job, 0), f"sampling that was saved is done again: {event}"
                sampled[job] = event["next_step"]
            case "step_done":
                assert event["step"] == sampled[job], f"a step was skipped or repeated: {event}"
                sampled[job] += 1


def run(kills: int, seed: int, work: Path) -> CrashReport:
    """Kill `kills` times. Raises AssertionError with what was lost."""
    from tests.tiny_models import save_tiny_wan

    preload()
    rng = random.Random(seed)
    model = save_tiny_wan(work / "model")
    prompts = work / "prompts.yaml"
    prompts.write_text(PROMPTS.format(model=model))

    def arguments(name: str) -> list[str]:
        return ["render", str(prompts), "-o", str(work / name), "--events", str(work / f"{name}.jsonl")]

    assert wait(start(arguments("warmup"))) == 0
    begin = time.monotonic()
    assert wait(start(arguments("reference"))) == 0
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
            if not kill_after(start(arguments(name)), events, runs_before, rng.uniform(0, length_s)):
                finished_early += 1
                break
            done_kills += 1
        assert wait(start(arguments(name))) == 0, "the batch did not come to its end"
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
