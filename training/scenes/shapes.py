"""Anti-aliased shapes as coverage masks, curves, and paint over a picture. Axes as in `stage`.

Memory traffic is what a clip costs on a GPU, so each of these passes over its pixels as few times as it can.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from training.scenes.stage import Stage

TAU = 2 * math.pi


def coverage(distance: Tensor, pixel: Tensor | float) -> Tensor:
    """Signed distance (negative inside) -> how much of the pixel is covered, in [0, 1]."""
    if isinstance(pixel, Tensor):
        half = distance.new_full((), 0.5)
        return torch.addcmul(half, distance, pixel.reciprocal(), value=-1).clamp_(0, 1)
    return torch.rsub(distance, 0.5, alpha=1 / pixel).clamp_(0, 1)


def glow(distance: Tensor, width: Tensor | float) -> Tensor:
    """A soft light that falls off from distance 0: 1 at the source, ~0.37 at `width`."""
    return (distance / -width).clamp_(max=0).exp_()


def over(picture: Tensor, mask: Tensor, colour: Tensor) -> Tensor:
    """Paint `colour` over `picture`, in place, where the mask is 1; returns the picture."""
    return picture.lerp_(colour.expand_as(picture), mask)


def shine(picture: Tensor, mask: Tensor, colour: Tensor) -> Tensor:
    """Add light without burning out (screen blend), in place; returns the picture."""
    # picture + (1 - picture) * light in one pass.
    return picture.lerp_(picture.new_ones(()).expand_as(picture), colour * mask)


def disc(x: Tensor, y: Tensor, radius: Tensor | float) -> Tensor:
    """Signed distance to a disc at the origin."""
    return torch.sqrt(x * x + y * y + 1e-12) - radius


def ellipse(x: Tensor, y: Tensor, half_width: Tensor | float, half_height: Tensor | float) -> Tensor:
    """Approximate signed distance to an ellipse at the origin (exact for a circle)."""
    u, v = x / half_width, y / half_height
    length = torch.sqrt(u * u + v * v + 1e-12)
    slope = torch.sqrt((u / half_width) ** 2 + (v / half_height) ** 2 + 1e-12)
    return length * (length - 1) / slope


def box(
    x: Tensor, y: Tensor, half_width: Tensor | float, half_height: Tensor | float, corner: float = 0.0
) -> Tensor:
    """Signed distance to a box at the origin, corners rounded by `corner`."""
    u, v = x.abs() - half_width + corner, y.abs() - half_height + corner
    return torch.maximum(u, v).clamp(max=0) + torch.hypot(u.clamp(min=0), v.clamp(min=0)) - corner


def trapezium(
    x: Tensor, y: Tensor, bottom: Tensor | float, top: Tensor | float, height: Tensor | float
) -> Tensor:
    """Signed distance (a bound) to a shape of half-width `bottom` at y = 0 and `top` at y = height."""
    slope = (bottom - top) / height
    side = (x.abs() - bottom + slope * y) / (1 + slope**2) ** 0.5
    return torch.maximum(side, torch.maximum(-y, y - height))


def segment(
    x: Tensor, y: Tensor, x0: Tensor | float, y0: Tensor | float, x1: Tensor | float, y1: Tensor | float
) -> Tensor:
    """Distance to the line from (x0, y0) to (x1, y1); subtract half a thickness."""
    dx, dy = x1 - x0, y1 - y0
    along = ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy + 1e-9)
    along = along.clamp(0, 1) if isinstance(along, Tensor) else along
    return torch.sqrt((x - x0 - along * dx) ** 2 + (y - y0 - along * dy) ** 2 + 1e-12)


def polygon(x: Tensor, y: Tensor, corners: list[tuple[Tensor | float, Tensor | float]]) -> Tensor:
    """Signed distance (a bound) to a convex polygon, its corners in clockwise order (y upwards)."""
    distance: Tensor | None = None
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        ex, ey = x1 - x0, y1 - y0
        side = ((y - y0) * ex - (x - x0) * ey) / (ex * ex + ey * ey + 1e-12) ** 0.5
        distance = side if distance is None else torch.maximum(distance, side)
    assert distance is not None
    return distance


def smoothstep(low: Tensor | float, high: Tensor | float, value: Tensor) -> Tensor:
    """0 below `low`, 1 above `high`, smooth between."""
    t = ((value - low) / (high - low)).clamp_(0, 1)
    return torch.rsub(t, 3, alpha=2).mul_(t).mul_(t)


def hills(
    stage: Stage, name: str, x: Tensor, frequency: float, octaves: int = 3, gain: float = 0.45
) -> Tensor:
    """A rolling 1-D curve, -1 .. 1: sines with the clip's own phases; `frequency` in cycles a unit."""
    phases = stage.draws(f"{name}/phase", 0, TAU, octaves)
    bends = stage.draws(f"{name}/bend", 0.85, 1.15, octaves)
    total, weight, norm = torch.zeros_like(x), 1.0, 0.0
    for k in range(octaves):
        total = total + weight * torch.sin(x * (TAU * frequency * 1.93**k) * bends[k] + phases[k])
        norm, weight = norm + weight, weight * gain
    return total / norm


def peaks(
    stage: Stage, name: str, x: Tensor, frequency: float, octaves: int = 4, gain: float = 0.5
) -> Tensor:
    """A jagged 1-D curve, about 0 .. 1: a sum of triangle waves with the clip's own phases."""
    phases = stage.draws(f"{name}/phase", 0, 1, octaves)
    bends = stage.draws(f"{name}/bend", 0.8, 1.2, octaves)
    total, weight, norm = torch.zeros_like(x), 1.0, 0.0
    for k in range(octaves):
        wave = x * (frequency * 2.13**k) * bends[k] + phases[k]
        total = total + weight * (2 * (wave - wave.floor()) - 1).abs()
        norm, weight = norm + weight, weight * gain
    return total / norm
