"""A coloured planet before stars: turning bands or craters, a terminator, glowing air, now and then rings."""

from __future__ import annotations

import torch
from torch import Tensor

from training.scenes.canvas import Canvas
from training.scenes.shapes import TAU, coverage, disc, glow, over, shine, smoothstep
from training.scenes.stage import Stage
from training.scenes.weather import finish

# The map's extent in radians of longitude and latitude, with room for the planet's turning.
_LONGITUDE, _LATITUDE = 2.3, 1.6


def paint(stage: Stage) -> Tensor:
    """(batch, 3, frame, row, column), RGB in [0, 1]."""
    x, y = stage.place("planet/x", -0.36, 0.36), stage.draw("planet/y", -0.07, 0.07)
    stage.aim(horizon=y, focus_x=x * 0.7)
    picture = _space(stage)
    closest = stage.zoom.amax(2, keepdim=True)
    radius = torch.minimum(stage.draw("planet/radius", 0.25, 0.36), 0.44 / closest)
    layer = stage.layer(1.0)
    local_x, local_y, pixel = (layer.x - x) / radius, (layer.y - y) / radius, layer.pixel / radius
    tilt = stage.draw("planet/tilt", -0.5, 0.5)
    cosine, sine = torch.cos(tilt), torch.sin(tilt)
    # Along the equator, and towards the north.
    east, north = local_x * cosine + local_y * sine, local_y * cosine - local_x * sine
    moon, moon_colour, moon_behind = _moon(stage, local_x, local_y, pixel)
    rings, rings_colour = _rings(stage, east, north, pixel)
    over(picture, moon * moon_behind, moon_colour)
    over(picture, rings * (north > 0), rings_colour)
    _globe(stage, picture, local_x, local_y, east, north, pixel)
    over(picture, rings.mul_(north <= 0), rings_colour)
    over(picture, moon.mul_(1 - moon_behind), moon_colour)
    return finish(stage, picture)


def _space(stage: Stage) -> Tensor:
    """Darkness, a faint nebula, and two depths of stars."""
    top, bottom = stage.mix("space/top", "#04040f", "#060a1c", "#0a0618"), stage.colour("#0b1024")
    picture = torch.lerp(bottom, top, smoothstep(-0.5, 0.5, stage.screen_y))
    shape = (stage.batch, 3, stage.num_frames, stage.rows, stage.columns)
    picture = picture.expand(shape).contiguous()
    reach = stage.reach(0.55)
    cloud = Canvas(stage, -reach, reach, -0.62, 0.62, density=0.5)
    first, second = cloud.noise("nebula/1", 1.1, 1.4, 4), cloud.noise("nebula/2", 0.9, 1.1, 3)
    tint = torch.lerp(
        stage.mix("nebula/a", "#1c2c5c", "#31406e", "#2a2f50"),
        stage.mix("nebula/b", "#263a5a", "#3a3054", "#1e4450"),
        second,
    )
    cloud.over(smoothstep(0.42, 0.95, first) * stage.draw("nebula/strength", 0.3, 0.85), tint)
    far = stage.layer(0.45)
    cloud.blit(picture, far.x, far.y)
    phases = stage.draws("stars/phase", 0, TAU, 4)
    for k, (depth, cells, size, strength) in enumerate(((0.55, 11.0, 0.010, 0.75), (0.85, 5.5, 0.017, 1.0))):
        layer = stage.layer(depth)
        field = _stars(stage, f"stars/{k}", stage.reach(depth), cells, size)
        lights = field.sample_mask(layer.x, layer.y, field.halves)
        twinkle = torch.cat(phases[2 * k : 2 * k + 2], 1)
        twinkle = (0.75 + 0.25 * torch.sin(stage.seconds * (2.3 + k) + twinkle)) * strength
        # No pixel belongs to a star of each half.
        shine(picture, (lights * twinkle).sum(1, keepdim=True), stage.colour("#f4f6ff"))
    return picture


