"""Separable Lanczos-3 resize in NumPy, float64: the executable specification of `cuda/lanczos.cu`.

Output sample i of an axis (size `source` to `target`) looks at the position centre = (i + 1/2) source /
target of the input, whose sample k covers k .. k+1 and is centred at k + 1/2. With stretch = max(source /
target, 1), so that shrinking is antialiased, its weights are lanczos3((k + 1/2 - centre) / stretch) for the
samples k of

    max(0, floor(centre - 3 stretch + 1/2)) <= k < min(source, floor(centre + 3 stretch + 1/2)),

divided by their sum: at the edges the window is cut and renormalised, nothing is invented outside the
picture. (The conventions of Pillow's resize. Kernel: Duchon 1979, "Lanczos filtering in one and two
dimensions".) Columns (width) are resampled first, then rows. Results may overshoot [0, 1]; they are not
clamped here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LOBES = 3


def lanczos3(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """sinc(x) sinc(x / 3) for |x| < 3, else 0."""
    return np.where(np.abs(x) < LOBES, np.sinc(x) * np.sinc(x / LOBES), 0.0)


def taps(source: int, target: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The filter bank of one axis.

    Returns first (target,) int32, the index of the first input sample of each output sample, and weights
    (target, num_taps) float64, rows summing to 1, padded with zeros on the right; first + num_taps may pass
    the end of the input there. num_taps is the longest window that occurs.
    """
    if source < 1 or target < 1:
        raise ValueError(f"sizes must be at least 1, not {source} to {target}")
    scale = source / target
    stretch = max(scale, 1.0)
    centre = (np.arange(target) + 0.5) * scale
    first = np.maximum(np.floor(centre - LOBES * stretch + 0.5), 0).astype(np.int32)
    stop = np.minimum(np.floor(centre + LOBES * stretch + 0.5), source).astype(np.int32)
    samples = first[:, None] + np.arange(int((stop - first).max()))
    weights = np.where(samples < stop[:, None], lanczos3((samples + 0.5 - centre[:, None]) / stretch), 0.0)
    return first, weights / weights.sum(axis=1, keepdims=True)


def matrix(source: int, target: int) -> NDArray[np.float64]:
    """(target, source): the same filter bank as a dense matrix, banded."""
    first, weights = taps(source, target)
    dense = np.zeros((target, source + weights.shape[1]))
    rows = np.arange(target)[:, None]
    dense[rows, first[:, None] + np.arange(weights.shape[1])] = weights
    return dense[:, :source]


def resize(frames: NDArray[Any], height: int, width: int) -> NDArray[np.float64]:
    """Resample (..., source_height, source_width) planes of any float dtype to (..., height, width), float64.

    An axis that has its size already is left alone, exactly.
    """
    result = frames.astype(np.float64)
    source_height, source_width = result.shape[-2:]
    if width != source_width:
        result = result @ matrix(source_width, width).T
    if height != source_height:
        result = matrix(source_height, height) @ result
    return result
