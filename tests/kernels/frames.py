"""Planes to compress: photographs' statistics, noise, extremes, and everything in between."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.uint16]
KINDS = ("smooth", "grain", "noise10", "noise16", "constant", "extremes", "two", "ramp", "limit")


def plane(kind: str, height: int, width: int, rng: np.random.Generator) -> Plane:
    """(height, width) uint16 of one of `KINDS`."""
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float64)
    wave = 512 + 300 * np.sin(rows / 37 + rng.uniform(0, 6)) * np.cos(columns / 53 + rng.uniform(0, 6))
    match kind:
        case "smooth":
            values = wave
        case "grain":
            values = wave + 0.5 * rng.standard_normal((height, width))
        case "noise10":
            values = rng.integers(0, 1024, (height, width))
        case "noise16":
            values = rng.integers(0, 1 << 16, (height, width))
        case "constant":
            values = np.full((height, width), rng.integers(0, 1024))
        case "extremes":
            values = rng.choice([0, 1023], (height, width))
        case "two":
            values = rng.integers(500, 502, (height, width))
        case "ramp":
            values = (rows * 7 + columns * 3) % 1024
        case "limit":  # either side of what is predicted at all
            values = rng.integers(16370, 16384 + 2, (height, width))
        case _:
            raise AssertionError(kind)
    return np.rint(values).clip(0, 65535).astype(np.uint16)


@functools.cache
def photograph(frames: int = 2, height: int = 540, width: int = 960) -> NDArray[np.int16]:
    """(frames, 3, height, width) int16, 10 bits: a slow pan over an upscaled photograph, 0.5 LSB of grain.

    The anchor frames' recipe: at 2160 x 3840 they are the anchor frames, but for the generator of the grain.
    """
    import torch
    from sklearn.datasets import load_sample_image
    from torch.nn.functional import interpolate

    image = torch.from_numpy(load_sample_image("china.jpg").copy()).float().permute(2, 0, 1)[None] / 255
    big = interpolate(image, size=(2400, 4200), mode="bicubic", align_corners=False).clamp(0, 1)
    generator = torch.Generator().manual_seed(0)
    out = []
    for i in range(frames):
        cut = big[:, :, 20 + i : 20 + i + height, 30 + 2 * i : 30 + 2 * i + width]
        grain = 0.5 * torch.randn(cut.shape, generator=generator)
        out.append((cut * 1023 + grain).round().clamp(0, 1023).to(torch.int16)[0].numpy())
    return np.stack(out)
