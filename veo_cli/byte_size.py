"""Amounts of memory and disk, for people: "1.4 GiB"."""

from __future__ import annotations

import re

from veo_cli.errors import Fault, SpecificationError

_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def in_words(num_bytes: float) -> str:
    """512 B, 1.4 MiB, 23.0 GiB: binary units, one decimal."""
    if num_bytes < 1024:
        return f"{num_bytes:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        num_bytes /= 1024
        if num_bytes < 1024:
            return f"{num_bytes:.1f} {unit}"
    return f"{num_bytes / 1024:.1f} TiB"


def parse(text: str, option: str) -> int:
    """Bytes that "24GiB", "24G" (binary, as memory is sold), "500 MB" or "8000000000" means.

    `MB`, `GB` are decimal; everything else is binary. Raises SpecificationError, naming `option`.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(ib|b|)", text.strip().lower())
    if match:
        base = 1000 if match[3] == "b" and match[2] else 1024
        num_bytes = int(float(match[1]) * base ** _POWERS[match[2]])
        if num_bytes > 0:
            return num_bytes
    raise SpecificationError(Fault(f"“{text}” is no amount of memory", where=option, fix="write, say, 24GiB"))
