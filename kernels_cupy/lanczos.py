"""Lanczos-3 resize of planes on the device. What it computes: `reference.lanczos`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels_cupy.launch import device_array, launch, on_current_stream
from kernels_cupy.loader import LANCZOS_SAMPLES, LANCZOS_THREADS
from kernels_cupy.reference.lanczos import taps


@functools.lru_cache(maxsize=32)
def filter_bank(source: int, target: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """first (target,) and weights (taps, target), where the kernels read them."""
    first, weights = taps(source, target)
    return np.ascontiguousarray(first), np.ascontiguousarray(weights.T.astype(np.float32))


def resize(frames: Any, height: int, width: int) -> Any:
    """Resample (..., source_height, source_width), CuPy or torch CUDA, float, to (..., height, width) CuPy float32.

    Within 1e-4 of `reference.lanczos.resize` for values in [0, 1]. Columns first, then rows; an axis that has its
    size already is left alone. Not waited for.
    """
    import cupy

    with on_current_stream():
        current = cupy.ascontiguousarray(device_array(frames), np.float32)
        lead, (source_height, source_width) = current.shape[:-2], current.shape[-2:]
        planes = int(np.prod(lead, dtype=np.int64))
        if width != source_width:
            first, weights = (cupy.asarray(part) for part in filter_bank(source_width, width))
            rows = planes * source_height
            result = cupy.empty((rows, width), np.float32)
            sizes = (np.int32(len(weights)), np.int32(rows), np.int32(source_width), np.int32(width))
            blocks = (-(-rows // LANCZOS_SAMPLES), -(-width // LANCZOS_THREADS))
            launch(
                "lanczos",
                "resize_columns",
                blocks,
                (LANCZOS_THREADS,),
                (current, result, first, weights, *sizes),
            )
            current = result
        if height != source_height:
            first, weights = (cupy.asarray(part) for part in filter_bank(source_height, height))
            result = cupy.empty((planes, height, width), np.float32)
            sizes = (np.int32(len(weights)), np.int32(source_height), np.int32(height), np.int32(width))
            grid = (-(-width // (LANCZOS_SAMPLES * LANCZOS_THREADS)), height, planes)
            launch(
                "lanczos", "resize_rows", grid, (LANCZOS_THREADS,), (current, result, first, weights, *sizes)
            )
            current = result
        return current.reshape(*lead, height, width)
