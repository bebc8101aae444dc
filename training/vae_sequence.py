"""AutoencoderKLWan over whole clips at once: the same numbers as its causal cache, fit for training.

diffusers encodes 1 + 4 + 4 + ... frames and decodes one latent frame at a time through a feature cache. That
is slow to train and awkward to differentiate. Causal convolutions padded with zeros at the clip's start give
the same result in one pass, apart from the resampling blocks, where the first frame goes its own way
(diffusers/models/autoencoders/autoencoder_kl_wan.py, WanResample). A test holds the two equal.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from diffusers.models.autoencoders.autoencoder_kl_wan import (
    WanAttentionBlock,
    WanMidBlock,
    WanResample,
    WanResidualBlock,
    WanUpBlock,
    patchify,
    unpatchify,
)


def norm_silu(x: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    """WanRMS_norm over channels, then SiLU; x: (batch, channels, time, h, w), gamma: (channels, 1, 1, 1)."""
    y = F.rms_norm(x.permute(0, 2, 3, 4, 1), (x.shape[1],), gamma.flatten().to(x.dtype), eps=1e-12)
    return F.silu(y.permute(0, 4, 1, 2, 3))


def _residual(block: WanResidualBlock, x: torch.Tensor) -> torch.Tensor:
    y = block.conv1(norm_silu(x, block.norm1.gamma))
    y = block.conv2(norm_silu(y, block.norm2.gamma))
    return y + block.conv_shortcut(x)


def _per_frame(layer: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    batch, _, time, _, _ = x.shape
    y = layer(x.transpose(1, 2).flatten(0, 1))
    return y.unflatten(0, (batch, time)).transpose(1, 2)


def _resample(block: WanResample, x: torch.Tensor) -> torch.Tensor:
    if block.mode == "upsample3d" and x.shape[2] > 1:
        rest = block.time_conv(x[:, :, 1:])
        even, odd = rest.chunk(2, dim=1)
        rest = torch.stack((even, odd), dim=3).flatten(2, 3)
        x = torch.cat((x[:, :, :1], rest), dim=2)
    x = _per_frame(block.resample, x)
    if block.mode == "downsample3d" and x.shape[2] > 1:
        x = torch.cat((x[:, :, :1], block.time_conv(x)), dim=2)
    return x


def _apply(layer: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    if isinstance(layer, WanResidualBlock):
        return _residual(layer, x)
    if isinstance(layer, WanResample):
        return _resample(layer, x)
    if isinstance(layer, WanAttentionBlock):
        return layer(x)
    if isinstance(layer, WanMidBlock):
        x = _residual(layer.resnets[0], x)
        for attention, resnet in zip(layer.attentions, layer.resnets[1:], strict=True):
            x = _residual(resnet, attention(x))
        return x
    if isinstance(layer, WanUpBlock):
        for resnet in layer.resnets:
            x = _residual(resnet, x)
        return _resample(layer.upsamplers[0], x) if layer.upsamplers is not None else x
    raise TypeError(f"no whole-clip form of {type(layer).__name__}")


def encode(vae: torch.nn.Module, clips: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and log-variance of the latents, each (batch, 16, 1 + (frames-1)/4, height/8, width/8).

    clips: (batch, 3, frames=4n+1, height, width), RGB in [-1, 1].
    """
    x = patchify(clips, vae.config.patch_size or 1)
    encoder = vae.encoder
    x = encoder.conv_in(x)
    for layer in encoder.down_blocks:
        x = _apply(layer, x)
    x = _apply(encoder.mid_block, x)
    x = encoder.conv_out(norm_silu(x, encoder.norm_out.gamma))
    mean, log_variance = vae.quant_conv(x).chunk(2, dim=1)
    return mean, log_variance.clamp(-30.0, 20.0)


def decode(vae: torch.nn.Module, latents: torch.Tensor) -> torch.Tensor:
    """Clips (batch, 3, 4n+1, 8*height, 8*width), RGB around [-1, 1], not clamped; latents unnormalised."""
    decoder = vae.decoder
    x = decoder.conv_in(vae.post_quant_conv(latents))
    x = _apply(decoder.mid_block, x)
    for layer in decoder.up_blocks:
        x = _apply(layer, x)
    x = decoder.conv_out(norm_silu(x, decoder.norm_out.gamma))
    return unpatchify(x, vae.config.patch_size or 1)
