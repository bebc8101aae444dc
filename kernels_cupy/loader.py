"""Finds, compiles and keeps the CUDA sources: once per device and process, CuPy's disk cache behind it."""

from __future__ import annotations

import functools
import re
from importlib.resources import files
from typing import Any

from kernels_cupy.frame_format import CUDA_CONSTANTS

SOURCES = ("delta_quant", "block_diff", "memory_pool", "lz4_block", "color", "lanczos")


class DeviceMissing(RuntimeError):
    """No CUDA device, or no CuPy to reach it with."""


def source(name: str) -> str:
    """The text of cuda/NAME.cu with the project's own headers pasted in (a package may be a zip file)."""

    def read(file: str) -> str:
        return files("kernels_cupy").joinpath("cuda", file).read_text(encoding="utf-8")

    return re.sub(r'^#include "(\w+\.cuh)"$', lambda match: read(match[1]), read(f"{name}.cu"), flags=re.M)


def definitions() -> tuple[str, ...]:
    """Every constant of the format as a compiler option, so that no source repeats one."""
    return tuple(f"-D{name}={value}" for name, value in CUDA_CONSTANTS.items())


@functools.cache
def _module(name: str, device: int) -> Any:
    import cupy

    return cupy.RawModule(code=source(name), options=("-std=c++17", *definitions()))


def kernel(name: str, function: str) -> Any:
    """The kernel `function` of cuda/NAME.cu on the current device, compiled at the first call.

    Raises DeviceMissing.
    """
    try:
        import cupy
    except ImportError as error:
        raise DeviceMissing("CuPy is not installed: pip install 'veo[cuda12]' or 'veo[cuda13]'") from error
    try:
        device = int(cupy.cuda.Device().id)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceMissing(f"no CUDA device: {error}") from error
    return _module(name, device).get_function(function)
