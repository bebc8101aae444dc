"""The tile codec in NumPy: lossless on everything, small where it should be, exact in its choices."""

from __future__ import annotations

import numpy as np
import pytest

from kernels_cupy import frame_codec
from kernels_cupy.frame_format import (
    CONSTANT,
    DC,
    GRADIENT,
    LEFT,
    RAW,
    TEMPORAL,
    UNCHANGED,
    UP,
    FrameLayout,
    split_entries,
)
from kernels_cupy.reference import delta_quant, lanczos
from tests.kernels.frames import KINDS, photograph, plane

SHAPES = [(1, 1), (2, 2), (1, 65), (65, 1), (64, 64), (63, 130), (129, 200)]


def equal(frames, others) -> bool:
    return all(
        a.dtype == b.dtype and np.array_equal(a, b)
        for planes, others_planes in zip(frames, others, strict=True)
        for a, b in zip(planes, others_planes, strict=True)
    )


def modes(compressed) -> set[int]:
    return set(split_entries(compressed.table).mode.reshape(-1).tolist())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_lossless(kind, shape):
    rng = np.random.default_rng(hash((kind, shape)) & 0xFFFF)
    frames = [[plane(kind, *shape, rng), plane("grain", 3, 70, rng)] for _ in range(2)]
    frames.append(frames[-1])
    assert equal(frame_codec.decompress(frame_codec.compress(frames)), frames)


@pytest.mark.parametrize("shape", [(768, 1366), (540, 4096)])
def test_lossless_on_a_whole_picture_of_odd_size(shape):
    frames = [[plane("grain", *shape, np.random.default_rng(7))]]
    assert equal(frame_codec.decompress(frame_codec.compress(frames)), frames)


def test_random_mixtures_are_lossless():
    rng = np.random.default_rng(11)
    for _ in range(60):
        sizes = [tuple(rng.integers(1, 140, 2)) for _ in range(rng.integers(1, 4))]
        frames = []
        for _ in range(rng.integers(1, 4)):
            planes = [plane(rng.choice(KINDS), *size, rng) for size in sizes]
            if frames and rng.random() < 0.5:  # a part moves, the rest stands still
                planes = [
                    np.where(rng.random(a.shape) < 0.01, a, b)
                    for a, b in zip(planes, frames[-1], strict=True)
                ]
            frames.append(planes)
        assert equal(frame_codec.decompress(frame_codec.compress(frames)), frames)


def test_every_mode_is_chosen_where_it_should_be():
    rng = np.random.default_rng(5)
    noise = rng.integers(0, 1024, (64, 64))
    bit = rng.integers(0, 2, (64, 64))
    cases = {
        RAW: rng.integers(0, 1 << 16, (64, 64)),
        CONSTANT: np.full((64, 64), 940),
        DC: noise,
        LEFT: np.repeat(noise[:, :1], 64, axis=1) + bit,
        UP: np.repeat(noise[:1], 64, axis=0) + bit,
        GRADIENT: noise[:, :1] // 2 + noise[:1] // 2,
    }
    for mode, tile in cases.items():
        assert modes(frame_codec.compress([[tile.astype(np.uint16)]])) == {mode}
    still = noise.astype(np.uint16)
    near = (noise + rng.integers(0, 2, noise.shape)).astype(np.uint16)
    assert split_entries(frame_codec.compress([[still], [still], [near]]).table).mode.tolist() == [
        [DC, UNCHANGED, TEMPORAL]
    ]


def test_group_widths_are_the_least_that_hold_the_residuals():
    for low, high, width in [
        (0, 0, 0),
        (-1, 0, 1),
        (-2, 1, 2),
        (0, 1, 2),
        (-3, 1, 3),
        (-32768, 0, 16),
        (0, 8191, 14),
    ]:
        residual = np.zeros((1, 64, 64), np.int16)
        residual[0, 1, 7], residual[0, 0, 3] = low, high
        widths = delta_quant._group_widths(residual)
        assert widths[0, 0] == width
        assert not widths[0, 1:].any()
    residual[0, 0, 0] = 8192  # 15 bits
    assert delta_quant._group_widths(residual)[0, 0] == 16


