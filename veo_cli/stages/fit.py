"""Bring frames to exactly the delivered width x height, by Lanczos-3 (antialiased when shrinking).

The filter is that of `kernels_cupy.reference.lanczos`: by the kernel on a GPU that has CuPy, else in torch as
products with blocks of its banded matrix: a block of 64 output samples only reads the few input samples under its
windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from kernels_cupy.reference import lanczos
from veo_cli.values import FrameChunk

FitMode = Literal["crop", "pad", "stretch"]

BLOCK = 64  # output samples of one matrix product: long enough for BLAS, short against the picture


@dataclass(frozen=True)
class Placement:
    """What of the source is used, and where it lands. Positions from the top left, in pixels.

    The source window (left, top, width, height) is resampled to (target_width, target_height), which is put
    into the delivered picture at (offset_x, offset_y); what it does not cover is black.
    """

    left: int
    top: int
    width: int
    height: int
    target_width: int
    target_height: int
    offset_x: int
    offset_y: int


def place(source_width: int, source_height: int, width: int, height: int, mode: FitMode) -> Placement:
    """How a source picture fills a width x height one. Pixels are square throughout.

    crop: the largest centred window of the delivered shape, scaled to cover. pad: the whole picture, scaled
    to fit, centred on black. stretch: the whole picture, shape given up. Windows and bars are whole pixels,
    so in "crop" and "pad" the scale of the two axes may differ by less than one pixel over the picture.
    """
    if mode == "crop":
        window_width = min(source_width, max(1, round(source_height * width / height)))
        window_height = min(source_height, max(1, round(source_width * height / width)))
        return Placement(
            left=(source_width - window_width) // 2,
            top=(source_height - window_height) // 2,
            width=window_width,
            height=window_height,
            target_width=width,
            target_height=height,
            offset_x=0,
            offset_y=0,
        )
    target_width, target_height = width, height
    if mode == "pad":
        target_width = min(width, max(1, round(height * source_width / source_height)))
        target_height = min(height, max(1, round(width * source_height / source_width)))
    return Placement(
        left=0,
        top=0,
        width=source_width,
        height=source_height,
        target_width=target_width,
        target_height=target_height,
        # Bars start on even pixels: at the top left, 4:2:0 chroma of picture and bar then do not mix.
        offset_x=(width - target_width) // 4 * 2,
        offset_y=(height - target_height) // 4 * 2,
    )


@torch.inference_mode()
def fit(
    chunk: FrameChunk, width: int, height: int, mode: FitMode = "crop", *, kernels: bool = False
) -> FrameChunk:
    """Frames (num_frames, 3, source_height, source_width) to (num_frames, 3, height, width), float32 in [0,
    1].

    Frames that have the size already are handed on untouched. Lanczos overshoot is clamped. kernels: whether
    `kernels_cupy` works on the frames' device.
    """
    source_height, source_width = chunk.frames.shape[-2:]
    if (source_width, source_height) == (width, height):
        return chunk
    placement = place(source_width, source_height, width, height, mode)
    # One frame at a time: the result of a frame must not depend on how many came in the same chunk.
    fitted = [_fit_frame(frame, width, height, placement, kernels) for frame in chunk.frames]
    return FrameChunk(torch.stack(fitted), chunk.first_index)


def _fit_frame(frame: Tensor, width: int, height: int, to: Placement, kernels: bool) -> Tensor:
    window = frame[:, to.top : to.top + to.height, to.left : to.left + to.width].to(torch.float32)
    resized = resize_on_device if kernels else resize
    picture = resized(window, to.target_height, to.target_width).clamp(0.0, 1.0)
    if (to.target_width, to.target_height) == (width, height):
        return picture
    canvas = picture.new_zeros((picture.shape[0], height, width))
    canvas[:, to.offset_y : to.offset_y + to.target_height, to.offset_x : to.offset_x + to.target_width] = (
        picture
    )
    return canvas


def resize_on_device(planes: Tensor, height: int, width: int) -> Tensor:
    """`resize` by the kernel."""
    from kernels_cupy import lanczos as kernel

    resized: Tensor = torch.utils.dlpack.from_dlpack(kernel.resize(planes, height, width))
    return resized


def resize(planes: Tensor, height: int, width: int) -> Tensor:
    """(channels, source_height, source_width) float32 -> (channels, height, width), columns first."""
    channels, source_height, source_width = planes.shape
    if width != source_width:
        rows = planes.reshape(channels * source_height, source_width)
        wide = rows.new_empty((channels * source_height, width))
        for start, first, weights in _bands(source_width, width, planes.device):
            span = rows[:, first : first + weights.shape[1]]
            wide[:, start : start + weights.shape[0]] = span @ weights.T
        planes = wide.reshape(channels, source_height, width)
    if height != source_height:
        tall = planes.new_empty((channels, height, width))
        for start, first, weights in _bands(source_height, height, planes.device):
            for channel in range(channels):
                torch.mm(
                    weights,
                    planes[channel, first : first + weights.shape[1]],
                    out=tall[channel, start : start + weights.shape[0]],
                )
        planes = tall
    return planes


@lru_cache(maxsize=8)  # a run uses one or two size pairs; two axes each
def _bands(source: int, target: int, device: torch.device) -> tuple[tuple[int, int, Tensor], ...]:
    """The filter matrix in blocks of rows: first output and input sample, weights (outputs, inputs)."""
    first, weights = lanczos.taps(source, target)
    blocks = []
    for start in range(0, target, BLOCK):
        stop = min(start + BLOCK, target)
        low = int(first[start])
        high = min(source, int(first[stop - 1]) + weights.shape[1])
        block = torch.zeros((stop - start, high - low), dtype=torch.float64)
        for row in range(start, stop):
            offset = int(first[row]) - low
            count = min(weights.shape[1], high - low - offset)
            block[row - start, offset : offset + count] = torch.from_numpy(weights[row, :count])
        blocks.append((start, low, block.to(torch.float32).to(device)))
    return tuple(blocks)
