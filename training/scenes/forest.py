"""A forest of firs and tall trunks in several depths; shafts of light by day, fireflies at night."""

from __future__ import annotations

import torch
from torch import Tensor

from training.scenes.canvas import Canvas
from training.scenes.rows import Row, conifer
from training.scenes.shapes import TAU, coverage, ellipse, hills, over, shine, smoothstep
from training.scenes.sky import paint_sky
from training.scenes.stage import HALF_WIDTH, Stage
from training.scenes.weather import finish

# Far to near: depth, ground over the horizon, cell, half-width and height of a tree, distance in the haze.
_FIRS = (
    (0.66, 0.00, 0.085, 0.052, 0.30, 0.80),
    (0.76, -0.035, 0.13, 0.078, 0.40, 0.58),
    (0.88, -0.085, 0.22, 0.115, 0.52, 0.36),
)


def paint(stage: Stage) -> Tensor:
    """(batch, 3, frame, row, column), RGB in [0, 1]."""
    stage.aim(horizon=(-0.20, -0.08), focus_x=stage.draw("focus", -0.3, 0.3))
    sky = paint_sky(stage)
    picture = sky.picture
    for k in range(len(_FIRS)):
        _firs(stage, picture, k)
    _floor(stage, picture)
    if stage.any("time", "day", "sunset"):
        _shafts(stage, picture, sky.light_x)
    _trunks(stage, picture)
    if stage.any("time", "night"):
        _fireflies(stage, picture)
    _ferns(stage, picture)
    return finish(stage, picture)


def _firs(stage: Stage, picture: Tensor, k: int) -> None:
    depth, drop, cell, half, tall, distance = _FIRS[k]
    layer = stage.layer(depth)
    reach = stage.reach(depth) + 0.05
    canvas = Canvas(stage, -reach, reach, -0.5, 0.52, density=1.1)
    x, pixel = canvas.x, canvas.pixel * 1.4
    ground = stage.horizon + drop + 0.012 * hills(stage, f"ground/{k}", x, 0.8)
    dark = stage.mix("fir/dark", "#1f4a34", "#2c5230", "#1c4a48")
    light = stage.mix("fir/light", "#4f8a4a", "#6d9440", "#3c8068")
    size = stage.draw("fir/size", 0.85, 1.25)
    for side in range(3):
        row = Row(stage, f"firs/{k}/{side}", x, cell * 1.9, side / 3)
        height = tall * size * row.draw("height", 0.62, 1.12)
        width = half * (0.75 + 0.25 * size) * row.draw("width", 0.8, 1.1)
        up = canvas.y - ground
        body = conifer(row.x - row.draw("x", -0.25, 0.25) * cell, up, width, height, 5.0)
        tone = torch.lerp(dark, light, row.draw("tone"))
        # The light comes from above and from one side.
        shade = 0.78 + 0.26 * (up / height).clamp(0, 1) + 0.10 * (row.x / width).clamp(-1, 1)
        colour = stage.lit(tone, distance, 0.55) * shade.clamp(0, 1.15) * (1 + 0.5 * stage.night)
        canvas.over(coverage(body, pixel), colour)
    soil = stage.lit(stage.mix("floor", "#6d7a3c", "#7a6a40", "#567a44"), distance, 0.9)
    canvas.over(coverage(canvas.y - ground - 0.004, pixel), soil)
    sway = torch.sin(stage.seconds * (1.5 + 0.2 * k) + layer.x * 3)
    bend = 0.022 * (layer.y - stage.horizon).clamp(min=0) * sway
    canvas.blit(picture, layer.x + bend, layer.y)
    # A little mist stands between the rows, which sets them apart.
    mist = torch.exp(-(((layer.y - stage.horizon - drop - 0.03) / 0.13) ** 2)) * (0.16 + 0.14 * stage.night)
    over(picture, mist * (1 - 0.25 * k), stage.haze_colour() * (1 + 0.25 * stage.night))


