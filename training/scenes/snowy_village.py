"""Houses under snowy roofs among firs, smoke from their chimneys, mountains behind."""

from __future__ import annotations

import torch
from torch import Tensor

from training.scenes.canvas import Canvas
from training.scenes.rows import Row, conifer
from training.scenes.shapes import (
    TAU,
    box,
    coverage,
    disc,
    ellipse,
    glow,
    hills,
    over,
    peaks,
    shine,
    smoothstep,
)
from training.scenes.sky import paint_sky
from training.scenes.stage import HALF_WIDTH, Stage
from training.scenes.weather import finish

# Far to near: depth, ground over the horizon, a house's cell and half-width, distance in the haze.
_ROWS = ((0.82, -0.030, 0.26, 0.075, 0.34), (1.0, -0.150, 0.46, 0.135, 0.14))


def paint(stage: Stage) -> Tensor:
    """(batch, 3, frame, row, column), RGB in [0, 1]."""
    stage.aim(horizon=(-0.12, 0.02), focus_x=stage.draw("focus", -0.3, 0.3))
    picture = paint_sky(stage).picture
    _mountains(stage, picture)
    for k in range(len(_ROWS)):
        _street(stage, picture, k)
    _near(stage, picture)
    return finish(stage, picture)


def _snow(stage: Stage, code: str, distance: float = 0.0) -> Tensor:
    """Lit snow; rosy light and violet shade at sunset, when the plain light would make it sand."""
    dusk = stage.colour("#ffdfdc" if code >= "#e0" else "#ab97cc") * (1 - 0.3 * stage.rain)
    dusk = torch.lerp(dusk, stage.haze_colour(), stage.haze(distance))
    return torch.lerp(stage.lit(code, distance), dusk, 0.8 * stage.sunset)


def _mountains(stage: Stage, picture: Tensor) -> None:
    layer = stage.layer(0.65)
    reach = stage.reach(0.65) + 0.02
    canvas = Canvas(stage, -reach, reach, -0.3, 0.45, density=1.0)
    ridge = peaks(stage, "ridge", canvas.x, 0.85, 4, 0.42)
    top = stage.horizon + 0.05 + stage.draw("ridge/height", 0.14, 0.26) * ridge
    below = (top - canvas.y).clamp(min=0)
    face = smoothstep(0.35, 0.65, peaks(stage, "faces", canvas.x + 0.35 * below, 2.6, 3))
    snow = torch.lerp(_snow(stage, "#e9f0fa", 0.55), _snow(stage, "#b3c4de", 0.55), face)
    rock = torch.lerp(stage.lit("#8492aa", 0.55), stage.lit("#66748e", 0.55), face)
    line = smoothstep(0.10, 0.17, below + 0.05 * (face - 0.5))
    canvas.over(coverage(canvas.y - top, canvas.pixel * 1.4), torch.lerp(snow, rock, line))
    canvas.blit(picture, layer.x, layer.y)
    # A belt of dark wood at their feet.
    layer = stage.layer(0.72)
    reach = stage.reach(0.72) + 0.02
    canvas = Canvas(stage, -reach, reach, -0.3, 0.25, density=1.1)
    y = canvas.y - stage.horizon
    for k in range(2):
        row = Row(stage, f"wood/{k}", canvas.x, 0.052, 0.5 * k)
        tree = conifer(row.x, y + 0.02, row.draw("wide", 0.020, 0.027), row.draw("tall", 0.07, 0.14), 4.0)
        tone = torch.lerp(stage.lit("#3d5a58", 0.5, 0.3), stage.lit("#557470", 0.5, 0.3), row.draw("tone"))
        frost = torch.lerp(tone, _snow(stage, "#eef3fa", 0.5), 0.15 + 0.5 * (row.x / 0.024).clamp(0, 1))
        canvas.over(coverage(tree, canvas.pixel * 1.4), frost)
    slope = 0.012 * hills(stage, "slope", canvas.x, 0.8)
    canvas.over(coverage(y - slope, canvas.pixel * 1.4), _snow(stage, "#e8eef8", 0.40))
    canvas.blit(picture, layer.x, layer.y)


