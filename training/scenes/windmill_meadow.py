"""A windmill with a coloured roof on a flowery meadow; its sails turn."""

from __future__ import annotations

import torch
from torch import Tensor

from training.scenes.canvas import Canvas
from training.scenes.rows import Row
from training.scenes.shapes import (
    TAU,
    box,
    coverage,
    disc,
    ellipse,
    glow,
    hills,
    over,
    polygon,
    shine,
    smoothstep,
    trapezium,
)
from training.scenes.sky import paint_sky
from training.scenes.stage import Stage
from training.scenes.weather import finish

# In units of the mill's height (foot to roof's tip).
_HUB = 0.57
_SAIL = 0.46


def paint(stage: Stage) -> Tensor:
    """(batch, 3, frame, row, column), RGB in [0, 1]."""
    x = stage.place("mill/x", -0.42, 0.42)
    stage.aim(horizon=(-0.22, -0.10), focus_x=x * 0.6)
    picture = paint_sky(stage).picture
    _far_land(stage, picture)
    rise = stage.draw("hill/rise", 0.0, 0.05)
    size = torch.minimum(stage.draw("mill/size", 0.56, 0.70), (stage.headroom() - rise) / 1.08)
    _hill(stage, picture, x, rise)
    layer = stage.layer(1.0)
    foot = stage.horizon + rise - 0.015
    local_x, local_y = (layer.x - x) / size, (layer.y - foot) / size
    shadow = ellipse(local_x - 0.05, local_y + 0.005, 0.30, 0.035)
    over(picture, smoothstep(0.05, -0.05, shadow) * 0.35, stage.lit("#16281a"))
    _draw_mill(stage).blit(picture, local_x, local_y)
    _sails(stage, picture, local_x, local_y - _HUB)
    _windows(stage, picture, local_x, local_y)
    _meadow(stage, picture)
    return finish(stage, picture)


def _far_land(stage: Stage, picture: Tensor) -> None:
    for k, (depth, height, frequency, distance, tone) in enumerate(
        ((0.66, 0.085, 0.7, 0.75, "#6f9aa0"), (0.74, 0.045, 0.9, 0.5, "#6a9a5e"))
    ):
        layer = stage.layer(depth)
        top = stage.horizon + height * (0.55 + 0.45 * hills(stage, f"land/{k}", layer.x, frequency, 3))
        over(picture, coverage(layer.y - top, layer.pixel * 1.4), stage.lit(tone, distance, 0.75))
    # Poplars and bushes along the fields.
    layer = stage.layer(0.8)
    reach = stage.reach(0.8) + 0.02
    canvas = Canvas(stage, -reach, reach, -0.4, 0.12, density=1.1)
    y = canvas.y - stage.horizon
    for k, (width, half, height) in enumerate(((0.11, 0.016, 0.11), (0.16, 0.045, 0.035))):
        row = Row(stage, f"trees/{k}", canvas.x, width, 0.3 * k)
        tall = height * row.draw("tall", 0.6, 1.1)
        tree = ellipse(row.x, y - tall * 0.9, half * row.draw("wide", 0.75, 1.05), tall)
        leaf = torch.lerp(stage.lit("#33683a", 0.4, 0.6), stage.lit("#5a8c3f", 0.4, 0.6), row.draw("leaf"))
        canvas.over(coverage(tree, canvas.pixel * 1.5) * row.chance("some", 0.45), leaf)
    field = stage.lit("#86ad56", 0.38, 0.9)
    canvas.over(coverage(y - 0.006 * hills(stage, "field", canvas.x, 0.8), canvas.pixel * 1.4), field)
    canvas.blit(picture, layer.x, layer.y)


def _hill(stage: Stage, picture: Tensor, x: Tensor, rise: Tensor) -> None:
    layer = stage.layer(1.0)
    reach = stage.reach(1.0)
    canvas = Canvas(stage, -reach, reach, -0.52, 0.05, density=0.9)
    mound = rise * torch.exp(-(((canvas.x - x) / 0.55) ** 2))
    top = stage.horizon + mound - 0.03 * (1 - torch.exp(-(((canvas.x - x) / 0.5) ** 2)))
    top = top + 0.010 * hills(stage, "hill", canvas.x, 0.7)
    below = (top - canvas.y).clamp(min=0)
    grass = stage.mix("grass", "#6fa93e", "#8ab84a", "#5b9a48")
    patch = canvas.noise("grass/patch", 2.2, 6.0, 3)
    colour = torch.lerp(stage.lit(grass, 0.08, 0.92), stage.lit(grass * 0.72, 0.05, 0.9), patch)
    colour = colour * (1.06 - 0.5 * below)
    canvas.over(coverage(canvas.y - top, canvas.pixel * 1.4), colour)
    # A path from the door to the viewer.
    bend = x + 0.10 * torch.sin(below * 9 + stage.draw("path", 0, TAU)) * below * 3
    path = (canvas.x - bend).abs() - 0.018 - 0.22 * below
    canvas.over(coverage(path, 0.02) * (below > 0.004) * 0.75, stage.lit("#cdb98c", 0.05, 0.85))
    canvas.blit(picture, layer.x, layer.y)


