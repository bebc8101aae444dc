"""FORMAT.md is true: its example decodes, its limits hold, its errors are raised."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

import kernels_cupy
from kernels_cupy import frame_codec
from kernels_cupy.frame_codec import CompressedFrames
from kernels_cupy.frame_format import (
    ENTRY_BYTES,
    HEADER,
    MODE_NAMES,
    FormatError,
    FrameLayout,
    pack_header,
    split_entries,
    unpack_header,
)
from tests.kernels.frames import plane

TEXT = (Path(kernels_cupy.__file__).parent / "FORMAT.md").read_text()


def example() -> bytes:
    match = re.search(r"```hex\n(.*?)```", TEXT, re.DOTALL)
    assert match
    return bytes.fromhex(match[1])


def test_the_worked_example_decodes_to_what_the_text_says():
    first = np.full((2, 16), 500, np.uint16)
    first[0, 1], first[1, 9] = 501, 498
    frames = frame_codec.decompress(CompressedFrames.from_bytes(example()))
    assert [len(planes) for planes in frames] == [2, 2]
    for planes, second in zip(frames, (512, 513), strict=True):
        assert np.array_equal(planes[0], first)
        assert planes[1].tolist() == [[second]]
    modes = split_entries(CompressedFrames.from_bytes(example()).table).mode
    assert [[MODE_NAMES[mode] for mode in row] for row in modes] == [
        ["gradient", "unchanged"],
        ["constant"] * 2,
    ]


def test_the_encoder_writes_the_worked_example():
    planes = frame_codec.decompress(CompressedFrames.from_bytes(example()))
    assert frame_codec.compress(planes).to_bytes(lz4=False) == example()


def test_header_fields_stand_where_the_text_says():
    stream = example()
    assert stream[:4] == b"VEOF"
    assert struct.unpack_from("<HHI", stream, 4) == (1, 0, 2)
    assert tuple(stream[12:16]) == (2, 10, 0, 0)
    assert struct.unpack_from("<QQ", stream, 16) == (9, len(stream) - HEADER.size - 16)
    assert struct.unpack_from("<I", stream, 32)[0] == zlib.crc32(stream[56:])
    assert struct.unpack_from("<I", stream, 36)[0] == zlib.crc32(stream[:36] + stream[40:56])
    assert struct.unpack_from("<4I", stream, 40) == (2, 16, 1, 1)


@pytest.mark.parametrize("kind", ["noise16", "noise10", "extremes"])
@pytest.mark.parametrize("shape", [(1, 1), (65, 63), (128, 128)])
def test_no_stream_exceeds_the_worst_case(kind, shape):
    frames = [[plane(kind, *shape, np.random.default_rng(i))] for i in range(2)]
    compressed = frame_codec.compress(frames)
    assert len(compressed.to_bytes()) <= compressed.layout.worst_case_bytes
    if kind == "noise16" and shape == (128, 128):
        assert len(compressed.to_bytes(lz4=False)) == compressed.layout.worst_case_bytes


def test_the_best_case_is_eight_bytes_a_tile():
    compressed = frame_codec.compress([[np.full((640, 640), 64, np.uint16)]] * 3)
    assert compressed.nbytes == compressed.layout.num_tiles * ENTRY_BYTES
    assert compressed.ratio == 1024


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"num_frames": 0}, "at least 1"),
        ({"planes": ()}, "planes"),
        ({"planes": ((8, 8),) * 17}, "planes"),
        ({"planes": ((0, 8),)}, "sides"),
        ({"planes": ((8, 65537),)}, "sides"),
        ({"bit_depth": 0}, "bit depth"),
        ({"bit_depth": 17}, "bit depth"),
        ({"shift": 10}, "shift"),
    ],
)
def test_layouts_outside_the_limits_are_refused(field, message):
    values = {"num_frames": 1, "planes": ((8, 8),)} | field
    with pytest.raises(FormatError, match=message):
        FrameLayout(**values)


def reseal(head: bytearray, body: bytes) -> bytes:
    """Put right checksums on a forged header and body."""
    struct.pack_into("<I", head, 32, zlib.crc32(body))
    struct.pack_into("<I", head, 36, zlib.crc32(head[40:], zlib.crc32(head[:36])))
    return bytes(head) + body


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (0, b"VEOX", "not a compressed-frame stream"),
        (4, b"\x02\x00", "version 2"),
        (6, b"\x04\x00", "flag"),
        (8, b"\xff\xff\xff\xff", "samples allowed"),
        (12, b"\x00", "checksum"),
        (13, b"\x63", "bit depth"),
        (15, b"\x07", "sample type"),
        (16, b"\xff\xff\xff\xff\xff\xff\xff\x0f", "more payload"),
        (24, b"\xff\xff\xff\xff\x00\x00\x00\x00", "promises"),
    ],
)
def test_forged_headers_are_errors(offset, value, message):
    head, body = bytearray(example()[:56]), example()[56:]
    head[offset : offset + len(value)] = value
    with pytest.raises(FormatError, match=message):
        CompressedFrames.from_bytes(reseal(head, body))


ENTRY = struct.Struct("<IHH")  # offset, value, size | mode << 12


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (ENTRY.pack(0, 0, 8 << 12), "mode 8"),
        (ENTRY.pack(0, 0, 9 | 15 << 12), "mode 15"),
        (ENTRY.pack(0, 0, 512), "raw beyond the payload"),
        (ENTRY.pack(0, 0, 9), "raw of a wrong size"),
        (ENTRY.pack(0, 0, 9 | 1 << 12), "constant with a payload"),
        (ENTRY.pack(7, 0, 1 << 12), "constant with an offset"),
        (ENTRY.pack(0, 0, 7 | 6 << 12), "smaller than its widths"),
        (ENTRY.pack(0, 0, 512 | 6 << 12), "too large"),
        (ENTRY.pack(0, 0, 9 | 1 << 10 | 6 << 12), "a zero bit set"),
        (ENTRY.pack(1, 0, 9 | 6 << 12), "one unit beyond the end"),
        (ENTRY.pack(0xFFFFFFFF, 0, 9 | 6 << 12), "far beyond the end"),
        (ENTRY.pack(0, 0, 2 << 12), "unchanged without a frame before"),
        (ENTRY.pack(0, 0, 9 | 7 << 12), "temporal without a frame before"),
        (ENTRY.pack(0, 0, 8 | 6 << 12), "widths that do not add up"),
    ],
)
def test_impossible_table_entries_are_errors(entry, why):
    head, body = bytearray(example()[:56]), example()[56:]
    compressed = CompressedFrames.from_bytes(reseal(head, entry + body[ENTRY_BYTES:]))
    with pytest.raises(FormatError):
        frame_codec.decompress(compressed)


def test_header_round_trip():
    layout = FrameLayout(3, ((5, 7), (65536, 1)), 12, 2, True, "int16")
    stream = pack_header(layout, 32, b"body", lz4=True)
    header = unpack_header(stream)
    assert (header.layout, header.payload_bytes, header.body_bytes) == (layout, 32, 4)
    assert header.lz4 and header.size == len(stream) == layout.header_bytes