def _street(stage: Stage, picture: Tensor, k: int) -> None:
    depth, drop, cell, half, distance = _ROWS[k]
    layer = stage.layer(depth)
    reach = stage.reach(depth) + 0.05
    canvas = Canvas(stage, -reach, reach, -0.55, 0.5, density=1.15)
    x, pixel = canvas.x, canvas.pixel * 1.4
    ground = stage.horizon + drop + 0.020 * hills(stage, f"ground/{k}", x, 0.55)
    firs = Row(stage, f"firs/{k}", x, cell * 0.62, 0.21 + 0.5 * k)
    size = firs.draw("tall", 0.8, 1.5) * half * 2.0
    up = canvas.y - ground + 0.01
    fir = conifer(firs.x - firs.draw("x", -0.1, 0.1) * cell, up, size * 0.36, size, 5.0)
    green = stage.lit("#2f5a4c", distance, 0.25)
    # Snow lies on top of every skirt.
    skirt = (up / size * 5.0) % 1.0
    laden = torch.lerp(green, _snow(stage, "#f2f6fc", distance), smoothstep(0.45, 0.05, skirt) * 0.85)
    canvas.over(coverage(fir, pixel) * firs.chance("some", 0.75), laden)
    row = Row(stage, f"houses/{k}", x, cell, 0.5 * k)
    _houses(stage, canvas, row, canvas.y - ground, half, distance, pixel)
    below = (ground - canvas.y).clamp(min=0)
    drift = canvas.noise(f"drift/{k}", 1.6, 5.0, 3)
    snow = torch.lerp(_snow(stage, "#f6f9fe", distance), _snow(stage, "#c9d6ea", distance), drift * 0.8)
    canvas.over(coverage(canvas.y - ground, pixel), snow * (1.02 - 0.35 * below))
    if k == 1:
        some = stage.chance("path", 0.6)
        bend = stage.draw("path/x", -0.3, 0.3) + 0.5 * below * torch.sin(
            below * 6 + stage.draw("path/b", 0, TAU)
        )
        path = (x - bend).abs() - 0.02 - 0.35 * below
        canvas.over(coverage(path, 0.04) * (below > 0.003) * some * 0.6, _snow(stage, "#a9b8d4", distance))
    # Lamplight from the windows on the snow before them.
    warm = stage.night + 0.5 * stage.sunset
    spill = ellipse(row.x, canvas.y - ground + 0.035, half * 1.2, 0.035)
    canvas.shine(
        smoothstep(0.03, -0.04, spill) * row.chance("some", 0.8) * warm * 0.45, stage.colour("#ffb860")
    )
    canvas.blit(picture, layer.x, layer.y)
    _smoke(stage, picture, k)


