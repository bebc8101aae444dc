"""Which 64x64 blocks of a frame changed, in NumPy: the specification of `cuda/block_diff.cu`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernels_cupy.frame_format import TILE_SAMPLES
from kernels_cupy.reference.delta_quant import Plane, to_tiles


def changed_blocks(
    frames: Sequence[Sequence[Plane]], stored: Sequence[Sequence[Plane]], *, threshold_ppm: int = 0
) -> NDArray[np.uint32]:
    """Ids of the blocks of frames[frame][plane] that differ from the same blocks of `stored`, ascending.

    Planes: (height, width) uint16. An id is frame * num_positions + position; positions count the tiles of a frame,
    plane by plane. A block has changed if sum |a - b| * 10^6 > threshold_ppm * max(sum b, 1), where edge blocks
    are filled up with the plane's edge samples. 0 is exact; 5000 is the 0.5 % of the system that this replaces.
    """
    flags = []
    for planes, others in zip(frames, stored, strict=True):
        for plane, other in zip(planes, others, strict=True):
            a = to_tiles(plane).reshape(-1, TILE_SAMPLES).astype(np.int64)
            b = to_tiles(other).reshape(-1, TILE_SAMPLES).astype(np.int64)
            change, total = np.abs(a - b).sum(axis=1), np.maximum(b.sum(axis=1), 1)
            flags.append(change * 1_000_000 > threshold_ppm * total)
    return np.flatnonzero(np.concatenate(flags)).astype(np.uint32)
