"""The sky: gradient, sun, moon, stars and clouds of each time and weather."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from training.scenes.canvas import Canvas
from training.scenes.shapes import TAU, coverage, disc, glow, over, shine, smoothstep
from training.scenes.stage import Stage

SKY_DEPTH = 0.6
# How far under the horizon the sky's lights and clouds go on.
_LOWEST = -0.08
_MOON_RADIUS = 0.06


@dataclass(frozen=True)
class Sky:
    """picture: (batch, 3, frame, row, column); place (in the sky layer) and colour of the sun or moon."""

    picture: Tensor
    light_x: Tensor
    light_y: Tensor
    light: Tensor


def paint_sky(stage: Stage, *, clouds: bool = True) -> Sky:
    """The whole background above and below `stage.horizon` (call `stage.aim` before)."""
    zenith, middle, low = stage.sky_colours()
    layer = stage.layer(SKY_DEPTH)
    height = ((layer.y - stage.horizon) / (0.56 - stage.horizon)).clamp(0, 1)
    picture = torch.where(
        height < 0.45,
        torch.lerp(low, middle, smoothstep(0.0, 0.45, height)),
        torch.lerp(middle, zenith, smoothstep(0.45, 1.0, height)),
    )
    picture = picture.expand(-1, -1, -1, -1, stage.columns).contiguous()

    light_x, light_y = _light_place(stage)
    light = stage.by_time("#fff6d0", "#ffd27a", "#e8eeff")
    # What lies lower is painted over by every scene.
    above = stage.band(_LOWEST, math.inf, SKY_DEPTH)
    heaven, layer = picture[..., above, :], layer.on(above)
    stage.paint_some(heaven, "time", ("night",), lambda some, part: _stars(some, part, above))
    _light(stage, heaven, layer.x - light_x, layer.y - light_y, layer.pixel, light)
    stage.paint_some(heaven, "time", ("night",), lambda some, part: _moon(some, part, above))
    if clouds:
        stage.paint_some(heaven, "weather", ("clear",), lambda some, part: _fair_clouds(some, part, above))
        stage.paint_some(
            heaven, "weather", ("rain", "snow", "fog"), lambda some, part: _overcast(some, part, above)
        )
    return Sky(picture, light_x, light_y, light)


def _light(stage: Stage, picture: Tensor, x: Tensor, y: Tensor, pixel: Tensor, colour: Tensor) -> None:
    # Bad weather hides the disc; fog leaves a pale one.
    seen = _seen(stage)
    radius = (
        stage.day * 0.055
        + stage.sunset * stage.draw("sky/sun size", 0.085, 0.12)
        + stage.night * _MOON_RADIUS
    )
    distance = disc(x, y, radius)
    halo = stage.by_time("#fff4c8", "#ff9a3c", "#7f9ce0")
    reach = stage.day * 0.12 + stage.sunset * 0.30 + stage.night * 0.10
    shine(picture, glow(distance, reach) * (0.6 * seen), halo)
    over(picture, coverage(distance, pixel * 1.5) * seen, colour)


def _light_place(stage: Stage) -> tuple[Tensor, Tensor]:
    """Where the sun or the moon stands in the sky layer."""
    high, low_sun = stage.draw("sky/light high", 0.58, 0.82), stage.draw("sky/light low", 0.10, 0.26)
    height = torch.where(stage.sunset > 0, low_sun, high)
    return stage.draw("sky/light x", -0.62, 0.62), stage.horizon + (0.5 - stage.horizon) * height


def _seen(stage: Stage) -> Tensor:
    return stage.clear + 0.35 * stage.fog + 0.25 * stage.snow * stage.sunset


def _moon(stage: Stage, picture: Tensor, rows: slice) -> None:
    """The moon's face: a bite out of some, spots on the others."""
    layer, (light_x, light_y) = stage.layer(SKY_DEPTH).on(rows), _light_place(stage)
    x, y, pixel, radius = layer.x - light_x, layer.y - light_y, layer.pixel, _MOON_RADIUS
    moon = coverage(disc(x, y, radius), pixel * 1.5) * _seen(stage)
    crescent = stage.chance("sky/crescent", 0.4)
    dark = coverage(disc(x - radius * 0.45, y - radius * 0.25, radius * 0.92), pixel * 1.5)
    over(picture, dark.mul_(moon).mul_(crescent * 0.92), stage.sky_colours()[0] * 1.25)
    spots: Tensor | None = None
    for dx, dy, size in ((-0.3, 0.25, 0.22), (0.25, -0.1, 0.28), (-0.15, -0.45, 0.18)):
        spot = disc(x - radius * dx, y - radius * dy, radius * size)
        spots = spot if spots is None else torch.minimum(spots, spot)
    assert spots is not None
    over(picture, moon.mul_(coverage(spots, pixel * 2)).mul_((1 - crescent) * 0.5), stage.colour("#c3cbe4"))


