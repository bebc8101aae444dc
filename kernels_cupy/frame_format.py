"""The compressed-frame format in one place: constants, layout, tile table, header. FORMAT.md is its text.

The CUDA sources take every constant from `CUDA_CONSTANTS`; nothing is written twice.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

TILE = 64  # samples along a tile's side
TILE_SAMPLES = TILE * TILE
GROUP_ROWS, GROUP_COLUMNS = 2, 8  # one group = one CUDA thread = two 128-bit loads
GROUP_SAMPLES = GROUP_ROWS * GROUP_COLUMNS
GROUPS_PER_TILE = TILE_SAMPLES // GROUP_SAMPLES
UNIT_BYTES = 16  # payload offsets and sizes count these
WIDTHS_BYTES = GROUPS_PER_TILE // 2  # one nibble a group
RAW_UNITS = TILE_SAMPLES * 2 // UNIT_BYTES  # a tile never takes more
# Predicted samples stay under this, so that every residual fits a signed 16-bit lane.
PREDICTED_LIMIT = 1 << 14

RAW, CONSTANT, UNCHANGED, DC, LEFT, UP, GRADIENT, TEMPORAL = range(8)
MODE_NAMES = ("raw", "constant", "unchanged", "dc", "left", "up", "gradient", "temporal")
FIRST_PREDICTED = DC  # modes from here on carry widths and residuals

MAGIC = b"VEOF"
VERSION = 1
FLAG_CHAINED = 1
FLAG_LZ4 = 2
HEADER = struct.Struct("<4sHHIBBBBQQII")
PLANE = struct.Struct("<II")
ENTRY_BYTES = 8
MAX_PLANES = 16
MAX_SIDE = 1 << 16
LZ4_CHUNK_BYTES = 1 << 16
LZ4_STORED = 1 << 31  # set in a chunk's length: the chunk is not compressed

CUDA_CONSTANTS: dict[str, int] = {
    "TILE": TILE,
    "GROUPS_PER_TILE": GROUPS_PER_TILE,
    "UNIT_BYTES": UNIT_BYTES,
    "WIDTHS_BYTES": WIDTHS_BYTES,
    "RAW_UNITS": RAW_UNITS,
    "PREDICTED_LIMIT": PREDICTED_LIMIT,
    "LZ4_CHUNK_BYTES": LZ4_CHUNK_BYTES,
    **{f"MODE_{name.upper()}": mode for mode, name in enumerate(MODE_NAMES)},
}

SampleType = Literal["uint16", "uint8", "int16"]
SAMPLE_TYPES: tuple[SampleType, ...] = ("uint16", "uint8", "int16")


class FormatError(ValueError):
    """A compressed stream that no encoder of this format wrote, or one that was damaged since."""


@dataclass(frozen=True)
class FrameLayout:
    """The shape of what is compressed: num_frames frames of the same planes.

    planes: (height, width) of each plane, in samples. bit_depth: 1 .. 16, the nominal depth of the samples.
    shift: low bits given up by quantisation, 0 is lossless. chained: the first frame may refer to the frame
    before it, which the decoder must be given.
    """

    num_frames: int
    planes: tuple[tuple[int, int], ...]
    bit_depth: int = 10
    shift: int = 0
    chained: bool = False
    sample_type: SampleType = "uint16"

    def __post_init__(self) -> None:
        if self.num_frames < 1 or self.num_frames >= 1 << 32:
            raise FormatError(f"{self.num_frames} frames: at least 1 and less than 2^32 are possible")
        if not 1 <= len(self.planes) <= MAX_PLANES:
            raise FormatError(f"{len(self.planes)} planes: 1 to {MAX_PLANES} are possible")
        for height, width in self.planes:
            if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
                raise FormatError(f"a plane of {width}x{height}: sides are 1 to {MAX_SIDE} samples")
        if not 1 <= self.bit_depth <= 16:
            raise FormatError(f"bit depth {self.bit_depth}: 1 to 16 are possible")
        if not 0 <= self.shift < self.bit_depth:
            raise FormatError(f"shift {self.shift}: 0 to {self.bit_depth - 1} at {self.bit_depth} bits")

    @property
    def plane_tiles(self) -> tuple[tuple[int, int], ...]:
        """(tile rows, tile columns) of each plane."""
        return tuple((-(-height // TILE), -(-width // TILE)) for height, width in self.planes)

    @property
    def num_positions(self) -> int:
        """Tiles of one frame, over all planes: plane by plane, row by row."""
        return sum(rows * columns for rows, columns in self.plane_tiles)

    @property
    def num_tiles(self) -> int:
        return self.num_positions * self.num_frames

    @property
    def samples_per_frame(self) -> int:
        return sum(height * width for height, width in self.planes)

    @property
    def worst_case_payload_bytes(self) -> int:
        """No payload of this layout is longer."""
        return self.num_tiles * RAW_UNITS * UNIT_BYTES

    @property
    def header_bytes(self) -> int:
        return HEADER.size + PLANE.size * len(self.planes)

    @property
    def worst_case_bytes(self) -> int:
        """No serialised stream of this layout is longer (LZ4 is used only where it saves)."""
        return self.header_bytes + self.num_tiles * ENTRY_BYTES + self.worst_case_payload_bytes


def make_entries(
    mode: NDArray[np.uint8], units: NDArray[np.int64], value: NDArray[np.uint16], offset: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Table entries, any shape: offset in units (bits 0-31), value (32-47), units (48-57), mode (60-63)."""
    table: NDArray[np.uint64] = offset.astype(np.uint64)
    table |= value.astype(np.uint64) << np.uint64(32)
    table |= units.astype(np.uint64) << np.uint64(48)
    table |= mode.astype(np.uint64) << np.uint64(60)
    return table


