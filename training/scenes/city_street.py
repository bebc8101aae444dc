"""A city street under its skyline: lit windows, neon signs that shine on the road, traffic both ways."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from training.scenes.canvas import Canvas
from training.scenes.rows import Row
from training.scenes.shapes import TAU, box, coverage, disc, glow, over, segment, shine, smoothstep
from training.scenes.sky import paint_sky
from training.scenes.stage import Stage
from training.scenes.weather import finish

# Light of the tubes, not paint: as bright at night as by day.
_NEON = {
    "red": "#ff1428",
    "orange": "#ff7a00",
    "yellow": "#ffe414",
    "green": "#14e048",
    "blue": "#1e5cff",
    "purple": "#8f22f4",
    "pink": "#ff6fc4",
    "white": "#ffffff",
}
# Far to near: depth, a tower's cell, its heights over the horizon, distance in the haze.
_SKYLINE = ((0.64, 0.15, 0.16, 0.40, 0.85), (0.76, 0.21, 0.12, 0.36, 0.58))
# The foot of the front row, under the horizon.
_FOOT = 0.10
# From under the wheels to over the roof, in lengths of a car.
_CAR_HEIGHTS = (-0.12, 0.55)


def paint(stage: Stage) -> Tensor:
    """(batch, 3, frame, row, column), RGB in [0, 1]."""
    stage.aim(horizon=(-0.10, 0.02), focus_x=stage.draw("focus", -0.3, 0.3))
    picture = paint_sky(stage).picture
    for k in range(len(_SKYLINE)):
        _towers(stage, picture, k)
    ground = stage.horizon - _FOOT
    layer = stage.layer(1.0)
    _front(stage, ground).blit(picture, layer.x, layer.y, rows=stage.band(-_FOOT - 0.01, 0.40))
    _road(stage, picture, ground)
    _neon(stage, picture, ground)
    _traffic(stage, picture, -_FOOT - 0.075, 0.20, 1.0, 0)
    _lamps(stage, picture, ground)
    _traffic(stage, picture, -_FOOT - 0.205, 0.29, 1.12, 1)
    return finish(stage, picture)


def _hash(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    """A hash of whole numbers in [0, 1), for scattering lit windows."""
    value = torch.sin(x * 12.9898 + y * 78.233 + bias) * 437.585
    return value - value.floor()


def _evening(stage: Stage) -> Tensor:
    """How many of the windows are lit."""
    dim = 0.10 * (stage.rain + stage.fog + stage.snow)
    return 0.55 * stage.night + 0.30 * stage.sunset + dim


def _windows(
    stage: Stage, canvas: Canvas, inside: Tensor, up: Tensor, pitch: float, distance: float, bias: Tensor
) -> None:
    """A grid of windows over a facade, some of them lit."""
    u, v = canvas.x / pitch, up / (pitch * 1.25)
    pane = (
        torch.maximum((u - u.floor() - 0.5).abs() - 0.27, ((v - v.floor() - 0.5).abs() - 0.30) * 1.25) * pitch
    )
    mask = coverage(pane, canvas.pixel * 1.4) * inside
    chosen = _hash(u.floor(), v.floor(), bias)
    on = (chosen < _evening(stage)).float()
    warm = torch.lerp(stage.colour("#f2d6a0"), stage.colour("#dfe8f4"), (chosen * 37) % 1.0)
    warm = torch.lerp(warm * (0.75 + 0.25 * stage.night), stage.haze_colour(), stage.haze(distance) * 0.75)
    glass = stage.lit(
        torch.lerp(stage.colour("#5a7288"), stage.colour("#9ab4c8"), (chosen * 11) % 1.0), distance
    )
    canvas.over(mask, torch.lerp(glass, warm, on))


def _towers(stage: Stage, picture: Tensor, k: int) -> None:
    depth, cell, low, high, distance = _SKYLINE[k]
    layer = stage.layer(depth)
    reach = stage.reach(depth) + 0.02
    canvas = Canvas(stage, -reach, reach, -0.35, 0.52, density=1.15)
    up = canvas.y - stage.horizon
    tones = stage.mix("tower/a", "#6f7f98", "#8a8fa0", "#7a7488"), stage.mix("tower/b", "#93a0b0", "#a89a94")
    for half in range(2):
        row = Row(stage, f"towers/{k}/{half}", canvas.x, cell, 0.5 * half)
        height = row.draw("height", low, high) * stage.draw("skyline", 0.8, 1.2)
        wide = cell * row.draw("wide", 0.30, 0.48)
        body = torch.maximum(row.x.abs() - wide, up - height)
        kind = row.draw("kind")
        step = torch.maximum(row.x.abs() - wide * 0.6, up - height - 0.035)
        spire = torch.maximum(row.x.abs() - 0.004, up - height - 0.09)
        slant = torch.maximum(row.x.abs() - wide, (up - height - 0.5 * row.x) * 0.9)
        body = torch.where(kind < 0.3, torch.minimum(body, step), body)
        body = torch.where(kind > 0.8, torch.minimum(torch.minimum(body, step), spire), body)
        body = torch.where((kind > 0.55) & (kind < 0.7), slant, body)
        mask = coverage(body, canvas.pixel * 1.4)
        tone = torch.lerp(tones[0], tones[1], row.draw("tone"))
        side = 1.0 - 0.12 * (row.x > 0).float()
        canvas.over(mask, stage.lit(tone, distance) * side)
        _windows(stage, canvas, mask, up, 0.026 + 0.006 * k, distance, row.draw("bias", 0, 50))
    canvas.blit(picture, layer.x, layer.y, rows=stage.band(-_FOOT - 0.01, math.inf))


def _front(stage: Stage, ground: Tensor) -> Canvas:
    """The row of houses along the street, shops at their feet."""
    reach = stage.reach(1.0)
    canvas = Canvas(stage, -reach, reach, -0.30, 0.52, density=1.2)
    up, pixel = canvas.y - ground, canvas.pixel * 1.4
    cell = 0.34
    row = Row(stage, "front", canvas.x, cell)
    height = row.draw("height", 0.22, 0.46)
    gap = row.chance("gap", 0.12)
    body = torch.maximum(row.x.abs() - cell * 0.5 * (0.97 - 0.25 * row.draw("narrow") ** 3), up - height)
    mask = coverage(body, pixel) * (1 - gap)
    which = row.draw("tone")
    tones = (
        stage.mix("front/a", "#8a6a5c", "#7c6258", "#9a7a62"),
        stage.mix("front/b", "#6a7484", "#5c6878", "#76808a"),
        stage.mix("front/c", "#a89c90", "#94908c", "#b4a692"),
    )
    tone = torch.where(which < 0.33, tones[0], torch.where(which < 0.66, tones[1], tones[2]))
    canvas.over(mask, stage.lit(tone * 0.92, 0.16) * (1.04 - 0.16 * (row.x / cell + 0.5)))
    upper = mask * coverage(0.105 - up, pixel) * coverage(up - height + 0.022, pixel)
    _windows(stage, canvas, upper, up, 0.045, 0.16, row.draw("bias", 0, 50))
    ledge = torch.maximum(row.x.abs() - cell * 0.5, (up - height).abs() - 0.008)
    canvas.over(coverage(ledge, pixel) * (1 - gap), stage.lit(tone * 0.6, 0.16, 0.9))
    # Shops: glass from wall to wall, an awning above.
    glass = torch.maximum((row.x.abs() - cell * 0.40), (up - 0.045).abs() - 0.035)
    shop = torch.lerp(
        stage.lit("#54677a", 0.1), stage.colour("#efd9ae"), stage.night * 0.72 + stage.sunset * 0.5
    )
    canvas.over(coverage(glass, pixel) * (1 - gap), shop)
    mullion = torch.maximum(((row.x + 0.34) % 0.068 - 0.034).abs() - 0.004, glass)
    canvas.over(coverage(mullion, pixel) * (1 - gap), stage.lit(tone * 0.4, 0.1))
    awning = torch.maximum(row.x.abs() - cell * 0.44, (up - 0.092).abs() - 0.012)
    canvas.over(coverage(awning, pixel) * (1 - gap), stage.lit("#3c4048", 0.1, 0.9))
    return canvas


def _road(stage: Stage, picture: Tensor, ground: Tensor) -> None:
    rows = stage.band(-math.inf, 0.01 - _FOOT)
    picture, layer = picture[..., rows, :], stage.layer(1.0).on(rows)
    below = ground - layer.y
    pave = stage.lit("#99958f", 0.08, 0.85)
    over(picture, coverage(-below, layer.pixel * 1.3), pave)
    asphalt = stage.lit(stage.mix("road", "#4c5058", "#565459", "#434852"), 0.04, 0.45)
    wet = torch.lerp(asphalt, stage.sky_colours()[2], stage.rain * 0.22)
    over(picture, coverage(0.032 - below, layer.pixel * 1.3), wet)
    over(
        picture, coverage((below - 0.032).abs() - 0.0045, layer.pixel * 1.3), stage.lit("#c8c4bc", 0.06, 0.5)
    )
    # The middle line: dashes.
    line = stage.layer(1.06).on(rows)
    depth = ground - line.y - 0.125
    dash = torch.maximum((line.x % 0.26 - 0.13).abs() - 0.075, depth.abs() - 0.0065)
    over(picture, coverage(dash, line.pixel * 1.5) * 0.85, stage.lit("#e6e2d6", 0.04))


def _neon(stage: Stage, picture: Tensor, ground: Tensor) -> None:
    """Signs in the clip's colour, their glow, and their light on the road."""
    colour = torch.cat([stage.colour(_NEON[a.colour or "white"]) for a in stage.attributes])
    hot = torch.lerp(colour, stage.colour("#ffffff"), 0.30)
    reach = stage.reach(1.0)
    canvas = Canvas(stage, -reach, reach, -0.30, 0.52, density=1.2)
    pixel = canvas.pixel * 1.4
    halo, lit = torch.zeros_like(canvas.alpha), torch.zeros_like(canvas.alpha)
    back = stage.lit("#1b1a22") * 0.6
    for k, (cell, offset, low, high, amount) in enumerate(
        ((0.34, 0.0, 0.118, 0.135, 0.80), (0.34, 0.47, 0.20, 0.30, 0.78), (0.51, 0.23, 0.25, 0.36, 0.55))
    ):
        row = Row(stage, f"signs/{k}", canvas.x, cell, offset)
        x, y = row.x - row.draw("x", -0.04, 0.04), canvas.y - ground - row.draw("y", low, high)
        kind = row.draw("kind") if k else row.draw("kind", 0.0, 0.4)
        wide = torch.where(kind < 0.4, row.draw("wide", 0.085, 0.125), row.draw("wide", 0.030, 0.042))
        tall = torch.where(kind < 0.4, row.draw("tall", 0.026, 0.038), row.draw("tall", 0.085, 0.12))
        plate = box(x, y, wide, tall, 0.012)
        ring = disc(x, y, row.draw("ring", 0.052, 0.070))
        plate = torch.where(kind > 0.78, ring, plate)
        frame = (plate + 0.008).abs() - 0.006
        # Letters: strokes along the sign's long side.
        along, across = torch.where(kind < 0.4, x, y), torch.where(kind < 0.4, y, x)
        short = torch.where(kind < 0.4, tall, wide)
        letter = (along / 0.026).floor()
        place = along - (letter + 0.5) * 0.026
        shape = _hash(letter, letter * 0 + k, row.draw("text", 0, 50))
        bar = torch.maximum(place.abs() - 0.0085, across.abs() - short * 0.50)
        hole = torch.maximum(place.abs() - 0.0035, (across - short * (shape - 0.5)).abs() - short * 0.22)
        letters = torch.maximum(torch.maximum(bar, -hole), plate + 0.020)
        inner = torch.where(kind > 0.78, (ring + 0.026).abs() - 0.007, letters)
        some = (row.draw("some") < amount).float()
        filled = row.chance("filled", 0.5)
        inside = coverage(plate, pixel) * some
        canvas.over(inside, torch.lerp(back, colour * 0.94, filled))
        tubes = coverage(torch.minimum(frame, inner), pixel) * some
        canvas.over(tubes, torch.where(filled > 0, torch.lerp(hot, stage.colour("#ffffff"), 0.45), colour))
        lit = torch.maximum(lit, inside * (0.55 + 0.45 * filled))
        halo = torch.maximum(halo, glow(plate, 0.045) * some)
    # A tube along the awnings ties the street together.
    tubed, tube = stage.chance("tube", 0.7), (canvas.y - ground - 0.104).abs()
    line = coverage(tube - 0.005, pixel) * tubed
    canvas.over(line, colour)
    lit, halo = torch.maximum(lit, line), torch.maximum(halo, glow(tube, 0.018) * tubed)
    layer = stage.layer(1.0)
    flicker = 0.92 + 0.08 * torch.sin(stage.seconds * 7.0 + stage.draw("flicker", 0, TAU))
    strength = 0.62 * stage.night + 0.42 * stage.sunset + 0.22 * stage.day + 0.10 * (stage.rain + stage.fog)
    rows = stage.band(-_FOOT - 0.03, math.inf)
    high = layer.on(rows)
    light = canvas.sample_mask(high.x, high.y, halo) * (high.y > ground - 0.03)
    shine(picture[..., rows, :], light * (strength * flicker), colour)
    canvas.blit(picture, layer.x, layer.y, rows=rows)
    # The road mirrors the signs, stretched and broken by ripples.
    rows = stage.band(-math.inf, 0.0 - _FOOT)
    layer = layer.on(rows)
    below = (ground - layer.y).clamp(min=0)
    ripple = 0.006 * torch.sin(below * 90 + stage.seconds * 3) + 0.010 * torch.sin(
        below * 37 - stage.seconds * 2
    )
    smear = torch.maximum(lit, 0.45 * halo)
    mirrored = canvas.sample_mask(layer.x + ripple * (0.4 + stage.rain), ground + 0.085 + below * 0.95, smear)
    streak = canvas.sample_mask(layer.x - ripple, ground + 0.07 + below * 0.45, 0.6 * lit + 0.4 * halo)
    amount = (
        0.62 * stage.night + 0.46 * stage.sunset + 0.34 * stage.day + 0.25 * stage.rain - 0.12 * stage.snow
    )
    mask = (0.65 * mirrored + 0.45 * streak) * smoothstep(0.0, 0.03, below) * (1 - 0.9 * below)
    over(picture[..., rows, :], (mask * (amount * flicker)).clamp_(0, 0.9), colour)


