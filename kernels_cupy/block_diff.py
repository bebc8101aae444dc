"""Which 64x64 blocks of frames changed, on the device: only the ids of those that did come to the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels_cupy.delta_quant import descriptors
from kernels_cupy.frame_format import FrameLayout
from kernels_cupy.launch import launch, on_current_stream, pointers


def changed_blocks(
    frames: Sequence[Sequence[Any]], stored: Sequence[Sequence[Any]], *, threshold_ppm: int = 0
) -> NDArray[np.uint32]:
    """Ids of the blocks of frames[frame][plane] that differ from `stored`, ascending, in host memory.

    Planes: CuPy uint16 (height, width). Ids and threshold: `reference.block_diff.changed_blocks`. What crosses to the
    host is the count and 4 bytes for each id.
    """
    import cupy

    layout = FrameLayout(len(frames), tuple(plane.shape for plane in frames[0]))
    with on_current_stream():
        sources, others = (
            pointers([plane for planes in given for plane in planes]) for given in (frames, stored)
        )
        ids, count = cupy.empty(layout.num_tiles, np.uint32), cupy.zeros(1, np.uint32)
        find_changed(layout, cupy.asarray(descriptors(layout)), sources, others, threshold_ppm, ids, count)
        found: NDArray[np.uint32] = ids[: int(count[0])].get()
    found.sort()
    return found


def find_changed(
    layout: FrameLayout, planes: Any, sources: Any, stored: Any, threshold_ppm: int, ids: Any, count: Any
) -> None:
    """The same on arrays that are there already; not waited for.

    planes: `delta_quant.descriptors` on the device. sources, stored: `launch.pointers`, frame by frame. ids:
    (layout.num_tiles,) uint32, filled from the front in any order. count: (1,) uint32, which the caller zeroes.
    """
    arguments = (
        sources,
        stored,
        planes,
        np.int32(len(layout.planes)),
        np.int32(layout.num_positions),
        np.uint32(threshold_ppm),
        ids,
        count,
    )
    with on_current_stream():
        launch("block_diff", "changed_blocks", (layout.num_tiles,), (256,), arguments)