@dataclass(frozen=True)
class Entries:
    """A tile table taken apart; every field has the table's shape."""

    mode: NDArray[np.uint8]
    units: NDArray[np.int64]
    value: NDArray[np.uint16]
    offset: NDArray[np.int64]


def split_entries(table: NDArray[np.uint64]) -> Entries:
    return Entries(
        mode=(table >> np.uint64(60)).astype(np.uint8),
        units=((table >> np.uint64(48)) & np.uint64(0xFFF)).astype(np.int64),  # the two zero bits included
        value=(table >> np.uint64(32)).astype(np.uint16),
        offset=(table & np.uint64(0xFFFFFFFF)).astype(np.int64),
    )


def check_table(layout: FrameLayout, table: NDArray[np.uint64], payload_bytes: int) -> Entries:
    """Every entry is one that an encoder could have written: a mode, a size it may have, inside the payload.

    table: (num_positions, num_frames) uint64. Raises FormatError.
    """
    if table.shape != (layout.num_positions, layout.num_frames):
        raise FormatError(f"a table of {table.shape} for {layout.num_positions} tiles x {layout.num_frames}")
    entries = split_entries(table)
    packed = entries.mode >= FIRST_PREDICTED
    raw = entries.mode == RAW
    bare = ~(packed | raw)
    wrong = entries.mode > TEMPORAL
    wrong |= raw & (entries.units != RAW_UNITS)
    wrong |= bare & ((entries.units != 0) | (entries.offset != 0))
    wrong |= packed & ((entries.units < WIDTHS_BYTES // UNIT_BYTES) | (entries.units >= RAW_UNITS))
    wrong |= (entries.offset + entries.units) * UNIT_BYTES > payload_bytes
    if not layout.chained:
        wrong[:, 0] |= (entries.mode[:, 0] == UNCHANGED) | (entries.mode[:, 0] == TEMPORAL)
    if wrong.any():
        position, frame = (int(index[0]) for index in np.nonzero(wrong))
        raise FormatError(f"tile {position} of frame {frame} has an impossible table entry")
    return entries


def pack_header(layout: FrameLayout, payload_bytes: int, body: bytes, *, lz4: bool) -> bytes:
    flags = (FLAG_CHAINED if layout.chained else 0) | (FLAG_LZ4 if lz4 else 0)
    head = HEADER.pack(
        MAGIC,
        VERSION,
        flags,
        layout.num_frames,
        len(layout.planes),
        layout.bit_depth,
        layout.shift,
        SAMPLE_TYPES.index(layout.sample_type),
        payload_bytes // UNIT_BYTES,
        len(body),
        zlib.crc32(body),
        0,
    )
    planes = b"".join(PLANE.pack(height, width) for height, width in layout.planes)
    checksum = zlib.crc32(planes, zlib.crc32(head[:-4]))
    return head[:-4] + struct.pack("<I", checksum) + planes


@dataclass(frozen=True)
class Header:
    layout: FrameLayout
    payload_bytes: int
    body_bytes: int
    body_checksum: int
    lz4: bool
    size: int  # bytes before the body


def unpack_header(stream: bytes | memoryview) -> Header:
    """Raises FormatError for anything but a whole, undamaged header of a version that is known here."""
    if len(stream) < HEADER.size:
        raise FormatError(f"{len(stream)} bytes: shorter than a header")
    (
        magic,
        version,
        flags,
        num_frames,
        num_planes,
        bit_depth,
        shift,
        sample_type,
        payload_units,
        body_bytes,
        body_checksum,
        header_checksum,
    ) = HEADER.unpack_from(stream)
    if magic != MAGIC:
        raise FormatError("not a compressed-frame stream")
    if version != VERSION:
        raise FormatError(f"format version {version}; this decoder reads version {VERSION}")
    size = HEADER.size + PLANE.size * num_planes
    if len(stream) < size:
        raise FormatError("the stream ends inside its header")
    if zlib.crc32(stream[HEADER.size : size], zlib.crc32(stream[: HEADER.size - 4])) != header_checksum:
        raise FormatError("the header's checksum does not match")
    if flags & ~(FLAG_CHAINED | FLAG_LZ4) or sample_type >= len(SAMPLE_TYPES):
        raise FormatError("a flag or sample type that version 1 does not have")
    layout = FrameLayout(
        num_frames=num_frames,
        planes=tuple(PLANE.unpack_from(stream, HEADER.size + PLANE.size * i) for i in range(num_planes)),
        bit_depth=bit_depth,
        shift=shift,
        chained=bool(flags & FLAG_CHAINED),
        sample_type=SAMPLE_TYPES[sample_type],
    )
    payload_bytes = payload_units * UNIT_BYTES
    if payload_bytes > layout.worst_case_payload_bytes:
        raise FormatError("the header promises more payload than the layout can have")
    return Header(layout, payload_bytes, body_bytes, body_checksum, bool(flags & FLAG_LZ4), size)


def compression_ratio(layout: FrameLayout, num_bytes: int, bits: float = 16) -> float:
    """How many times smaller than samples of `bits` bits (16 as they lie in memory, 10 packed)."""
    return math.inf if num_bytes == 0 else layout.samples_per_frame * layout.num_frames * bits / 8 / num_bytes
