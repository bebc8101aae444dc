"""Runs the .cu sources on the CPU: built by the C++ compiler with `cuda_on_cpu.h`, called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels_cupy import loader

HERE = Path(__file__).parent
_one_at_a_time = threading.Lock()  # the coroutines of a launch are global
COMPILER = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(
    COMPILER is None, reason="no C++ compiler to build the kernels for the CPU with"
)


@functools.cache
def library(name: str) -> ctypes.CDLL:
    """The kernels of cuda/NAME.cu as a shared library."""
    assert COMPILER
    folder = Path(tempfile.mkdtemp(prefix="kernels-on-cpu-"))
    source, binary = folder / f"{name}.cpp", folder / f"{name}.so"
    source.write_text(f'#include "{HERE / "cuda_on_cpu.h"}"\n{loader.source(name)}')
    options = ["-std=c++17", "-O1", "-fno-strict-aliasing", "-shared", "-fPIC", "-w"]
    command = [COMPILER, *options, *loader.definitions(), str(source), "-o", str(binary)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    loaded = ctypes.CDLL(str(binary))
    shutil.rmtree(folder)
    return loaded


def launch(name: str, kernel: str, grid: tuple[int, ...], block: tuple[int, ...], *arguments: Any) -> None:
    """Run a kernel; arrays are passed by their address, None as a null pointer."""
    loaded = library(name)
    words = (ctypes.c_uint64 * 16)()
    for number, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            assert argument.flags.c_contiguous
            words[number] = argument.ctypes.data
        else:
            words[number] = 0 if argument is None else int(argument) & 0xFFFFFFFFFFFFFFFF
    sizes = [(ctypes.c_uint * 3)(*(*size, 1, 1)[:3]) for size in (grid, block)]
    address = ctypes.cast(getattr(loaded, kernel), ctypes.c_void_p)
    with _one_at_a_time:
        finished = loaded.run_kernel(address, sizes[0], sizes[1], words) == 0
    assert finished, "the threads of a block wait for ever"


@contextmanager
def shuffled(name: str, seed: int) -> Iterator[None]:
    """Inside, the threads of cuda/NAME.cu run in ever new orders: what depends on them lacks a barrier."""
    library(name).set_order(seed)
    try:
        yield
    finally:
        library(name).set_order(0)


def aligned(shape: Any, dtype: Any, fill: int = 0) -> Any:
    """An array that begins on a 16-byte boundary, as device allocations do."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.full(size + 16, 0, np.uint8)
    start = -raw.ctypes.data % 16
    array = raw[start : start + size].view(dtype).reshape(shape)
    array[...] = fill
    return array
