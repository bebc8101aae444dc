"""Sane pictures that move, apart in colour, and the same world at twice the size."""

from __future__ import annotations

import pytest
import torch

from training.attributes import COLOURED_SCENES, COLOURS, Attributes, allowed
from training.scenes import render

PAINTED = (
    "city street",
    "forest",
    "snowy village",
    "windmill in a meadow",
    "planet in space",
    "bouncing ball",
)


def clip(scene: str, **wanted: str) -> Attributes:
    values = {name: (allowed(scene, name) or (None,))[0] for name in ("time", "weather", "camera", "colour")}
    values.update({name: value for name, value in wanted.items() if allowed(scene, name)})
    return Attributes(scene, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("scene", PAINTED)
def test_pictures_are_sane_and_move_without_the_camera(scene: str) -> None:
    chosen = [clip(scene, time="day"), clip(scene, time="night", weather="fog")]
    clips = render(chosen, [3, 4], num_frames=5)
    assert clips.shape == (2, 5, 3, 144, 256)
    assert torch.isfinite(clips).all()
    assert clips.min() >= 0 and clips.max() <= 1
    assert (clips.std((1, 2, 3, 4)) > 0.02).all()
    moved = (clips[:, 1:] - clips[:, :-1]).abs().mean((1, 2, 3, 4))
    assert (moved > 1e-4).all(), moved
    alone = render(chosen[1:], [4], num_frames=5)
    assert torch.allclose(clips[1:], alone, atol=1e-5)


@pytest.mark.parametrize("scene", PAINTED)
def test_twice_the_size_is_the_same_world(scene: str) -> None:
    chosen = [clip(scene, time="day", weather="rain", camera="zoom in")]
    small = render(chosen, [7], num_frames=2)[0]
    large = render(chosen, [7], num_frames=2, scale=2)[0]
    error = (torch.nn.functional.avg_pool2d(large, 2) - small).square().mean()
    assert -10 * torch.log10(error) >= 30


@pytest.mark.parametrize("scene", [s for s in PAINTED if s in COLOURED_SCENES])
def test_colours_differ_where_the_subject_is(scene: str) -> None:
    chosen = [clip(scene, time="sunset", colour=c) for c in COLOURS]
    clips = render(chosen, [11] * len(COLOURS), num_frames=1)[:, 0]
    for i in range(len(COLOURS)):
        for j in range(i):
            apart = (clips[i] - clips[j]).abs().amax(0)
            # In one frame, at least 1 % of the pixels wear the colour, and differ by a quarter of the range.
            assert (apart > 0.25).float().mean() > 0.01 or (apart > 0.15).float().mean() > 0.03, (i, j)
