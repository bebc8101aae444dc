"""Blocks of a frame that hardly changed stay as they were: less flicker in still areas, and less to store and encode.

Each 64x64 block is compared with the one last delivered, not with the last one made: slow changes add up until they
show. `kernels_cupy.block_diff` decides, on the device where the frames were made there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veo_cli.values import YuvFrame


class BlockReuse:
    """Called with frames of one size and chroma, in order; gives them back with those blocks of every plane replaced by
    the kept ones that changed too little.

    threshold: 0 .. 1, of the sum of a block's codes; a block is kept where sum |new - kept| <= threshold * sum kept.
    0 hands every frame on as it is.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold_ppm = round(threshold * 1_000_000)
        self._kept: list[Any] | None = None

    def __call__(self, frame: YuvFrame) -> YuvFrame:
        if not self._threshold_ppm:
            return frame
        planes = [frame.y, frame.cb, frame.cr]
        if self._kept is not None:
            planes = _with_kept_blocks(planes, self._kept, self._threshold_ppm)
        self._kept = planes
        y, cb, cr = planes
        return replace(frame, y=y, cb=cb, cr=cr)


def _with_kept_blocks(planes: list[Any], kept: list[Any], threshold_ppm: int) -> list[Any]:
    from kernels_cupy.launch import on_current_stream, on_device

    if on_device(planes[0]):
        import cupy

        from kernels_cupy.block_diff import changed_blocks

        with on_current_stream():
            changed = changed_blocks([planes], [kept], threshold_ppm=threshold_ppm)
            return _choose(cupy, planes, kept, changed)
    from kernels_cupy.reference.block_diff import changed_blocks as changed_on_host

    return _choose(np, planes, kept, changed_on_host([planes], [kept], threshold_ppm=threshold_ppm))


def _choose(xp: Any, planes: list[Any], kept: list[Any], changed: NDArray[np.uint32]) -> list[Any]:
    """Planes whose blocks are the new ones where their id is in `changed`, and the kept ones elsewhere."""
    from kernels_cupy.frame_format import TILE, FrameLayout

    layout = FrameLayout(1, tuple(plane.shape for plane in planes))
    flags = np.zeros(layout.num_tiles, np.bool_)
    flags[changed] = True
    chosen, first = [], 0
    for new, old, (rows, columns) in zip(planes, kept, layout.plane_tiles, strict=True):
        blocks = xp.asarray(flags[first : first + rows * columns].reshape(rows, columns))
        first += rows * columns
        height, width = new.shape
        mask = blocks.repeat(TILE, axis=0)[:height].repeat(TILE, axis=1)[:, :width]
        chosen.append(xp.where(mask, new, old))
    return chosen
