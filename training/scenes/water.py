"""Open water from the horizon to the viewer: swells with crests, the path of light, mirrors."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from training.scenes.shapes import TAU, coverage, over, shine, smoothstep
from training.scenes.sky import SKY_DEPTH, Sky
from training.scenes.stage import HALF_WIDTH, Layer, Stage

SWELLS = 9
# No crest is higher than this times the swell's size: the waves of `swell` at their tops, in the roughest sea.
_HIGHEST = 1.6 * (0.22 + 0.95 * 1.1)


def sea_colours(stage: Stage) -> tuple[Tensor, Tensor, Tensor]:
    """Colour at the horizon, near the viewer, and of crests: (batch, 3, 1, 1, 1) each."""
    _, middle, low = stage.sky_colours()
    deep = stage.day * stage.mix("sea/deep", "#0f4c81", "#0b6a86", "#145a70") + (
        1 - stage.day
    ) * stage.by_time("#000000", "#4a2f63", "#0a1638")
    grey = stage.by_time("#3f4f5a", "#54405a", "#10182a")
    rough = 1 - stage.clear
    deep = torch.lerp(deep, grey, rough * 0.8)
    far = torch.lerp(torch.lerp(low, middle, 0.45), deep, 0.40 * stage.day + 0.25 * (1 - stage.day))
    far = torch.lerp(far, low, stage.fog * 0.85)
    near = torch.lerp(deep, low, stage.fog * 0.30)
    crest = torch.lerp(far, stage.by_time("#e8f6fa", "#ffc28a", "#8fa6dc"), 0.55)
    return far, near, crest


def paint_sea(stage: Stage, sky: Sky, *, roughness: Tensor, first: int = 0, last: int = SWELLS) -> None:
    """Swells `first` .. `last` of `SWELLS`, far to near, below the horizon, in place.

    roughness: (batch, 1, 1, 1, 1), 0 calm .. 1 stormy. Paint a boat between two calls.
    """
    far, near, crest = sea_colours(stage)
    picture, way = sky.picture, _way(stage)
    for k in range(first, last):
        nearness = _nearness(k)
        rows = _rows(stage, k, covered=k + 1 < last)
        part = picture[..., rows, :]
        layer = stage.layer(swell_depth(k)).on(rows)
        top = _base(stage, k) + (swell(stage, k, layer.x, roughness, way) if k else 0.0)
        colour = torch.lerp(far, near, (k / (SWELLS - 1)) ** 0.8)
        depth_below = (top - layer.y).clamp(min=0)
        mask = coverage(layer.y - top, layer.pixel * 1.3)
        over(part, mask, colour)
        if k:
            width = 0.004 + 0.016 * nearness
            # The crest is lit along its top, and broken by foam that comes and goes.
            foam = 0.45 + 0.55 * torch.sin(layer.x * (TAU * 2.1) + stage.seconds * way * 1.1 + 1.7 * k)
            band = torch.exp(-depth_below / width) * mask
            over(part, band * (0.30 + 0.45 * roughness * foam.clamp(min=0)) * (0.5 + 0.5 * foam), crest)
    near_end = 1.01 if last == SWELLS else _nearness(last) * 0.93
    glitter(stage, sky, far_end=_nearness(first) * 0.93 if first else 0.0, near_end=near_end)


def _rows(stage: Stage, k: int, *, covered: bool) -> slice:
    """The picture's rows where swell k shows: from its highest crest to the next one's lowest, if that covers it."""

    def crest(k: int, way: float) -> float:
        return -(stage.horizon_span[way < 0] + 0.5) * _nearness(k) * 0.93 + way * _HIGHEST * _size(k)

    first = stage.band(-math.inf, crest(k, 1.0), swell_depth(k))
    if not covered:
        return first
    return slice(first.start, stage.band(crest(k + 1, -1.0), math.inf, swell_depth(k + 1)).stop)


def _way(stage: Stage) -> Tensor:
    return torch.where(stage.draw("sea/way") < 0.5, -1.0, 1.0)


def _base(stage: Stage, k: int) -> Tensor:
    # In the layer's own units, so that zooms keep the swells in perspective.
    return stage.horizon - (stage.horizon + 0.5) * _nearness(k) * 0.93


def swell_crest(stage: Stage, k: int, roughness: Tensor) -> tuple[Layer, Tensor]:
    """The layer of swell k, and the height of its outline there: (batch, 1, frame, 1, column)."""
    layer = stage.layer(swell_depth(k))
    return layer, _base(stage, k) + swell(stage, k, layer.x, roughness, _way(stage))


def swell_depth(k: int) -> float:
    """The layer in which swell k lies."""
    return 0.68 + 0.55 * _nearness(k)


def swell(stage: Stage, k: int, x: Tensor, roughness: Tensor, way: Tensor) -> Tensor:
    """Height of swell k over its base line, in the layer's units."""
    nearness = _nearness(k)
    height = _size(k) * (0.22 + 0.95 * roughness)
    wave_1, wave_2, wave_3 = stage.draws(f"sea/phase{k}", 0, TAU, 3)
    frequency = (2.3 - 1.2 * nearness) * (1.15 - 0.3 * roughness)
    time = stage.seconds * way
    first = torch.sin(TAU * frequency * x - time * 1.9 + wave_1)
    # Sharper crests than troughs, as in a Stokes wave.
    first = first + 0.22 * torch.cos(2 * (TAU * frequency * x - time * 1.9 + wave_1) + 3.14)
    second = torch.sin(TAU * frequency * 1.73 * x - time * 2.6 + wave_2)
    bob = torch.sin(stage.seconds * 1.5 + wave_3)
    return height * (0.75 * first + 0.35 * second + 0.25 * bob)


