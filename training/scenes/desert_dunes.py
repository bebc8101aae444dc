"""Sand dunes with sharp crests, lit on one side; wind carries sand over them."""

from __future__ import annotations

import torch
from torch import Tensor

from training.scenes.canvas import Canvas
from training.scenes.shapes import TAU, box, coverage, hills, over, smoothstep
from training.scenes.sky import paint_sky
from training.scenes.stage import Stage
from training.scenes.weather import finish

_DUNES = 5


def paint(stage: Stage) -> Tensor:
    """(batch, 3, frame, row, column), RGB in [0, 1]."""
    stage.aim(horizon=(-0.12, 0.06), focus_x=stage.draw("focus", -0.3, 0.3))
    sky = paint_sky(stage)
    picture = sky.picture
    _mesas(stage, picture)
    for k in range(_DUNES):
        _dune(stage, picture, k)
        if k == _DUNES - 2:
            _cacti(stage, picture)
    _blown_sand(stage, picture)
    return finish(stage, picture)


def _mesas(stage: Stage, picture: Tensor) -> None:
    """Table mountains far away, in some of the clips."""
    layer = stage.layer(0.64)
    some = stage.chance("mesas", 0.55)
    raw = hills(stage, "mesas", layer.x, 0.55, 3, 0.6)
    height = 0.02 + 0.10 * smoothstep(0.0, 0.18, raw) + 0.06 * smoothstep(0.42, 0.50, raw)
    mask = coverage(layer.y - stage.horizon - height, layer.pixel * 1.4) * some
    over(picture, mask, stage.lit("#b5725a", 0.62))
    strata = coverage((layer.y - stage.horizon - 0.07).abs() - 0.012, layer.pixel * 1.4)
    over(picture, mask * strata * 0.5, stage.lit("#cf9068", 0.62))


def _dune(stage: Stage, picture: Tensor, k: int) -> None:
    near = k / (_DUNES - 1)
    depth = 0.68 + 0.62 * near**1.2
    distance = 0.62 * (1 - near) ** 1.3
    reach = stage.reach(depth)
    base = stage.horizon - (stage.horizon + 0.5) * (0.02 + 0.80 * near**1.25)
    canvas = Canvas(stage, -reach, reach, -0.52, 0.32, density=1.15)
    x, y = canvas.x, canvas.y
    name = f"dune{k}"
    height = (0.055 + 0.075 * near) * stage.draw(f"{name}/height", 0.8, 1.35)
    frequency = 1.25 - 0.75 * near
    # A dune climbs slowly before the wind and drops behind the crest: a bent sine.
    way = torch.where(stage.draw("dunes/way") < 0.5, -1.0, 1.0)
    phase = TAU * frequency * x * way + stage.draw(f"{name}/phase", 0, TAU)
    bent = phase + 0.55 * torch.sin(phase) + 0.25 * torch.sin(0.57 * phase + 1.0)
    crest = 1 - torch.sqrt((torch.sin(bent / 2) ** 2) + 0.002)
    rolling = hills(stage, f"{name}/roll", x, 0.45 * frequency + 0.2, 2)
    top = base + height * (1.25 * crest - 0.5 + 0.35 * rolling)
    below = (top - y).clamp(min=0)
    body = coverage(y - top, canvas.pixel * 1.4)
    # The shaded face hangs from the crest and sweeps down one side along a curve.
    past = ((bent / TAU + 0.5) % 1.0 - 0.5) * way
    lean = torch.where(stage.draw("sky/light x", -0.62, 0.62) < 0, -1.0, 1.0)
    sweep = past * lean + below * stage.draw(f"{name}/sweep", 0.5, 1.6) + 0.03 * torch.sin(below * 21 + x * 3)
    width = 0.20 + 0.10 * rolling
    shade = smoothstep(0.004, 0.022, -sweep + 0.012) * smoothstep(-width - 0.12, -width * 0.3, sweep)
    sand = stage.mix("sand", "#f0c27a", "#e8ad62", "#eec994", "#e39a5e")
    dark = stage.mix("sand", "#b5743c", "#a8642f", "#b98a58", "#9c5230")
    light = torch.lerp(
        stage.lit(sand, distance), stage.lit(sand * 1.12, distance), smoothstep(0.12, 0.0, below)
    )
    light = torch.lerp(light, stage.lit(dark, distance), 0.42 * smoothstep(0.05, 0.30, below))
    canvas.over(body, light)
    canvas.over(body * shade * 0.9, stage.lit(dark, distance) * 0.92)
    if k >= 2:
        # Ripples follow the slope, gently, and fade into the shade.
        ripple = torch.sin((y - 0.75 * top) * (150 - 55 * near) + 5 * torch.sin(x * 6 + below * 12) + x * 9)
        strength = 0.11 * smoothstep(0.01, 0.06, below) * (1 - 0.7 * shade) * (near - 0.2)
        canvas.over(body * smoothstep(0.2, 0.9, ripple) * strength * 2.2, stage.lit(dark, distance))
    layer = stage.layer(depth)
    canvas.blit(picture, layer.x, layer.y)