def _draw_mill(stage: Stage) -> Canvas:
    canvas = Canvas(stage, -0.36, 0.36, -0.03, 1.08, density=0.9)
    x, y, pixel = canvas.x, canvas.y, canvas.pixel * 1.3
    way = torch.where(stage.draw("sky/light x", -0.62, 0.62) < 0, -1.0, 1.0)
    shade = 1.0 - 0.34 * smoothstep(-0.08, 0.17, -x * way)
    wall = stage.mix("mill/wall", "#f1e8d6", "#d9c3a0", "#a9765a", "#cfcac2")
    tower = coverage(trapezium(x, y, 0.195, 0.135, 0.64), pixel)
    canvas.over(tower, stage.lit(wall) * shade + 0.02)
    course = (y / 0.052).floor()
    joint = torch.minimum(
        ((y / 0.052) % 1.0 - 0.5).abs() * -0.052 + 0.026,
        (((x / 0.09) + 0.5 * (course % 2)) % 1.0 - 0.5).abs() * -0.09 + 0.045,
    )
    canvas.over(tower * coverage(joint - 0.004, pixel) * 0.22, stage.lit(wall * 0.5))
    canvas.over(coverage(box(x, y - 0.01, 0.19, 0.022), pixel), stage.lit(wall * 0.6))
    # A gallery around the waist of some.
    some = stage.chance("mill/gallery", 0.5)
    canvas.over(coverage(box(x, y - 0.285, 0.215, 0.012), pixel) * some, stage.lit("#5a4030"))
    rail = torch.minimum((y - 0.345).abs() - 0.006, ((x + 0.03) % 0.06 - 0.03).abs() - 0.004)
    rail = torch.maximum(rail, torch.maximum(x.abs() - 0.21, torch.maximum(y - 0.35, 0.285 - y)))
    canvas.over(coverage(rail, pixel) * some, stage.lit("#5a4030"))
    # The roof: a big cap that overhangs the tower.
    kind = stage.draw("mill/roof")
    eaves, half = 0.61, 0.245
    cone = polygon(x, y, [(-half, eaves), (-0.015, 1.04), (0.015, 1.04), (half, eaves)])
    dome = torch.maximum(ellipse(x, y - eaves, half - 0.01, 0.38), eaves - y)
    mansard = [(-half, eaves), (-0.18, 0.86), (-0.03, 1.0), (0.03, 1.0), (0.18, 0.86), (half, eaves)]
    roof = torch.where(kind < 0.4, cone, torch.where(kind < 0.7, dome, polygon(x, y, mansard)))
    inside = coverage(roof, pixel)
    canvas.over(inside, stage.subject() * (1.05 - 0.34 * smoothstep(-0.08, 0.23, -x * way)).clamp(max=1))
    tile = ((y - eaves) / 0.065) % 1.0
    rows = coverage((tile - 0.5).abs() * -0.065 + 0.0325 - 0.005, pixel)
    canvas.over(inside * rows * 0.35, stage.subject(0.6))
    canvas.over(coverage(box(x, y - eaves, half + 0.005, 0.014, 0.008), pixel), stage.subject(0.66))
    canvas.over(coverage(box(x, y - 0.085, 0.048, 0.09, 0.04), pixel), stage.lit("#4e3222"))
    return canvas


def _windows(stage: Stage, picture: Tensor, x: Tensor, y: Tensor) -> None:
    glass = torch.lerp(stage.lit("#3c5064"), stage.colour("#ffd070"), stage.night + 0.6 * stage.sunset)
    canvas = Canvas(stage, -0.1, 0.1, 0.30, 0.52, density=0.7)
    pane = box(canvas.x, canvas.y - 0.42, 0.034, 0.050, 0.012)
    canvas.over(coverage(pane - 0.012, canvas.pixel), stage.lit("#f0e8da"))
    canvas.over(coverage(pane, canvas.pixel), glass)
    bars = torch.minimum(canvas.x.abs(), (canvas.y - 0.42).abs()) - 0.005
    canvas.over(coverage(pane, canvas.pixel) * coverage(bars, canvas.pixel), stage.lit("#4e3222"))
    canvas.blit(picture, x, y)
    warm = stage.night + 0.3 * stage.sunset
    light = glow(disc(x, y - 0.42, 0.03), 0.05)
    shine(picture, light * warm * 0.5, stage.colour("#ffb850"))


