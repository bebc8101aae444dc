"""A big coloured ball that bounces on a court or a yard, before a wall and trees."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from training.scenes.canvas import Canvas
from training.scenes.rows import Row
from training.scenes.shapes import TAU, coverage, disc, ellipse, glow, hills, over, shine, smoothstep
from training.scenes.sky import paint_sky
from training.scenes.stage import Stage
from training.scenes.weather import finish


def paint(stage: Stage) -> Tensor:
    """(batch, 3, frame, row, column), RGB in [0, 1]."""
    x = stage.place("ball/x", -0.42, 0.42)
    stage.aim(horizon=(-0.16, -0.02), focus_x=x * 0.7)
    picture = paint_sky(stage).picture
    _trees(stage, picture)
    _wall(stage, picture)
    _floor(stage, picture)
    _ball(stage, picture, x)
    return finish(stage, picture)


def _trees(stage: Stage, picture: Tensor) -> None:
    layer = stage.layer(0.72)
    reach = stage.reach(0.72) + 0.05
    canvas = Canvas(stage, -reach, reach, -0.45, 0.5, density=1.1)
    y = canvas.y - stage.horizon
    back = 0.17 + 0.05 * hills(stage, "trees/back", canvas.x, 1.1, 4, 0.6)
    canvas.over(coverage(y - back, canvas.pixel * 1.5), stage.lit("#7fa878", distance=0.55, snowed=0.4))
    for k in range(2):
        row = Row(stage, f"trees/{k}", canvas.x, 0.34, 0.5 * k)
        size = row.draw("size", 0.08, 0.125)
        height = row.draw("height", 0.16, 0.30)
        crown = disc(row.x, (y - height) * 0.9, size)
        for dx, dy, part in ((-0.7, -0.35, 0.65), (0.7, -0.3, 0.7)):
            crown = torch.minimum(crown, disc(row.x - dx * size, (y - height - dy * size) * 0.9, size * part))
        trunk = torch.maximum(row.x.abs() - 0.012, (y - height))
        some = row.chance("some", 0.7)
        canvas.over(coverage(trunk, canvas.pixel * 1.5) * some, stage.lit("#5a4432", distance=0.3))
        leaf = torch.lerp(stage.lit("#3f7a3c", 0.32, 0.7), stage.lit("#6aa04a", 0.32, 0.7), row.draw("leaf"))
        tone = 0.78 + 0.30 * smoothstep(-0.8, 0.9, (y - height) / size)
        canvas.over(coverage(crown, canvas.pixel * 1.5) * some, leaf * tone)
    sway = 0.008 * torch.sin(stage.seconds * 1.6) * (layer.y - stage.horizon).clamp(min=0) * 4
    canvas.blit(picture, layer.x + sway, layer.y)


def _wall(stage: Stage, picture: Tensor) -> None:
    """A wall, a fence or a hedge where the floor ends."""
    layer = stage.layer(0.85)
    reach = stage.reach(0.85) + 0.02
    canvas = Canvas(stage, -reach, reach, -0.3, 0.3, density=1.2)
    y, kind = canvas.y - stage.horizon, stage.draw("wall/kind")
    height = stage.draw("wall/height", 0.09, 0.17)
    body = coverage(y - height, canvas.pixel * 1.4)
    own = stage.mix("wall/colour", "#c9b79a", "#b5a595", "#a9aeb4", "#d8cdb8")
    brick, fence = (kind < 0.4).float(), ((kind >= 0.4) & (kind < 0.75)).float()
    hedge = 1 - brick - fence
    canvas.over(body * brick, stage.lit(own, 0.18))
    course = y / 0.032
    shift = (course.floor() % 2) * 0.5
    joint_x, joint_y = (canvas.x / 0.085 + shift) % 1.0, course % 1.0
    joint = torch.minimum((joint_x - 0.5).abs() * -0.085 + 0.0425, (joint_y - 0.5).abs() * -0.032 + 0.016)
    canvas.over(
        body * brick * coverage(joint - 0.0035, canvas.pixel * 1.5) * 0.5, stage.lit(own * 0.62, 0.18)
    )
    canvas.over(
        brick * coverage((y - height).abs() - 0.014, canvas.pixel * 1.5), stage.lit(own * 0.8, 0.18, 0.9)
    )
    plank = Row(stage, "planks", canvas.x, 0.055)
    board = torch.maximum(plank.x.abs() - 0.022, y - height * (0.94 + 0.06 * plank.draw("top")))
    wood = stage.mix("fence/colour", "#8a6844", "#e8e2d4", "#7a7468") * plank.draw("tone", 0.85, 1.05)
    canvas.over(
        fence * coverage((y - height * 0.68).abs() - 0.010, canvas.pixel * 1.5), stage.lit(wood * 0.7, 0.18)
    )
    canvas.over(fence * coverage(board, canvas.pixel * 1.5), stage.lit(wood, 0.18, 0.3))
    bumps = height + 0.014 * hills(stage, "hedge", canvas.x, 4.0, 3, 0.7)
    leaf = 0.8 + 0.35 * canvas.noise("hedge/leaf", 12, 12, 2)
    canvas.over(hedge * coverage(y - bumps, canvas.pixel * 1.5), stage.lit("#47803c", 0.18, 0.6) * leaf)
    canvas.blit(picture, layer.x, layer.y)


def _floor(stage: Stage, picture: Tensor) -> None:
    """Tiles, planks or grass in perspective; nearer rows slide faster in a pan."""
    below = stage.horizon - stage.screen_y
    near = (below / (stage.horizon + 0.5)).clamp(0, 1)
    zoom = stage.zoom**0.9
    x = stage.focus_x + (stage.screen_x - stage.focus_x) / zoom + stage.pan * (0.85 + 0.35 * near)
    row = below.clamp(min=0) / zoom + 0.11
    u, v = x / row * 1.6, 0.62 / row
    own = stage.mix("floor/colour", "#b9a688", "#9aa3a8", "#b8826a", "#7fa05c", "#c8bfae")
    one, other = stage.lit(own, 0.05, 0.75), stage.lit(own * 0.80, 0.05, 0.75)
    size = 1.0 / stage.rows / row
    check = torch.sin(u * TAU * 0.5) * torch.sin(v * TAU * 0.9)
    sharp = (0.16 / (size * 1.6 + 0.012)).clamp(0.6, 6)
    tone = torch.lerp(one, other, (0.5 + check * sharp).clamp(0, 1))
    plain = stage.chance("floor/plain", 0.35)
    tone = torch.lerp(tone, torch.lerp(other, one, near), plain * 0.85)
    # Wet ground mirrors the sky's light.
    tone = torch.lerp(tone, stage.sky_colours()[1], stage.rain * 0.28 * (1 - 0.5 * near))
    over(picture, coverage(stage.screen_y - stage.horizon, 1.3 / stage.rows), tone)


def _ball(stage: Stage, picture: Tensor, x: Tensor) -> None:
    layer = stage.layer(1.0)
    span = stage.horizon + 0.5
    closest = stage.zoom.amax(2, keepdim=True)
    ground = stage.horizon - torch.minimum(stage.draw("ball/ground", 0.45, 0.68) * span, 0.40 / closest)
    radius = torch.minimum(stage.draw("ball/radius", 0.125, 0.17), 0.26 / closest)
    leap = stage.draw("ball/leap", 0.62, 0.9) * (stage.headroom() + stage.horizon - ground - 2 * radius)
    leap = leap.clamp(0.22, 0.55)
    phase = (stage.seconds * stage.draw("ball/rate", 1.05, 1.5) + stage.draw("ball/phase")) % 1.0
    height = leap * (1 - (2 * phase - 1) ** 2)
    # Flat for a moment as it lands.
    squash = 1 - 0.24 * torch.exp(-height / (0.22 * radius))
    wide = radius / torch.sqrt(squash)
    tall = radius * squash
    sway = stage.draw("ball/sway", 0.0, 0.10) * torch.sin(
        stage.seconds * 1.7 + stage.draw("ball/swing", 0, TAU)
    )
    ball_x = x + sway
    shadow = ellipse(layer.x - ball_x, layer.y - ground, radius * (1.05 - 0.4 * height), radius * 0.26)
    soft = radius * (0.16 + 0.5 * height)
    over(picture, smoothstep(1.0, -1.0, shadow / soft) * (0.55 - 0.45 * height), stage.lit("#1c1a20") * 0.6)
    local_x, local_y = (layer.x - ball_x) / wide, (layer.y - ground - height - tall) / tall
    angle = stage.seconds * stage.draw("ball/spin", -3.0, 3.0) + stage.draw("ball/turn", 0, TAU)
    cosine, sine = torch.cos(angle), torch.sin(angle)
    skin, gloss = _draw_ball(stage)
    skin.blit(picture, local_x * cosine + local_y * sine, local_y * cosine - local_x * sine)
    gloss.blit(picture, local_x, local_y)
    # Its colour on the floor where it lands.
    near = torch.exp(-height / 0.12)
    bounce = glow(ellipse(layer.x - ball_x, layer.y - ground + 0.01, radius * 0.7, radius * 0.16), 0.06)
    shine(picture, bounce * near * 0.16 * (layer.y < ground + 0.02), stage.subject(0.8))


def _draw_ball(stage: Stage) -> tuple[Canvas, Canvas]:
    """The skin, which turns, and light and shade, which don't; unit radius."""
    skin = Canvas(stage, -1.08, 1.08, -1.08, 1.08, density=0.32)
    pixel = skin.pixel * 1.2
    round_ = disc(skin.x, skin.y, 1.0)
    inside = coverage(round_, pixel)
    skin.over(inside, stage.subject(1.0))
    kind = stage.draw("ball/pattern")
    seam = torch.minimum(
        (disc(skin.x - 1.5, skin.y, 1.25)).abs() - 0.05, (disc(skin.x + 1.5, skin.y, 1.25)).abs() - 0.05
    )
    skin.over(inside * coverage(seam, pixel) * (kind < 0.35), stage.subject(0.62))
    stripe = (skin.y + 0.25 * skin.x * skin.x).abs() - 0.13
    skin.over(inside * coverage(stripe, pixel) * ((kind >= 0.35) & (kind < 0.6)), stage.subject(0.66))
    dots = disc(skin.x.abs() - 0.48, skin.y.abs() - 0.42, 0.17)
    skin.over(inside * coverage(dots, pixel) * ((kind >= 0.6) & (kind < 0.8)), stage.subject(0.68))
    gloss = Canvas(stage, -1.08, 1.08, -1.08, 1.08, density=0.32)
    way = torch.where(stage.draw("sky/light x", -0.62, 0.62) < 0, -1.0, 1.0)
    inside = coverage(disc(gloss.x, gloss.y, 1.0), pixel)
    toward = (gloss.x * way * 0.55 + gloss.y * 0.75) / math.hypot(0.55, 0.75)
    dark = smoothstep(0.25, -1.05, toward)
    gloss.over(inside * dark * 0.50, stage.subject(0.18))
    spot = torch.exp(-((gloss.x - 0.36 * way) ** 2 + (gloss.y - 0.45) ** 2) / 0.05)
    gloss.over(inside * spot * 0.75, stage.by_time("#ffffff", "#fff0dc", "#dfe6fa"))
    rim = smoothstep(0.86, 1.0, 1 + disc(gloss.x, gloss.y, 1.0)) * smoothstep(-0.2, -0.9, toward)
    gloss.over(inside * rim * 0.35, stage.lit("#d8d0c4"))
    return skin, gloss
