"""Finds, compiles and keeps the CUDA sources: once per device and process, CuPy's disk cache behind it."""

from __future__ import annotations

import functools
import re
from importlib.resources import files
from typing import Any

from kernels_cupy.frame_format import CUDA_CONSTANTS
from kernels_cupy.reference import lz4_block, memory_pool

SOURCES = ("delta_quant", "block_diff", "memory_pool", "lz4_block", "color", "lanczos")

# Sizes of blocks of threads that a source and its wrapper must agree on.
COLOR_COLUMNS, COLOR_ROWS = 64, 16  # luma samples of a block
LANCZOS_THREADS = 128
LANCZOS_SAMPLES = 4  # output samples of a thread


class DeviceMissing(RuntimeError):
    """No CUDA device, or no CuPy to reach it with."""


def source(name: str) -> str:
    """The text of cuda/NAME.cu with the project's own headers pasted in (a package may be a zip file)."""

    def read(file: str) -> str:
        return files("kernels_cupy").joinpath("cuda", file).read_text(encoding="utf-8")

    return re.sub(r'^#include "(\w+\.cuh)"$', lambda match: read(match[1]), read(f"{name}.cu"), flags=re.M)


def definitions() -> tuple[str, ...]:
    """Every constant that Python has too as a compiler option, so that no source repeats one."""
    constants = CUDA_CONSTANTS | {
        "LZ4_MIN_MATCH": lz4_block.MIN_MATCH,
        "LZ4_LAST_MATCH": lz4_block.LAST_MATCH,
        "LZ4_LAST_LITERALS": lz4_block.LAST_LITERALS,
        "COLOR_COLUMNS": COLOR_COLUMNS,
        "COLOR_ROWS": COLOR_ROWS,
        "LANCZOS_THREADS": LANCZOS_THREADS,
        "LANCZOS_SAMPLES": LANCZOS_SAMPLES,
    }
    options = [f"-D{name}={value}" for name, value in constants.items()]
    return (*options, f"-DPOOL_EMPTY={memory_pool.EMPTY}u")


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


@functools.cache
def why_not() -> str:
    """Why the kernels cannot be used in this process, or "" where they can; compiles one to know."""
    try:
        kernel("delta_quant", "encode_tiles")
    except DeviceMissing as error:
        return str(error)
    except (
        Exception
    ) as error:  # NVRTC's log is in the message, and CuPy has no one class for all that can fail
        return f"CuPy cannot compile for this device: {str(error).partition(chr(10))[0]}"
    return ""
