"""Is it a clip? What is checked before a render is called done.

Numbers (no NaN or Inf in latents or frames), pictures (not black, white or one flat colour throughout),
motion (not one frame repeated) and the written file (count, size, rate, duration, pixel format and tags as
asked, as ffmpeg reads them). A clip that fails is a failed job; its latents stay in the journal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from veo_cli.errors import Fault, QualityGateFailed
from veo_cli.ffmpeg import frame_rate
from veo_cli.job import Job
from veo_cli.stages.video_encode import COLOR_TAGS, codec_tag, pixel_format
from veo_cli.values import ClipFacts, FrameChunk, Latents

if TYPE_CHECKING:
    import torch

ONE_CODE = 1 / 1023  # the smallest difference that 10 bits can hold
FPS_TOLERANCE = 1e-3  # relative; MP4 time stamps are whole ticks
MENDS = "try another seed, fewer LoRAs or a lower guidance_scale"


@dataclass(frozen=True)
class FrameChecks:
    """What was seen of the decoded frames. Levels are RGB values, in [0, 1] for a sound decode."""

    num_frames: int
    minimum: float
    maximum: float
    largest_spread: float  # over all frames and channels, the widest max - min within one frame
    moving: bool  # some frame differs from the first


class FrameWatch:
    """Looks at the frames of one clip as they pass: one reduction over each, and no copy but of the first."""

    def __init__(self) -> None:
        self.num_frames = 0
        self._minimum = float("inf")
        self._maximum = float("-inf")
        self._spread = 0.0
        self._first: torch.Tensor | None = None
        self._moving = False

    def see(self, chunk: FrameChunk) -> None:
        """chunk.frames: (num_frames, 3, height, width), float.

        Raises QualityGateFailed at the first frame with NaN or Inf.
        """
        import torch

        frames = chunk.frames
        # aminmax hands NaN through, so that one pass finds the levels and whatever is not finite.
        lows, highs = torch.aminmax(frames.flatten(2), dim=2)
        levels = torch.stack([lows, highs]).float().cpu()
        if not torch.isfinite(levels).all():
            broken = torch.isfinite(levels).all(dim=2).all(dim=0).logical_not().nonzero()
            index = chunk.first_index + int(broken[0])
            raise QualityGateFailed(f"frame {index} holds NaN or infinite values", fix=MENDS)
        self._minimum = min(self._minimum, float(levels[0].min()))
        self._maximum = max(self._maximum, float(levels[1].max()))
        self._spread = max(self._spread, float((levels[1] - levels[0]).max()))
        if self._first is None:
            self._first = frames[0].clone()
        if not self._moving:
            self._moving = any(not torch.equal(self._first, frame) for frame in frames)
        self.num_frames += frames.shape[0]

    def check(self, *, num_frames: int) -> FrameChecks:
        """Judge the whole clip. Raises QualityGateFailed."""
        if self.num_frames != num_frames:
            raise QualityGateFailed(
                f"{self.num_frames} frames were decoded where {num_frames} were asked for"
            )
        if self._spread < ONE_CODE:
            if self._maximum < ONE_CODE:
                look = "black"
            elif self._minimum > 1 - ONE_CODE:
                look = "white"
            else:
                look = "one flat colour"
            raise QualityGateFailed(f"every frame is {look}", fix=MENDS)
        if num_frames > 1 and not self._moving:
            raise QualityGateFailed(f"the clip is frozen: all {num_frames} frames are identical", fix=MENDS)
        return FrameChecks(self.num_frames, self._minimum, self._maximum, self._spread, self._moving)


def check_latents(latents: Latents) -> None:
    """Raises QualityGateFailed when the finished sample holds NaN or Inf."""
    import torch

    finite = torch.isfinite(latents.tensor)
    if not bool(finite.all()):
        share = 1 - float(finite.float().mean())
        raise QualityGateFailed(
            "the sampler produced NaN or infinite latents", why=f"{share:.1%} of the values", fix=MENDS
        )


def check_clip(facts: ClipFacts, job: Job) -> None:
    """Compare the file, as read back, with the job. Raises QualityGateFailed naming every difference."""
    space, primaries, transfer = COLOR_TAGS[job.encode.color]
    rate = float(frame_rate(job.fps))
    asked = {
        "codec": job.encode.codec,
        "codec_tag": codec_tag(job.encode),
        "pixel_format": pixel_format(job.encode),
        "width": job.width,
        "height": job.height,
        "num_frames": job.num_frames,
        "color_range": "tv",
        "color_space": space,
        "color_primaries": primaries,
        "color_transfer": transfer,
    }
    wrong = [
        Fault(f"{name} is {getattr(facts, name) or 'not set'}, not {value}")
        for name, value in asked.items()
        if getattr(facts, name) != value
    ]
    if abs(facts.fps - rate) > FPS_TOLERANCE * rate:
        wrong.append(Fault(f"fps is {facts.fps:.3f}, not {rate:.3f}"))
    elif abs(facts.duration_s - job.num_frames / rate) > 0.5 / rate:
        wrong.append(Fault(f"duration is {facts.duration_s:.3f} s, not {job.num_frames / rate:.3f} s"))
    if wrong:
        raise QualityGateFailed("the written clip is not what was asked", why="; ".join(map(str, wrong)))
