"""ModelInfo: what veo knows of a model from its folder's JSON files alone, before torch is loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Family = Literal["wan", "generic"]


@dataclass(frozen=True)
class ModelInfo:
    """A model folder in diffusers format, described.

    defaults: prompt-file fields the model brings (num_inference_steps, guidance_scale, width, height,
    num_frames, fps, flow_shift ...). sizes: the (width, height) pairs it generates natively; empty: any
    multiple of size_multiple.
    """

    name: str  # as the user wrote it: a shipped name, a folder, a hub id
    path: Path
    family: Family
    pipeline_class: str  # model_index.json's _class_name
    title: str  # for people: "Wan2.1 T2V 1.3B", "veo-mini"
    defaults: dict[str, Any]
    sizes: tuple[tuple[int, int], ...]
    size_multiple: int
    frame_step: int  # num_frames must be frame_step * n + 1
    max_num_frames: int
    latent_channels: int
    spatial_compression: int
    temporal_compression: int
    max_text_tokens: int
    num_parameters: int  # from the safetensors headers
    weight_bytes: int
    fingerprint: str  # hash of configs, headers, sizes and sampled bytes of the weights
    two_experts: bool = False  # Wan2.2 A14B
    expand_timesteps: bool = False  # Wan2.2 TI2V-5B: one timestep per token
    boundary_ratio: float | None = None
    prompt_language_hint: str = ""  # e.g. "English only", said once when a prompt is not ASCII
    extra: dict[str, Any] = field(default_factory=dict)