class _Stars(Canvas):
    """Two masks of stars that twinkle in turn: (batch, 2, 1, row, column)."""

    halves: Tensor


def _stars(stage: Stage, name: str, reach: float, cells: float, size: float) -> _Stars:
    field = _Stars(stage, -reach, reach, -0.62, 0.62, density=1.3)
    u, v = (field.x + reach) * cells, (field.y + 0.62) * cells
    columns = int(2 * reach * cells) + 2
    rows = int(1.24 * cells) + 2
    index = (u.floor().long() + v.floor().long() * columns).view(-1)
    across, along, bright, half = (
        stage.uniform(f"{name}/{k}", columns * rows)[:, index].view(field.alpha.shape) for k in range(4)
    )
    x, y = (u - u.floor() - 0.2 - 0.6 * across) / cells, (v - v.floor() - 0.2 - 0.6 * along) / cells
    width = size * (0.6 + 0.7 * bright)
    star = torch.exp(-(x * x + y * y) / (0.5 * width * width)) * (0.35 + 0.65 * bright) * (bright > 0.3)
    field.halves = torch.cat((star * (half < 0.5), star * (half >= 0.5)), 1)
    return field


def _map(stage: Stage) -> Canvas:
    """The surface by longitude and latitude, unlit."""
    canvas = Canvas(stage, -_LONGITUDE, _LONGITUDE, -_LATITUDE, _LATITUDE, density=0.40)
    base, dark = stage.subject(0.95), stage.subject(0.68)
    light = torch.lerp(stage.subject(1.0), stage.colour("#ffffff"), 0.22)
    canvas.over(torch.ones_like(canvas.alpha), base)
    giant = stage.chance("giant", 0.5)
    warp = canvas.noise("warp", 0.9, 1.6, 3) - 0.5
    # A giant's bands: a sum of sines of the latitude, bent by the warp.
    bands, weight = torch.zeros_like(canvas.alpha), 0.0
    widths, phases = stage.draws("bands/width", 0.8, 1.25, 3), stage.draws("bands/phase", 0, TAU, 3)
    for k, (frequency, part) in enumerate(((3.2, 1.0), (6.7, 0.6), (12.0, 0.3))):
        bands = bands + part * torch.sin(canvas.y * frequency * widths[k] + phases[k] + 2.4 * warp * (1 + k))
        weight += part
    bands = bands / weight
    canvas.over(smoothstep(0.10, 0.45, bands) * giant, dark)
    canvas.over(smoothstep(0.15, 0.55, -bands) * giant * 0.9, light)
    spot_x, spot_y = stage.draw("spot/x", -0.5, 0.5), stage.draw("spot/y", -0.5, 0.5)
    spot = disc((canvas.x - spot_x) / 1.7, canvas.y - spot_y, 0.17)
    canvas.over(coverage(spot, 0.06) * giant * 0.85, light)
    canvas.over(coverage(spot + 0.07, 0.05) * giant * 0.85, dark)
    # A rocky world: highlands, lowlands, craters with lit rims.
    land = canvas.noise("land", 1.3, 1.5, 4)
    canvas.over(smoothstep(0.52, 0.62, land) * (1 - giant), dark)
    canvas.over(smoothstep(0.36, 0.26, land) * (1 - giant) * 0.8, light)
    count = 9
    xs, ys = stage.draws("crater/x", -1.9, 1.9, count), stage.draws("crater/y", -0.95, 0.95, count)
    sizes = stage.draws("crater/size", 0.07, 0.24, count)
    for cx, cy, size in zip(xs, ys, sizes, strict=True):
        crater = disc((canvas.x - cx) * 0.85, canvas.y - cy, size)
        canvas.over(coverage(crater, 0.04) * (1 - giant) * 0.75, stage.subject(0.72))
        rim = disc((canvas.x - cx) * 0.85 - 0.03, canvas.y - cy + 0.03, size * 0.9)
        canvas.over(coverage(torch.maximum(crater, -rim), 0.04) * (1 - giant) * 0.8, light)
    cap = stage.chance("cap", 0.4) * (1 - giant)
    canvas.over(smoothstep(1.0, 1.15, canvas.y.abs() + 0.5 * warp) * cap * 0.8, stage.colour("#f4f8fc"))
    return canvas


