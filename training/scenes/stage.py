"""The stage of one batch of clips of one scene: draws, attributes as masks, camera, light and haze.

Axes of every tensor here: (batch, channel, frame, row, column), any of them 1 where the value does not vary.
Units: the picture is 1 high and 16/9 wide, x to the right, y upwards from the middle; seconds; RGB in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from training.attributes import Attributes
from training.scenes.draws import seed_bits, uniform

ROWS, COLUMNS = 144, 256
FRAMES_PER_SECOND = 12
HALF_WIDTH = COLUMNS / ROWS / 2
# How far the near world travels over a panning clip, in picture heights (16/9 is one picture width).
PAN_TRAVEL = (0.60, 0.86)
ZOOM_RATIO = (1.42, 1.75)

# Paint of the coloured subjects: hues far apart, so that each stays itself at sunset and at night.
SUBJECT_COLOURS = {
    "red": "#d80f1e",
    "orange": "#ff7a00",
    "yellow": "#ffe01a",
    "green": "#12a83a",
    "blue": "#1550e6",
    "purple": "#7416c4",
    "pink": "#ff6fbe",
    "white": "#f8f8f8",
}

# Sky from the zenith to the horizon. Two variants each; a clip mixes them by its seed.
SKY = {
    ("day", "clear"): (("#1f6fd0", "#6bb8f0", "#cfeaf9"), ("#2b8fd8", "#8ccff0", "#e8f4ee")),
    ("day", "rain"): (("#56636f", "#788591", "#9aa6ae"), ("#4c5a6a", "#6f7f8f", "#a3adb3")),
    ("day", "snow"): (("#a9bacb", "#c6d3df", "#e3eaf0"), ("#b7c0cc", "#d0d8e0", "#eaeef0")),
    ("day", "fog"): (("#b3c2cc", "#c9d3d9", "#d9e0e3"), ("#bfc8ca", "#d2d8d8", "#e2e6e4")),
    ("sunset", "clear"): (("#3c2a78", "#d9527c", "#ffb347"), ("#54307f", "#f0705c", "#ffcf6a")),
    ("sunset", "rain"): (("#3d3350", "#8a4f66", "#dd8450"), ("#45384f", "#96586a", "#e0945c")),
    ("sunset", "snow"): (("#6f5a90", "#cf8298", "#fbb98a"), ("#7d6296", "#da8d92", "#fcc896")),
    ("sunset", "fog"): (("#9a6f8c", "#dc9484", "#f5b988"), ("#a67888", "#e3a084", "#f8c690")),
    ("night", "clear"): (("#040a26", "#0c1d4e", "#26458a"), ("#070620", "#161a4c", "#38407c")),
    ("night", "rain"): (("#070b16", "#101828", "#202c42"), ("#080a18", "#131a2e", "#25304a")),
    ("night", "snow"): (("#0e1632", "#1d2a52", "#384a7c"), ("#121636", "#242c56", "#424e80")),
    ("night", "fog"): (("#141c30", "#222d44", "#354258"), ("#161a2e", "#262e46", "#3a455c")),
}
# What falls on everything that does not shine by itself; multiplies its own colour.
LIGHT = {
    ("day", "clear"): (1.00, 1.00, 1.00),
    ("day", "rain"): (0.66, 0.70, 0.76),
    ("day", "snow"): (0.90, 0.93, 0.98),
    ("day", "fog"): (0.84, 0.87, 0.89),
    ("sunset", "clear"): (0.98, 0.66, 0.56),
    ("sunset", "rain"): (0.64, 0.46, 0.46),
    ("sunset", "snow"): (0.95, 0.70, 0.68),
    ("sunset", "fog"): (0.90, 0.66, 0.60),
    ("night", "clear"): (0.24, 0.31, 0.56),
    ("night", "rain"): (0.17, 0.22, 0.36),
    ("night", "snow"): (0.34, 0.40, 0.62),
    ("night", "fog"): (0.24, 0.29, 0.42),
}
# The light on a coloured subject: nearer to white, so that its hue survives.
SUBJECT_LIGHT = {
    "day": (1.00, 1.00, 1.00),
    "sunset": (0.96, 0.84, 0.80),
    "night": (0.82, 0.82, 0.86),
}
HAZE = {"clear": 0.30, "rain": 0.55, "snow": 0.55, "fog": 1.00}


@dataclass(frozen=True)
class Layer:
    """Coordinates of one depth of the world, as the camera shows it.

    x: (batch, 1, frame, 1, column); y: (batch, 1, frame, row, 1), both in picture heights;
    pixel: (batch, 1, frame, 1, 1), the size of a pixel in the same unit, which is the width of anti-aliasing.
    """

    x: Tensor
    y: Tensor
    pixel: Tensor

    def on(self, rows: slice) -> Layer:
        """The same layer for some rows of the picture."""
        return Layer(self.x, self.y[..., rows, :], self.pixel)


class Stage:
    """Everything that the clips of one scene share while they are painted."""

    def __init__(
        self,
        attributes: Sequence[Attributes],
        seeds: Sequence[int],
        *,
        num_frames: int,
        scale: int,
        device: torch.device,
    ) -> None:
        self.attributes = tuple(attributes)
        self.scene = self.attributes[0].scene
        self.batch, self.num_frames, self.scale, self.device = len(self.attributes), num_frames, scale, device
        self.rows, self.columns = ROWS * scale, COLUMNS * scale
        self._seeds = [int(seed) for seed in seeds]
        # Small values asked for again and again: each would cost kernel launches and copies to the device.
        self._colours: dict[str | tuple[float, float, float], Tensor] = {}
        self._drawn: dict[tuple[str, int], Tensor] = {}
        self._hazes: dict[float, Tensor] = {}
        self._seed_bits = seed_bits(self._seeds)
        frame = torch.arange(num_frames, device=device, dtype=torch.float32).view(1, 1, -1, 1, 1)
        self.seconds = frame / FRAMES_PER_SECOND
        self.progress = frame / max(1, num_frames - 1)
        column = torch.arange(self.columns, device=device, dtype=torch.float32)
        row = torch.arange(self.rows, device=device, dtype=torch.float32)
        # The picture's own coordinates, for what does not move with the camera (rain, vignette).
        self.screen_x = ((column + 0.5) / self.rows - HALF_WIDTH).view(1, 1, 1, 1, -1)
        self.screen_y = (0.5 - (row + 0.5) / self.rows).view(1, 1, 1, -1, 1)
        self.horizon = torch.zeros(1, 1, 1, 1, 1, device=device)
        self.horizon_span = (-0.5, 0.5)
        self.focus_x = torch.zeros(1, 1, 1, 1, 1, device=device)
        self.day, self.sunset, self.night = (self.has("time", v) for v in ("day", "sunset", "night"))
        self.clear, self.rain, self.snow, self.fog = (
            self.has("weather", v) for v in ("clear", "rain", "snow", "fog")
        )
        self.pan, self.zoom = self._camera()

    # -- draws

    def uniform(self, name: str, count: int) -> Tensor:
        """(batch, count) float32 in [0, 1), a function of (seed, scene, name)."""
        return uniform(self._seed_bits, f"{self.scene}/{name}", count, self.device)

    def draws(self, name: str, low: float, high: float, count: int) -> tuple[Tensor, ...]:
        """`count` values a clip, uniform in [low, high): a tuple of (batch, 1, 1, 1, 1)."""
        if (name, count) not in self._drawn:
            self._drawn[name, count] = self.uniform(name, count)
        values = self._drawn[name, count] * (high - low) + low
        return values.view(self.batch, count, 1, 1, 1, 1).unbind(1)

    def draw(self, name: str, low: float = 0.0, high: float = 1.0) -> Tensor:
        """One value a clip, uniform in [low, high): (batch, 1, 1, 1, 1)."""
        return self.draws(name, low, high, 1)[0]

    def chance(self, name: str, probability: float) -> Tensor:
        """1.0 with the probability, else 0.0: (batch, 1, 1, 1, 1)."""
        return (self.draw(name) < probability).to(torch.float32)

    def mix(self, name: str, *colours: str) -> Tensor:
        """A colour between two neighbours of the list, chosen by the seed: (batch, 3, 1, 1, 1)."""
        table = torch.stack([self.colour(c).view(3) for c in colours])
        where = self.draw(name).view(-1) * (len(colours) - 1)
        low = where.floor().long().clamp_(max=max(0, len(colours) - 2))
        high = (low + 1).clamp_(max=len(colours) - 1)
        return torch.lerp(table[low], table[high], (where - low)[:, None]).view(-1, 3, 1, 1, 1)

    # -- attributes

    def has(self, attribute: str, value: str) -> Tensor:
        """1.0 for the clips whose attribute has the value, else 0.0: (batch, 1, 1, 1, 1)."""
        flags = [float(getattr(a, attribute) == value) for a in self.attributes]
        return torch.tensor(flags).to(self.device).view(-1, 1, 1, 1, 1)

    def any(self, attribute: str, *values: str) -> bool:
        """Whether any clip has one of the values: lets a scene skip paint that nobody would see."""
        return any(getattr(a, attribute) in values for a in self.attributes)

    def paint_some(
        self, picture: Tensor, attribute: str, values: Sequence[str], paint: Callable[[Stage, Tensor], None]
    ) -> None:
        """Call `paint(stage, picture)` for those clips alone whose attribute has one of the values, in place.

        What three clips in four would not show (rain, stars) is not worth the time of all four.
        """
        chosen = [i for i, a in enumerate(self.attributes) if getattr(a, attribute) in values]
        if len(chosen) == self.batch:
            paint(self, picture)
        elif chosen:
            part = Stage(
                [self.attributes[i] for i in chosen],
                [self._seeds[i] for i in chosen],
                num_frames=self.num_frames,
                scale=self.scale,
                device=self.device,
            )
            index = torch.tensor(chosen, device=self.device)
            horizon, focus_x = (v.expand(self.batch, 1, 1, 1, 1)[index] for v in (self.horizon, self.focus_x))
            part.aim(horizon, focus_x)
            part.horizon_span = self.horizon_span
            some = picture[index]
            paint(part, some)
            picture[index] = some

    def colour(self, code: str | tuple[float, float, float]) -> Tensor:
        """'#rrggbb' or (r, g, b) in [0, 1] -> (1, 3, 1, 1, 1)."""
        if code not in self._colours:
            rgb = tuple(int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)) if isinstance(code, str) else code
            self._colours[code] = torch.tensor(rgb).to(self.device).view(1, 3, 1, 1, 1)
        return self._colours[code]

    def by_time(self, day: str, sunset: str, night: str) -> Tensor:
        """The colour of each clip's time: (batch, 3, 1, 1, 1)."""
        return (
            self.day * self.colour(day) + self.sunset * self.colour(sunset) + self.night * self.colour(night)
        )

    @cached_property
    def _light(self) -> Tensor:
        return self._by_time_and_weather(LIGHT)

    def _by_time_and_weather(self, table: dict[tuple[str, str], tuple[float, float, float]]) -> Tensor:
        rows = [table[a.time or "day", a.weather or "clear"] for a in self.attributes]
        return torch.tensor(rows).to(self.device).view(self.batch, 3, 1, 1, 1)

    def sky_colours(self) -> tuple[Tensor, Tensor, Tensor]:
        """Zenith, middle and horizon colour of each clip: (batch, 3, 1, 1, 1) each."""
        return self._sky

    @cached_property
    def _sky(self) -> tuple[Tensor, Tensor, Tensor]:
        where = self.draw("sky palette")
        rows = [SKY[a.time or "day", a.weather or "clear"] for a in self.attributes]
        first, second = (
            torch.tensor(
                [[[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in row[k]] for row in rows]
            ).to(self.device)
            for k in (0, 1)
        )
        mixed = torch.lerp(first, second, where.view(-1, 1, 1))
        zenith, middle, low = mixed.view(self.batch, 3, 3, 1, 1, 1).unbind(1)
        return zenith, middle, low

    # -- light

    def lit(self, colour: Tensor | str, distance: float = 0.0, snowed: float = 0.0) -> Tensor:
        """A surface's own colour in the clip's light and weather: (batch, 3, ...).

        distance: 0 near .. 1 at the horizon, blends into the haze (fog hides what is far);
        snowed: how white the surface turns while it snows.
        """
        own = self.colour(colour) if isinstance(colour, str) else colour
        if snowed:
            own = torch.lerp(own, self.colour("#f2f5fa"), self.snow * snowed)
        own = own * self._light
        return torch.lerp(own, self.haze_colour(), self.haze(distance))

    def haze(self, distance: float) -> Tensor:
        """How much of a layer the air hides: (batch, 1, 1, 1, 1) in [0, 1]."""
        if distance not in self._hazes:
            thin = self.rain * HAZE["rain"] + self.snow * HAZE["snow"]
            thin = (thin + (1 - self.rain - self.snow - self.fog) * HAZE["clear"]) * distance**0.8
            # Fog thickens quickly: the middle distance is half gone, the far ranges are ghosts.
            thick = self.fog * (0.12 + 0.88 * HAZE["fog"] * distance**0.55)
            self._hazes[distance] = (thin + thick).clamp(0, 0.97)
        return self._hazes[distance]

    def haze_colour(self) -> Tensor:
        return self.sky_colours()[2]

    def subject(self, shade: float = 1.0, haze: float = 0.0) -> Tensor:
        """The coloured subject's paint in the clip's light: (batch, 3, 1, 1, 1); shade < 1: the dark side."""
        table = torch.cat([self.colour(SUBJECT_COLOURS[a.colour or "white"]) for a in self.attributes])
        light = torch.cat([self.colour(SUBJECT_LIGHT[a.time or "day"]) for a in self.attributes])
        return torch.lerp(table * light * shade, self.haze_colour(), self.haze(haze) * (haze > 0))

    # -- camera

    def aim(self, horizon: Tensor | float | tuple[float, float] = 0.0, focus_x: Tensor | float = 0.0) -> None:
        """Set the point that zooms keep in place: the horizon's height and a column, in picture heights.

        A pair is drawn from, and tells `band` where the horizon can be.
        """
        if isinstance(horizon, tuple):
            self.horizon_span = horizon
            horizon = self.draw("horizon", *horizon)
        zero = torch.zeros(1, 1, 1, 1, 1, device=self.device)
        self.horizon, self.focus_x = zero + horizon, zero + focus_x

    def layer(self, depth: float) -> Layer:
        """Coordinates at a depth: 0 stands still, ~0.6 the sky, 1 the subject, more is nearer."""
        zoom = self.zoom**depth
        x = self.focus_x + (self.screen_x - self.focus_x) / zoom + self.pan * depth
        y = self.horizon + (self.screen_y - self.horizon) / zoom
        return Layer(x, y, 1.0 / (self.rows * zoom))

    def band(self, low: float, high: float, depth: float = 1.0) -> slice:
        """The picture's rows in which heights from `low` to `high` over the horizon can appear, at any zoom.

        Both in the units of the layer at `depth`; +-inf for the picture's edge. Known without asking the device.
        """
        closest = ZOOM_RATIO[1] ** depth
        bottom = self.horizon_span[0] + low * (closest if low < 0 else 1.0)
        top = self.horizon_span[1] + high * (closest if high > 0 else 1.0)
        # A row more on each side, for soft edges.
        first = max(0.0, (0.5 - top) * self.rows - 1)
        last = min(float(self.rows), (0.5 - bottom) * self.rows + 1)
        return slice(int(first), max(int(first), math.ceil(last)))

    def place(self, name: str, low: float, high: float) -> Tensor:
        """A subject's x, drawn nearer to the middle when the camera pans, so that it stays in the picture."""
        panning = self.has("camera", "pan left") + self.has("camera", "pan right")
        return self.draw(name, low, high) * (1 - 0.6 * panning)

    def headroom(self) -> Tensor:
        """A subject's x, nearer to the middle when the camera pans, so that it stays in the picture."""
        return (0.48 - self.horizon) / self.zoom.amax(2, keepdim=True)

    def reach(self, depth: float) -> float:
        """|x| that a layer of this depth can ever show, in picture heights (no zoom is below 1)."""
        return HALF_WIDTH + depth * PAN_TRAVEL[1] / 2 + 0.02

    def _camera(self) -> tuple[Tensor, Tensor]:
        # To turn left shows what lies to the left: the world slides to the right, so x falls with time.
        direction = self.has("camera", "pan right") - self.has("camera", "pan left")
        travel = self.draw("camera/pan", *PAN_TRAVEL) * direction
        ratio = self.draw("camera/zoom", *ZOOM_RATIO)
        zoom_in, zoom_out = self.has("camera", "zoom in"), self.has("camera", "zoom out")
        still = self.draw("camera/frame", 1.0, 1.25)
        exponent = zoom_in * self.progress + zoom_out * (1 - self.progress)
        zoom = torch.where(zoom_in + zoom_out > 0, ratio**exponent, still)
        return travel * (self.progress - 0.5), zoom.expand(self.batch, 1, self.num_frames, 1, 1)
