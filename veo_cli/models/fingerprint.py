"""A model's fingerprint: two folders with the same one give the same pixels. It samples the weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

_WHOLE_BELOW_BYTES = 1 << 20
_SAMPLE_BYTES = 4096
_NUM_SAMPLES = 64
_DESCRIPTIVE = {"veo.json"}  # titles and defaults: they reach a job by its own fields


def fingerprint(folder: Path, files: Iterable[Path]) -> str:
    """64 hex digits: SHA-256 over each file's path in the folder, its size, and its bytes.

    Files of up to 1 MiB count whole; of larger ones the first 1 MiB (a safetensors header) and 64 samples
    of 4 KiB spread evenly to the end. Where the folder lies, and the order of `files`, do not matter.
    """
    digest = hashlib.sha256()
    for path in sorted(set(files), key=lambda path: path.relative_to(folder).as_posix()):
        if path.name in _DESCRIPTIVE:
            continue
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()}\0{size}\0".encode())
        with path.open("rb") as file:
            digest.update(file.read(_WHOLE_BELOW_BYTES))
            if size > _WHOLE_BELOW_BYTES:
                for sample in range(1, _NUM_SAMPLES + 1):
                    file.seek((size - _SAMPLE_BYTES) * sample // _NUM_SAMPLES)
                    digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()