def _globe(
    stage: Stage, picture: Tensor, x: Tensor, y: Tensor, east: Tensor, north: Tensor, pixel: Tensor
) -> None:
    length = torch.sqrt(x * x + y * y + 1e-6)
    air = torch.lerp(stage.subject(1.0), stage.colour("#ffffff"), 0.25)
    way = torch.where(stage.draw("light/side") < 0.5, -1.0, 1.0)
    light_x, light_y = way * stage.draw("light/x", 0.35, 0.7), stage.draw("light/y", 0.15, 0.55)
    light_z = torch.sqrt((1 - light_x**2 - light_y**2).clamp(min=0.05))
    toward = ((x * light_x + y * light_y) / length).clamp(-1, 1)
    shine(picture, glow(length - 1, 0.10) * (0.30 + 0.45 * (0.5 + 0.5 * toward)) * (length > 0.9), air)
    inside = (1 - length * length).clamp(min=0)
    depth = torch.sqrt(inside)
    latitude = torch.asin(north.clamp(-0.999, 0.999))
    ring_x = (east / torch.sqrt((1 - north * north).clamp(min=1e-3))).clamp(-0.999, 0.999)
    turn = stage.draw("turn", 0.12, 0.22) * torch.where(stage.draw("turn/way") < 0.5, -1.0, 1.0)
    longitude = torch.asin(ring_x) + turn * (stage.seconds - 1.3)
    colour, _ = _map(stage).sample(longitude, latitude)
    lit = x * light_x + y * light_y + depth * light_z
    colour = colour * (0.10 + 0.98 * smoothstep(-0.35, 0.55, lit))
    rim = (1 - depth) ** 3 * smoothstep(-0.2, 0.5, lit) * 0.5
    colour = torch.lerp(colour, air.expand_as(colour), rim)
    picture.lerp_(colour, coverage(length - 1, pixel * 1.3))


def _rings(stage: Stage, east: Tensor, north: Tensor, pixel: Tensor) -> tuple[Tensor, Tensor]:
    """Mask and colour of the rings; their northern half lies behind the planet."""
    squeeze = stage.draw("rings/open", 0.16, 0.30)
    across = torch.hypot(east, north / squeeze)
    edge = pixel / squeeze * 0.5
    band = coverage((across - 1.62).abs_().sub_(0.30), edge + pixel)
    gaps = across.mul_(24).add_(1.0).sin_().mul_(0.28).add_(0.72)
    colour = torch.lerp(stage.subject(0.95), stage.colour("#efe6d8"), 0.45)
    return band.mul_(gaps).mul_(stage.chance("rings", 0.35) * 0.85), colour


def _moon(stage: Stage, x: Tensor, y: Tensor, pixel: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mask and colour of a moon, and 1.0 in the frames where it is behind the planet."""
    angle = stage.draw("moon/angle", 0, TAU) + stage.seconds * stage.draw("moon/speed", 0.12, 0.3)
    reach = stage.draw("moon/reach", 1.45, 1.9)
    x, y = x - reach * torch.cos(angle), y - (reach * 0.45 * torch.sin(angle) + 0.25)
    size = stage.draw("moon/size", 0.10, 0.17)
    body = coverage(disc(x, y, size), pixel * 1.3) * stage.chance("moon", 0.6)
    way = torch.where(stage.draw("light/side") < 0.5, -1.0, 1.0)
    shade = smoothstep(-1.2, 0.8, (x * way + y) * (0.5 / size) + 0.2)
    colour = stage.colour("#b9b6b0") * (0.25 + 0.75 * shade)
    return body, colour, (torch.sin(angle) > 0).to(torch.float32)
