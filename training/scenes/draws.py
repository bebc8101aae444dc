"""Random numbers as a pure function of (clip seed, name): stateless, so a clip ignores its neighbours."""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

# SplitMix64 (Steele, Lea, Flood 2014); signed constants because torch lacks uint64 arithmetic.
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2 = 0x94D049BB133111EB - (1 << 64)


def _shift_right(bits: Tensor, count: int) -> Tensor:
    return (bits >> count) & ((1 << (64 - count)) - 1)


def _mix(bits: Tensor) -> Tensor:
    bits = (bits ^ _shift_right(bits, 30)) * _MIX_1
    bits = (bits ^ _shift_right(bits, 27)) * _MIX_2
    return bits ^ _shift_right(bits, 31)


def uniform(seeds: Tensor, name: str, count: int) -> Tensor:
    """(batch,) int64 seeds -> (batch, count) float32 in [0, 1), the same on every device."""
    key = zlib.crc32(name.encode())
    lane = torch.arange(1, count + 1, device=seeds.device, dtype=torch.int64) * _GOLDEN
    bits = _mix(_mix(seeds * _MIX_2 + key)[:, None] + lane)
    return _shift_right(bits, 40).to(torch.float32) * (1.0 / (1 << 24))
