"""Colour: the reference against zscale, the stage against the reference, a chart through lossless HEVC."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernels_cupy.reference import color as reference
from tests.stages.clips import decoded_planes, decoded_rgb, write_clip, zscale
from veo_cli.stages.to_yuv import to_yuv
from veo_cli.values import FrameChunk

COLORS = ("bt709", "bt2020")
CHROMAS = ("420", "444")
TAGS = {"bt709": ("bt709", "bt709", "bt709"), "bt2020": ("bt2020nc", "bt2020", "bt2020-10")}

# Gamma-coded BT.709 RGB. Primaries and secondaries, greys, skin tones, a ramp.
PATCHES = np.array(
    [
        *[(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 0)],
        *[(level, level, level) for level in (0, 0.02, 0.18, 0.5, 0.9, 1)],
        *[(0.76, 0.57, 0.50), (0.45, 0.32, 0.26), (0.94, 0.78, 0.69)],
        *[(step / 15, 0.5 * step / 15, 1 - step / 15) for step in range(16)],
    ]
)
PATCH = 8  # pixels; even, so that a patch's inner chroma samples see nothing but it


def noise(seed: int, height: int, width: int, num_frames: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).random((num_frames, 3, height, width), dtype=np.float32)


def stage_planes(rgb: np.ndarray, color: str, chroma: str) -> list[np.ndarray]:
    frames = list(to_yuv(FrameChunk(torch.from_numpy(rgb), 0), color=color, chroma=chroma))
    return [np.stack([getattr(frame, name) for frame in frames]) for name in ("y", "cb", "cr")]


@pytest.mark.parametrize("chroma", CHROMAS)
@pytest.mark.parametrize("color", COLORS)
@pytest.mark.parametrize("size", [(2, 2), (34, 130), (64, 96)])
def test_noise_equals_zscale_within_one_code(size, color, chroma):
    rgb = noise(1, *size)
    for ours in (reference.rgb_to_yuv(rgb, color=color, chroma=chroma), stage_planes(rgb, color, chroma)):
        for plane, theirs in zip(ours, zscale(rgb, color, chroma), strict=True):
            difference = np.abs(plane.astype(int) - theirs)
            assert difference.max() <= 1
            # zscale's gamma is a table; BT.709 has none, and there nearly every code is the same.
            assert (difference > 0).mean() < (0.3 if color == "bt2020" else 0.001)


@pytest.mark.parametrize("chroma", CHROMAS)
@pytest.mark.parametrize("color", COLORS)
@pytest.mark.parametrize("size", [(1, 1), (1, 2), (2, 1), (3, 5), (2, 3), (33, 2), (65, 97), (48, 64)])
def test_stage_equals_reference(size, color, chroma):
    rgb = noise(2, *size)
    exact = reference.yuv_values(rgb, color=color, chroma=chroma)
    for plane, values in zip(stage_planes(rgb, color, chroma), exact, strict=True):
        assert plane.dtype == np.uint16 and plane.shape == values.shape
        assert np.abs(plane - values).max() <= 0.501
        settled = np.abs(values - np.floor(values) - 0.5) > 0.001
        assert (plane[settled] == np.rint(values[settled])).all()


def test_values_outside_the_range_are_clamped():
    rgb = np.array([-3.0, 0.0, 1.0, 7.5], dtype=np.float32).reshape(1, 1, 1, 4).repeat(3, axis=1)
    for planes in (stage_planes(rgb, "bt709", "444"), reference.rgb_to_yuv(rgb, chroma="444")):
        assert planes[0].ravel().tolist() == [64, 64, 940, 940]
        assert set(planes[1].ravel()) == set(planes[2].ravel()) == {512}


def test_limited_range_ends():
    rgb = np.array([(0, 0, 0), (1, 1, 1), (0, 0, 1), (1, 0, 0)], dtype=np.float32).T.reshape(1, 3, 1, 4)
    y, cb, cr = stage_planes(rgb, "bt709", "444")
    assert y[0, 0, :2].tolist() == [64, 940]
    assert cb[0, 0, 2] == 960 and cr[0, 0, 3] == 960


def test_white_stays_white_in_bt2020():
    matrix = reference.gamut_matrix()
    assert np.allclose(matrix.sum(axis=1), 1, atol=1e-12)
    # Rec. ITU-R BT.2087-0, table 1.
    published = [[0.6274, 0.3293, 0.0433], [0.0691, 0.9195, 0.0114], [0.0164, 0.0880, 0.8956]]
    assert np.allclose(matrix, published, atol=5e-5)


def test_ordered_dither_keeps_the_mean_and_differs_by_one_code():
    rgb = np.full((1, 3, 64, 64), 0.43210, dtype=np.float64)
    exact = reference.yuv_values(rgb)[0][0, 0, 0]
    codes = reference.rgb_to_yuv(rgb, dither="ordered")[0]
    assert abs(codes.mean() - exact) < 1 / 64
    assert set(np.unique(codes)) == {int(exact), int(exact) + 1}


def chart() -> np.ndarray:
    """(2, 3, height, width): a row of patches, and in the second frame the same row the other way round."""
    row = np.repeat(PATCHES, PATCH, axis=0).T[:, None, :].repeat(PATCH * 2, axis=1)
    return np.stack([row, row[:, :, ::-1]]).astype(np.float32)


@pytest.mark.parametrize("chroma", CHROMAS)
@pytest.mark.parametrize("color", COLORS)
def test_chart_survives_lossless_hevc(tmp_path, color, chroma):
    frames = chart()
    clip = tmp_path / "chart.mp4"
    facts = write_clip(clip, torch.from_numpy(frames), lossless=True, color=color, chroma=chroma)

    assert (facts.color_space, facts.color_primaries, facts.color_transfer) == TAGS[color]
    assert facts.color_range == "tv"
    stored = decoded_planes(clip, facts)
    for plane, theirs in zip(stored, zscale(frames, color, chroma), strict=True):
        assert np.abs(plane.astype(int) - theirs).max() <= 1

    expected = frames.astype(np.float64)
    if color == "bt2020":
        wide = np.einsum("ij,njhw->nihw", reference.gamut_matrix(), expected**reference.GAMMA)
        expected = wide ** (1 / reference.GAMMA)
    inner = (np.arange(frames.shape[-1]) % PATCH >= 2) & (np.arange(frames.shape[-1]) % PATCH < PATCH - 2)
    difference = decoded_rgb(clip, facts, color).astype(int) - np.rint(1023 * expected).astype(int)
    assert np.abs(difference[..., inner]).max() <= 2


@pytest.mark.parametrize(("edge", "mixed"), [(16, 0.75), (17, 0.25)])
def test_chroma_is_left_sited(tmp_path, edge, mixed):
    """Red turns to blue between columns edge-1 and edge. With chroma on the even columns, [1 2 1] / 4, the
    sample at column 16 is 3/4 blue when 16 is the first blue column and 1/4 when 17 is; a centred sample
    would be 1 and 1/2.
    """
    frames = np.zeros((1, 3, 16, 32), dtype=np.float32)
    frames[:, 0, :, :edge] = 1
    frames[:, 2, :, edge:] = 1
    clip = tmp_path / "edge.mp4"
    facts = write_clip(clip, torch.from_numpy(frames), lossless=True)
    cb = decoded_planes(clip, facts)[1][0]
    red, blue = int(cb[0, 0]), int(cb[0, -1])
    share = (cb[:, 8].astype(float) - red) / (blue - red)
    assert np.allclose(share, mixed, atol=0.002)
    assert (cb[:, :8] == red).all() and (cb[:, 9:] == blue).all()


def test_chroma_lies_midway_between_rows():
    frames = np.zeros((1, 3, 32, 16), dtype=np.float32)
    frames[:, 0, :16] = 1
    frames[:, 2, 16:] = 1
    cb = stage_planes(frames, "bt709", "420")[1][0].astype(float)
    share = (cb[:, 0] - cb[0, 0]) / (cb[-1, 0] - cb[0, 0])
    assert np.allclose(share[6:10], [0, 0.125, 0.875, 1], atol=0.002)
