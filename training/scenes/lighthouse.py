"""A striped lighthouse on a rocky coast; its beam turns whenever it is dark or dim."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from training.scenes.canvas import Canvas
from training.scenes.shapes import (
    TAU,
    box,
    coverage,
    disc,
    glow,
    over,
    peaks,
    polygon,
    shine,
    smoothstep,
    trapezium,
)
from training.scenes.sky import paint_sky
from training.scenes.stage import Stage
from training.scenes.water import SWELLS, paint_sea, swell_crest
from training.scenes.weather import finish

# Swells before this one are behind the rocks.
_SHORE = 5
# In units of the tower's height.
_LAMP = 0.885


def paint(stage: Stage) -> Tensor:
    """(batch, 3, frame, row, column), RGB in [0, 1]."""
    side = torch.where(stage.draw("side") < 0.5, -1.0, 1.0)
    x = side * stage.place("tower/x", 0.05, 0.36)
    stage.aim(horizon=(-0.26, -0.12), focus_x=x * 0.6)
    sky = paint_sky(stage)
    roughness = stage.draw("roughness", 0.15, 0.6) + 0.3 * stage.rain
    paint_sea(stage, sky, roughness=roughness, last=_SHORE)
    rise = stage.draw("cliff/height", 0.02, 0.08)
    ground = stage.horizon + rise
    size = torch.minimum(stage.draw("tower/size", 0.48, 0.62), (stage.headroom() - rise) / 1.05)
    layer = stage.layer(1.0)
    _cliff(stage, sky.picture, x, side, ground, roughness)
    local_x, local_y = (layer.x - x) / size, (layer.y - ground + 0.02) / size
    _beam(stage, sky.picture, local_x, local_y - _LAMP, behind=True)
    _draw_tower(stage).blit(
        sky.picture,
        local_x / stage.draw("tower/girth", 1.1, 1.4),
        local_y,
        rows=stage.band(-0.06, math.inf),
    )
    _beam(stage, sky.picture, local_x, local_y - _LAMP, behind=False)
    paint_sea(stage, sky, roughness=roughness, first=_SHORE, last=SWELLS)
    return finish(stage, sky.picture)


def _cliff(stage: Stage, picture: Tensor, x: Tensor, side: Tensor, ground: Tensor, roughness: Tensor) -> None:
    """Rocks that carry the tower and run off to one side, grass on top."""
    reach = stage.reach(1.0)
    canvas = Canvas(stage, -reach, reach, -0.5, 0.2, density=1.1)
    along = (canvas.x - x) * side
    rough = peaks(stage, "cliff", canvas.x, 1.7, 4) - 0.5
    rise = smoothstep(-0.42, -0.16, along + 0.10 * rough)
    far_end = smoothstep(stage.draw("cliff/end", 0.7, 1.4), 0.35, along) * 0.6 + 0.4
    top = torch.lerp(torch.full_like(along, -0.55), ground + 0.0 * along, rise) + 0.03 * rough * (
        1 - rise * 0.6
    )
    top = torch.where(along > 0.2, stage.horizon + (top - stage.horizon) * far_end, top)
    body = coverage(canvas.y - top, canvas.pixel * 1.4)
    below = top - canvas.y
    # Facets: slanted cracks, darker with depth.
    crack = peaks(stage, "facets", canvas.x * 1.0 + 0.5 * side * below, 3.1, 3)
    rock = torch.lerp(stage.lit("#8a7a6c", snowed=0.25), stage.lit("#3f3a3c"), smoothstep(0.25, 0.7, crack))
    rock = rock * (1 - 0.35 * smoothstep(0.0, 0.35, below))
    canvas.over(body, rock)
    grass = torch.lerp(stage.lit("#6f9a4a", snowed=0.95), stage.lit("#4d7a3a", snowed=0.9), crack)
    depth = 0.028 + 0.022 * rough
    canvas.over(body * coverage(below - depth, canvas.pixel * 2) * smoothstep(-0.25, -0.08, along), grass)
    # A keeper's cottage.
    some = stage.chance("cottage", 0.75)
    hx, hy = (along - stage.draw("cottage/x", 0.19, 0.30)) / 0.085, (canvas.y - ground + 0.012) / 0.085
    pixel = canvas.pixel / 0.085
    canvas.over(coverage(box(hx, hy - 0.4, 0.85, 0.45), pixel) * some, stage.lit("#efe6d6"))
    roof = polygon(hx, hy, [(-1.05, 0.8), (-0.6, 1.45), (0.6, 1.45), (1.05, 0.8)])
    canvas.over(coverage(roof, pixel) * some, stage.lit("#6a4038", snowed=1.0))
    glass = torch.lerp(stage.lit("#44586a"), stage.colour("#ffd070"), stage.night + 0.7 * stage.sunset)
    window = box(hx.abs() - 0.42, hy - 0.42, 0.17, 0.2)
    canvas.over(coverage(window, pixel) * some, glass)
    layer = stage.layer(1.0)
    canvas.blit(picture, layer.x, layer.y, rows=stage.band(-math.inf, 0.26))
    # Surf where the next swell breaks against the rocks; that swell will cover its lower half.
    rows = stage.band(-0.4, 0.06)
    sea, crest = swell_crest(stage, _SHORE, roughness)
    sea = sea.on(rows)
    wash = 0.006 * torch.sin(stage.seconds * 2.2 + sea.x * 9) + 0.004 * torch.sin(
        sea.x * 31 - stage.seconds * 1.3
    )
    surf = coverage((sea.y - crest - wash - 0.004).abs() - 0.011, 0.012)
    surf = surf * smoothstep(-0.42, -0.34, (layer.x - x) * side)
    over(picture[..., rows, :], surf * 0.8, stage.lit("#f2f8fa"))


def _draw_tower(stage: Stage) -> Canvas:
    """The tower, 1 high, its foot at 0."""
    canvas = Canvas(stage, -0.26, 0.26, -0.03, 1.06, density=0.9)
    x, y, pixel = canvas.x, canvas.y, canvas.pixel * 1.3
    # A round wall: light from one side.
    lean = torch.where(stage.draw("sky/light x", -0.62, 0.62) < 0, -1.0, 1.0)
    shade = 1.0 - 0.34 * smoothstep(-0.05, 0.13, -x * lean)
    white_clips = stage.has("colour", "white")
    other = torch.lerp(stage.colour("#f6f2ea"), stage.colour("#46505c"), white_clips)
    light = torch.lerp(stage.lit(other), other * stage.by_time("#ffffff", "#f2d8cc", "#9aa2b8"), 0.75)
    wall = coverage(trapezium(x, y, 0.135, 0.085, 0.80), pixel)
    bands = stage.draw("tower/bands", 0.0, 1.0)
    count = 5.0 + 2.0 * (bands > 0.5)
    spiral = stage.chance("tower/spiral", 0.3)
    phase = y / 0.80 * count + spiral * (x * 7.0 + 0.25)
    band = (phase % 2.0 - 1.0).abs() * 2 - 1
    stripe = coverage((band * -0.5) * 0.80 / count, pixel)
    canvas.over(wall, light * shade)
    canvas.over(wall * stripe, stage.subject() * shade)
    for wy in (0.18, 0.42, 0.64):
        canvas.over(
            coverage(box(x, y - wy, 0.014, 0.026, 0.008), pixel), stage.lit("#2c3440") + 0.15 * stage.night
        )
    canvas.over(coverage(box(x, y - 0.045, 0.026, 0.05, 0.02), pixel), stage.lit("#5a3a28"))
    # Gallery, lantern, cap.
    canvas.over(coverage(box(x, y - 0.805, 0.125, 0.018, 0.005), pixel), stage.lit("#39424e"))
    rail = torch.minimum((y - 0.855).abs() - 0.005, ((x + 0.01) % 0.035 - 0.0175).abs() - 0.003)
    rail = torch.maximum(rail, torch.maximum(x.abs() - 0.118, torch.maximum(y - 0.86, 0.80 - y)))
    canvas.over(coverage(rail, pixel), stage.lit("#39424e"))
    lamp = torch.lerp(
        stage.lit("#bcd4de"), stage.colour("#ffe9a0"), stage.night + 0.8 * stage.sunset * (1 - stage.night)
    )
    canvas.over(coverage(box(x, y - _LAMP, 0.064, 0.062), pixel), lamp)
    for post in (-0.064, -0.02, 0.02, 0.064):
        canvas.over(coverage(box(x - post, y - _LAMP, 0.005, 0.062), pixel), stage.lit("#39424e"))
    dome = torch.maximum(disc(x, (y - 0.945) * 0.95, 0.084), 0.945 - y)
    canvas.over(coverage(dome, pixel), stage.subject() * shade)
    canvas.over(coverage(box(x, y - 1.035, 0.006, 0.022), pixel), stage.lit("#39424e"))
    return canvas


def _beam(stage: Stage, picture: Tensor, x: Tensor, y: Tensor, *, behind: bool) -> None:
    """Two opposite cones of light about the lamp; the half that points away is painted behind the tower."""
    dim = (
        stage.night + 0.55 * stage.sunset + (1 - stage.night - stage.sunset) * 0.35 * (stage.fog + stage.rain)
    )
    seen = dim * (0.75 + 0.45 * stage.fog)
    angle = stage.seconds * stage.draw("beam/speed", 1.0, 1.7) + stage.draw("beam/angle", 0, TAU)
    colour = stage.colour("#fff2b8")
    # At any moment one of the two points away.
    turn = torch.where((torch.sin(angle) < 0) == behind, 1.0, -1.0)
    across, toward = torch.cos(angle) * turn, torch.sin(angle) * turn
    along = x * torch.sign(across)
    ahead = along.clamp(min=0)
    length = 0.12 + 1.9 * across.abs()
    half = 0.035 + ahead * (0.17 / (0.25 + across.abs()))
    # What depends on the column alone has no rows.
    fade = torch.exp(ahead * (-1.6 / length)) * smoothstep(-0.01, 0.05, along) * (seen * 0.62)
    cone = smoothstep(1.0, 0.15, (y + along * (0.06 * toward)).abs_().div_(half))
    shine(picture, cone.mul_(fade).clamp_(0, 0.9), colour)
    if not behind:
        facing = torch.sin(angle).abs()
        distance = torch.sqrt(x * x + y * y + 1e-6)
        shine(picture, glow(distance, 0.09 + 0.06 * stage.fog) * seen * (0.55 + 0.4 * facing), colour)