def _floor(stage: Stage, picture: Tensor) -> None:
    depth = 1.0
    layer = stage.layer(depth)
    reach = stage.reach(depth) + 0.02
    canvas = Canvas(stage, -reach, reach, -0.55, 0.0, density=0.9)
    top = stage.horizon - 0.115 + 0.016 * hills(stage, "floor", canvas.x, 0.6)
    below = (top - canvas.y).clamp(min=0)
    own = stage.mix("floor", "#6d7a3c", "#7a6a40", "#567a44")
    patch = canvas.noise("floor/patch", 2.4, 6, 3)
    colour = torch.lerp(stage.lit(own * 0.62, 0.06, 0.85), stage.lit(own * 1.05, 0.06, 0.92), patch)
    canvas.over(coverage(canvas.y - top, canvas.pixel * 1.4), colour * (1.0 - 0.6 * below))
    some = stage.chance("path", 0.6)
    start = stage.draw("path/x", -0.35, 0.35)
    bend = start + 0.35 * below * torch.sin(below * 5 + stage.draw("path/bend", 0, TAU))
    path = (canvas.x - bend).abs() - 0.035 - 0.42 * below
    canvas.over(
        coverage(path, 0.03) * coverage(canvas.y - top, 0.01) * some * 0.85, stage.lit("#b89c6c", 0.06, 0.9)
    )
    canvas.blit(picture, layer.x, layer.y)


def _shafts(stage: Stage, picture: Tensor, light_x: Tensor) -> None:
    """Slanted bands of sunlight between the trees, shimmering."""
    layer = stage.layer(0.8)
    seen = (stage.day + 0.8 * stage.sunset) * (stage.clear + 0.5 * stage.fog)
    slant = stage.draw("shafts/slant", 0.25, 0.55) * torch.where(light_x < 0, 1.0, -1.0)
    across = layer.x + slant * layer.y
    phase_1, phase_2 = stage.draws("shafts/phase", 0, TAU, 2)
    bands = torch.sin(across * 6.3 + phase_1 + 0.25 * stage.seconds) + 0.7 * torch.sin(
        across * 13.1 + phase_2 - 0.4 * stage.seconds
    )
    fade = smoothstep(-0.35, 0.4, layer.y)
    mask = smoothstep(0.45, 1.5, bands) * fade * (0.42 * seen)
    shine(picture, mask, stage.by_time("#fff2b4", "#ffb060", "#000000"))


def _trunks(stage: Stage, picture: Tensor) -> None:
    """Tall trunks close by, their crowns out of the picture, and some low boughs."""
    for k, (depth, cell, half, drop, dark) in enumerate(
        ((1.0, 0.50, 0.026, -0.16, 0.12), (1.25, 0.95, 0.050, -0.27, 0.0))
    ):
        layer = stage.layer(depth)
        reach = stage.reach(depth) + 0.05
        canvas = Canvas(stage, -reach, reach, -0.55, 0.55, density=1.1)
        row = Row(stage, f"trunks/{k}", canvas.x, cell, 0.37 * k)
        bark = stage.mix("bark", "#6a4a34", "#59504a", "#7a5a3c")
        foot = stage.horizon + drop + row.draw("foot", -0.03, 0.03)
        up = canvas.y - foot
        width = half * row.draw("width", 0.65, 1.15)
        lean = row.draw("lean", -0.05, 0.05)
        x = row.x - row.draw("x", -0.22, 0.22) * cell - lean * up
        # Roots widen the foot.
        wide = width * (1 - 0.22 * up.clamp(0, 1)) + width * 0.9 * torch.exp(-up.clamp(min=0) / 0.03)
        trunk = torch.maximum(x.abs() - wide, -up)
        some = (row.draw("some") < stage.draw("trunks/amount", 0.5, 0.95)).float()
        ridge = torch.sin(x / width * 5.5 + 1.2 * torch.sin(up * 19 + row.draw("bark", 0, TAU)))
        side = 0.85 - 0.30 * (x / wide).clamp(-1, 1) + 0.10 * ridge
        colour = stage.lit(bark * 0.95, dark, 0.25) * side * (1 + 0.3 * stage.night)
        canvas.over(coverage(trunk, canvas.pixel * 1.4) * some, colour)
        shadow = ellipse(x - 0.02, up + 0.002, width * 3.2, 0.014)
        canvas.over(coverage(shadow, 0.02) * some * (up < 0) * 0.4, stage.lit("#141c12"))
        # Boughs: drooping sprays of needles at three heights.
        needle = stage.mix("fir/dark", "#1f4a34", "#2c5230", "#1c4a48")
        for b in range(3):
            height = row.draw(f"bough/{b}", 0.30, 0.75)
            way = torch.where(row.draw(f"bough/way/{b}") < 0.5, -1.0, 1.0)
            length = row.draw(f"bough/length/{b}", 0.12, 0.24) * (0.7 + 0.35 * k)
            along = x * way / length
            droop = up - height + 0.10 * along * along
            # Needles hang below the bough like a comb.
            comb = 0.012 + 0.030 * (1 - along.clamp(0, 1)) * (0.65 + 0.35 * torch.sin(along * 26))
            ends = torch.maximum(-along, along - 1) * length
            bough = torch.maximum(ends, torch.maximum(droop - 0.008, -droop - comb))
            tint = stage.lit(needle * 1.1, dark, 0.6)
            canvas.over(coverage(bough, canvas.pixel * 1.5) * some, tint)
        sway = 0.010 * torch.sin(stage.seconds * 1.3 + k) * (layer.y + 0.3).clamp(min=0) ** 2
        canvas.blit(picture, layer.x + sway, layer.y)