def _houses(
    stage: Stage, canvas: Canvas, row: Row, up: Tensor, half: float, distance: float, pixel: float
) -> None:
    some = row.chance("some", 0.8)
    wide, tall = half * row.draw("wide", 0.8, 1.1), half * row.draw("tall", 0.75, 1.15)
    x = row.x
    walls = (
        stage.mix("wall/a", "#a8683e", "#8a5a3a"),
        stage.mix("wall/b", "#d9b98a", "#e8d8b8"),
        stage.mix("wall/c", "#7a4a44", "#6a6f80", "#94685a"),
    )
    which = row.draw("wall")
    wall = torch.where(which < 0.35, walls[0], torch.where(which < 0.7, walls[1], walls[2]))
    side = 1.0 - 0.22 * smoothstep(0.0, 1.0, x / wide)
    body = box(x, up - tall * 0.5 + 0.02, wide, tall * 0.5 + 0.02)
    inside = coverage(body, pixel) * some
    plank = 0.93 + 0.07 * torch.sin(up * (TAU / (half * 0.16)))
    canvas.over(inside, stage.lit(wall, distance) * side * plank)
    # The chimney stands behind the roof.
    at = wide * 0.45
    top = tall + half * 0.72
    chimney = box(x - at, up - top + half * 0.1, half * 0.10, half * 0.26)
    canvas.over(coverage(chimney, pixel) * some, stage.lit("#7a4f44", distance))
    canvas.over(
        coverage(box(x - at, up - top - half * 0.17, half * 0.13, half * 0.05, 0.004), pixel) * some,
        _snow(stage, "#f4f8ff", distance),
    )
    rise = half * row.draw("rise", 0.75, 1.05)
    eaves = wide * 1.22
    gable = torch.maximum((x.abs() - eaves * (1 - (up - tall) / rise)) * 0.65, tall - up - half * 0.02)
    canvas.over(coverage(gable, pixel) * some, stage.lit(wall * 0.55, distance))
    # Snow on the roof: thick, rounded at the eaves.
    snow = torch.maximum((x.abs() - eaves * 1.03 * (1 - (up - tall - half * 0.10) / rise)) * 0.65, tall - up)
    bare = torch.maximum(
        (x.abs() - eaves * 0.72 * (1 - (up - tall) / (rise * 0.72))) * 0.65, tall - up - half * 0.02
    )
    cover = torch.maximum(snow - half * 0.03, -bare - half * 0.015)
    tone = torch.lerp(
        _snow(stage, "#fbfdff", distance), _snow(stage, "#cfdcf0", distance), smoothstep(0.0, 1.0, x / eaves)
    )
    canvas.over(coverage(cover, pixel) * some, tone)
    glass = torch.lerp(
        stage.lit("#5a7088", distance), stage.colour("#ffcf66"), stage.night + 0.75 * stage.sunset
    )
    pane = half * 0.16
    for wx, wy in ((-0.5, 0.48), (0.5, 0.48), (0.0, 1.28)):
        attic = wy > 1
        px, py = x - wx * wide, up - (tall + half * 0.22 if attic else tall * wy)
        lit_one = (row.draw(f"lit/{wx}") < 0.85).float()
        light = torch.lerp(stage.lit("#46586c", distance), glass, lit_one)
        frame = box(px, py, pane * 1.25, pane * 1.45)
        canvas.over(coverage(frame, pixel) * some, stage.lit("#f2ece0", distance))
        canvas.over(coverage(box(px, py, pane, pane * 1.2), pixel) * some, light)
        cross = torch.minimum(px.abs(), py.abs()) - half * 0.018
        canvas.over(coverage(torch.maximum(cross, frame), pixel) * some * 0.8, stage.lit("#5a4030", distance))
        halo = glow(disc(px, py, pane), half * 0.28)
        canvas.shine(
            halo * some * lit_one * (stage.night * 0.55 + stage.sunset * 0.25), stage.colour("#ffb04a")
        )
    door = box(x, up - tall * 0.24, half * 0.14, tall * 0.26, 0.004)
    canvas.over(coverage(door, pixel) * some, stage.lit("#5c3424", distance))


