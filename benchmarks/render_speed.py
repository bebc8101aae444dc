"""How long `veo render` takes from the command to the closed file, and how much memory, with the model that ships inside.

    python -m benchmarks.render_speed [RUNS]

The default prompt with the default settings and with the draft preset, each in a fresh process, the best and the worst
of RUNS (three). The figures are those of a machine that does nothing else.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import record

PROMPT = Path(__file__).parent.parent / "examples" / "lighthouse.yaml"
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 3


def render(arguments: list[str]) -> dict[str, Any]:
    """One `veo render` in a process of its own: wall and CPU seconds, the stages, peak resident memory."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            str(Path(sys.executable).with_name("veo")),
            "render",
            str(PROMPT),
            "-q",
            "-o",
            folder,
            *arguments,
        ]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.monotonic()
        clip = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        seconds = time.monotonic() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        sidecar = json.loads(Path(clip).with_suffix(".json").read_text())
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
        "stage_seconds": sidecar["stage_seconds"],
        "peak_rss_bytes": sidecar["peak_rss_bytes"],
        "num_inference_steps": sidecar["job"]["num_inference_steps"],
    }


def main() -> None:
    load = os.getloadavg()[0]
    figures: dict[str, Any] = {"load_average_before": round(load, 2)}
    for name, arguments in (("default", []), ("draft", ["--preset", "draft"])):
        runs = sorted((render(arguments) for _ in range(RUNS)), key=lambda run: run["seconds"])
        figures[name] = {"best": runs[0], "worst": runs[-1]}
        print(
            f"{name:8} {runs[0]['seconds']:.1f} to {runs[-1]['seconds']:.1f} s ({runs[0]['cpu_seconds']:.0f} s of CPU), "
            f"peak {runs[0]['peak_rss_bytes'] / 2**20:.0f} MiB"
        )
    record.write("render_speed", figures)


if __name__ == "__main__":
    main()
