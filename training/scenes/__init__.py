"""The synthesiser: (attributes, seed) -> a clip of veo-mini's little world, in batched torch.

A scene is a file with `paint(stage) -> picture`, painted from back to front:

1. `stage.aim(horizon=(low, high))` first, which draws it: zooms keep that height in place, so every layer
   agrees about the horizon. `stage.band(low, high)` are the rows that a part of the world can reach: paint
   no others where the part is small, since every row of every frame costs the same.
2. `paint_sky(stage)` gives the background; its `.picture` (batch, 3, frame, row, column) is painted on in
   place.
3. A layer of the world: `layer = stage.layer(depth)` (sky 0.6, far 0.7, subject 1, front 1.3) gives x, y and
   the pixel's size; a 1-D outline `h = hills(stage, "name", layer.x, frequency)` is nearly free, since x has
   no rows; `over(picture, coverage(layer.y - h, layer.pixel), stage.lit("#4a7c3a", distance=0.5, snowed=1))`.
4. What keeps its shape goes on a `Canvas` in its own units, painted once a clip with the same shapes, and is
   laid down with `canvas.blit(picture, (layer.x - x0) / size, (layer.y - y0) / size)`; x0 may move with
   `stage.seconds`. `stage.place` and `stage.headroom` keep a subject in the picture while the camera moves.
5. `finish(stage, picture)` adds rain, snow, fog and the vignette.

Randomness only through `stage.draw("name", low, high)` and its kin: a value depends on (seed, scene, name).
Colours: `stage.lit` for surfaces, `stage.subject()` for the part that wears the colour, `stage.by_time` for
lights.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import torch
from torch import Tensor

from training.attributes import Attributes
from training.scenes.stage import COLUMNS, ROWS, Stage

MODULES = {
    "city street": "city_street",
    "ocean": "ocean",
    "mountains with a lake": "mountain_lake",
    "forest": "forest",
    "desert dunes": "desert_dunes",
    "planet in space": "planet",
    "lighthouse on a coast": "lighthouse",
    "hot-air balloon over fields": "balloon_fields",
    "sailing boat": "sailing_boat",
    "snowy village": "snowy_village",
    "windmill in a meadow": "windmill_meadow",
    "bouncing ball": "bouncing_ball",
}

# Clips painted at once, at scale 1 and 33 frames; bounds the memory of a render (about 0.15 GiB a clip).
_CLIPS_AT_ONCE = {"cpu": 4, "cuda": 64}


@torch.no_grad()
def render(
    attributes: Sequence[Attributes],
    seeds: Sequence[int],
    *,
    num_frames: int = 33,
    scale: int = 1,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Clips (batch, num_frames, 3, 144 * scale, 256 * scale), RGB in [0, 1], 12 frames a second.

    The result is a view of (batch, 3, num_frames, rows, columns), contiguous in that order. A clip depends on
    its own attributes and seed alone. Raises ValueError when the two sequences differ in length.
    """
    if len(attributes) != len(seeds):
        raise ValueError(f"{len(attributes)} attributes but {len(seeds)} seeds")
    device = torch.device(device)
    clips = torch.empty(len(seeds), 3, num_frames, ROWS * scale, COLUMNS * scale, dtype=dtype, device=device)
    at_once = max(1, _CLIPS_AT_ONCE.get(device.type, 4) * 33 // (max(1, num_frames) * scale * scale))
    for scene in dict.fromkeys(a.scene for a in attributes):
        paint = importlib.import_module(f"training.scenes.{MODULES[scene]}").paint
        indices = [i for i, a in enumerate(attributes) if a.scene == scene]
        for start in range(0, len(indices), at_once):
            chosen = indices[start : start + at_once]
            stage = Stage(
                [attributes[i] for i in chosen],
                [seeds[i] for i in chosen],
                num_frames=num_frames,
                scale=scale,
                device=device,
            )
            clips[torch.tensor(chosen, device=device)] = paint(stage).to(dtype)
    return clips.transpose(1, 2)