def _sails(stage: Stage, picture: Tensor, x: Tensor, y: Tensor) -> None:
    canvas = Canvas(stage, -_SAIL - 0.03, _SAIL + 0.03, -_SAIL - 0.03, _SAIL + 0.03, density=0.75)
    pixel = canvas.pixel * 1.3
    cloth = torch.lerp(
        stage.lit("#f6efe0"), stage.colour("#f6efe0") * stage.by_time("#ffffff", "#f4d2c4", "#8c94b4"), 0.6
    )
    wood = stage.lit("#54402e") + 0.03
    for along, across in (
        (canvas.y, canvas.x),
        (-canvas.y, -canvas.x),
        (canvas.x, -canvas.y),
        (-canvas.x, canvas.y),
    ):
        sheet = torch.maximum((across - 0.052).abs() - 0.052, (along - 0.275).abs() - 0.17)
        canvas.over(coverage(sheet, pixel) * 0.95, cloth)
        lattice = torch.minimum(
            ((along - 0.115) % 0.0615 - 0.03075).abs() * -1 + 0.03075 - 0.004, (across - 0.052).abs() - 0.004
        )
        edge = torch.maximum(sheet, -sheet - 0.009)
        canvas.over(coverage(torch.minimum(torch.maximum(lattice, sheet), edge), pixel) * 0.75, wood)
        canvas.over(coverage(torch.maximum(across.abs() - 0.010, (along - 0.23).abs() - 0.23), pixel), wood)
    canvas.over(coverage(disc(canvas.x, canvas.y, 0.034), pixel), wood)
    canvas.over(coverage(disc(canvas.x, canvas.y, 0.016), pixel), stage.lit("#b09a72"))
    speed = stage.draw("sails/speed", 0.55, 1.15) * torch.where(stage.draw("sails/way") < 0.5, -1.0, 1.0)
    angle = stage.seconds * speed + stage.draw("sails/angle", 0, TAU)
    cosine, sine = torch.cos(angle), torch.sin(angle)
    canvas.blit(picture, x * cosine + y * sine, y * cosine - x * sine)


def _meadow(stage: Stage, picture: Tensor) -> None:
    """Grass and flowers close by, bending in the wind."""
    depth = 1.3
    layer = stage.layer(depth)
    reach = stage.reach(depth) + 0.05
    canvas = Canvas(stage, -reach, reach, -0.52, -0.18, density=1.2)
    top = -0.425 + 0.025 * hills(stage, "near", canvas.x, 0.6)
    blades = top + 0.022 * hills(stage, "blades", canvas.x, 9.0, 3, 0.8)
    grass = stage.mix("grass", "#6fa93e", "#8ab84a", "#5b9a48")
    below = (blades - canvas.y).clamp(0, 1)
    tone = 0.62 + 0.5 * torch.exp(-below / 0.03)
    canvas.over(coverage(canvas.y - blades, canvas.pixel * 1.5), stage.lit(grass, 0.0, 0.8) * tone)
    petals = (
        stage.mix("flower/a", "#fdf6ea", "#f6e27a"),
        stage.mix("flower/b", "#e8607a", "#f2a8c0", "#fdf6ea"),
        stage.mix("flower/c", "#9c8ad8", "#f6e27a", "#7fa8e8"),
    )
    amount = stage.draw("flower/amount", 0.35, 0.85)
    for k, petal in enumerate(petals):
        row = Row(stage, f"flowers/{k}", canvas.x, 0.085, 0.37 * k)
        fx = row.x - row.draw("x", -0.018, 0.018)
        fy = canvas.y - top - row.draw("y", -0.055, 0.045)
        some = (row.draw("some") < amount).float()
        stem = torch.maximum(fx.abs() - 0.0035, torch.maximum(fy, -fy - 0.06))
        canvas.over(coverage(stem, canvas.pixel * 1.5) * some, stage.lit(grass * 0.7, 0.0, 0.4))
        bloom = ellipse(fx, fy, row.draw("size", 0.011, 0.019), row.draw("size", 0.011, 0.019) * 0.8)
        canvas.over(coverage(bloom, canvas.pixel * 1.5) * some, stage.lit(petal, 0.0, 0.3))
        canvas.over(coverage(disc(fx, fy, 0.005), canvas.pixel * 1.5) * some, stage.lit("#c98a20", 0.0, 0.2))
    bend = 0.010 * torch.sin(stage.seconds * 2.1 + layer.x * 5) * ((layer.y + 0.48) * 8).clamp(0, 1)
    # Zooms would lift this layer off the lower edge: it hangs on the picture's own bottom.
    lowered = (layer.y - stage.horizon) * stage.zoom ** (depth * 0.6) + stage.horizon
    canvas.blit(picture, layer.x + bend, lowered)
