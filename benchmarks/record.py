"""Writing a benchmark's figures to benchmarks/results/NAME.json with what is needed to judge and repeat them."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
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


def write(
    name: str, figures: dict[str, Any], *, to: Path | None = None, packages: Sequence[str] = ()
) -> Path:
    """Write benchmarks/results/NAME.json, or the file `to`, and return its path.

    packages: distributions whose versions are to be told besides the usual ones, those that are installed.
    """
    from veo_cli.versions import versions

    module = getattr(sys.modules.get("__main__"), "__spec__", None)
    command = ["python", "-m", module.name, *sys.argv[1:]] if module else ["python", *sys.argv]
    record = {
        "command": shlex.join(command),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions() | {name: version(name) for name in packages if _installed(name)},
        "figures": figures,
    }
    path = to or RESULTS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
