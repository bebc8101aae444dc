"""The tile codec on the device: `reference.delta_quant`'s encode and decode for CuPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels_cupy.frame_format import GROUPS_PER_TILE, RAW_UNITS, UNIT_BYTES, FormatError, FrameLayout
from kernels_cupy.launch import device_array, launch, on_current_stream, pointers, to_pinned

__all__ = ["Workspace", "decode", "decode_into", "device_array", "encode", "encode_into", "to_pinned"]


def descriptors(layout: FrameLayout) -> np.ndarray:
    """(num_planes, 4) int32: height, width, tile columns, first position, as the kernels read them."""
    rows, first = [], 0
    for (height, width), (tile_rows, columns) in zip(layout.planes, layout.plane_tiles, strict=True):
        rows.append((height, width, columns, first))
        first += tile_rows * columns
    return np.array(rows, np.int32)


class Workspace:
    """Device buffers for streams of one layout, to be used again and again.

    table: (num_positions, num_frames) uint64. payload: uint8, capacity_bytes, by default the worst case.
    """

    def __init__(self, layout: FrameLayout, capacity_bytes: int | None = None) -> None:
        import cupy

        wanted = layout.worst_case_payload_bytes if capacity_bytes is None else capacity_bytes
        self.layout = layout
        self.capacity_units = wanted // UNIT_BYTES
        with on_current_stream():
            self.planes = cupy.asarray(descriptors(layout))
            self.table = cupy.empty((layout.num_positions, layout.num_frames), np.uint64)
            self.payload = cupy.empty(max(self.capacity_units, 1) * UNIT_BYTES, np.uint8)
            self.state = cupy.zeros(2, np.uint32)  # units used, failed


def encode_into(workspace: Workspace, sources: Any, before: Any | None = None) -> None:
    """Compress into the workspace: table, payload in any order, state. Nothing is waited for.

    sources: `launch.pointers` of the planes, frame by frame; before: those of the frame before, or None.
    """
    layout = workspace.layout
    with on_current_stream():
        workspace.state.fill(0)
        arguments = (
            sources,
            before,
            workspace.planes,
            np.int32(len(layout.planes)),
            np.int32(layout.num_frames),
            np.int32(layout.shift),
            workspace.table,
            workspace.payload,
            np.uint32(workspace.capacity_units),
            workspace.state[:1],
            workspace.state[1:],
        )
        launch("delta_quant", "encode_tiles", (layout.num_positions,), (GROUPS_PER_TILE,), arguments)


def encode(
    layout: FrameLayout,
    frames: Sequence[Sequence[Any]],
    previous: Sequence[Any] | None = None,
    *,
    deterministic: bool = True,
) -> tuple[Any, Any]:
    """Compress frames[frame][plane], CuPy uint16 (height, width) each.

    previous: the planes of the frame before, if the layout is chained.
    Returns the table and a payload of exactly its length, both on the device; with `deterministic` the bytes are
    those of the reference, else the tiles' payloads lie in the order in which blocks finished.
    """
    import cupy

    if len(frames) != layout.num_frames or layout.chained != (previous is not None):
        raise ValueError("the frames given are not those of the layout")
    before = None if previous is None else [device_array(plane) for plane in previous]
    with on_current_stream():
        workspace = Workspace(layout)
        sources = pointers([plane for planes in frames for plane in planes])
        encode_into(workspace, sources, None if before is None else pointers(before))
        used, failed = (int(value) for value in workspace.state.get())
        assert not failed, "the worst case was not the worst"
        if not deterministic:
            return workspace.table, workspace.payload[: used * UNIT_BYTES].copy()
        units = ((workspace.table.reshape(-1) >> np.uint64(48)) & np.uint64(0xFFF)).astype(np.uint64)
        offsets = cupy.cumsum(units) - units
        table = cupy.empty_like(workspace.table)
        payload = cupy.empty(used * UNIT_BYTES, np.uint8)
        blocks = -(-layout.num_tiles * 32 // 256)
        arguments = (workspace.table, offsets, np.uint64(layout.num_tiles), workspace.payload, table, payload)
        launch("delta_quant", "reorder", (blocks,), (256,), arguments)
    return table, payload


def decode_into(
    layout: FrameLayout,
    planes: Any,
    table: Any,
    payload: Any,
    targets: Any,
    failed: Any,
    before: Any | None = None,
) -> None:
    """Decompress to the planes behind `targets` (`launch.pointers`, frame by frame). Nothing is waited for.

    planes: `descriptors` on the device. failed: (1,) uint32, raised where a tile is none; the caller zeroes it.
    """
    arguments = (
        table,
        payload,
        np.uint32(int(payload.nbytes) // UNIT_BYTES),
        planes,
        np.int32(len(layout.planes)),
        np.int32(layout.num_frames),
        np.int32(layout.shift),
        np.uint32((1 << layout.bit_depth) - 1),
        before,
        targets,
        failed,
    )
    with on_current_stream():
        launch("delta_quant", "decode_tiles", (layout.num_positions,), (GROUPS_PER_TILE,), arguments)


def decode(
    layout: FrameLayout, table: Any, payload: Any, previous: Sequence[Any] | None = None
) -> list[list[Any]]:
    """The planes of every frame, CuPy uint16 (height, width). Raises FormatError.

    Waits for the result, to know whether it is one.
    """
    import cupy

    if layout.chained != (previous is not None):
        raise ValueError("a chained stream needs the frame before it, and no other does")
    if table.shape != (layout.num_positions, layout.num_frames) or int(payload.nbytes) % UNIT_BYTES:
        raise FormatError("the table or the payload is not of the layout's size")
    before = None if previous is None else [device_array(plane) for plane in previous]
    with on_current_stream():
        frames = [[cupy.empty(size, np.uint16) for size in layout.planes] for _ in range(layout.num_frames)]
        failed = cupy.zeros(1, np.uint32)
        targets = pointers([plane for planes in frames for plane in planes])
        known = None if before is None else pointers(before)
        # An empty payload has no address; no tile will read it.
        held = payload if payload.nbytes else cupy.zeros(0, np.uint8)
        decode_into(layout, cupy.asarray(descriptors(layout)), table, held, targets, failed, known)
        if int(failed[0]):
            raise FormatError("a tile's table entry or group widths are impossible")
    return frames


assert RAW_UNITS * UNIT_BYTES == GROUPS_PER_TILE * 32  # a group is two 128-bit words; the kernels rely on it
