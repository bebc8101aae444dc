"""RGB to 10-bit limited-range Y'CbCr on the device, one pass. What it computes: `reference.color`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels_cupy.launch import device_array, launch, on_current_stream
from kernels_cupy.loader import COLOR_COLUMNS, COLOR_ROWS
from kernels_cupy.reference.color import (
    CHROMA_OFFSET,
    CHROMA_SCALE,
    GAMMA,
    LUMA_OFFSET,
    LUMA_SCALE,
    LUMA_WEIGHTS,
    Chroma,
    Color,
    Dither,
    bayer_thresholds,
    gamut_matrix,
)

_TO_BT2020, _FULL_CHROMA, _DITHER = 1, 2, 4


def parameters(color: Color) -> NDArray[np.float32]:
    """(83,) float32: gamut matrix, weights, scales, Bayer thresholds, where the kernel reads them."""
    kr, kb = LUMA_WEIGHTS[color]
    weights = [kr, 1 - kr - kb, kb, 1 / (2 - 2 * kb), 1 / (2 - 2 * kr)]
    codes = [GAMMA, LUMA_SCALE, LUMA_OFFSET, CHROMA_SCALE, CHROMA_OFFSET]
    values = [*gamut_matrix().flat, *weights, *codes, *bayer_thresholds().flat]
    return np.array(values, np.float32)


def flags(color: Color, chroma: Chroma, dither: Dither) -> int:
    return (
        (_TO_BT2020 if color == "bt2020" else 0)
        | (_FULL_CHROMA if chroma == "444" else 0)
        | (_DITHER if dither == "ordered" else 0)
    )


def rgb_to_yuv(
    rgb: Any, *, color: Color = "bt709", chroma: Chroma = "420", dither: Dither = "none"
) -> tuple[Any, Any, Any]:
    """Gamma-coded BT.709 RGB to limited-range 10-bit Y'CbCr of the given system, on the device.

    rgb: (num_frames, 3, height, width), CuPy or torch CUDA, float (float32 is read as it is), in [0, 1].
    Returns y (num_frames, height, width) and cb, cr (num_frames, ceil(height/2), ceil(width/2)), or full size for "444":
    CuPy uint16. Within one code of `reference.color.rgb_to_yuv`. Not waited for.
    """
    import cupy

    with on_current_stream():
        source = cupy.ascontiguousarray(device_array(rgb), np.float32)
        frames, _, height, width = source.shape
        size = (height, width) if chroma == "444" else ((height + 1) // 2, (width + 1) // 2)
        y = cupy.empty((frames, height, width), np.uint16)
        cb, cr = (cupy.empty((frames, *size), np.uint16) for _ in range(2))
        grid = (-(-width // COLOR_COLUMNS), -(-height // COLOR_ROWS), frames)
        sizes = (np.int32(height), np.int32(width), np.int32(flags(color, chroma, dither)))
        launch(
            "color", "rgb_to_yuv", grid, (256,), (source, cupy.asarray(parameters(color)), *sizes, y, cb, cr)
        )
    return y, cb, cr