def test_a_temporal_tile_never_refers_to_samples_beyond_the_limit():
    before = np.full((64, 64), 40000, np.uint16)
    before[0, 0] = 41000
    after = np.random.default_rng(0).integers(0, 1000, (64, 64)).astype(np.uint16)
    compressed = frame_codec.compress([[before], [after]])
    assert TEMPORAL not in modes(compressed)
    assert equal(frame_codec.decompress(compressed), [[before], [after]])


def test_tiles_can_be_read_alone():
    image = photograph()[:1, :1, :130, :200].astype(np.uint16)
    compressed = frame_codec.compress(image)
    entries = split_entries(compressed.table)
    position = 5  # tile row 1, tile column 1
    size = int(entries.units[position, 0]) * 16
    start = int(entries.offset[position, 0]) * 16
    alone = compressed.payload[start : start + size]
    entry = compressed.table[position : position + 1] & ~np.uint64(0xFFFFFFFF)
    tile = delta_quant.decode(FrameLayout(1, ((64, 64),)), entry, alone)[0][0]
    assert np.array_equal(tile, image[0, 0, 64:128, 64:128])


@pytest.mark.parametrize("shift", [1, 2, 4])
def test_quantisation_is_bounded_and_a_fixed_point(shift):
    frames = [[plane("noise10", 70, 90, np.random.default_rng(i))] for i in range(3)]
    frames[0][0][0, :2] = 0, 1023
    decoded = frame_codec.decompress(frame_codec.compress(frames, shift=shift))
    for (before,), (after,) in zip(frames, decoded, strict=True):
        assert np.abs(before.astype(int) - after).max() <= 1 << (shift - 1)
        assert after.max() <= 1023
    assert equal(frame_codec.decompress(frame_codec.compress(decoded, shift=shift)), decoded)
    assert frame_codec.compress(frames, shift=shift).nbytes < frame_codec.compress(frames).nbytes


@pytest.mark.parametrize("shift", [0, 2])
def test_a_chain_decodes_frame_by_frame_without_drift(shift):
    frames = [[plane("grain", 70, 90, np.random.default_rng(i // 2))] for i in range(6)]
    before_encoder = before_decoder = None
    for planes in frames:
        compressed = frame_codec.compress([planes], previous=before_encoder, shift=shift)
        before_encoder = frame_codec.decompress(compressed, previous=before_encoder)[0]
        again = frame_codec.CompressedFrames.from_bytes(compressed.to_bytes())
        before_decoder = frame_codec.decompress(again, previous=before_decoder)[0]
        assert equal([before_decoder], [before_encoder])
        assert np.abs(before_decoder[0].astype(int) - planes[0]).max() <= (1 << shift) // 2
    with pytest.raises(ValueError, match="frame before"):
        frame_codec.decompress(compressed)


def test_photograph_with_grain_reaches_the_ratio_and_a_static_scene_far_more():
    frames = photograph()
    moving = frame_codec.compress(frames)
    assert equal(frame_codec.decompress(moving), frames)
    assert moving.ratio >= 3.6
    static = frame_codec.compress(np.broadcast_to(frames[:1, :, :192, :256], (97, 3, 192, 256)))
    assert static.ratio >= 100


def test_small_frames_upscaled_to_a_large_clip_compress_well():
    small = photograph()[:1, :, ::10, ::10] / 1023
    large = lanczos.resize(small, 540, 960).astype(np.float32)
    compressed = frame_codec.compress(large)
    codes = np.rint(large.clip(0, 1) * np.float32(1023)).astype(np.uint16)
    assert equal(frame_codec.decompress(compressed), list(codes))
    assert compressed.ratio > 4
