"""Mountain ranges that stand around a lake and are mirrored in it; firs on the shore."""

from __future__ import annotations

import torch
from torch import Tensor

from training.scenes.canvas import Canvas
from training.scenes.shapes import TAU, coverage, hills, over, peaks, shine, smoothstep
from training.scenes.sky import paint_sky
from training.scenes.stage import Stage
from training.scenes.water import glitter, mirror
from training.scenes.weather import finish


def paint(stage: Stage) -> Tensor:
    """(batch, 3, frame, row, column), RGB in [0, 1]."""
    stage.aim(horizon=(-0.22, -0.06), focus_x=stage.draw("focus", -0.3, 0.3))
    sky = paint_sky(stage)
    picture = sky.picture
    _range(stage, picture, "far", 0.66, stage.draw("far/height", 0.36, 0.50), 0.62, 0.55)
    _range(stage, picture, "mid", 0.78, stage.draw("mid/height", 0.20, 0.36), 0.85, 0.30)
    _shore(stage, picture)
    _lake(stage, picture)
    glitter(stage, sky, 0.8)
    _bank(stage, picture)
    return finish(stage, picture)


def _range(
    stage: Stage, picture: Tensor, name: str, depth: float, height: Tensor, frequency: float, distance: float
) -> None:
    """One range: sunlit and shaded faces, snow on the heights."""
    reach = stage.reach(depth)
    canvas = Canvas(stage, -reach, reach, -0.26, 0.5, density=1.25)
    x, y = canvas.x, canvas.y
    outline = peaks(stage, name, x, frequency, 5, 0.42)
    top = stage.horizon + height * (0.14 + 1.15 * outline.clamp(min=0) ** 1.35)
    below = (top - y).clamp(min=0)
    lean = torch.where(stage.draw("sky/light x", -0.62, 0.62) < 0, -1.0, 1.0)
    # The ridge lines wander down from each peak, so the faces part along a broken line.
    wander = 0.030 * torch.sin(below * 46 + x * 5) + 0.015 * torch.sin(below * 105)
    near_by = 0.02
    slope = peaks(stage, name, x + wander + near_by, frequency, 3, 0.5) - peaks(
        stage, name, x + wander - near_by, frequency, 3, 0.5
    )
    face = smoothstep(-0.012, 0.012, slope * lean * -1)
    rock = stage.mix(f"{name}/rock", "#6f7f9a", "#7b7686", "#6a8087")
    dark = stage.mix(f"{name}/dark", "#3e4c6a", "#4a465c", "#3c525c")
    base = torch.lerp(stage.lit(dark, distance), stage.lit(rock, distance), face)
    meadow = stage.lit(stage.mix(f"{name}/meadow", "#4f7a52", "#5c7f48"), distance, snowed=0.8)
    foot = smoothstep(0.10, 0.0, y - stage.horizon - 0.03 * outline)
    base = torch.lerp(base, meadow, foot * 0.75)
    body = coverage(y - top, canvas.pixel * 1.4)
    canvas.over(body, base)
    # Snow above a line that zigzags; it reaches lower while it snows.
    line = stage.draw(f"{name}/snow line", 0.36, 0.62) - 0.30 * stage.snow
    zigzag = 0.16 * peaks(stage, f"{name}/zigzag", x, 5.5, 3, 0.6) - 0.08
    level = (y - stage.horizon) / height - line - zigzag
    bright = torch.lerp(stage.lit("#a9bcdc", distance), stage.lit("#ffffff", distance), face)
    glow = stage.colour("#ff9d86") * stage.sunset * stage.clear * face * 0.25
    canvas.over(body * smoothstep(-0.012, 0.03, level) * 0.96, bright + glow)
    # Haze gathers in the valleys.
    mist = smoothstep(0.16, 0.0, y - stage.horizon) * (0.22 + 0.3 * distance + 0.3 * stage.fog)
    canvas.over(body * mist.clamp(0, 0.9), stage.haze_colour())
    layer = stage.layer(depth)
    canvas.blit(picture, layer.x, layer.y)


def firs(stage: Stage, name: str, x: Tensor, per_unit: float) -> Tensor:
    """The outline of a row of firs, 0 between the trees .. 1 at the tallest tip."""
    place = x * per_unit + stage.draw(f"{name}/phase", 0, 50)
    total: Tensor | None = None
    for k, shift in enumerate((0.0, 0.37)):
        cell = (place + shift * 1.7).floor()
        within = place + shift * 1.7 - cell - 0.5
        jitter = torch.sin(cell * 127.1 + 3.7 * k + stage.draw(f"{name}/bias", 0, 6)) * 43.7585
        tall = 0.45 + 0.55 * (jitter - jitter.floor())
        tree = tall * (1 - within.abs() / (0.30 + 0.22 * tall)).clamp(min=0)
        total = tree if total is None else torch.maximum(total, tree)
    assert total is not None
    return total


