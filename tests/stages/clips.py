"""Small clips for the tests of the last stages, and ffmpeg's own reading of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import torch

from veo_cli.ffmpeg import ffmpegs
from veo_cli.job import EncodeSettings, Job, SamplerSettings
from veo_cli.stages.to_yuv import to_yuv
from veo_cli.stages.video_encode import VideoEncoder
from veo_cli.values import ClipFacts, FrameChunk

ZSCALE_COLOR = {"bt709": "p=709:t=709:m=709", "bt2020": "p=2020:t=2020_10:m=2020_ncl"}


def moving_texture(num_frames: int, height: int, width: int, seed: int = 0) -> torch.Tensor:
    """(num_frames, 3, height, width) float32 in [0, 1]: a smooth texture that pans two pixels a frame."""
    coarse = torch.rand((1, 3, 8, 8), generator=torch.Generator().manual_seed(seed))
    still = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic").clamp(0, 1)
    return torch.cat([still.roll(2 * index, 3) for index in range(num_frames)])


def write_clip(path: Path, frames: torch.Tensor, fps: float = 24, **settings: object) -> ClipFacts:
    """Encode frames (num_frames, 3, height, width) through the real stages; published under `path`."""
    encode = EncodeSettings(**settings)
    num_frames, _, height, width = frames.shape
    part = path.with_name(path.name + ".part")
    with VideoEncoder(part, encode, width=width, height=height, fps=fps, num_frames=num_frames) as encoder:
        for frame in to_yuv(FrameChunk(frames, 0), color=encode.color, chroma=encode.chroma):
            encoder.write(frame)
        facts = encoder.finish()
        encoder.publish(path)
    return facts


def job_for(frames: torch.Tensor, fps: float = 24, **settings: object) -> Job:
    """The job that `write_clip` fulfils."""
    num_frames, _, height, width = frames.shape
    return Job(
        model="veo-mini",
        prompt="a texture",
        width=width,
        height=height,
        num_frames=num_frames,
        fps=fps,
        num_inference_steps=2,
        guidance_scale=4.0,
        seed=1,
        sampler=SamplerSettings(width=256, height=144, num_frames=num_frames, fps=fps),
        encode=EncodeSettings(**settings),
    )


def zscale(rgb: np.ndarray, color: str, chroma: str) -> list[np.ndarray]:
    """zscale's own 10-bit limited Y, Cb, Cr of rgb (num_frames, 3, height, width), float; even sizes only."""
    num_frames, _, height, width = rgb.shape
    pixel_format = f"yuv{chroma}p10le"
    options = f"zscale=rin=full:pin=709:tin=709:min=gbr:r=limited:{ZSCALE_COLOR[color]}"
    raw = _ffmpeg(
        ["-f", "rawvideo", "-pix_fmt", "gbrpf32le", "-s", f"{width}x{height}", "-i", "-"],
        f"{options}:c=left:filter=bilinear:dither=none,format={pixel_format}",
        np.ascontiguousarray(rgb[:, [1, 2, 0]], dtype="<f4").tobytes(),
    )
    return split_planes(raw, num_frames, height, width, chroma)


def decoded_planes(clip: Path, facts: ClipFacts) -> list[np.ndarray]:
    """Y, Cb, Cr as stored in a 10-bit clip: (num_frames, height, width) and chroma-sized, uint16."""
    raw = _ffmpeg(["-i", f"file:{clip}"], "null", b"")
    return split_planes(raw, facts.num_frames, facts.height, facts.width, facts.pixel_format[3:6])


def decoded_rgb(clip: Path, facts: ClipFacts, color: str) -> np.ndarray:
    """(num_frames, 3, height, width) full-range 10-bit RGB in the clip's own gamut, by zscale."""
    own = ZSCALE_COLOR[color]
    given = own.replace("p=", "pin=").replace("t=", "tin=").replace("m=", "min=")
    same = own.rsplit(":", 1)[0]
    raw = _ffmpeg(
        ["-i", f"file:{clip}"],
        f"zscale=rin=limited:{given}:cin=left:r=full:{same}:m=gbr:filter=bilinear:dither=none,format=gbrp10le",
        b"",
    )
    shape = (facts.num_frames, 3, facts.height, facts.width)
    return np.frombuffer(raw, "<u2").reshape(shape)[:, [2, 0, 1]]


def split_planes(raw: bytes, num_frames: int, height: int, width: int, chroma: str) -> list[np.ndarray]:
    small = ((height + 1) // 2, (width + 1) // 2) if chroma == "420" else (height, width)
    luma, each = height * width, small[0] * small[1]
    frames = np.frombuffer(raw, "<u2").reshape(num_frames, luma + 2 * each)
    return [
        frames[:, :luma].reshape(num_frames, height, width),
        frames[:, luma : luma + each].reshape(num_frames, *small),
        frames[:, luma + each :].reshape(num_frames, *small),
    ]


def _ffmpeg(source: list[str], filters: str, stdin: bytes) -> bytes:
    command = [str(ffmpegs()[-1]), "-v", "error", *source, "-vf", filters, "-f", "rawvideo", "-"]
    return subprocess.run(command, input=stdin, capture_output=True, check=True).stdout
