"""Contact sheets: labelled rows of frames of clips, for eyes. `python -m training.contact --out FILE.png`."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image, ImageDraw
from torch import Tensor

from training.attributes import SCENES, Attributes, sample_attributes

_LABEL_ROWS, _GAP = 14, 4


def contact_sheet(
    clips: Tensor, path: str | Path, labels: Sequence[str] | None = None, *, frames: int = 4, across: int = 1
) -> None:
    """Write a PNG with a row of `frames` evenly spaced frames a clip, `across` clips beside each other.

    clips: (clip, frame, 3, row, column), RGB in [0, 1]; labels: a line of text a clip, printed above its row.
    """
    count, num_frames, _, rows, columns = clips.shape
    chosen = torch.linspace(0, num_frames - 1, min(frames, num_frames)).round().long()
    strip = len(chosen) * (columns + 1)
    cell_rows = rows + _LABEL_ROWS + _GAP
    down = -(-count // across)
    sheet = Image.new("RGB", (across * (strip + _GAP), down * cell_rows), "#16181c")
    draw = ImageDraw.Draw(sheet)
    for i in range(count):
        left, top = (i % across) * (strip + _GAP), (i // across) * cell_rows
        if labels is not None:
            draw.text((left + 2, top + 1), labels[i], fill="#e8e8e8")
        pixels = (clips[i, chosen].float().clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
        for k, frame in enumerate(pixels):
            sheet.paste(Image.fromarray(frame), (left + k * (columns + 1), top + _LABEL_ROWS))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)


def label(attributes: Attributes) -> str:
    """'ocean | night | fog | pan left': what the clip is meant to show."""
    values = (attributes.scene, attributes.time, attributes.weather, attributes.camera, attributes.colour)
    return " | ".join(v for v in values if v is not None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw a sheet of synthesiser clips."""
    from training.scenes import render

    parser = argparse.ArgumentParser(description="A labelled contact sheet of the synthesiser's clips.")
    parser.add_argument("--out", required=True, type=Path, help="the PNG to write")
    parser.add_argument("--scene", action="append", choices=SCENES, help="only this scene (may be repeated)")
    parser.add_argument("--count", type=int, default=12, help="clips a scene")
    parser.add_argument("--frames", type=int, default=3, help="frames shown of each clip")
    parser.add_argument("--across", type=int, default=2, help="clips beside each other")
    parser.add_argument("--seed", type=int, default=0)
    for name in ("time", "weather", "camera", "colour"):
        parser.add_argument(f"--{name}", help=f"only this {name}")
    options = parser.parse_args(arguments)
    names = ("time", "weather", "camera", "colour")
    fixed = {name: getattr(options, name) for name in names if getattr(options, name)}
    generator = random.Random(options.seed)
    drawn = [
        sample_attributes(generator, s, **fixed)
        for s in options.scene or SCENES
        for _ in range(options.count)
    ]
    seeds = [options.seed * 1000 + i for i in range(len(drawn))]
    shown = [
        render([a], [s], num_frames=33)[0, :: 32 // max(1, options.frames - 1)].clone()
        for a, s in zip(drawn, seeds, strict=True)
    ]
    contact_sheet(
        torch.stack(shown),
        options.out,
        [label(a) for a in drawn],
        frames=options.frames,
        across=options.across,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
