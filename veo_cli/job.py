"""Job: everything that decides a clip, frozen, fully resolved and hashable."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from veo_cli import PIXEL_VERSION

NoiseSchedule = Literal["default", "linear", "cosine", "karras", "exponential", "beta"]
Scheduler = Literal["default", "euler", "unipc", "dpm++"]
MAX_SEED = 2**63 - 1

PositiveInt = Annotated[int, Field(ge=1, strict=True)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED, strict=True)]


class Settings(BaseModel):
    """Base of every settings group: immutable, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Interval(Settings):
    """Guidance on steps i with start <= i / num_inference_steps < stop; elsewhere no unconditional pass."""

    interval: tuple[Annotated[float, Field(ge=0, le=1)], Annotated[float, Field(ge=0, le=1)]]


class Lora(Settings):
    path: str
    scale: FiniteFloat = 1.0


class SamplerSettings(Settings):
    """What the model generates, before the fit to the delivered clip."""

    width: PositiveInt
    height: PositiveInt
    num_frames: PositiveInt
    fps: Annotated[float, Field(gt=0, le=240)]
    scheduler: Scheduler = "default"


class MemorySettings(Settings):
    """How the work is laid out in memory. Only `tiled_decode` can change a pixel and enters job_id."""

    offload: Literal["auto", "none", "model", "group"] = "auto"
    tiled_decode: bool = False
    checkpoint_every: Annotated[int, Field(ge=0)] | None = None  # steps; None: a tenth of the run; 0: never


class UpscaleSettings(Settings):
    """How generated frames become exactly width x height."""

    fit: Literal["crop", "pad", "stretch"] = "crop"


class EncodeSettings(Settings):
    codec: Literal["hevc", "h264"] = "hevc"
    encoder: Literal["auto", "libx265", "hevc_nvenc", "libx264"] = "auto"
    crf: Annotated[float, Field(ge=0, le=51)] | None = None  # None: 18, unless bitrate or lossless is given
    bitrate: str | None = None  # as ffmpeg writes it: "20M", "800k"
    codec_preset: Literal[
        "ultrafast",
        "superfast",
        "veryfast",
        "faster",
        "fast",
        "medium",
        "slow",
        "slower",
        "veryslow",
        "placebo",
    ] = "medium"
    tune: Literal["grain", "animation", "psnr", "ssim", "fastdecode", "zerolatency"] | None = None
    lossless: bool = False
    chroma: Literal["420", "444"] = "420"
    color: Literal["bt709", "bt2020"] = "bt709"
    reuse_threshold: Annotated[float, Field(ge=0, le=1)] = (
        0.0  # 64x64 blocks that change less stay; 0: none do
    )
    frames: Literal["none", "png16"] = "none"  # png16: a folder of 16-bit RGB PNGs beside the clip


class Job(Settings):
    """One clip, under the prompt file's field names. Delivered is width x height x num_frames at fps."""

    model: str
    prompt: Annotated[str, Field(min_length=1)]
    negative_prompt: str = ""
    width: Annotated[int, Field(ge=16, le=16384, strict=True)]
    height: Annotated[int, Field(ge=16, le=16384, strict=True)]
    num_frames: PositiveInt
    fps: Annotated[float, Field(gt=0, le=240)]
    num_inference_steps: Annotated[int, Field(ge=1, le=1000, strict=True)]
    guidance_scale: Annotated[FiniteFloat, Field(ge=0, le=100)]
    guidance_scale_2: Annotated[FiniteFloat, Field(ge=0, le=100)] | None = None  # of the low-noise expert
    guidance_schedule: Literal["constant", "sqrt_decay"] | Interval = "constant"
    noise_schedule: NoiseSchedule = "default"
    flow_shift: Annotated[FiniteFloat, Field(gt=0, le=100)] | None = None  # None: the model folder's own
    seed: Seed
    output: str | None = None  # a path; None: named from the template in the output folder
    loras: tuple[Lora, ...] = ()
    sampler: SamplerSettings
    memory: MemorySettings = MemorySettings()
    upscale: UpscaleSettings = UpscaleSettings()
    encode: EncodeSettings = EncodeSettings()

    def identity(self) -> dict[str, Any]:
        """The job as plain values, less what cannot change a pixel: output, memory, where files lie."""
        values = self.model_dump(mode="json")
        for lora in values["loras"]:
            del lora["path"]  # what it holds is in the fingerprint
        del values["output"], values["model"]
        values["memory"] = {"tiled_decode": self.memory.tiled_decode}
        return values

    def job_id(self, model_fingerprint: str) -> str:
        """64 hex digits: SHA-256 of the canonical JSON of `identity`, the model's fingerprint and
        PIXEL_VERSION.

        model_fingerprint: of the model's folder, followed by those of the LoRAs in their order.
        """
        canonical = json.dumps(
            {"job": self.identity(), "model": model_fingerprint, "pixel_version": PIXEL_VERSION},
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=True,
        )
        return hashlib.sha256(canonical.encode()).hexdigest()
