"""A running mean of a network's weights, which is what gets shipped."""

from __future__ import annotations

import torch


class Ema:
    """A running mean of a network's weights, its horizon growing from a tenth of the steps so far."""

    def __init__(self, model: torch.nn.Module, rate: float) -> None:
        self.rate = rate
        self.weights = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self, model: torch.nn.Module, step: int) -> None:
        rate = min(self.rate, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.weights, [p.detach() for p in model.parameters()], 1 - rate)

    @torch.no_grad()
    def copy_to(self, model: torch.nn.Module) -> torch.nn.Module:
        for p, w in zip(model.parameters(), self.weights, strict=True):
            p.copy_(w)
        return model
