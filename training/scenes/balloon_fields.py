"""A hot-air balloon that drifts over hills of patchwork fields."""

from __future__ import annotations

import torch
from torch import Tensor

from training.scenes.canvas import Canvas
from training.scenes.shapes import TAU, box, coverage, disc, glow, hills, over, segment, shine, smoothstep
from training.scenes.sky import paint_sky
from training.scenes.stage import Stage
from training.scenes.weather import finish

_HILLS = 5


def paint(stage: Stage) -> Tensor:
    """(batch, 3, frame, row, column), RGB in [0, 1]."""
    x = stage.place("balloon/x", -0.42, 0.42)
    stage.aim(horizon=(-0.30, -0.16), focus_x=x * 0.7)
    sky = paint_sky(stage)
    picture = sky.picture
    for k in range(_HILLS):
        _hill(stage, picture, k)
    _far_balloons(stage, picture)
    _balloon(stage, picture, x)
    return finish(stage, picture)


def _hill(stage: Stage, picture: Tensor, k: int) -> None:
    """A hill of fields: patches with furrows, hedges with trees between them."""
    near = k / (_HILLS - 1)
    depth = 0.66 + 0.56 * near**1.1
    distance = 0.60 * (1 - near) ** 1.2
    name = f"hill{k}"
    reach = stage.reach(depth)
    canvas = Canvas(stage, -reach, reach, -0.52, 0.16, density=1.15)
    x, y = canvas.x, canvas.y
    base = stage.horizon - (stage.horizon + 0.5) * (0.02 + 0.72 * near**1.2)
    height = 0.03 + 0.045 * near
    top = base + height * (0.4 + hills(stage, name, x, 0.75 - 0.3 * near, 2))
    below = (top - y).clamp(min=0)
    body = coverage(y - top, canvas.pixel * 1.4)
    # Fields: slanted strips, parted once more across; each one's crop from a hash of its place.
    slant = stage.draw(f"{name}/slant", -1.6, 1.6)
    width = 3.4 - 1.6 * near
    along = x * width + slant * below * width + stage.draw(f"{name}/shift", 0, 9) + 0.25 * torch.sin(x * 3.0)
    strip = along.floor()
    across = below / (0.05 + 0.10 * near) + 0.35 * torch.sin(strip * 2.4) + 0.2 * (along - strip)
    row = across.floor()
    pick = torch.sin(strip * 12.9898 + row * 78.233 + stage.draw(f"{name}/crop", 0, 90)) * 43.7585
    pick = pick - pick.floor()
    crops = ("#7fae4e", "#a9c25a", "#e0c45e", "#5c9150", "#c99a55", "#9a86b8", "#8fb860")
    field = stage.lit(crops[0], distance, snowed=0.82).expand(stage.batch, 3, 1, *pick.shape[-2:]).clone()
    for i, crop in enumerate(crops[1:], 1):
        inside = ((pick >= i / len(crops)) & (pick < (i + 1) / len(crops))).float()
        over(field, inside, stage.lit(crop, distance, snowed=0.82))
    turn = (pick * 7.0 - 3.5) * 0.5
    furrow = torch.sin((x + turn * below) * (62 - 22 * near) * (1.0 + 0.5 * pick))
    field = field * (1 + (0.07 * near + 0.02) * furrow)
    field = field * (1.06 - 0.22 * smoothstep(0.0, 0.22, below))
    canvas.over(body, field)
    # Hedges where strips and rows meet.
    edge = torch.minimum((along - strip - 0.5).abs() - 0.5, torch.zeros_like(along)).abs() / width
    edge = torch.minimum(edge, ((across - row - 0.5).abs() - 0.5).abs() * (0.05 + 0.10 * near))
    hedge = coverage(edge - 0.0022 - 0.0028 * near, canvas.pixel * 1.6)
    green = stage.lit("#3d6b3c", distance, snowed=0.5)
    canvas.over(body * hedge * 0.75, green)
    # Round trees along the hill's rim.
    place = x * (8.5 - 3.0 * near) + stage.draw(f"{name}/trees", 0, 9)
    cell = place.floor()
    size = torch.sin(cell * 91.7 + stage.draw(f"{name}/tree", 0, 9)) * 43.7
    size = size - size.floor()
    radius = (0.010 + 0.020 * near) * (0.6 + 0.6 * size)
    tx = (place - cell - 0.5) / (8.5 - 3.0 * near)
    trees = disc(tx, y - top - radius * 0.6, radius)
    mask = coverage(trees, canvas.pixel * 1.4) * (size > 0.55)
    tone = torch.lerp(
        stage.lit("#2f5a36", distance, snowed=0.3),
        stage.lit("#5f9448", distance, snowed=0.7),
        smoothstep(0.2, 1.6, (y - top) / radius),
    )
    canvas.over(mask, tone)
    # Lamps of farmhouses after dark.
    if stage.any("time", "night") and k:
        lamp = coverage(
            disc((tx + 0.25 / (8.5 - 3.0 * near)), y - top + 0.02 + 0.05 * near, 0.0045 + 0.003 * near),
            canvas.pixel * 1.5,
        )
        canvas.over(lamp * stage.night * (size < 0.35), stage.colour("#ffd27a"))
    layer = stage.layer(depth)
    canvas.blit(picture, layer.x, layer.y)


