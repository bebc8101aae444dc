"""The versions that a run's events and a clip's sidecar record."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from veo_cli import __version__

_PACKAGES = ("torch", "diffusers", "transformers", "numpy", "imageio-ffmpeg", "cupy-cuda12x", "cupy-cuda13x")


@cache
def versions() -> dict[str, str]:
    """Name -> version of veo, Python, the machine and the packages that decide pixels; absent packages are left out."""
    found = {"veo": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
