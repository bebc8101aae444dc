"""Lanczos-3: the reference against Pillow, the stage against the reference, what each fit mode delivers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from kernels_cupy.reference import lanczos
from veo_cli.stages.fit import fit, place, resize
from veo_cli.values import FrameChunk

SIZES = [
    ((37, 53), (90, 200)),
    ((200, 300), (11, 17)),
    ((37, 53), (100, 53)),
    ((37, 53), (37, 10)),
    ((70, 130), (71, 129)),
    ((9, 9), (1, 1)),
    ((1, 1), (5, 7)),
    ((144, 256), (270, 480)),
    ((1, 200), (3, 65)),
]


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).random(shape, dtype=np.float32)


@pytest.mark.parametrize(("source", "target"), SIZES)
def test_reference_equals_pillow(source, target):
    plane = noise(*source)
    theirs = np.asarray(Image.fromarray(plane).resize(target[::-1], Image.Resampling.LANCZOS))
    assert np.abs(lanczos.resize(plane, *target) - theirs).max() < 1e-6


@pytest.mark.parametrize(("source", "target"), SIZES)
def test_stage_equals_reference(source, target):
    planes = noise(3, *source)
    ours = resize(torch.from_numpy(planes), *target).numpy()
    assert np.abs(ours - lanczos.resize(planes, *target)).max() < 1e-5


def test_a_flat_picture_stays_flat():
    flat = np.full((20, 30), 0.7)
    for size in ((7, 11), (20, 31), (64, 64)):
        assert np.allclose(lanczos.resize(flat, *size), 0.7, atol=1e-12)


def test_shrinking_is_antialiased():
    checkers = np.indices((64, 64)).sum(axis=0) % 2
    # Away from the edges a pattern finer than the new grid must be gone: mid grey.
    assert np.abs(lanczos.resize(checkers, 16, 16)[2:-2, 2:-2] - 0.5).max() < 0.01


def test_sizes_below_one_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        lanczos.taps(0, 4)


def test_frames_of_the_right_size_are_not_touched():
    chunk = FrameChunk(torch.from_numpy(noise(2, 3, 16, 24)), 5)
    assert fit(chunk, 24, 16, "crop") is chunk


@pytest.mark.parametrize("mode", ["crop", "pad", "stretch"])
@pytest.mark.parametrize("size", [(64, 64), (31, 17), (17, 31), (48, 32)])
def test_every_mode_delivers_the_exact_size(mode, size):
    width, height = size
    fitted = fit(FrameChunk(torch.from_numpy(noise(2, 3, 32, 48)), 4), width, height, mode)
    assert fitted.frames.shape == (2, 3, height, width)
    assert fitted.frames.dtype == torch.float32 and fitted.first_index == 4
    assert fitted.frames.min() >= 0 and fitted.frames.max() <= 1


def test_crop_keeps_the_middle():
    frames = torch.zeros((1, 3, 40, 80))
    frames[..., 20:60] = 1  # the middle square of a 2:1 picture
    assert (fit(FrameChunk(frames, 0), 20, 20, "crop").frames > 0.95).all()
    window = place(80, 40, 20, 20, "crop")
    assert (window.left, window.top, window.width, window.height) == (20, 0, 40, 40)


def test_pad_puts_black_bars_and_keeps_all():
    fitted = fit(FrameChunk(torch.ones((1, 3, 40, 80)), 0), 80, 80, "pad").frames
    assert (fitted[..., 20:60, :] == 1).all()
    assert (fitted[..., :20, :] == 0).all() and (fitted[..., 60:, :] == 0).all()


def test_pad_bars_keep_the_picture_on_even_pixels():
    for width in range(30, 64):
        placement = place(16, 9, width, 64, "pad")
        assert placement.offset_x % 2 == 0 and placement.offset_y % 2 == 0
        assert placement.target_width == width and placement.offset_y + placement.target_height <= 64


def test_stretch_uses_the_whole_picture():
    ramp = torch.linspace(0, 1, 64).expand(1, 3, 16, 64)
    fitted = fit(FrameChunk(ramp, 0), 32, 32, "stretch").frames
    assert fitted[0, 0, 0, 0] < 0.03 and fitted[0, 0, 0, -1] > 0.97


def test_a_frame_does_not_depend_on_its_chunk():
    frames = torch.from_numpy(noise(5, 3, 36, 64))
    together = fit(FrameChunk(frames, 0), 100, 50, "crop").frames
    alone = [fit(FrameChunk(frames[index : index + 1], index), 100, 50, "crop").frames for index in range(5)]
    assert torch.equal(together, torch.cat(alone))
