"""Progress of a training stage: a line on stdout, the same facts as a line of JSON in a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


class RunLog:
    """`log(stage, **facts)` prints and appends; seconds count from the log's making."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.started = time.monotonic()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)

    def __call__(self, stage: str, **facts: Any) -> None:
        facts = {k: round(v, 5) if isinstance(v, float) else v for k, v in facts.items()}
        seconds = round(time.monotonic() - self.started, 1)
        print(f"[{seconds:7.1f}] {stage}: " + " ".join(f"{k}={v}" for k, v in facts.items()), flush=True)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"stage": stage, "seconds": seconds, **facts}) + "\n")
