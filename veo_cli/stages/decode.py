"""Latents to frames with the Wan VAEs, streamed: one latent frame at a time through the causal cache.

Every causal convolution keeps its last two input frames, so a latent frame decoded alone, after its
predecessors, gives the very bits of the whole clip decoded at once, and memory does not grow with the clip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from veo_cli.values import FrameChunk, Latents

# (one post-quantised latent frame, its index) -> pixels (1, 3 * patch^2, frames, height, width) about [-1, 1]
DecodeFrame = Callable[[torch.Tensor, int], torch.Tensor]


def decode(vae: Any, latents: Latents, *, num_frames: int, tiled: bool = False) -> Iterator[FrameChunk]:
    """The first `num_frames` frames: one from the first latent frame, four from each that follows.

    vae: AutoencoderKLWan of either form, on its device, in its dtype. latents: (1, z_dim, latent_frames,
    latent_height, latent_width), the transformer's normalised space. Chunks: (1 or 4, 3, height, width),
    float32 in [0, 1] on the VAE's device, bit-equal to vae.decode (tiled: to vae.decode with tiling enabled).
    """
    pixels_of = _tiled_frame_decoder(vae) if tiled else _frame_decoder(vae)
    quantised = _post_quantised(vae, latents.tensor, tiled=tiled)
    first_index = 0
    for index in range(quantised.shape[2]):
        frames = _as_frames(vae, pixels_of(quantised[:, :, index : index + 1], index))
        frames = frames[: num_frames - first_index]
        if frames.shape[0] == 0:
            return
        yield FrameChunk(frames, first_index)
        first_index += frames.shape[0]


@torch.no_grad()
def _post_quantised(vae: Any, latents: torch.Tensor, *, tiled: bool) -> torch.Tensor:
    """Denormalised (by the config's latents_mean and latents_std, as diffusers does it) and, unless tiles
    are to do it one by one, through the 1x1x1 convolution that has no memory."""
    latents = latents.to(vae.device, vae.dtype)
    mean, std = (
        torch.tensor(values).view(1, vae.config.z_dim, 1, 1, 1)
        for values in (vae.config.latents_mean, vae.config.latents_std)
    )
    inverse_std = 1.0 / std.to(latents)
    latents = latents / inverse_std + mean.to(latents)
    return latents if tiled else vae.post_quant_conv(latents)


def _frame_decoder(vae: Any) -> DecodeFrame:
    cache = _empty_cache(vae)

    @torch.no_grad()
    def pixels_of(frame: torch.Tensor, index: int) -> torch.Tensor:
        pixels: torch.Tensor = vae.decoder(frame, feat_cache=cache, feat_idx=[0], first_chunk=index == 0)
        return pixels

    return pixels_of


def _tiled_frame_decoder(vae: Any) -> DecodeFrame:
    """Overlapping tiles, each with its own causal cache, blended frame by frame: `tiled_decode`, streamed.

    Activations are those of one tile; the caches of all tiles together are as large as an untiled one.
    """
    scale, patch = vae.spatial_compression_ratio, vae.config.patch_size or 1
    tile_height, tile_width = vae.tile_sample_min_height // scale, vae.tile_sample_min_width // scale
    stride_height, stride_width = (
        vae.tile_sample_stride_height // scale,
        vae.tile_sample_stride_width // scale,
    )
    kept_height, kept_width = vae.tile_sample_stride_height // patch, vae.tile_sample_stride_width // patch
    blend_height = vae.tile_sample_min_height // patch - kept_height
    blend_width = vae.tile_sample_min_width // patch - kept_width
    caches: dict[tuple[int, int], list[Any]] = {}

    @torch.no_grad()
    def pixels_of(frame: torch.Tensor, index: int) -> torch.Tensor:
        height, width = frame.shape[-2:]
        above: list[torch.Tensor] = []
        rows = []
        for top in range(0, height, stride_height):
            row: list[torch.Tensor] = []
            for left in range(0, width, stride_width):
                tile = vae.post_quant_conv(frame[..., top : top + tile_height, left : left + tile_width])
                cache = caches.setdefault((top, left), _empty_cache(vae))
                tile = vae.decoder(tile, feat_cache=cache, feat_idx=[0], first_chunk=index == 0)
                if above:
                    tile = vae.blend_v(above[len(row)], tile, blend_height)
                if row:
                    tile = vae.blend_h(row[-1], tile, blend_width)
                row.append(tile)
            above = row
            rows.append(torch.cat([tile[..., :kept_height, :kept_width] for tile in row], dim=-1))
        return torch.cat(rows, dim=-2)[..., : height * scale // patch, : width * scale // patch]

    return pixels_of


def _empty_cache(vae: Any) -> list[Any]:
    from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d

    return [None] * sum(isinstance(module, WanCausalConv3d) for module in vae.decoder.modules())


@torch.no_grad()
def _as_frames(vae: Any, pixels: torch.Tensor) -> torch.Tensor:
    """(1, 3 * patch^2, frames, h / patch, w / patch) about [-1, 1] to (frames, 3, h, w) in [0, 1]."""
    from diffusers.models.autoencoders.autoencoder_kl_wan import unpatchify

    if vae.config.patch_size is not None:
        pixels = unpatchify(pixels, patch_size=vae.config.patch_size)
    pixels = pixels.clamp(-1.0, 1.0)[0].permute(1, 0, 2, 3)
    return (pixels * 0.5 + 0.5).clamp(0, 1).float().contiguous()
