"""The endless training set: clip number i of a split is a function of i, drawn on whatever device trains."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from training.architectures import HEIGHT, NUM_FRAMES, WIDTH
from training.attributes import ATTRIBUTES, VALUES, Attributes, sample_attributes
from training.scenes import render

# Clips of different splits never share a seed.
SPLIT_OFFSET = {"train": 0, "held_out": 1_000_000_000, "floor": 2_000_000_000}

_MIRRORED = {"pan left": "pan right", "pan right": "pan left"}


def attributes_of(index: int, split: str = "train") -> Attributes:
    """What clip `index` of `split` shows."""
    return sample_attributes(random.Random(f"{split}/{index}"))


def mirrored(attributes: Attributes) -> Attributes:
    """What the clip shows once flipped left to right."""
    return replace(attributes, camera=_MIRRORED.get(attributes.camera, attributes.camera))


def labels(attributes: Sequence[Attributes], device: str | torch.device = "cpu") -> torch.Tensor:
    """(clips, 5) int64, columns in the order of ATTRIBUTES; -1 where the scene has no such attribute."""
    rows = [
        [VALUES[a].index(getattr(x, a)) if getattr(x, a) is not None else -1 for a in ATTRIBUTES]
        for x in attributes
    ]
    return torch.tensor(rows, dtype=torch.int64).reshape(-1, len(ATTRIBUTES)).to(device)


def _to_uint8(frames: torch.Tensor) -> torch.Tensor:
    return frames.float().clamp(0, 1).mul_(255).round_().to(torch.uint8)


def render_uint8(
    attributes: Sequence[Attributes],
    seeds: Sequence[int],
    device: str | torch.device,
    *,
    num_frames: int = NUM_FRAMES,
    batch_size: int = 64,
) -> Iterator[tuple[list[int], torch.Tensor]]:
    """Yield (positions, clips): clips (n, frames, 3, 144, 256) uint8; each batch is of one scene."""
    by_scene = sorted(range(len(attributes)), key=lambda i: attributes[i].scene)
    start = 0
    while start < len(by_scene):
        scene = attributes[by_scene[start]].scene
        stop = start
        while (
            stop < len(by_scene) and stop - start < batch_size and attributes[by_scene[stop]].scene == scene
        ):
            stop += 1
        rows = by_scene[start:stop]
        with torch.no_grad():
            frames = render(
                [attributes[i] for i in rows], [seeds[i] for i in rows], num_frames=num_frames, device=device
            )
        yield rows, _to_uint8(frames)
        start = stop


class ClipPool:
    """Clips 0 … count-1 of a split, drawn once and kept on the device.

    `frames`: (count, frames=33, 3, 144, 256) uint8; `labels`: (count, 5) int64; `attributes`: list.
    """

    def __init__(
        self,
        count: int,
        device: str | torch.device,
        split: str = "train",
        first: int = 0,
        batch_size: int = 64,
    ) -> None:
        started = time.monotonic()
        indices = range(first, first + count)
        self.attributes = [attributes_of(i, split) for i in indices]
        seeds = [i + SPLIT_OFFSET[split] for i in indices]
        self.frames = torch.empty(count, NUM_FRAMES, 3, HEIGHT, WIDTH, dtype=torch.uint8, device=device)
        for rows, clips in render_uint8(self.attributes, seeds, device, batch_size=batch_size):
            self.frames[torch.tensor(rows, device=device)] = clips
        self.labels = labels(self.attributes, device)
        if self.frames.is_cuda:
            torch.cuda.synchronize()
        self.seconds = time.monotonic() - started

    def __len__(self) -> int:
        return len(self.attributes)


def as_input(frames: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """uint8 (batch, frames, 3, h, w) -> RGB in [-1, 1], (batch, 3, frames, h, w), as the networks take it."""
    return frames.transpose(1, 2).to(dtype).div_(127.5).sub_(1.0)


def as_frames(clips: torch.Tensor) -> torch.Tensor:
    """RGB in [-1, 1], (batch, 3, frames, h, w) -> uint8 (batch, frames, 3, h, w)."""
    return _to_uint8(clips.float().add(1.0).div_(2.0)).transpose(1, 2)
