"""The synthesiser: (attributes, seed) alone make a clip, at every scale; the camera turns as told."""

from __future__ import annotations

import random

import pytest
import torch

from training.attributes import COLOURS, SCENES, Attributes, allowed, sample_attributes
from training.contact import contact_sheet
from training.scenes import render

BOAT = Attributes("sailing boat", "day", "rain", "pan left", "red")
SEA = Attributes("ocean", "night", "clear", "static")


def test_the_same_attributes_and_seed_give_the_same_clip() -> None:
    first = render([BOAT], [7], num_frames=2)
    assert first.shape == (1, 2, 3, 144, 256)
    assert first.min() >= 0 and first.max() <= 1
    assert torch.equal(first, render([BOAT], [7], num_frames=2))
    assert (first - render([BOAT], [8], num_frames=2)).abs().mean() > 0.01


def test_a_clip_ignores_its_batch_neighbours() -> None:
    snow = Attributes("sailing boat", "sunset", "snow", "zoom in", "blue")
    together = render([snow, SEA, BOAT], [3, 4, 7], num_frames=2)
    for i, (attributes, seed) in enumerate([(snow, 3), (SEA, 4), (BOAT, 7)]):
        # Vector and scalar sines of the CPU may differ in the last bit; half a grey level is not visible.
        assert (together[i] - render([attributes], [seed], num_frames=2)[0]).abs().max() < 0.5 / 255


@pytest.mark.parametrize(
    "attributes",
    [BOAT, Attributes("mountains with a lake", "sunset", "snow", "zoom out")],
    ids=lambda a: a.scene,
)
def test_scale_two_shown_small_is_scale_one(attributes: Attributes) -> None:
    small = render([attributes], [5], num_frames=2)[0]
    large = render([attributes], [5], num_frames=2, scale=2)[0]
    shown = torch.nn.functional.avg_pool2d(large, 2)
    psnr = -10 * torch.log10(((small - shown) ** 2).mean())
    assert psnr >= 30, f"{psnr:.1f} dB"


def _shift(first: torch.Tensor, second: torch.Tensor) -> int:
    """Columns by which the picture moved to the right, by phase correlation of the rows."""
    a, b = (torch.fft.rfft(f.mean(0) - f.mean()) for f in (first, second))
    cross = b * a.conj()
    peak = int(torch.fft.irfft(cross / (cross.abs() + 1e-3), n=256).sum(0).argmax())
    return peak - 256 if peak > 128 else peak


@pytest.mark.parametrize(("camera", "sign"), [("pan left", 1), ("pan right", -1), ("static", 0)])
def test_pan_left_moves_the_picture_to_the_right(camera: str, sign: int) -> None:
    # The clouds of the first frames: the whole pan crosses more than correlation could follow.
    clip = render([Attributes("desert dunes", "day", "clear", camera)], [2], num_frames=17)[0]
    shift = _shift(clip[0], clip[2])
    assert shift * sign > 2 if sign else shift == 0


def test_zoom_in_ends_closer_than_it_starts() -> None:
    def redness(frame: torch.Tensor) -> float:
        red, green, blue = frame
        return float(((red - torch.maximum(green, blue)) > 0.35).float().mean())

    for camera in ("zoom in", "zoom out"):
        clip = render([Attributes("sailing boat", "day", "clear", camera, "red")], [1], num_frames=3)[0]
        near, far = (clip[-1], clip[0]) if camera == "zoom in" else (clip[0], clip[-1])
        assert redness(near) > 1.5 * redness(far) > 0


def test_attributes_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="weather cannot be 'snow'"):
        Attributes("desert dunes", "day", "snow")
    with pytest.raises(ValueError, match="time cannot be 'night'"):
        Attributes("planet in space", "night", None, "static", "red")
    with pytest.raises(ValueError, match="colour cannot be None"):
        Attributes("sailing boat", "day", "clear")
    with pytest.raises(ValueError, match="1 attributes but 2 seeds"):
        render([SEA], [1, 2])


def test_draws_reach_every_value_and_keep_what_is_pinned() -> None:
    generator = random.Random(0)
    drawn = [sample_attributes(generator) for _ in range(2000)]
    assert {a.scene for a in drawn} == set(SCENES)
    assert {a.colour for a in drawn} == {*COLOURS, None}
    assert all(a.weather in (allowed(a.scene, "weather") or (None,)) for a in drawn)
    assert all(sample_attributes(generator, "ocean", time="night").time == "night" for _ in range(20))


def test_a_contact_sheet_is_a_picture(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from PIL import Image

    contact_sheet(torch.rand(3, 5, 3, 18, 32), tmp_path / "sheet.png", ["a", "b", "c"], frames=4, across=2)
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.width == 2 * (4 * 33 + 4) and sheet.height == 2 * (18 + 14 + 4)
