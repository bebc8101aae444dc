"""Rain, snow and fog in front of a finished picture, and the last touch that all scenes share."""

from __future__ import annotations

import torch
from torch import Tensor

from training.scenes.canvas import Canvas
from training.scenes.shapes import over, smoothstep
from training.scenes.stage import HALF_WIDTH, Stage

# Particles repeat after this many picture heights, vertically and horizontally.
_PERIOD_Y, _PERIOD_X = 1.25, 1.0
# The share of the haze's colour that fog lays over even the nearest things.
_THIN_FOG = 0.12


def finish(stage: Stage, picture: Tensor) -> Tensor:
    """Weather in front of everything, then a soft vignette: call it last; returns the picture in [0, 1]."""
    stage.paint_some(picture, "weather", ("fog",), _fog)
    stage.paint_some(picture, "weather", ("rain",), _rain)
    stage.paint_some(picture, "weather", ("snow",), _snow)
    edge = (stage.screen_x / HALF_WIDTH) ** 2 * 0.5 + (stage.screen_y * 2) ** 2 * 0.5
    return picture.mul_(1 - 0.10 * edge * edge).clamp_(0, 1)


def _fog(stage: Stage, picture: Tensor) -> None:
    """Drifting banks, thickest at the horizon."""
    layer = stage.layer(0.9)
    reach = stage.reach(0.9) + 0.3
    field = Canvas(stage, -reach, reach, -0.5, 0.5, density=0.35)
    speed = stage.draw("fog/speed", 0.05, 0.12) * torch.where(stage.draw("fog/way") < 0.5, -1.0, 1.0)
    banks = smoothstep(0.2, 0.85, field.noise("fog/banks", 1.3, 3.5, 3))
    thick = torch.exp(-(((field.y - stage.horizon) / 0.26) ** 2))
    mask = field.sample_mask(layer.x - speed * stage.seconds, layer.y, _THIN_FOG + 0.34 * banks * thick)
    over(picture, mask.clamp(min=_THIN_FOG) * stage.fog, stage.haze_colour())


def _tile(stage: Stage, name: str, columns: int, rows: int) -> tuple[Canvas, Tensor, Tensor, Tensor]:
    """A periodic canvas of cells: (canvas, place in the cell across and down in [0, 1), a hash a cell)."""
    # One more period's cells at the far edges, so that bilinear sampling never meets the border.
    field = Canvas(stage, -0.05, _PERIOD_X + 0.05, -0.05, _PERIOD_Y + 0.05, density=1.3)
    u, v = field.x / _PERIOD_X * columns, field.y / _PERIOD_Y * rows
    # Columns are shifted by their own amounts, or rows of particles would show.
    shift = stage.uniform(f"{name}/shift", columns)
    v = v + rows * shift[:, (u.floor() % columns).long().view(-1)].view(stage.batch, 1, 1, 1, -1)
    cell = (u.floor() % columns) + (v.floor() % rows) * columns
    index = cell.long().view(stage.batch, -1)
    shape = cell.shape
    across, along, chosen = (
        stage.uniform(f"{name}/{k}", columns * rows).gather(1, index).view(shape) for k in (0, 1, 2)
    )
    return field, u - u.floor() - 0.25 - 0.5 * across, v - v.floor() - 0.35 - 0.3 * along, chosen


def _rain(stage: Stage, picture: Tensor) -> None:
    slant = stage.draw("rain/slant", -0.22, 0.22)
    light = stage.by_time("#e6eef4", "#f0d6cc", "#a9bbdd")
    strength = stage.draw("rain/strength", 0.75, 1.0) * stage.rain
    for k, (columns, rows, width, length, speed, opacity) in enumerate(
        ((22, 5, 0.0075, 0.085, 2.3, 0.44), (12, 3, 0.0110, 0.15, 3.1, 0.54))
    ):
        field, u, v, chosen = _tile(stage, f"rain/{k}", columns, rows)
        across, along = u * (_PERIOD_X / columns) / width, v * (_PERIOD_Y / rows) / length
        streak = (1 - across * across).clamp(min=0) * (1 - along * along).clamp(min=0) * (chosen < 0.65)
        fall = stage.seconds * speed
        # The shear makes drops fall along their own slant.
        x = (stage.screen_x + slant * stage.screen_y + 0.37 * k) % _PERIOD_X
        y = (stage.screen_y + fall) % _PERIOD_Y
        over(picture, field.sample_mask(x, y, streak) * (opacity * strength), light)


def _snow(stage: Stage, picture: Tensor) -> None:
    light = stage.by_time("#ffffff", "#fff0ea", "#dfe7fb")
    wind = stage.draw("snow/wind", -0.18, 0.18)
    phases = stage.draws("snow/sway", 0, 6.283, 3)
    for k, (columns, rows, radius, speed, opacity) in enumerate(
        ((14, 17, 0.011, 0.22, 0.8), (9, 11, 0.016, 0.32, 0.9), (5, 6, 0.024, 0.45, 0.9))
    ):
        field, u, v, chosen = _tile(stage, f"snow/{k}", columns, rows)
        across, along = u * (_PERIOD_X / columns), v * (_PERIOD_Y / rows)
        size = radius * (0.75 + 0.5 * chosen)
        flake = smoothstep(1.0, 0.25, torch.sqrt(across * across + along * along) / size) * (chosen < 0.7)
        sway = 0.025 * torch.sin(stage.seconds * (1.6 - 0.2 * k) + phases[k])
        x = (stage.screen_x - wind * stage.seconds * (0.7 + 0.3 * k) + sway + 0.29 * k) % _PERIOD_X
        y = (stage.screen_y + speed * stage.seconds) % _PERIOD_Y
        over(picture, field.sample_mask(x, y, flake) * (opacity * stage.snow), light)
