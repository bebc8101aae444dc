"""Writing a benchmark's figures to benchmarks/results/NAME.json with what is needed to judge and repeat them."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """Processor, cores and memory of this machine, and its GPU if torch is loaded and sees one."""
    found: dict[str, Any] = {"processor": _processor(), "cores": os.cpu_count(), "system": platform.system()}
    found["memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def write(name: str, figures: dict[str, Any]) -> Path:
    """Write benchmarks/results/NAME.json and return its path."""
    from veo_cli.versions import versions

    module = getattr(sys.modules.get("__main__"), "__spec__", None)
    command = ["python", "-m", module.name, *sys.argv[1:]] if module else ["python", *sys.argv]
    record = {
        "command": shlex.join(command),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "figures": figures,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