def _envelope(stage: Stage, density: float) -> Canvas:
    """The balloon, 1 high from the basket's floor (0) to its crown; half-width 0.36."""
    canvas = Canvas(stage, -0.42, 0.42, -0.03, 1.03, density=density)
    x, y, pixel = canvas.x, canvas.y, canvas.pixel * 1.3
    rope = stage.lit("#5a4632") + 0.03
    for side in (-1, 1):
        for inner in (0.55, 1.0):
            line = segment(x, y, 0.055 * side * inner, 0.12, 0.095 * side * inner, 0.27)
            canvas.over(coverage(line - 0.0055, pixel), rope)
    # A ball above, drawn together to the mouth below.
    bulb = disc(x, (y - 0.65), 0.345)
    t = ((y - 0.25) / 0.30).clamp(0, 1)
    taper_half = 0.085 + (0.30 - 0.085) * (t * (2 - t)) ** 0.9
    taper = torch.maximum(x.abs() - taper_half, torch.maximum(0.25 - y, y - 0.57))
    shape = torch.minimum(bulb, taper * 0.9)
    mask = coverage(shape, pixel)
    # Gores: meridians of a round body, so they crowd together towards the rim.
    half = torch.where(y > 0.5, torch.sqrt((0.345**2 - (y - 0.65) ** 2).clamp(min=1e-4)), taper_half).clamp(
        min=0.03
    )
    angle = torch.asin((x / half).clamp(-0.999, 0.999)) / TAU * 12 + stage.draw("balloon/turn", 0, 2)
    gore = (angle % 2.0 - 1.0).abs() * 2 - 1
    stripe = smoothstep(-0.12, 0.12, gore)
    lean = torch.where(stage.draw("sky/light x", -0.62, 0.62) < 0, -1.0, 1.0)
    shade = 1.06 - 0.36 * smoothstep(-0.05, 0.42, -x * lean + 0.35 * (0.65 - y))
    second = torch.lerp(
        stage.subject(0.76),
        torch.lerp(stage.subject(), stage.colour("#fffaf0"), 0.16),
        stage.chance("balloon/pale", 0.5),
    )
    colour = torch.lerp(stage.subject(), second, stripe) * shade
    # The burner lights the cloth from within after dark.
    warm = (stage.night + 0.35 * stage.sunset) * torch.exp(-((x / 0.22) ** 2) - ((y - 0.42) / 0.26) ** 2)
    colour = colour + stage.subject() * 0.45 * warm
    canvas.over(mask, colour.clamp(0, 1))
    ring = (
        coverage((y - 0.66 - 0.10 * (x / 0.36) ** 2).abs() - 0.035, pixel)
        * mask
        * stage.chance("balloon/ring", 0.45)
    )
    canvas.over(
        ring * 0.9,
        torch.lerp(
            stage.subject(0.55),
            stage.colour("#fffaf0") * stage.subject().amax(1, keepdim=True),
            stage.chance("balloon/ring pale", 0.5),
        ),
    )
    canvas.over(
        coverage(torch.maximum(x.abs() - 0.09, (y - 0.262).abs() - 0.016), pixel), stage.subject(0.55)
    )
    basket = box(x, y - 0.065, 0.068 + 0.015 * ((y - 0.065) / 0.06), 0.058, 0.012)
    weave = 1 + 0.12 * torch.sin(x * 190) * torch.sin(y * 190)
    canvas.over(coverage(basket, pixel), stage.lit("#9a6a3a") * weave + 0.02)
    canvas.over(coverage(box(x, y - 0.118, 0.085, 0.010, 0.006), pixel), stage.lit("#5e3d20"))
    return canvas


def _balloon(stage: Stage, picture: Tensor, x: Tensor) -> None:
    layer = stage.layer(1.0)
    lift = stage.draw("balloon/lift", -0.05, 0.06)
    size = torch.minimum(stage.draw("balloon/size", 0.46, 0.64), (stage.headroom() - lift) / 1.05)
    phase = stage.draw("balloon/phase", 0, TAU)
    wind = stage.draw("balloon/wind", -0.035, 0.035)
    bob = 0.012 * torch.sin(stage.seconds * 1.3 + phase)
    local_x = (layer.x - x - wind * (stage.seconds - 1.3)) / size
    local_y = (layer.y - stage.horizon - lift - bob) / size
    sway = 0.035 * torch.sin(stage.seconds * 1.1 + phase)
    local_x = local_x - sway * (local_y - 0.6)
    _envelope(stage, 0.85).blit(picture, local_x, local_y)
    # The burner fires in bursts.
    burst = smoothstep(0.0, 0.7, torch.sin(stage.seconds * 2.6 + phase * 1.7))
    flame = glow(torch.sqrt(local_x**2 * 3 + (local_y - 0.21) ** 2 + 1e-6) - 0.012, 0.03)
    shine(picture, flame * burst * (0.5 + 0.5 * stage.night), stage.colour("#ffc04a"))


def _far_balloons(stage: Stage, picture: Tensor) -> None:
    """One or two of the same make, far away."""
    canvas = _envelope(stage, 0.28)
    wanted = stage.draw("far balloons", 0.0, 1.0)
    for k in (0, 1):
        layer = stage.layer(0.7 + 0.08 * k)
        x, y = stage.draw(f"far{k}/x", -0.75, 0.75), stage.draw(f"far{k}/y", 0.08, 0.34)
        size = stage.draw(f"far{k}/size", 0.09, 0.14)
        drift = 0.02 * (stage.seconds - 1.3) * (1 - 2 * (stage.draw(f"far{k}/way") < 0.5))
        fade = (wanted > 0.4 + 0.3 * k) * (0.85 - 0.75 * stage.fog - 0.25 * stage.rain)
        canvas.blit(picture, (layer.x - x - drift) / size, (layer.y - stage.horizon - y) / size, fade)
