"""The codec's interface: every dtype, streams, and what hostile bytes get."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
import torch

from kernels_cupy import frame_codec
from kernels_cupy.frame_codec import CompressedFrames
from kernels_cupy.frame_format import FormatError
from tests.kernels.frames import KINDS, plane

RNG_SHAPE = (66, 75)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16])
def test_sample_types_come_back_as_they_went_in(dtype):
    info = np.iinfo(dtype)
    values = np.random.default_rng(0).integers(info.min, info.max, RNG_SHAPE, dtype, endpoint=True)
    for given in (values, torch.from_numpy(values)):
        back = frame_codec.decompress(frame_codec.compress([[given]]))[0][0]
        assert back.dtype == dtype
        assert np.array_equal(back, values)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64, ">u2", ">i4"])
def test_wider_and_foreign_integers_are_exact_within_sixteen_bits(dtype):
    values = np.random.default_rng(0).integers(0, 1 << 15, RNG_SHAPE).astype(dtype)
    assert np.array_equal(frame_codec.decompress(frame_codec.compress([[values]]))[0][0], values)


def test_integers_that_do_not_fit_are_an_error():
    for value in (-1, 65536):
        with pytest.raises(ValueError, match="65535"):
            frame_codec.compress([[np.full((4, 4), value, np.int32)]])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floats_become_ten_bit_codes(dtype):
    values = torch.linspace(-0.1, 1.1, 66 * 75).reshape(66, 75).to(dtype)
    codes = frame_codec.decompress(frame_codec.compress([[values]]))[0][0]
    assert codes.dtype == np.uint16
    assert np.abs(codes / 1023 - values.double().clamp(0, 1).numpy()).max() <= 0.5 / 1023 + 1e-7
    assert frame_codec.decompress(frame_codec.compress([[np.full((2, 2), np.nan)]]))[0][0].max() == 0


def test_slices_and_transposes_are_taken_as_they_look():
    whole = plane("grain", 200, 220, np.random.default_rng(0))
    for view in (whole[3:170:2, 5:200:3], whole.T, whole[::-1]):
        assert np.array_equal(frame_codec.decompress(frame_codec.compress([[view]]))[0][0], view)


def test_unequal_frames_and_nonsense_are_refused():
    a, b = np.zeros((4, 4), np.uint16), np.zeros((4, 5), np.uint16)
    for frames, message in [
        ([], "nothing"),
        ([[]], "nothing"),
        ([[a], [b]], "sizes"),
        ([[a, a.astype(np.uint8)]], "dtype"),
        ([[np.zeros((0, 4))]], "at least"),
        ([[np.zeros((4, 4), complex)]], "complex"),
    ]:
        with pytest.raises(ValueError, match=message):
            frame_codec.compress(frames)


@pytest.mark.parametrize("lz4", [True, False])
def test_streams_come_back_whole(lz4):
    rng = np.random.default_rng(3)
    for kind in KINDS:
        frames = [[plane(kind, 130, 200, rng), plane(kind, 65, 100, rng)]] * 2
        compressed = frame_codec.compress(frames)
        again = CompressedFrames.from_bytes(compressed.to_bytes(lz4=lz4))
        assert again.layout == compressed.layout
        assert np.array_equal(again.table, compressed.table)
        assert np.array_equal(again.payload, compressed.payload)


def test_lz4_shortens_a_static_scene():
    compressed = frame_codec.compress([[plane("grain", 128, 128, np.random.default_rng(0))]] * 50)
    assert len(compressed.to_bytes(lz4=True)) < 0.9 * len(compressed.to_bytes(lz4=False))


def test_a_stream_with_more_samples_than_allowed_is_refused_before_anything_is_allocated():
    compressed = frame_codec.compress([[np.zeros((640, 640), np.uint16)]] * 4)
    stream = compressed.to_bytes()
    CompressedFrames.from_bytes(stream, max_samples=640 * 640 * 4)
    with pytest.raises(FormatError, match="allowed"):
        CompressedFrames.from_bytes(stream, max_samples=640 * 640 * 4 - 1)


def seeds_for_mutation(rng: np.random.Generator) -> list[bytes]:
    streams = []
    for kind in KINDS:
        for lz4 in (False, True):
            first = plane(kind, 20, 70, rng)
            frames = [[first], [first], [plane("grain", 20, 70, rng)]]
            streams.append(frame_codec.compress(frames).to_bytes(lz4=lz4))
    return streams


def mutate(stream: bytes, rng: np.random.Generator) -> bytes:
    """A bit flip, a lying length or field, a truncation, an extension, a block moved."""
    data = bytearray(stream)
    match rng.integers(6):
        case 0:
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        case 1:
            data = data[: rng.integers(len(data))]
        case 2:
            data += rng.bytes(rng.integers(1, 40))
        case 3:
            at = 4 * rng.integers(len(data) // 4)
            struct.pack_into(
                "<I", data, at, int(rng.choice([0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 512, rng.integers(1 << 32)]))
            )
        case 4:
            start, size, to = rng.integers(len(data)), rng.integers(1, 64), rng.integers(len(data))
            data[to : to + size] = data[start : start + size]
        case _:
            for _ in range(rng.integers(2, 20)):
                data[rng.integers(min(len(data), 200))] = rng.integers(256)
    return bytes(data)


def reseal(stream: bytes) -> bytes:
    """Right checksums and body length on a mutated stream, so that what is behind them is reached."""
    data = bytearray(stream)
    if len(data) < 48 or 40 + 8 * data[12] > len(data):
        return stream
    head = 40 + 8 * data[12]
    struct.pack_into("<Q", data, 24, len(data) - head)
    struct.pack_into("<I", data, 32, zlib.crc32(data[head:]))
    struct.pack_into("<I", data, 36, zlib.crc32(data[40:head], zlib.crc32(data[:36])))
    return bytes(data)


def test_ten_thousand_mutated_streams():
    rng = np.random.default_rng(20)
    streams = seeds_for_mutation(rng)
    errors = decoded = 0
    for number in range(10_000):
        original = streams[number % len(streams)]
        mutated = mutate(original, rng)
        forged = number % 2 == 1
        if forged:
            mutated = reseal(mutated)
        try:
            compressed = CompressedFrames.from_bytes(mutated, max_samples=1 << 20)
            before = None
            if compressed.layout.chained:
                before = [np.zeros(size, np.uint16) for size in compressed.layout.planes]
            frames = frame_codec.decompress(compressed, previous=before)
        except FormatError:
            errors += 1
            continue
        decoded += 1
        # Behind a right checksum pixels may be wrong, but they are the pixels of the layout.
        assert forged or mutated == original
        assert [[p.shape for p in planes] for planes in frames] == [list(compressed.layout.planes)] * len(
            frames
        )
    assert errors > 7_000
    assert decoded > 500


def test_unchanged_bytes_survive_the_mutation_harness():
    rng = np.random.default_rng(20)
    for stream in seeds_for_mutation(rng):
        assert reseal(stream) == stream