def _traffic(stage: Stage, picture: Tensor, base: float, size: float, depth: float, lane: int) -> None:
    """Cars of one lane, all at one speed; the two lanes drive opposite ways. base: the wheels' height."""
    rows = stage.band(base + _CAR_HEIGHTS[0] * size, base + _CAR_HEIGHTS[1] * size, depth)
    picture, layer = picture[..., rows, :], stage.layer(depth).on(rows)
    way = -1.0 if lane else 1.0
    period = stage.draw(f"cars/{lane}/period", 0.85, 1.5)
    speed = stage.draw(f"cars/{lane}/speed", 0.30, 0.60)
    start = stage.draw(f"cars/{lane}/start", 0, 1.5)
    x = (((layer.x * way - speed * stage.seconds - start) % period) - 0.5 * period) / size
    y = (layer.y - stage.horizon - base) / size
    canvas, beams = _car(stage, lane)
    shadow = smoothstep(0.06, -0.06, box(x, y + 0.0, 0.50, 0.02))
    over(picture, shadow * 0.5, stage.lit("#101216"))
    canvas.blit(picture, x, y)
    dim = stage.night + 0.7 * stage.sunset + 0.5 * stage.day * (stage.rain + stage.fog + stage.snow)
    shine(picture, canvas.sample_mask(x, y, beams) * dim * 0.75, stage.colour("#fff0c8"))