def _fireflies(stage: Stage, picture: Tensor) -> None:
    layer = stage.layer(0.95)
    columns, rows = 9, 5
    field = Canvas(stage, -0.06, 1.06, -0.06, 0.66, density=1.1)
    u, v = field.x * columns, field.y / 0.6 * rows
    index = ((u.floor() % columns) + (v.floor() % rows) * columns).long().view(-1)
    phases = stage.draws("fireflies/phase", 0, TAU, 6)
    seen = stage.night * (0.35 + 0.65 * (stage.clear + stage.fog))
    for k in range(2):
        across, along, some = (
            stage.uniform(f"fireflies/{k}/{c}", columns * rows)[:, index].view(
                stage.batch, 1, 1, *field.alpha.shape[-2:]
            )
            for c in range(3)
        )
        x = (u - u.floor() - 0.3 - 0.4 * across) / columns
        y = (v - v.floor() - 0.3 - 0.4 * along) * 0.6 / rows
        square = x * x + y * y
        fly = (torch.exp(-square / 0.00005) + 0.35 * torch.exp(-square / 0.0006)) * (some < 0.38)
        drift_x = 0.05 * torch.sin(stage.seconds * 0.9 + phases[3 * k]) + 0.05 * stage.seconds * (1 - 2 * k)
        drift_y = 0.03 * torch.sin(stage.seconds * 1.3 + phases[3 * k + 1])
        height = (layer.y + 0.42 + drift_y).clamp(-0.05, 0.65)
        light = field.sample_mask((layer.x + drift_x) % 1.0, height, fly) * ((height - 0.3).abs() < 0.29)
        blink = 0.6 + 0.4 * torch.sin(stage.seconds * 2.6 + phases[3 * k + 2])
        shine(picture, (light * (blink * seen)).clamp(0, 1), stage.colour("#e6ff7a"))


def _ferns(stage: Stage, picture: Tensor) -> None:
    """Ferns and grass at the lower edge; they stay there when the camera zooms."""
    depth = 1.35
    x = stage.screen_x + stage.pan * depth
    reach = HALF_WIDTH + depth * 0.45 + 0.1
    canvas = Canvas(stage, -reach, reach, -0.52, -0.28, density=1.2)
    base = -0.475 + 0.03 * hills(stage, "ferns", canvas.x, 0.7)
    blades = base + 0.028 * hills(stage, "fern blades", canvas.x, 7.0, 4, 0.8)
    own = stage.mix("fern", "#2e5a2c", "#3d6a2a", "#24503a")
    below = (blades - canvas.y).clamp(0, 1)
    colour = stage.lit(own, 0.0, 0.75) * (0.55 + 0.5 * torch.exp(-below / 0.025))
    canvas.over(coverage(canvas.y - blades, canvas.pixel * 1.5), colour)
    bend = 0.008 * torch.sin(stage.seconds * 2.2 + x * 4)
    zoom = stage.zoom**0.5
    canvas.blit(picture, stage.focus_x + (x - stage.focus_x) / zoom + bend, stage.screen_y)
