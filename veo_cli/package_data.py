"""Where the files that travel with veo are: inside the wheel, or at the top of a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).resolve().parent


def data_path(name: Literal["presets", "weights"]) -> Path:
    """The folder `presets/` or `weights/`; in a wheel it lies in `veo_cli/_data/`."""
    packed = _PACKAGE / "_data" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name
