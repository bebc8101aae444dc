"""Open ocean: swells under a wide sky, with gulls by day."""

from __future__ import annotations

import torch
from torch import Tensor

from training.scenes.shapes import TAU, coverage, over, segment
from training.scenes.sky import paint_sky
from training.scenes.stage import Stage
from training.scenes.water import paint_sea
from training.scenes.weather import finish


def paint(stage: Stage) -> Tensor:
    """(batch, 3, frame, row, column), RGB in [0, 1]."""
    stage.aim(horizon=(-0.08, 0.16))
    sky = paint_sky(stage)
    roughness = stage.draw("roughness", 0.1, 0.75) + 0.25 * stage.rain
    paint_sea(stage, sky, roughness=roughness)
    _gulls(stage, sky.picture)
    return finish(stage, sky.picture)


def _gulls(stage: Stage, picture: Tensor) -> None:
    count = 3
    rows = stage.band(0.07, 0.54, 0.85)
    layer = stage.layer(0.85).on(rows)
    xs, ys = stage.draws("gull/x", -0.7, 0.7, count), stage.draws("gull/y", 0.35, 0.85, count)
    speeds, sizes = (
        stage.draws("gull/speed", -0.12, 0.12, count),
        stage.draws("gull/size", 0.018, 0.034, count),
    )
    beats = stage.draws("gull/beat", 4.0, 7.0, count)
    flock = stage.draw("gull/flock", 0.0, 1.0)
    colour = stage.lit("#2c3540", distance=0.25)
    nearest: Tensor | None = None
    for k in range(count):
        x = (layer.x - xs[k] - speeds[k] * (stage.seconds - 1.3)).abs() / sizes[k]
        y = (layer.y - stage.horizon - ys[k] * (0.5 - stage.horizon)) / sizes[k]
        flap = 0.25 + 0.45 * torch.sin(stage.seconds * beats[k] + xs[k] * TAU)
        wing = torch.minimum(segment(x, y, 0, 0, 0.5, flap), segment(x, y, 0.5, flap, 1.1, flap * 0.7))
        # Those that the flock lacks are a picture's height away.
        wing = (wing - 0.12).mul_(sizes[k]).add_((flock <= k / count).to(torch.float32))
        nearest = wing if nearest is None else torch.minimum(nearest, wing)
    assert nearest is not None
    mask = coverage(nearest, layer.pixel * 1.2)
    over(picture[..., rows, :], mask * ((1 - stage.night) * (1 - stage.fog)), colour)