def _shore(stage: Stage, picture: Tensor) -> None:
    """Wooded land between the ranges and the water."""
    layer = stage.layer(0.84)
    height = stage.draw("shore/height", 0.02, 0.05) * (1 + 0.8 * hills(stage, "shore", layer.x, 0.7))
    trees = (
        firs(stage, "shore/firs", layer.x, 21.0)
        * 0.055
        * (0.6 + 0.4 * hills(stage, "shore/wood", layer.x, 0.9))
    )
    green = stage.mix("shore/green", "#2f5a48", "#3b6a3e", "#2c5560")
    mask = coverage(layer.y - stage.horizon - height - trees, layer.pixel * 1.5)
    over(picture, mask, stage.lit(green, 0.18, snowed=0.45))
    rise = ((layer.y - stage.horizon) / 0.05).clamp(0, 1)
    land = coverage(layer.y - stage.horizon - height * 0.55, layer.pixel * 1.5)
    over(picture, land * (1 - 0.4 * rise), stage.lit("#6f8a4c", 0.18, snowed=0.95))


def _lake(stage: Stage, picture: Tensor) -> None:
    water = mirror(stage, picture, ripple=stage.draw("lake/ripple", 0.25, 0.9) + 0.5 * stage.rain)
    deep = stage.by_time("#1d5f7a", "#4b2d5e", "#081230")
    below = ((stage.horizon - stage.screen_y) / (stage.horizon + 0.5)).clamp(0, 1)
    over(water, (0.16 + 0.42 * below).expand(-1, -1, stage.num_frames, -1, stage.columns), deep)
    edge = coverage(stage.screen_y - stage.horizon, 1.3 / stage.rows)
    over(picture, edge.expand(stage.batch, 1, stage.num_frames, -1, stage.columns), water)
    # Lanes of wind on the water.
    layer = stage.layer(0.95)
    rows = torch.log(below + 0.05) * 9
    drift = stage.seconds * 0.5
    lane = torch.sin(
        rows * 3.1 + 0.9 * torch.sin(layer.x * 2.3 + drift) + stage.draw("lake/lane", 0, TAU) - drift
    )
    lane = smoothstep(0.80, 1.0, lane) * edge * smoothstep(0.0, 0.06, below)
    shine(picture, lane * (0.16 + 0.1 * stage.day), stage.haze_colour())


def _bank(stage: Stage, picture: Tensor) -> None:
    """The near bank: grass and a few large firs at one side or both."""
    layer = stage.layer(1.25)
    reach = stage.reach(1.25)
    canvas = Canvas(stage, -reach, reach, -0.52, 0.42, density=0.95)
    x, y = canvas.x, canvas.y
    bank = -0.45 + stage.draw("bank/height", -0.02, 0.05) + 0.035 * hills(stage, "bank", x, 0.6)
    side = torch.where(stage.draw("bank/side") < 0.5, -1.0, 1.0)
    count = 6
    xs, sizes = stage.draws("bank/fir x", 0.45, 1.38, count), stage.draws("bank/fir size", 0.22, 0.46, count)
    wanted = stage.draw("bank/firs", 0.25, 1.0)
    for k in range(count):
        at = xs[k] * side * (1 if k < 4 else -1)
        size = sizes[k]
        foot = bank - 0.01
        fx, fy = (x - at) / size, (y - foot) / size
        # Five skirts, each a cone whose hem is wider than the next one's foot.
        steps = (fy * 5.5).clamp(min=0)
        skirt = 1 - (steps - steps.floor())
        half = (0.245 * (1 - fy)).clamp(min=0) * (0.62 + 0.42 * skirt)
        crown = torch.maximum(fx.abs() - half, torch.maximum(0.06 - fy, fy - 1.0))
        pixel = canvas.pixel / size
        present = (wanted > k / count).float()
        canvas.over(
            coverage(torch.maximum(fx.abs() - 0.022, torch.maximum(-fy, fy - 0.12)), pixel) * present,
            stage.lit("#3a2c22"),
        )
        shade = torch.lerp(
            stage.lit("#1c3d30"), stage.lit("#2f5e42", snowed=0.5), smoothstep(-0.10, 0.14, fx + 0.1 * skirt)
        )
        canvas.over(coverage(crown * 0.8, pixel * 1.3) * present, shade)
        cap = smoothstep(0.45, 0.05, skirt) * coverage(crown * 0.8, pixel * 1.3)
        canvas.over(cap * present * stage.snow * 0.9, stage.lit("#eef3fa"))
    blades = 0.014 * peaks(stage, "bank/grass", x, 17.0, 2, 0.7)
    mask = coverage(y - bank - blades, canvas.pixel * 1.5)
    depth = ((bank + blades - y) / 0.1).clamp(0, 1)
    grass = torch.lerp(stage.lit("#5d8a42", snowed=0.95), stage.lit("#2c5230", snowed=0.8), depth)
    canvas.over(mask, grass)
    canvas.blit(picture, layer.x, layer.y)
