"""The quality gate: what it lets through and what it stops."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from tests.stages.clips import job_for, moving_texture, write_clip
from veo_cli.errors import QualityGateFailed
from veo_cli.stages.quality_gate import FrameWatch, check_clip, check_latents
from veo_cli.values import FrameChunk, Latents

FRAMES = 7


@pytest.fixture(scope="module")
def texture() -> torch.Tensor:
    return moving_texture(FRAMES, 24, 32)


def watched(frames: torch.Tensor, chunk: int) -> FrameWatch:
    watch = FrameWatch()
    for first in range(0, len(frames), chunk):
        watch.see(FrameChunk(frames[first : first + chunk], first))
    return watch


@pytest.mark.parametrize("chunk", [1, 3, FRAMES])
def test_a_sound_clip_passes_whatever_its_chunks(texture, chunk):
    checks = watched(texture, chunk).check(num_frames=FRAMES)
    assert checks.num_frames == FRAMES and checks.moving
    assert checks.minimum == texture.min() and checks.maximum == texture.max()
    assert 0 < checks.largest_spread <= 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("chunk", [1, 3, FRAMES])
def test_a_single_bad_value_stops_at_its_frame(texture, value, chunk):
    broken = texture.clone()
    broken[4, 1, 20, 31] = value
    with pytest.raises(QualityGateFailed, match="frame 4 holds NaN or infinite"):
        watched(broken, chunk)


@pytest.mark.parametrize(
    ("level", "look"),
    [((0, 0, 0), "black"), ((1, 1, 1), "white"), ((0.2, 0.5, 0.9), "one flat colour")],
)
def test_flat_clips_fail(level, look):
    frames = torch.tensor(level, dtype=torch.float32).view(1, 3, 1, 1).repeat(FRAMES, 1, 24, 32)
    frames += 0.0004 * torch.rand(frames.shape)  # less than 10 bits can show
    with pytest.raises(QualityGateFailed, match=f"every frame is {look}"):
        watched(frames.clamp(0, 1), 3).check(num_frames=FRAMES)


def test_flat_frames_that_flicker_fail():
    frames = torch.linspace(0, 1, FRAMES).view(-1, 1, 1, 1).repeat(1, 3, 24, 32)
    with pytest.raises(QualityGateFailed, match="one flat colour"):
        watched(frames, 3).check(num_frames=FRAMES)


def test_a_fade_from_black_passes(texture):
    fade = texture * torch.linspace(0, 1, FRAMES).view(-1, 1, 1, 1)
    assert watched(fade, 2).check(num_frames=FRAMES).moving


@pytest.mark.parametrize("chunk", [1, 3, FRAMES])
def test_a_frozen_clip_fails_and_one_bit_unfreezes_it(texture, chunk):
    frozen = texture[:1].repeat(FRAMES, 1, 1, 1)
    with pytest.raises(QualityGateFailed, match="frozen: all 7 frames"):
        watched(frozen, chunk).check(num_frames=FRAMES)
    frozen[-1, 0, 0, 0] += 1e-6
    assert watched(frozen, chunk).check(num_frames=FRAMES).moving


def test_a_single_frame_may_stand_still(texture):
    assert not watched(texture[:1], 1).check(num_frames=1).moving


@pytest.mark.parametrize("asked", [FRAMES - 1, FRAMES + 1])
def test_a_wrong_count_of_frames_fails(texture, asked):
    with pytest.raises(QualityGateFailed, match=f"7 frames were decoded where {asked}"):
        watched(texture, 3).check(num_frames=asked)


def test_latents():
    latents = torch.randn((1, 4, 2, 3, 5))
    check_latents(Latents(latents))
    latents[0, 0, 0, 0, 0] = float("nan")
    with pytest.raises(QualityGateFailed, match=r"NaN or infinite latents \(0\.8%"):
        check_latents(Latents(latents))


@pytest.mark.parametrize("settings", [{}, {"color": "bt2020"}, {"chroma": "444"}, {"codec": "h264"}])
@pytest.mark.parametrize("fps", [24, 23.976])
def test_a_written_clip_passes(tmp_path, texture, settings, fps):
    facts = write_clip(tmp_path / "clip.mp4", texture, fps=fps, codec_preset="ultrafast", **settings)
    check_clip(facts, job_for(texture, fps=fps, **settings))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"num_frames": 6}, "num_frames is 6, not 7"),
        ({"width": 34}, "width is 34, not 32"),
        ({"pixel_format": "yuv420p"}, "pixel_format is yuv420p, not yuv420p10le"),
        ({"codec_tag": "hev1"}, "codec_tag is hev1, not hvc1"),
        ({"color_range": "pc"}, "color_range is pc, not tv"),
        ({"color_transfer": ""}, "color_transfer is not set, not bt709"),
        ({"fps": 25.0}, "fps is 25.000, not 24.000"),
        ({"duration_s": 1.0}, "duration is 1.000 s"),
    ],
)
def test_a_clip_that_is_not_what_was_asked_fails(tmp_path, texture, change, complaint):
    facts = write_clip(tmp_path / "clip.mp4", texture, codec_preset="ultrafast")
    with pytest.raises(QualityGateFailed, match=complaint):
        check_clip(dataclasses.replace(facts, **change), job_for(texture))


def test_every_difference_is_named(tmp_path, texture):
    facts = write_clip(tmp_path / "clip.mp4", texture, codec_preset="ultrafast")
    with pytest.raises(
        QualityGateFailed, match=r"color_space is bt709, not bt2020nc; color_primaries is bt709"
    ):
        check_clip(facts, job_for(texture, color="bt2020"))
