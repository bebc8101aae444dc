"""The transformer's training set, kept on the device: normalised latents, and token states of captions.

Clips are drawn, encoded and forgotten; each is also taken mirrored, with left and right exchanged in what it is
said to show. Captions are written in other processes while the GPU draws.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import torch

from training import vae_sequence
from training.architectures import LATENT_SHAPE, TEXT_DIM, TEXT_TOKENS
from training.attributes import Attributes
from training.clips import SPLIT_OFFSET, ClipPool, as_input, attributes_of, mirrored, render_uint8
from training.run_log import RunLog
from training.text_states import TextEncoder


@dataclass(frozen=True)
class LatentSet:
    """`latents`: (clips, 16, 9, 18, 32) fp16, normalised per channel; `states`: (captions, 64, 384) fp16;
    `caption_rows`: (clips, captions a clip) int64, rows of `states`; `empty_state`: (1, 64, 384) fp16."""

    latents: torch.Tensor
    states: torch.Tensor
    caption_rows: torch.Tensor
    empty_state: torch.Tensor

    def __len__(self) -> int:
        return len(self.latents)


def statistics(vae: Any, device: str | torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The config's latents_mean and latents_std, each (1, 16, 1, 1, 1) float32."""
    mean, std = (
        torch.tensor(v, dtype=torch.float32, device=device).view(1, -1, 1, 1, 1)
        for v in (vae.config.latents_mean, vae.config.latents_std)
    )
    return mean, std


def write_captions(clips: Sequence[tuple[Attributes, int]], each: int, split: str) -> list[str]:
    """`each` captions of every (attributes, seed), in order, clip by clip."""
    from training.captions import captions

    generator = random.Random(f"captions/{split}/{clips[0][1]}")
    repeated = [attributes for attributes, _ in clips for _ in range(each)]
    return captions(repeated, generator, split)[0]


@torch.no_grad()
def encode_normalised(vae: Any, frames: torch.Tensor, batch_size: int = 16) -> torch.Tensor:
    """Normalised latents (clips, 16, t, h/8, w/8), fp16, of uint8 clips (clips, frames, 3, h, w)."""
    on_gpu = frames.is_cuda
    mean, std = statistics(vae, frames.device)
    out = []
    for part in frames.split(batch_size):
        clips = as_input(part, torch.bfloat16 if on_gpu else torch.float32)
        with torch.autocast(frames.device.type, torch.bfloat16, enabled=on_gpu):
            encoded, _ = vae_sequence.encode(vae, clips)
        out.append(((encoded.float() - mean) / std).half())
    return torch.cat(out)


def build(
    vae: Any,
    count: int,
    *,
    device: str | torch.device,
    pool: ClipPool | None = None,
    captions_each: int = 6,
    batch_size: int = 64,
    workers: int = 12,
    log: RunLog | None = None,
) -> LatentSet:
    """Encode training clips 0 ... count-1 and their mirror images (so 2 * count latents).

    `pool`: the first clips, where they are drawn already. `vae`: on the device, trained, its latent statistics
    set. `workers=0` writes the captions in this process.
    """
    log = log or RunLog()
    device = torch.device(device)
    started = time.monotonic()
    attributes = [attributes_of(i) for i in range(count)]
    everything = [a for x in attributes for a in (x, mirrored(x))]
    labelled = [(a, i) for i, a in enumerate(everything)]
    parts = [labelled[i : i + 4000] for i in range(0, len(labelled), 4000)]
    executor = ProcessPoolExecutor(workers, mp_context=get_context("spawn")) if workers else None
    try:
        pending = (
            [executor.submit(write_captions, part, captions_each, "train") for part in parts]
            if executor
            else []
        )
        latents = torch.empty(2 * count, *LATENT_SHAPE, dtype=torch.float16, device=device)
        ready = min(count, len(pool)) if pool is not None else 0
        for start in range(0, ready, batch_size):
            frames = pool.frames[start : min(start + batch_size, ready)]
            at = torch.arange(start, start + len(frames), device=device)
            latents[2 * at] = encode_normalised(vae, frames)
            latents[2 * at + 1] = encode_normalised(vae, frames.flip(-1))
        seeds = [i + SPLIT_OFFSET["train"] for i in range(ready, count)]
        for rows, frames in render_uint8(attributes[ready:], seeds, device, batch_size=batch_size):
            at = torch.tensor(rows, device=device) + ready
            latents[2 * at] = encode_normalised(vae, frames)
            latents[2 * at + 1] = encode_normalised(vae, frames.flip(-1))
        if device.type == "cuda":
            torch.cuda.synchronize()
        log("latents", clips=count, with_mirrors=2 * count, seconds_spent=time.monotonic() - started)
        texts: list[str] = []
        for n, part in enumerate(parts):
            texts += pending[n].result() if executor else write_captions(part, captions_each, "train")
    finally:
        if executor:
            executor.shutdown(wait=False, cancel_futures=True)
    log("captions", count=len(texts), seconds_spent=time.monotonic() - started)
    encoder = TextEncoder(device, torch.float16 if device.type == "cuda" else torch.float32)
    known: dict[str, int] = {}
    rows_of = [known.setdefault(text, len(known)) for text in texts]
    states = torch.empty(len(known), TEXT_TOKENS, TEXT_DIM, dtype=torch.float16, device=device)
    distinct = list(known)
    for start in range(0, len(distinct), 16384):
        states[start : start + 16384] = encoder.states(distinct[start : start + 16384]).half()
    log("text states", distinct=len(distinct), seconds_spent=time.monotonic() - started)
    return LatentSet(
        latents,
        states,
        torch.tensor(rows_of, device=device).view(2 * count, captions_each),
        encoder.states([""]).half(),
    )
