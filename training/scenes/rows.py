"""A row of things along x (trees, houses, windows): one formula paints them all, each with its own draws."""

from __future__ import annotations

import torch
from torch import Tensor

from training.scenes.stage import Stage

_KINDS = 64


class Row:
    """Cells of `width` along a canvas's x; every cell holds one thing.

    x: the place within the cell, 0 in its middle, (1, 1, 1, 1, column), in the canvas's units.
    """

    def __init__(self, stage: Stage, name: str, x: Tensor, width: float, offset: float = 0.0) -> None:
        self.stage, self.name = stage, name
        cell = torch.floor(x / width + offset)
        self.x = x - (cell + 0.5 - offset) * width
        self._index = cell.view(-1).long() % _KINDS

    def draw(self, name: str, low: float = 0.0, high: float = 1.0) -> Tensor:
        """One value a cell and clip, uniform in [low, high): (batch, 1, 1, 1, column)."""
        values = self.stage.uniform(f"{self.name}/{name}", _KINDS)[:, self._index]
        return (values * (high - low) + low).view(self.stage.batch, 1, 1, 1, -1)

    def chance(self, name: str, probability: float) -> Tensor:
        """1.0 for the cells that win, else 0.0: (batch, 1, 1, 1, column)."""
        return (self.draw(name) < probability).to(torch.float32)


def conifer(x: Tensor, y: Tensor, half_width: Tensor, height: Tensor, tiers: float = 5.0) -> Tensor:
    """Signed distance (roughly) to a fir of stacked skirts that stands on y = 0."""
    up = (y / height).clamp(-0.05, 1.05)
    # Each skirt is wide below and narrows upwards; the next one starts wider again.
    step = up * tiers
    skirt = step - step.floor()
    width = half_width * ((1 - up) * 0.80 + 0.20 * (1 - skirt) * (1 - up).clamp(min=0.12))
    side = (x.abs() - width) * 0.9
    return torch.maximum(side, torch.maximum(-y, y - height))