def _size(k: int) -> float:
    return 0.006 + 0.045 * _nearness(k)


def _nearness(k: int) -> float:
    """Where swell k stands between the horizon (0) and the viewer (1)."""
    return float((k / SWELLS) ** 1.7)


def glitter(
    stage: Stage, sky: Sky, strength: float = 1.0, *, far_end: float = 0.0, near_end: float = 1.01
) -> None:
    """The path of the sun or the moon on the water, in place, between two shares of the way to the viewer."""
    seen = stage.clear + 0.3 * stage.fog * (1 - stage.day) + 0.25 * stage.snow * stage.sunset
    if not stage.any("weather", "clear", "fog", "snow"):
        return
    layer = stage.layer(SKY_DEPTH)
    band = stage.band(-math.inf, 0.0)
    below = (stage.horizon - stage.screen_y[..., band, :]).clamp(min=0)
    near = below / (stage.horizon + 0.5)
    x = layer.x - sky.light_x
    width = 0.05 + 0.16 * near
    phase_1, phase_2 = stage.draws("sea/glitter", 0, TAU, 2)
    rows = torch.log(below + 0.03) * 26
    flicker = torch.sin(rows + stage.seconds * 2.4 + phase_1 + 1.5 * torch.sin(x * 7 + phase_2))
    flicker = flicker * 0.6 + 0.4 * torch.sin(rows * 1.9 - stage.seconds * 3.1 + x * 11)
    path = (
        ((near >= far_end) & (near < near_end))
        * torch.exp(-((x / width) ** 2))
        * smoothstep(-0.1, 0.7, flicker)
        * smoothstep(0.0, 0.02, below)
    )
    amount = (0.35 * stage.day + 0.75 * stage.sunset + 0.6 * stage.night) * seen * strength
    shine(sky.picture[..., band, :], path * amount * (1 - 0.45 * near), sky.light)


def mirror(stage: Stage, picture: Tensor, *, ripple: Tensor | float = 0.3, squeeze: float = 1.0) -> Tensor:
    """What still water below the horizon shows: `picture` upside down about `stage.horizon`, rippled.

    Returns (batch, 3, frame, row, column); the caller lays it over with a mask and a tint. `ripple` is the
    sway near the viewer in hundredths of a picture height.
    """
    below = (stage.horizon - stage.screen_y).clamp(min=0)
    phase = stage.draw("mirror/phase", 0, TAU)
    rows = torch.log(below + 0.04) * 22
    sway = torch.sin(rows + stage.seconds * 2.0 + phase) + 0.6 * torch.sin(
        rows * 2.3 - stage.seconds * 2.7 + stage.screen_x * 5
    )
    amount = 0.01 * ripple * (0.2 + 2.5 * below)
    x = stage.screen_x + sway * amount
    y = stage.horizon + below * squeeze + 0.6 * amount * torch.sin(rows * 1.4 + stage.seconds * 1.7)
    shape = (stage.batch, stage.num_frames, stage.rows, stage.columns)
    grid = torch.stack(
        [
            (x / HALF_WIDTH).expand(stage.batch, 1, *shape[1:])[:, 0],
            (-2 * y).expand(stage.batch, 1, *shape[1:])[:, 0],
        ],
        -1,
    )
    flat = picture.transpose(1, 2).reshape(-1, 3, stage.rows, stage.columns)
    flipped = F.grid_sample(
        flat, grid.reshape(-1, *shape[2:], 2), mode="bilinear", padding_mode="border", align_corners=False
    )
    return flipped.view(shape[0], shape[1], 3, *shape[2:]).transpose(1, 2)
