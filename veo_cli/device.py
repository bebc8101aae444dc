"""Which device a run uses."""

from __future__ import annotations

import re
from pathlib import Path

from veo_cli.counted import counted
from veo_cli.errors import EnvironmentFault, Fault, SpecificationError

_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")  # there once the kernel module is loaded


def resolve_device(asked: str) -> str:
    """ "auto" (the first GPU, else the CPU), "cpu", "cuda" or "cuda:N" as torch knows it; a GPU becomes torch's current
    device. Imports torch.

    Raises SpecificationError for another word, EnvironmentFault for a GPU that is not there.
    """
    index = _gpu_number(asked)
    import torch

    if asked == "auto":
        asked = "cuda:0" if torch.cuda.is_available() else "cpu"
    if asked == "cpu":
        return asked
    if index >= torch.cuda.device_count():
        have = torch.cuda.device_count()
        raise EnvironmentFault(
            f"there is no GPU {index}",
            where="--device",
            why=f"torch sees {counted(have, 'GPU')}" if have else "torch sees no GPU",
            fix="see what works here:  veo doctor",
        )
    torch.cuda.set_device(index)
    return f"cuda:{index}"


def likely_kind(asked: str) -> str:
    """ "cpu" or "cuda", guessed without importing torch: for estimates, not for work.

    Raises SpecificationError for a word that names no device.
    """
    _gpu_number(asked)
    return "cuda" if asked.startswith("cuda") or (asked == "auto" and _NVIDIA_DRIVER.exists()) else "cpu"


def _gpu_number(asked: str) -> int:
    """The N of "cuda:N"; 0 for "cuda", "auto" and "cpu"."""
    named = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", asked)
    if named is None:
        raise SpecificationError(
            Fault(f"no such device: {asked}", "--device", fix="write auto, cpu, cuda or cuda:1")
        )
    return int(named.group(1) or 0)
