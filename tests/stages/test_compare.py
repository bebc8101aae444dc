"""`veo compare`: figures against NumPy's own, and clips that cannot be compared."""

from __future__ import annotations

import numpy as np
import pytest

from tests.stages.clips import decoded_planes, moving_texture, write_clip
from veo_cli import ffmpeg
from veo_cli.compare import compare
from veo_cli.errors import SpecificationError

FRAMES = 6


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    texture = moving_texture(FRAMES, 64, 96)
    return {
        name: (folder / f"{name}.mp4", write_clip(folder / f"{name}.mp4", frames, **settings))
        for name, frames, settings in (
            ("reference", texture, {"lossless": True}),
            ("good", texture, {"crf": 12, "fps": 30}),
            ("poor", texture, {"crf": 42}),
            ("h264", texture, {"codec": "h264"}),
            ("short", texture[:4], {}),
            ("small", moving_texture(FRAMES, 32, 48), {}),
            ("wide", texture, {"color": "bt2020"}),
            ("still", texture[:1].repeat(FRAMES, 1, 1, 1), {"lossless": True}),
        )
    }


def luma(clips, name: str) -> np.ndarray:
    return decoded_planes(*clips[name])[0].astype(float)


def test_psnr_and_motion_are_numpy_s(clips):
    figures = compare(clips["reference"][0], clips["poor"][0])
    a, b = luma(clips, "reference"), luma(clips, "poor")
    assert figures.psnr_y_db == pytest.approx(10 * np.log10(1023**2 / ((a - b) ** 2).mean()), abs=0.01)
    assert figures.motion_a == pytest.approx(100 * np.abs(np.diff(a, axis=0)).mean() / 876, abs=1e-3)
    assert figures.motion_b == pytest.approx(100 * np.abs(np.diff(b, axis=0)).mean() / 876, abs=1e-3)
    assert (figures.width, figures.height, figures.num_frames) == (96, 64, FRAMES)
    assert not figures.identical


def test_better_is_better_by_every_measure(clips):
    good = compare(clips["reference"][0], clips["good"][0])  # at another frame rate, too
    poor = compare(clips["reference"][0], clips["poor"][0])
    assert good.psnr_db > poor.psnr_db + 5
    assert 1 > good.ssim > poor.ssim and 1 > good.ssim_y > poor.ssim_y
    if good.vmaf is not None and poor.vmaf is not None:
        assert 100 >= good.vmaf > poor.vmaf > 0


def test_a_clip_equals_itself(clips):
    figures = compare(clips["reference"][0], clips["reference"][0])
    assert figures.identical and figures.psnr_db is None and figures.ssim == 1


def test_vmaf_is_there_where_ffmpeg_has_it(clips):
    has_vmaf = any("libvmaf" in ffmpeg.filters(program) for program in ffmpeg.ffmpegs())
    assert (compare(clips["reference"][0], clips["poor"][0]).vmaf is not None) == has_vmaf


def test_tiny_clips_have_no_vmaf(tmp_path):
    frames = moving_texture(3, 16, 16)
    for name in ("a.mp4", "b.mp4"):
        write_clip(tmp_path / name, frames, crf=20 if name == "a.mp4" else 40)
    assert compare(tmp_path / "a.mp4", tmp_path / "b.mp4").vmaf is None


def test_a_still_has_no_motion(clips):
    figures = compare(clips["reference"][0], clips["still"][0])
    assert figures.motion_a > 1 and figures.motion_b == 0


def test_ten_bit_against_eight_bit(clips):
    assert compare(clips["reference"][0], clips["h264"][0]).psnr_db > 35


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        ("short", "differ in length: 6 and 4 frames"),
        ("small", "differ in size: 96x64 and 48x32"),
        ("wide", "differ in colour space: bt709 and bt2020nc"),
    ],
)
def test_clips_that_cannot_be_compared(clips, other, complaint):
    with pytest.raises(SpecificationError, match=complaint):
        compare(clips["reference"][0], clips[other][0])


def test_files_that_are_no_clips(clips, tmp_path):
    text = tmp_path / "text.mp4"
    text.write_text("a boat")
    for other, complaint in ((text, "not a video"), (tmp_path / "none.mp4", "no such clip")):
        with pytest.raises(SpecificationError, match=complaint):
            compare(clips["reference"][0], other)