def _smoke(stage: Stage, picture: Tensor, k: int) -> None:
    """Plumes that widen, drift and fade above the chimneys."""
    depth, drop, cell, half, distance = _ROWS[k]
    layer = stage.layer(depth)
    reach = stage.reach(depth) + 0.05
    canvas = Canvas(stage, -reach, reach, -0.55, 0.5, density=0.35)
    row = Row(stage, f"houses/{k}", canvas.x, cell, 0.5 * k)
    wide, tall = half * row.draw("wide", 0.8, 1.1), half * row.draw("tall", 0.75, 1.15)
    ground = stage.horizon + drop + 0.020 * hills(stage, f"ground/{k}", canvas.x, 0.55)
    foot = ground + tall + half * 0.85
    # On the canvas: where a plume stands, how far up; the swirls move in the frame.
    up = canvas.y - foot
    x = row.x - wide * 0.45
    width = 0.014 + 0.20 * up.clamp(min=0)
    plume = torch.exp(-((x / width) ** 2)) * smoothstep(-0.01, 0.02, up) * torch.exp(-up.clamp(min=0) / 0.20)
    plume = plume * row.chance("some", 0.8) * (row.draw("smokes") < 0.92)
    wind = stage.draw("smoke/wind", -0.5, 0.5)
    rise = (layer.y - stage.horizon - drop - half * 1.9).clamp(min=0)
    swirl = 0.020 * torch.sin(layer.y * 34 - stage.seconds * 4.2 + 4 * k) * (rise * 8).clamp(max=1)
    mask = canvas.sample_mask(layer.x - wind * rise + swirl, layer.y, plume)
    puffs = 0.66 + 0.34 * torch.sin(layer.y * 52 - stage.seconds * 5.5 + layer.x * 9)
    grey = torch.lerp(
        stage.by_time("#98a4b8", "#c9a2b4", "#7c8cb8"), stage.haze_colour(), stage.haze(distance)
    )
    over(picture, (mask * puffs * (0.85 + 0.1 * stage.day)).clamp(0, 1), grey)


def _near(stage: Stage, picture: Tensor) -> None:
    """A snowdrift and a fence or small firs at the lower edge."""
    depth = 1.3
    x = stage.screen_x + stage.pan * depth
    reach = HALF_WIDTH + depth * 0.45 + 0.1
    canvas = Canvas(stage, -reach, reach, -0.52, -0.12, density=1.1)
    top = -0.435 + 0.022 * hills(stage, "near", canvas.x, 0.6)
    pixel = canvas.pixel * 1.4
    up = canvas.y - top
    fenced = stage.chance("fence", 0.5)
    post = Row(stage, "fence", canvas.x, 0.16)
    wood = stage.lit("#6a4c38", 0.0)
    canvas.over(coverage(box(post.x, up - 0.04, 0.010, 0.075), pixel) * fenced, wood)
    for height in (0.035, 0.075):
        canvas.over(coverage((up - height).abs() - 0.007, pixel) * fenced, wood * 0.9)
        canvas.over(coverage((up - height - 0.009).abs() - 0.004, pixel) * fenced, _snow(stage, "#f6f9fe"))
    canvas.over(
        coverage(box(post.x, up - 0.118, 0.014, 0.007, 0.005), pixel) * fenced, _snow(stage, "#f6f9fe")
    )
    firs = Row(stage, "near firs", canvas.x, 0.42, 0.3)
    size = firs.draw("tall", 0.14, 0.24)
    fir = conifer(firs.x - firs.draw("x", -0.08, 0.08), up + 0.02, size * 0.38, size, 4.0)
    laden = smoothstep(0.5, 0.05, ((up + 0.02) / size * 4.0) % 1.0) * 0.9
    colour = torch.lerp(stage.lit("#2a5244"), _snow(stage, "#f4f8fe"), laden)
    canvas.over(coverage(fir, pixel) * firs.chance("some", 0.6) * (1 - fenced), colour)
    drift = canvas.noise("near/drift", 1.8, 5, 2)
    snow = torch.lerp(_snow(stage, "#ffffff"), _snow(stage, "#c4d2ea"), drift)
    canvas.over(coverage(up, pixel), snow)
    zoom = stage.zoom**0.6
    canvas.blit(picture, stage.focus_x + (x - stage.focus_x) / zoom, -0.5 + (stage.screen_y + 0.5) / zoom)
    if stage.any("time", "night"):
        shine(picture, smoothstep(-0.2, -0.5, stage.screen_y) * 0.05 * stage.night, stage.colour("#8fa6dc"))
