"""The closed vocabulary of facts of veo-mini's little world: what a clip shows, which facts go together."""

from __future__ import annotations

import random
from dataclasses import dataclass

SCENES: tuple[str, ...] = (
    "city street",
    "ocean",
    "mountains with a lake",
    "forest",
    "desert dunes",
    "planet in space",
    "lighthouse on a coast",
    "hot-air balloon over fields",
    "sailing boat",
    "snowy village",
    "windmill in a meadow",
    "bouncing ball",
)
TIMES: tuple[str, ...] = ("day", "sunset", "night")
WEATHERS: tuple[str, ...] = ("clear", "rain", "snow", "fog")
CAMERAS: tuple[str, ...] = ("static", "pan left", "pan right", "zoom in", "zoom out")
COLOURS: tuple[str, ...] = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "white")

ATTRIBUTES: tuple[str, ...] = ("scene", "time", "weather", "camera", "colour")
VALUES: dict[str, tuple[str, ...]] = {
    "scene": SCENES,
    "time": TIMES,
    "weather": WEATHERS,
    "camera": CAMERAS,
    "colour": COLOURS,
}

# The part of the scene that wears the colour.
COLOURED_SUBJECT: dict[str, str] = {
    "city street": "neon",
    "planet in space": "planet",
    "lighthouse on a coast": "stripes",
    "hot-air balloon over fields": "balloon",
    "sailing boat": "sail",
    "windmill in a meadow": "roof",
    "bouncing ball": "ball",
}
COLOURED_SCENES: tuple[str, ...] = tuple(s for s in SCENES if s in COLOURED_SUBJECT)
TIMED_SCENES: tuple[str, ...] = tuple(s for s in SCENES if s != "planet in space")
WEATHERED_SCENES: tuple[str, ...] = TIMED_SCENES

# Pairs that make no sense: (scene, attribute, value).
_SENSELESS = {("desert dunes", "weather", "snow")}


def allowed(scene: str, attribute: str) -> tuple[str, ...]:
    """The values that `attribute` can take in `scene`; empty where the scene has no such attribute.

    Raises KeyError for an unknown attribute or scene.
    """
    if scene not in SCENES:
        raise KeyError(scene)
    if attribute == "scene":
        return (scene,)
    has_it = {"time": TIMED_SCENES, "weather": WEATHERED_SCENES, "camera": SCENES, "colour": COLOURED_SCENES}
    if scene not in has_it[attribute]:
        return ()
    return tuple(v for v in VALUES[attribute] if (scene, attribute, v) not in _SENSELESS)


@dataclass(frozen=True, slots=True)
class Attributes:
    """What one clip shows. None where the scene has no such attribute (a planet has no weather)."""

    scene: str
    time: str | None = None
    weather: str | None = None
    camera: str = "static"
    colour: str | None = None

    def __post_init__(self) -> None:
        for name in ("time", "weather", "camera", "colour"):
            value, values = getattr(self, name), allowed(self.scene, name)
            if (value is None) != (not values) or (value is not None and value not in values):
                raise ValueError(f"{self.scene}: {name} cannot be {value!r}; one of {values or (None,)}")


def sample_attributes(generator: random.Random, scene: str | None = None, **fixed: str | None) -> Attributes:
    """One draw: scenes equal, and within a scene every allowed value of each attribute equal.

    Equal values over-weight what is rare in nature (a snowy sunset is as likely as a clear day), which is
    what training wants. `fixed` pins attributes (`time="night"`); a pinned value that the scene cannot have
    raises ValueError.
    """
    scene = generator.choice(SCENES) if scene is None else scene
    values: dict[str, str | None] = {}
    for name in ("time", "weather", "camera", "colour"):
        choices = allowed(scene, name)
        drawn = generator.choice(choices) if choices else None
        values[name] = fixed.get(name, drawn)
    return Attributes(scene=scene, **values)  # type: ignore[arg-type]