def _cacti(stage: Stage, picture: Tensor) -> None:
    """Up to three cacti on the last but one dune."""
    layer = stage.layer(1.1)
    reach = stage.reach(1.1)
    canvas = Canvas(stage, -reach, reach, -0.45, 0.30, density=0.9)
    count = 3
    xs, sizes = stage.draws("cactus/x", -0.85, 0.85, count), stage.draws("cactus/size", 0.13, 0.26, count)
    arms, some = stage.draws("cactus/arm", 0.30, 0.50, count), stage.draw("cacti", -0.25, 1.0)
    ground = stage.horizon - (stage.horizon + 0.5) * 0.62
    for k in range(count):
        x, y = (canvas.x - xs[k]) / sizes[k], (canvas.y - ground) / sizes[k]
        pixel = canvas.pixel / sizes[k] * 1.3
        body = box(x, y - 0.48, 0.085, 0.55, 0.085)
        for side in (-1, 1):
            level = arms[k] + 0.13 * side
            elbow = box(x - 0.15 * side, y - level, 0.17, 0.06, 0.06)
            upper = box(x - 0.26 * side, y - level - 0.13, 0.06, 0.19, 0.06)
            body = torch.minimum(body, torch.minimum(elbow, upper))
        mask = coverage(body, pixel) * (some > k / count)
        shade = torch.lerp(stage.lit("#2f5d3c", 0.05), stage.lit("#5c8f4f", 0.05), smoothstep(-0.05, 0.06, x))
        canvas.over(mask, shade)
    canvas.blit(picture, layer.x, layer.y)


def _blown_sand(stage: Stage, picture: Tensor) -> None:
    """Veils of sand that the wind drags along the ground."""
    reach = stage.reach(1.0) + 0.9
    canvas = Canvas(stage, -reach, reach, -0.5, 0.12, density=0.4)
    veil = smoothstep(0.50, 0.85, canvas.noise("veil", 1.4, 9.0, 2))
    below = ((stage.horizon - canvas.y) / (stage.horizon + 0.5)).clamp(0, 1)
    veil = veil * smoothstep(0.02, 0.15, below) * smoothstep(1.0, 0.5, below)
    layer = stage.layer(1.0)
    way = torch.where(stage.draw("dunes/way") < 0.5, -1.0, 1.0)
    drift = way * stage.draw("veil/speed", 0.3, 0.6) * (stage.seconds - 1.3)
    mask = canvas.sample_mask(layer.x - drift, layer.y, veil)
    sand = stage.lit(stage.mix("sand", "#fbe3b4", "#f6d3a0", "#f8e4c2", "#f2c69c"), 0.2)
    over(picture, mask * (0.42 - 0.22 * stage.rain), sand)
