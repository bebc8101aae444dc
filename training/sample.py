"""Prompts -> clips with veo-mini, as the renderer does it, batched for evaluation.

The loop is diffusers' own: UniPC (or Euler) on flow sigmas with classifier-free guidance. Noise comes from one
CPU generator a clip, so a clip is a function of its prompt and seed alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from training import vae_sequence
from training.architectures import LATENT_CHANNELS, LATENT_SHAPE, NUM_FRAMES
from training.clips import as_frames
from training.latents import statistics


def noise(seeds: Sequence[int], num_frames: int = NUM_FRAMES) -> torch.Tensor:
    """Standard normal latents (clips, 16, 1 + (num_frames-1)/4, 18, 32), float32, on the CPU."""
    shape = (1, LATENT_CHANNELS, 1 + (num_frames - 1) // 4, *LATENT_SHAPE[2:])
    return torch.cat([torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in seeds])


@torch.no_grad()
def sample_latents(
    transformer: Any,
    states: torch.Tensor,
    empty_state: torch.Tensor,
    seeds: Sequence[int],
    *,
    steps: int,
    guidance: float,
    flow_shift: float,
    num_frames: int = NUM_FRAMES,
    batch_size: int = 64,
) -> torch.Tensor:
    """Normalised latents (clips, 16, t, 18, 32), float32; states (clips, 64, 384), empty_state (1, 64, 384)."""
    from diffusers import UniPCMultistepScheduler

    device = states.device
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
    count = len(seeds)
    if count > batch_size or device.type == "cuda":
        # Every batch the same size, so that a compiled network is compiled once.
        spare = -count % batch_size
        seeds = [*seeds, *([0] * spare)]
        states = torch.cat((states, states[-1:].expand(spare, -1, -1)))
    out = []
    for start in range(0, len(seeds), batch_size):
        text = states[start : start + batch_size].float()
        x = noise(seeds[start : start + batch_size], num_frames).to(device)
        both = torch.cat((text, empty_state.float().expand(len(text), -1, -1)))
        scheduler = UniPCMultistepScheduler(
            prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=flow_shift, solver_order=2
        )
        scheduler.set_timesteps(steps, device=device)
        for t in scheduler.timesteps:
            with autocast:
                if guidance == 1.0:
                    velocity = transformer(x, t.expand(len(x)), text, return_dict=False)[0].float()
                else:
                    twice = torch.cat((x, x))
                    asked, free = (
                        transformer(twice, t.expand(len(twice)), both, return_dict=False)[0].float().chunk(2)
                    )
                    velocity = free + guidance * (asked - free)
            x = scheduler.step(velocity, t, x, return_dict=False)[0]
        out.append(x)
    return torch.cat(out)[:count]


@torch.no_grad()
def decode_frames(vae: Any, latents: torch.Tensor, batch_size: int = 16) -> torch.Tensor:
    """Clips uint8 (clips, frames, 3, 144, 256) of normalised latents."""
    device = latents.device
    mean, std = statistics(vae, device)
    out = []
    for part in latents.split(batch_size):
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            clips = vae_sequence.decode(vae, part.float() * std + mean)
        out.append(as_frames(clips))
    return torch.cat(out)