def _car(stage: Stage, lane: int) -> tuple[Canvas, Tensor]:
    """A car heading right, 1 long, its wheels on y = 0; and the light of its lamps."""
    canvas = Canvas(stage, -0.62, 1.15, *_CAR_HEIGHTS, density=0.28)
    x, y, pixel = canvas.x, canvas.y, canvas.pixel * 1.3
    paint_ = stage.mix(f"cars/{lane}/paint", "#e2e2de", "#3c424c", "#8e939a", "#5a4c42", "#cfc8b8")
    van = stage.chance(f"cars/{lane}/van", 0.35)
    body = box(x, y - 0.165, 0.49, 0.095, 0.06)
    cabin = torch.maximum((x + 0.04).abs() - 0.33 + 0.75 * (y - 0.25), torch.maximum(0.24 - y, y - 0.40))
    tall = box(x + 0.09, y - 0.29, 0.39, 0.19, 0.05)
    hull = torch.minimum(body, torch.where(van > 0, tall, cabin))
    shade = (0.72 + 0.9 * y).clamp(0.6, 1.05)
    canvas.over(coverage(hull, pixel), stage.lit(paint_, 0.04) * shade + 0.01)
    glass = torch.maximum((x + 0.04).abs() - 0.27 + 0.75 * (y - 0.25), torch.maximum(0.255 - y, y - 0.375))
    front = box(x - 0.20, y - 0.36, 0.075, 0.065, 0.02)
    glass = torch.where(van > 0, front, torch.maximum(glass, 0.012 - (x + 0.02).abs()))
    canvas.over(coverage(glass, pixel), stage.lit("#26323e", 0.04) + 0.05)
    for wheel in (-0.29, 0.29):
        canvas.over(coverage(disc(x - wheel, y - 0.085, 0.09), pixel), stage.lit("#17181b"))
        canvas.over(coverage(disc(x - wheel, y - 0.085, 0.042), pixel), stage.lit("#a4a8ae"))
    dark = stage.night + stage.sunset + stage.rain + stage.fog + stage.snow
    lamp = torch.lerp(stage.lit("#f2efe4"), stage.colour("#fff6d8"), dark.clamp(max=1))
    canvas.over(coverage(box(x - 0.465, y - 0.185, 0.03, 0.028, 0.01), pixel), lamp)
    canvas.over(coverage(box(x + 0.475, y - 0.19, 0.018, 0.026, 0.01), pixel), stage.colour("#b02a28"))
    ahead = (x - 0.48).clamp(min=0)
    cone = smoothstep(1.0, 0.0, (y - 0.17 + 0.20 * ahead).abs() / (0.03 + 0.22 * ahead))
    beam = cone * torch.exp(-ahead / 0.22) * smoothstep(0.47, 0.50, x) * 0.8
    beam = torch.maximum(beam, glow(disc(x - 0.48, y - 0.185, 0.02), 0.045) * 0.9)
    return canvas, (beam * smoothstep(1.14, 0.9, x)).expand_as(canvas.alpha).contiguous()


