"""Random numbers as a pure function of (clip seed, name): stateless, so a clip ignores its neighbours.

They are worked out on the host: thirty kernels for a handful of numbers cost a GPU more than the copy of them.
"""

from __future__ import annotations

import zlib

import numpy as np
import torch
from torch import Tensor

# SplitMix64 (Steele, Lea, Flood 2014), modulo 2^64.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

Bits = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]


def seed_bits(seeds: list[int]) -> Bits:
    """Seeds of any size and sign as (batch,) uint64, modulo 2^64."""
    return np.array([seed & (2**64 - 1) for seed in seeds], dtype=np.uint64)


def _mix(bits: Bits) -> Bits:
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return bits ^ (bits >> np.uint64(31))


def uniform(seeds: Bits, name: str, count: int, device: torch.device) -> Tensor:
    """(batch,) seeds -> (batch, count) float32 in [0, 1) on the device, the same on every one."""
    key = np.uint64(zlib.crc32(name.encode()))
    lane = np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN
    bits = _mix(_mix(seeds * _MIX_2 + key)[:, None] + lane)
    values = (bits >> np.uint64(40)).astype(np.float32) * np.float32(1.0 / (1 << 24))
    return torch.from_numpy(values).to(device)
