"""A yacht under coloured sails, rolling on the swell."""

from __future__ import annotations

import torch
from torch import Tensor

from training.scenes.canvas import Canvas
from training.scenes.shapes import TAU, coverage, hills, over, segment, smoothstep
from training.scenes.sky import SKY_DEPTH, Sky, paint_sky
from training.scenes.stage import Stage
from training.scenes.water import SWELLS, paint_sea, swell
from training.scenes.weather import finish

# The swell that carries the boat; the later ones pass in front of it.
_CARRIER = 6


def paint(stage: Stage) -> Tensor:
    """(batch, 3, frame, row, column), RGB in [0, 1]."""
    side = torch.where(stage.draw("side") < 0.5, -1.0, 1.0)
    x = stage.place("boat/x", -0.34, 0.34)
    stage.aim(horizon=(-0.12, 0.02), focus_x=x * 0.6)
    sky = paint_sky(stage)
    _coast(stage, sky)
    roughness = stage.draw("roughness", 0.1, 0.55) + 0.25 * stage.rain
    paint_sea(stage, sky, roughness=roughness, last=_CARRIER)
    _boat(stage, sky.picture, x, side, roughness)
    paint_sea(stage, sky, roughness=roughness, first=_CARRIER, last=SWELLS)
    return finish(stage, sky.picture)


def _coast(stage: Stage, sky: Sky) -> None:
    """A far shore behind some of the clips."""
    layer = stage.layer(SKY_DEPTH + 0.05)
    some = stage.chance("coast", 0.5)
    height = 0.05 * hills(stage, "coast", layer.x, 0.55) + stage.draw("coast/height", -0.02, 0.045)
    mask = coverage(layer.y - stage.horizon - height, layer.pixel * 1.4) * some
    over(sky.picture, mask, stage.lit("#5b7c86", distance=0.75))


def _boat(stage: Stage, picture: Tensor, x: Tensor, side: Tensor, roughness: Tensor) -> None:
    layer = stage.layer(1.0)
    way = torch.where(stage.draw("sea/way") < 0.5, -1.0, 1.0)
    base = stage.horizon - (stage.horizon + 0.5) * 0.42
    size = torch.minimum(
        stage.draw("boat/size", 0.48, 0.66), (stage.headroom() + stage.horizon - base) / 1.04
    )
    sail_on = side * stage.draw("boat/speed", 0.01, 0.04) * (stage.seconds - 1.3)
    x = x + sail_on
    lift = swell(stage, _CARRIER, x, roughness, way)
    phase = stage.draw("boat/phase", 0, TAU)
    roll = (0.03 + 0.06 * roughness) * torch.sin(stage.seconds * 1.9 + phase) + 0.05 * side
    local_x, local_y = (layer.x - x) / size, (layer.y - base - lift) / size
    # Small angles: a rotation is a shear each way.
    turned_x, turned_y = (local_x - roll * local_y) * side, local_y + roll * local_x
    canvas = _draw_boat(stage, size)
    # The reflection first: the boat upside down, squeezed, swaying in the ripples.
    ripple = 0.03 * torch.sin(local_y * 34 + stage.seconds * 4) * (-local_y).clamp(0, 1)
    alpha_fade = smoothstep(-0.75, 0.0, local_y) * 0.30 * (1 - 0.5 * roughness)
    canvas.blit(
        picture, (local_x + roll * local_y + ripple) * side, -local_y * 1.4 - 0.02, alpha_fade * (local_y < 0)
    )
    canvas.blit(picture, turned_x, turned_y)


def _draw_boat(stage: Stage, size: Tensor) -> Canvas:
    """The boat heading right, its waterline at 0, its mast 1 high."""
    canvas = Canvas(stage, -0.62, 0.66, -0.10, 1.08, density=0.85)
    x, y, pixel = canvas.x, canvas.y, canvas.pixel * 1.3
    wood = stage.mix("boat/hull", "#5a2f1c", "#243a5e", "#f0ece2", "#2f4a46")
    # Mast and boom.
    spar = stage.lit("#4a3626") + 0.04
    canvas.over(coverage(segment(x, y, 0.0, 0.1, 0.0, 1.02) - 0.011, pixel), spar)
    canvas.over(coverage(segment(x, y, 0.0, 0.205, -0.47, 0.19) - 0.010, pixel), spar)
    # Mainsail behind the mast, bellied out by the wind.
    s = ((y - 0.21) / 0.79).clamp(0, 1)
    leech = 0.47 * (1 - s) * (1 + 0.55 * s) + 0.012
    main = torch.maximum(torch.maximum(-x - leech, x + 0.012), torch.maximum(0.215 - y, y - 1.0))
    belly = smoothstep(-0.1, 1.0, (-x) / leech.clamp(min=0.02))
    colour = torch.lerp(stage.subject(1.0), stage.subject(0.72), belly)
    canvas.over(coverage(main * 0.85, pixel), colour)
    for seam in (0.36, 0.55, 0.74):
        line = coverage((y - seam + 0.04 * x).abs() - 0.004, pixel) * coverage(main * 0.85 + 0.01, pixel)
        canvas.over(line * 0.45, stage.subject(0.55))
    # Jib before the mast.
    s = ((y - 0.17) / 0.73).clamp(0, 1)
    front, back = 0.52 * (1 - s) + 0.02, 0.05 + 0.10 * (1 - s) * s * 2
    jib = torch.maximum(
        torch.maximum(x - front, back - x), torch.maximum(0.17 + 0.1 * (0.5 - x) * 0.3 - y, y - 0.9)
    )
    colour = torch.lerp(stage.subject(0.82), stage.subject(1.0), smoothstep(0.05, 0.4, x))
    canvas.over(coverage(jib * 0.85, pixel), colour)
    # Hull: a sheer line, a bow that rakes forward, a boot stripe.
    sheer = 0.115 + 0.06 * x + 0.12 * x * x
    stern, bow = -0.46 - 0.25 * (y - 0.05), 0.50 + 0.75 * (y - 0.03)
    hull = torch.maximum(torch.maximum(stern - x, (x - bow) * 0.8), torch.maximum(y - sheer, -y - 0.09))
    inside = coverage(hull, pixel)
    canvas.over(inside, stage.lit(wood) * (0.82 + 1.6 * y).clamp(0.5, 1.05) + 0.02)
    canvas.over(inside * coverage((y - sheer + 0.022).abs() - 0.010, pixel), stage.lit("#f4efe2"))
    canvas.over(inside * coverage(y - 0.015, pixel), stage.lit("#7d2420"))
    cabin = torch.maximum(
        torch.maximum(-0.2 - x, x - 0.18), torch.maximum(0.08 - y, y - 0.175 + 0.05 * x.abs())
    )
    canvas.over(coverage(cabin, pixel), stage.lit("#efe7d6"))
    window = torch.maximum(((x + 0.13) % 0.11 - 0.055).abs() - 0.03, (y - 0.145).abs() - 0.014)
    glass = torch.lerp(stage.lit("#3a5468"), stage.colour("#ffd27a"), stage.night + 0.6 * stage.sunset)
    canvas.over(coverage(window, pixel) * coverage((x.abs() - 0.16), pixel), glass)
    return canvas
