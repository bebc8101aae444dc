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
from training.clips import SPLIT_OFFSET, as_input, attributes_of, mirrored, render_uint8
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


def build(
    vae: Any,
    count: int,
    *,
    device: str | torch.device,
    captions_each: int = 6,
    batch_size: int = 64,
    seconds: float | None = None,
    workers: int = 12,
    log: RunLog | None = None,
) -> LatentSet:
    """Encode `count` fresh training clips and their mirror images (so 2 * count latents).

    `seconds`: stop drawing after so long and keep what is there. `vae`: on the device, trained, its latent
    statistics set. `workers=0` writes the captions in this process.
    """
    log = log or RunLog()
    device = torch.device(device)
    started = time.monotonic()
    attributes = [attributes_of(i) for i in range(count)]
    # A chunk is a fair sample of the world, so that stopping early leaves no scene out.
    chunk = max(1, min(count, 24 * batch_size))
    latents = torch.empty(2 * count, *LATENT_SHAPE, dtype=torch.float16, device=device)
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
        mean, std = statistics(vae, device)
        done = 0
        for first in range(0, count, chunk):
            if seconds is not None and time.monotonic() - started > seconds:
                break
            some = attributes[first : first + chunk]
            seeds = [i + SPLIT_OFFSET["train"] for i in range(first, first + len(some))]
            for rows, frames in render_uint8(some, seeds, device, batch_size=batch_size):
                at = torch.tensor(rows, device=device) + first
                for flip in (0, 1):
                    clips = as_input(
                        frames.flip(-1) if flip else frames,
                        torch.bfloat16 if device.type == "cuda" else torch.float32,
                    )
                    with (
                        torch.no_grad(),
                        torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"),
                    ):
                        encoded = torch.cat([vae_sequence.encode(vae, part)[0] for part in clips.split(16)])
                    latents[2 * at + flip] = ((encoded.float() - mean) / std).half()
            done = first + len(some)
        if device.type == "cuda":
            torch.cuda.synchronize()
        log("latents", clips=done, with_mirrors=2 * done, seconds_spent=time.monotonic() - started)
        texts: list[str] = []
        for n, part in enumerate(parts[: (2 * done + 3999) // 4000]):
            texts += pending[n].result() if executor else write_captions(part, captions_each, "train")
    finally:
        if executor:
            executor.shutdown(wait=False, cancel_futures=True)
    texts = texts[: 2 * done * captions_each]
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
        latents[: 2 * done],
        states,
        torch.tensor(rows_of, device=device).view(2 * done, captions_each),
        encoder.states([""]).half(),
    )