def _lamps(stage: Stage, picture: Tensor, ground: Tensor) -> None:
    """Street lamps along the near pavement's edge, between the lanes of sight."""
    layer = stage.layer(1.04)
    reach = stage.reach(1.04)
    canvas = Canvas(stage, -reach, reach, -0.40, 0.30, density=1.1)
    row = Row(stage, "lamps", canvas.x, 0.68, 0.3)
    up, pixel = canvas.y - ground + 0.02, canvas.pixel * 1.4
    pole = torch.maximum(row.x.abs() - 0.0055, torch.maximum(-up, up - 0.27))
    arm = segment(row.x, up, 0.0, 0.27, 0.065, 0.285) - 0.005
    canvas.over(coverage(torch.minimum(pole, arm), pixel), stage.lit("#33363c", 0.08))
    head = box(row.x - 0.072, up - 0.278, 0.022, 0.008, 0.004)
    dim = (stage.night + 0.8 * stage.sunset).clamp(max=1)
    canvas.over(coverage(head, pixel), torch.lerp(stage.lit("#d8d8d0", 0.08), stage.colour("#fff4d6"), dim))
    canvas.blit(picture, layer.x, layer.y, rows=stage.band(-_FOOT - 0.04, 0.20, 1.04))
    if stage.any("time", "night", "sunset"):
        rows = stage.band(-0.12, 0.38, 1.04)
        layer = layer.on(rows)
        halo = glow(disc(row.x - 0.072, up - 0.27, 0.01), 0.035)
        light = canvas.sample_mask(layer.x, layer.y, halo.expand_as(canvas.alpha))
        shine(picture[..., rows, :], light * (dim * 0.6), stage.colour("#ffe9bc"))
