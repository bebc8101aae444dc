"""Streamed decoding equals whole decoding bit for bit, for both VAEs, tiled or not; memory stays flat."""

from __future__ import annotations

import weakref

import pytest
import torch

from tests import tiny_models
from veo_cli.models.cpu_conv3d import use_onednn
from veo_cli.stages.decode import decode
from veo_cli.values import Latents


def whole_decode(vae, latents):
    """(num_frames, 3, height, width): what WanPipeline does after its last step."""
    from diffusers.video_processor import VideoProcessor

    mean, std = (
        torch.tensor(v).view(1, -1, 1, 1, 1) for v in (vae.config.latents_mean, vae.config.latents_std)
    )
    with torch.no_grad():
        pixels = vae.decode(latents / (1.0 / std) + mean, return_dict=False)[0]
    return VideoProcessor().postprocess_video(pixels, output_type="pt")[0]


def streamed(vae, latents, **options):
    chunks = list(decode(vae, Latents(latents), **{"num_frames": 4 * latents.shape[2] - 3, **options}))
    starts = [chunk.first_index for chunk in chunks]
    assert starts == [0, *range(1, 4 * len(chunks) - 6, 4)][: len(chunks)]
    return torch.cat([chunk.frames for chunk in chunks])


@pytest.fixture(params=[False, True], ids=["wan21", "residual"])
def vae(request):
    torch.manual_seed(3)
    return tiny_models.make_wan_vae(residual=request.param).eval().requires_grad_(False)


def noise(*shape):
    return torch.randn(1, 16, *shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("latent_frames", [1, 2, 3, 6])
def test_streamed_equals_whole(vae, latent_frames):
    latents = noise(latent_frames, 4, 6)
    frames = streamed(vae, latents)
    assert frames.dtype == torch.float32
    assert frames.std() > 0.01
    assert torch.equal(frames, whole_decode(vae, latents))


def test_two_decodes_at_once_do_not_disturb_each_other(vae):
    first, second = noise(3, 4, 4), noise(3, 4, 4) * 0.5
    together = zip(
        decode(vae, Latents(first), num_frames=9), decode(vae, Latents(second), num_frames=9), strict=True
    )
    pairs = [(a.frames, b.frames) for a, b in together]
    assert torch.equal(torch.cat([a for a, _ in pairs]), whole_decode(vae, first))
    assert torch.equal(torch.cat([b for _, b in pairs]), whole_decode(vae, second))


def test_tiled_equals_diffusers_tiling(vae):
    side = 64 if vae.config.patch_size is None else 128
    vae.enable_tiling(side, side, side * 3 // 4, side * 3 // 4)
    latents = noise(2, 11, 13)
    tiled = streamed(vae, latents, tiled=True)
    assert torch.equal(tiled, whole_decode(vae, latents))
    vae.disable_tiling()
    assert not torch.equal(tiled, whole_decode(vae, latents))  # the tiles were really used


def test_frames_beyond_those_asked_are_not_made(vae):
    latents = noise(4, 4, 4)
    frames = torch.cat([chunk.frames for chunk in decode(vae, Latents(latents), num_frames=7)])
    assert torch.equal(frames, whole_decode(vae, latents)[:7])


def test_no_gradient_is_kept_and_the_callers_grad_mode_is_left_alone(vae):
    for chunk in decode(vae, Latents(noise(2, 4, 4)), num_frames=5):
        assert torch.is_grad_enabled()
        assert not chunk.frames.requires_grad


def test_chunks_are_let_go(vae):
    """Memory is flat because nothing holds a chunk once the next one is asked for."""
    alive = []
    for chunk in decode(vae, Latents(noise(6, 2, 2)), num_frames=21):
        assert sum(ref() is not None for ref in alive) <= 1
        alive.append(weakref.ref(chunk.frames))
    assert len(alive) == 6


def test_onednn_convolutions_round_differently_and_no_more(vae):
    latents = noise(3, 4, 6)
    plain = whole_decode(vae, latents)
    use_onednn(vae)
    assert torch.equal(streamed(vae, latents), whole_decode(vae, latents))
    assert (whole_decode(vae, latents) - plain).abs().max() < 5e-6
