"""A picture painted once a clip on a canvas of the world, and sampled wherever the camera finds it.

A canvas costs a thirtieth of painting every frame, so whatever does not change its shape belongs on one.
Its x, y and pixel serve the same shapes as a `Layer`'s do.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from training.scenes.shapes import over, shine
from training.scenes.stage import ROWS, Stage


class Canvas:
    """RGBA over [left, right] x [bottom, top], in the units of the layer or subject that it is sampled with.

    rgb: (batch, 3, 1, row, column), premultiplied; alpha: (batch, 1, 1, row, column), both in [0, 1].
    """

    def __init__(
        self,
        stage: Stage,
        left: float,
        right: float,
        bottom: float,
        top: float,
        *,
        density: float = 1.3,
    ) -> None:
        self.stage, self.left, self.right, self.bottom, self.top = stage, left, right, bottom, top
        # Whole pixels at scale 1, then times the scale: the same world at each scale.
        columns = math.ceil((right - left) * ROWS * density) * stage.scale
        rows = math.ceil((top - bottom) * ROWS * density) * stage.scale
        column = torch.arange(columns, device=stage.device, dtype=torch.float32) + 0.5
        row = torch.arange(rows, device=stage.device, dtype=torch.float32) + 0.5
        self.x = (left + column * ((right - left) / columns)).view(1, 1, 1, 1, -1)
        self.y = (top - row * ((top - bottom) / rows)).view(1, 1, 1, -1, 1)
        self.pixel = max((right - left) / columns, (top - bottom) / rows)
        self.rgb = torch.zeros(stage.batch, 3, 1, rows, columns, device=stage.device)
        self.alpha = torch.zeros(stage.batch, 1, 1, rows, columns, device=stage.device)

    def over(self, mask: Tensor, colour: Tensor) -> None:
        """Paint a colour (batch, 3, ...) where the mask (batch, 1, ...) is 1."""
        mask = mask.expand_as(self.alpha)
        over(self.rgb, mask, colour)
        self.alpha.lerp_(self.alpha.new_ones(()).expand_as(self.alpha), mask)

    def shine(self, mask: Tensor, colour: Tensor) -> None:
        """Add light to what is painted already."""
        shine(self.rgb, mask * self.alpha, colour)

    def noise(self, name: str, x_cells: float, y_cells: float, octaves: int = 3) -> Tensor:
        """Smooth noise in [0, 1], so many cells a unit at the coarsest: (batch, 1, 1, row, column)."""
        stage, size = self.stage, self.alpha.shape[-2:]
        total, weight, norm = torch.zeros_like(self.alpha[:, 0]), 1.0, 0.0
        for k in range(octaves):
            columns = max(2, round(x_cells * 2**k * (self.right - self.left)) + 1)
            rows = max(2, round(y_cells * 2**k * (self.top - self.bottom)) + 1)
            lattice = stage.uniform(f"{name}/{k}", rows * columns)
            lattice = lattice.view(stage.batch, 1, rows, columns)
            total = total + weight * F.interpolate(lattice, size=size, mode="bicubic", align_corners=False)
            norm, weight = norm + weight, weight * 0.5
        return ((total / norm - 0.5) * 1.5 + 0.5).clamp(0, 1)[:, :, None]

    def sample(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Premultiplied rgb (batch, 3, frame, row, column) and alpha (batch, 1, ...); 0 outside."""
        both = _grid_sample(torch.cat([self.rgb, self.alpha], 1), self._grid(x, y))
        return both[:, :3], both[:, 3:]

    def sample_mask(self, x: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """The alpha alone, or another mask (batch, 1, 1, row, column) of the canvas's size."""
        return _grid_sample(self.alpha if mask is None else mask, self._grid(x, y))

    def blit(
        self,
        picture: Tensor,
        x: Tensor,
        y: Tensor,
        fade: Tensor | float = 1.0,
        rows: slice = slice(None),
    ) -> Tensor:
        """Lay the canvas over the picture (batch, 3, frame, row, column), in place; `fade` thins it.

        rows: those of the picture that the canvas can reach (`stage.band`).
        """
        picture, y = picture[..., rows, :], y[..., rows, :]
        x = x[..., rows, :] if x.shape[-2] > 1 else x
        rgb, alpha = self.sample(x, y)
        if isinstance(fade, Tensor) or fade != 1.0:
            rgb, alpha = rgb * fade, alpha * fade
        return picture.addcmul_(picture, alpha, value=-1).add_(rgb)

    def _grid(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        across = (x - self.left) * (2 / (self.right - self.left)) - 1
        down = (self.top - y) * (2 / (self.top - self.bottom)) - 1
        return across, down


def _grid_sample(texture: Tensor, grid: tuple[Tensor, Tensor]) -> Tensor:
    batch, channels = texture.shape[:2]
    stage_shape = torch.broadcast_shapes(grid[0].shape, grid[1].shape)
    frames, rows, columns = stage_shape[2:]
    both = torch.stack([g.expand(batch, 1, frames, rows, columns)[:, 0] for g in grid], -1)
    # Frames are stacked along the rows of the grid, so that the texture is not copied for each.
    sampled = F.grid_sample(
        texture[:, :, 0], both.view(batch, frames * rows, columns, 2), mode="bilinear", align_corners=False
    )
    return sampled.view(batch, channels, frames, rows, columns)
