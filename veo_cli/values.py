"""The frozen values that pass between stages. Nothing here imports torch or NumPy at run time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

Chroma = Literal["420", "444"]
Color = Literal["bt709", "bt2020"]


@dataclass(frozen=True)
class TextEmbedding:
    """What the transformer is conditioned on.

    prompt_embeds: (1, tokens, text_dim), the model's dtype. negative_embeds: same shape, or None when no step is guided.
    cut_text: the part of the prompt that did not fit into the encoder's window ("" when all of it did).
    """

    prompt_embeds: torch.Tensor
    negative_embeds: torch.Tensor | None
    cut_text: str = ""


@dataclass(frozen=True)
class DenoiseState:
    """Everything that a denoising run needs to go on from the start of step `next_step` (0 .. num_inference_steps).

    latents: (1, channels, latent_frames, latent_height, latent_width), float32, on any device.
    scheduler_tensors and scheduler_scalars: a multistep scheduler's history (UniPC drifts without it).
    """

    next_step: int
    latents: torch.Tensor
    scheduler_tensors: Mapping[str, torch.Tensor] = field(default_factory=dict)
    scheduler_scalars: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StepReport:
    """Told after every step. `state` is complete: it may be written to disk and resumed from."""

    step: int  # 0 .. num_steps - 1, the step just done
    num_steps: int
    seconds: float
    sigma: float
    guidance_scale: float  # as applied; 1.0 when the unconditional pass was skipped
    state: DenoiseState | None  # None: this model cannot resume


@dataclass(frozen=True)
class Latents:
    """A finished sample, before decoding.

    Wan family: (1, channels, latent_frames, latent_height, latent_width), float32, the transformer's normalised space.
    Generic pipelines: the generated frames themselves, (num_frames, 3, height, width), float32, RGB in [0, 1].
    """

    tensor: torch.Tensor


@dataclass(frozen=True)
class FrameChunk:
    """A few consecutive frames. frames: (num_frames, 3, height, width), float32, RGB (BT.709, gamma-coded) in [0, 1]."""

    frames: torch.Tensor
    first_index: int  # index in the clip of frames[0]


@dataclass(frozen=True)
class YuvFrame:
    """One frame as limited-range Y'CbCr code values.

    y: (height, width); cb, cr: (ceil(height/2), ceil(width/2)) for "420", (height, width) for "444".
    uint16 NumPy arrays on the host (or CuPy / torch arrays on the device), 10 significant bits, C-contiguous.
    """

    y: Any
    cb: Any
    cr: Any
    index: int
    chroma: Chroma = "420"
    bit_depth: int = 10


@dataclass(frozen=True)
class ClipFacts:
    """What was read back from a written file."""

    codec: str  # "hevc" | "h264"
    profile: str  # e.g. "Main 10"
    codec_tag: str  # e.g. "hvc1"
    pixel_format: str  # e.g. "yuv420p10le"
    width: int
    height: int
    num_frames: int  # packets counted
    fps: float
    duration_s: float
    color_range: str  # "tv"
    color_space: str  # "bt709" | "bt2020nc"
    color_primaries: str
    color_transfer: str
    size_bytes: int