def _stars(stage: Stage, picture: Tensor, rows: slice) -> None:
    layer = stage.layer(SKY_DEPTH).on(rows)
    x, y = layer.x, layer.y
    reach = stage.reach(SKY_DEPTH)
    twinkle = stage.draws("stars/twinkle", 0, TAU, 2)
    fade = stage.night * (stage.clear + 0.10 * stage.snow)
    above = smoothstep(0.02, 0.25, y - stage.horizon)
    for k in (0, 1):
        field = Canvas(stage, -reach, reach, -0.5, 0.56, density=1.3)
        field_x, field_y = field.x * 9, field.y * 9
        cell_x, cell_y = field_x.floor(), field_y.floor()
        # One star a cell, its place and size from a hash of the cell and the clip.
        bias = stage.draw(f"stars/{k}", 0, 100)
        hash_1 = _cell_hash(cell_x, cell_y, bias)
        hash_2 = _cell_hash(cell_x + 31.7, cell_y, bias)
        hash_3 = _cell_hash(cell_x, cell_y + 17.3, bias)
        dx, dy = field_x - cell_x - 0.2 - 0.6 * hash_1, field_y - cell_y - 0.2 - 0.6 * hash_2
        size = 0.045 + 0.06 * hash_3**2
        star = (
            torch.exp(-(dx * dx + dy * dy) / (size * size))
            * (0.35 + 0.65 * hash_3)
            * (hash_1 + hash_2 > 0.85)
        )
        light = field.sample_mask(x, y, star) * above * fade
        shine(
            picture, light * (0.8 + 0.2 * torch.sin(stage.seconds * 3 + twinkle[k])), stage.colour("#f4f6ff")
        )


def _cell_hash(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    """A hash of cell indices in [0, 1); good enough for scattering, cheap on a canvas."""
    value = torch.sin(x * 12.9898 + y * 78.233 + bias) * 437.585
    return value - value.floor()


def _drift(stage: Stage) -> Tensor:
    """How far the wind has carried the clouds: (batch, 1, frame, 1, 1)."""
    speed = stage.draw("clouds/wind", 0.02, 0.06) * torch.where(stage.draw("clouds/way") < 0.5, -1.0, 1.0)
    return speed * (stage.seconds - 1.3)


def _fair_clouds(stage: Stage, picture: Tensor, rows: slice) -> None:
    """Heaps with flat feet, lit from above."""
    reach = stage.reach(SKY_DEPTH) + 0.25
    field = Canvas(stage, -reach, reach, -0.3, 0.56, density=1.2)
    bright = stage.by_time("#ffffff", "#ffb59a", "#3a4f8c")
    shade = stage.by_time("#b9d3ea", "#a5578a", "#1c2d60")
    amount = stage.draw("clouds/amount", 0.2, 1.0)
    count = 5
    xs, ys = stage.draws("clouds/x", -0.22, 0.22, count), stage.draws("clouds/y", 0.30, 0.95, count)
    sizes = stage.draws("clouds/size", 0.055, 0.12, count)
    flat = stage.draw("clouds/flat", 0.45, 0.9)
    for k in range(count):
        sizes_k = sizes[k] * (amount * count > k) if k else sizes[k]
        size = sizes_k.clamp(min=1e-3)
        slot = (k + 0.5) / count * 2 * reach - reach
        cx = (field.x - slot - xs[k]) / size
        cy = (field.y - (stage.horizon + ys[k] * (0.5 - stage.horizon))) / size / flat
        puff: Tensor | None = None
        bumps = stage.draws(f"clouds/bump{k}", 0.75, 1.2, 4)
        for bump, (px, py, pr) in zip(
            bumps,
            ((-1.15, 0.1, 0.55), (-0.4, 0.35, 0.8), (0.5, 0.3, 0.72), (1.3, 0.08, 0.5)),
            strict=True,
        ):
            d = disc(cx - px * bump, cy - py * bump, pr * bump)
            puff = d if puff is None else torch.minimum(puff, d)
        assert puff is not None
        body = torch.maximum(puff, -cy - 0.18)
        mask = coverage(body * size * flat, field.pixel * 2.5) * (sizes_k > 0)
        tone = torch.lerp(shade, bright, smoothstep(-0.2, 0.75, cy))
        field.over(mask * 0.92, tone)
    layer = stage.layer(SKY_DEPTH).on(rows)
    field.blit(picture, layer.x - _drift(stage), layer.y)


def _overcast(stage: Stage, picture: Tensor, rows: slice) -> None:
    """Soft bands over the whole sky."""
    reach = stage.reach(SKY_DEPTH) + 0.25
    _, middle, low = stage.sky_colours()
    layer = stage.layer(SKY_DEPTH).on(rows)
    x = layer.x - _drift(stage)
    field = Canvas(stage, -reach, reach, -0.5, 0.56, density=0.5)
    bands = field.noise("clouds/noise", 1.6, 4.5, 3)
    up = smoothstep(0.05, 0.5, field.y - stage.horizon)
    dark = smoothstep(0.45, 0.8, bands) * up
    pale = smoothstep(0.55, 0.2, bands) * up
    fade = stage.rain * 0.75 + stage.snow * 0.4 + stage.fog * 0.2
    over(
        picture,
        field.sample_mask(x, layer.y, dark) * fade,
        middle * (0.72 * stage.rain + 0.88 * (1 - stage.rain)),
    )
    over(picture, field.sample_mask(x, layer.y, pale) * fade * 0.6, low)
