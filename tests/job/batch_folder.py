"""A folder of prompt files for a tiny model, rendered by real veo processes, and what they left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import crash_matrix
from tests.forked_veo import VeoProcess, run, start

STEPS = 6

PROMPT = """\
prompt: {prompt}
model: {model}
seed: {seed}
width: 32
height: 32
num_frames: 9
fps: 8
num_inference_steps: 6
guidance_scale: 3.0
memory: {{checkpoint_every: 2}}
encode: {{codec_preset: ultrafast}}
"""


class Batch:
    """A folder of prompt files and its output folder."""

    def __init__(self, folder: Path, model: Path, prompts: tuple[str, ...] = ("a red ball",)) -> None:
        self.folder, self.out = folder, folder / "out"
        self.jobs = folder / "jobs"
        self.jobs.mkdir()
        self.events_file = folder / "events.jsonl"
        for number, prompt in enumerate(prompts):
            text = PROMPT.format(prompt=prompt, model=model, seed=number)
            (self.jobs / f"{number}.yaml").write_text(text)

    def arguments(self, *options: str) -> list[str]:
        events = ["--events", str(self.events_file)]
        return ["render", str(self.jobs), "-o", str(self.out), "--in-order", *events, *options]

    def run(self, *options: str, before: Callable[[], None] | None = None) -> tuple[int, str, str]:
        return run(self.arguments(*options), self.folder, before=before)

    def start(self, *options: str, before: Callable[[], None] | None = None) -> VeoProcess:
        return start(self.arguments(*options), self.folder, before=before)

    def events(self, name: str = "") -> list[dict[str, Any]]:
        return [e for e in crash_matrix.read_events(self.events_file) if name in ("", e["event"])]

    def clips(self) -> list[str]:
        return sorted(path.name for path in self.out.glob("*.mp4"))

    def strays(self) -> list[str]:
        kept = ("lock", "seed_salt", "queue")
        files = [path for path in self.out.rglob("*") if path.is_file()]
        return [path.name for path in files if path.suffix not in (".mp4", ".json") and path.name not in kept]

    def digests(self) -> dict[str, str]:
        return {name: digest for name, (digest, _) in crash_matrix.frames_of(self.out).items()}
