"""The Wan family: Wan2.1, Wan2.2 A14B (two experts), Wan2.2 TI2V-5B (its own VAE, a timestep per token),
veo-mini.

Components are loaded when they are first needed: a run taken up from finished latents loads the VAE alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal

import torch

from veo_cli.job import Job, Lora
from veo_cli.models import lora
from veo_cli.models.cpu_conv3d import use_onednn
from veo_cli.models.model_info import ModelInfo
from veo_cli.models.offload import Offload, choose_offload, group_offload
from veo_cli.models.text_encoder import MiniLmEncoder, Umt5Encoder
from veo_cli.models.video_model import OnStep
from veo_cli.models.whole_weights import load_whole
from veo_cli.stages.decode import decode
from veo_cli.stages.denoise import Predict, denoise, initial_noise, make_scheduler
from veo_cli.stages.text_encode import text_encode
from veo_cli.values import DenoiseState, FrameChunk, Latents, TextEmbedding

Component = Literal["text_encoder", "transformer", "transformer_2", "vae"]

_SMALL_MODEL_BYTES = 256 << 20  # below this, float32 costs nothing worth saving on a GPU
_LARGE_TEXT_ENCODER_BYTES = 2 << 30  # above this, host memory is worth more than loading it again


class WanModel:
    """A `VideoModel`: one Wan folder on one device."""

    def __init__(
        self,
        info: ModelInfo,
        *,
        device: str,
        loras: Sequence[Lora] = (),
        offload: Offload = "auto",
        budget_bytes: int | None = None,
    ) -> None:
        """budget_bytes: device memory that may be used; None: what is free now. Loads nothing yet, unless
        there are `loras`: then the transformers, to put them on (SpecificationError when nothing in a file
        fits)."""
        self.info = info
        self.device = torch.device(device)
        self.warnings: list[str] = []
        self._loaded: dict[Component, Any] = {}
        small = info.weight_bytes < _SMALL_MODEL_BYTES
        self._dtype = torch.float32 if self.device.type == "cpu" or small else torch.bfloat16
        self.offload = choose_offload(
            offload, self._component_bytes(), device=device, budget_bytes=budget_bytes
        )
        if loras:
            self.warnings += lora.apply_all([self._load(name) for name in self._transformers()], loras)

    def encode_text(self, job: Job) -> TextEmbedding:
        text = text_encode(self._on_device("text_encoder"), job)
        self._done_with("text_encoder")
        return text

    def denoise(
        self,
        job: Job,
        text: TextEmbedding,
        *,
        start: DenoiseState | None = None,
        on_step: OnStep | None = None,
    ) -> Latents:
        folder_config = json.loads(
            (self.info.path / "scheduler" / "scheduler_config.json").read_text("utf-8")
        )
        scheduler = make_scheduler(job, self.info, folder_config)
        boundary = (self.info.boundary_ratio or 0.0) * scheduler.config.num_train_timesteps

        def expert_at(timestep: float) -> tuple[Predict, bool]:
            low_noise = timestep < boundary
            return self._predictor("transformer_2" if low_noise else "transformer"), low_noise

        noise = initial_noise(latent_shape(job, self.info), job.seed).to(self.device)
        text = TextEmbedding(
            text.prompt_embeds.to(self.device, self._dtype),
            None if text.negative_embeds is None else text.negative_embeds.to(self.device, self._dtype),
        )
        latents = denoise(job, text, scheduler, expert_at, noise, start=start, on_step=on_step)
        for name in self._transformers():
            self._done_with(name)
        return latents

    def decode(self, job: Job, latents: Latents) -> Iterator[FrameChunk]:
        vae = self._on_device("vae")
        yield from decode(vae, latents, num_frames=job.sampler.num_frames, tiled=job.memory.tiled_decode)
        self._done_with("vae")

    def _predictor(self, name: Component) -> Predict:
        if self.offload == "model":  # one expert on the device at a time
            self._done_with("transformer" if name == "transformer_2" else "transformer_2")
        transformer = self._on_device(name)
        patch = transformer.config.patch_size

        def predict(latents: torch.Tensor, timestep: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
            timestep = timestep.to(latents.device)
            if self.info.expand_timesteps:
                tokens = math.prod(
                    -(-size // step) for size, step in zip(latents.shape[2:], patch, strict=True)
                )
                timestep = timestep.float().expand(1, tokens)
            else:
                timestep = timestep.expand(1)
            velocity: torch.Tensor = transformer(
                hidden_states=latents.to(self._dtype),
                timestep=timestep,
                encoder_hidden_states=states,
                return_dict=False,
            )[0]
            return velocity

        return predict

    def _transformers(self) -> list[Component]:
        return ["transformer", "transformer_2"] if self.info.two_experts else ["transformer"]

    def _on_device(self, name: Component) -> Any:
        component = self._load(name)
        if self.offload != "group" or name == "vae":
            _module_of(component).to(self.device)
        return component

    def _done_with(self, name: Component) -> None:
        """Free what the memory plan says once a stage is through with a component. Never changes a result."""
        if name not in self._loaded:
            return
        if self.offload == "model":
            _module_of(self._loaded[name]).to("cpu")
        elif (
            name == "text_encoder"
            and self.device.type == "cpu"
            and self._component_bytes().get(name, 0) > _LARGE_TEXT_ENCODER_BYTES
        ):
            del self._loaded[name]

    def _load(self, name: Component) -> Any:
        if name not in self._loaded:
            self._loaded[name] = component = self._read(name)
            if self.offload == "group" and name != "vae":
                group_offload(_module_of(component), str(self.device))
        return self._loaded[name]

    def _read(self, name: Component) -> Any:
        from diffusers import AutoencoderKLWan, WanTransformer3DModel

        folder = self.info.path
        if name == "text_encoder":
            if (folder / "text_encoder.json").is_file():
                return MiniLmEncoder(folder, dtype=torch.float32)
            return Umt5Encoder(folder, dtype=self._dtype, variant=self._variant(name))
        kind = AutoencoderKLWan if name == "vae" else WanTransformer3DModel
        # The VAE always computes in float32, as diffusers recommends for Wan.
        dtype = torch.float32 if name == "vae" else self._dtype
        model = load_whole(
            partial(kind.from_pretrained, use_safetensors=True, torch_dtype=dtype),
            folder / name,
            variant=self._variant(name),
        )
        if name == "vae" and self.device.type == "cpu" and "text_encoder" in self.info.extra:
            use_onednn(model)  # veo-mini, the model meant for CPUs; others keep diffusers' very arithmetic
        return model.eval().requires_grad_(False)

    def _component_bytes(self) -> dict[str, int]:
        """Bytes of each component's weights as they will lie on the device."""
        parameters: dict[str, int] = self.info.extra.get("component_parameters", {})
        return {
            name: count * (4 if name == "vae" else self._dtype.itemsize) for name, count in parameters.items()
        }

    def _variant(self, name: Component) -> str | None:
        variant = self.info.extra.get("variants", {}).get(name)
        return None if variant is None else str(variant)


def latent_shape(job: Job, info: ModelInfo) -> tuple[int, int, int, int, int]:
    """(1, channels, latent_frames, latent_height, latent_width) of what the sampler makes for a job."""
    return (
        1,
        info.latent_channels,
        (job.sampler.num_frames - 1) // info.temporal_compression + 1,
        job.sampler.height // info.spatial_compression,
        job.sampler.width // info.spatial_compression,
    )


def _module_of(component: Any) -> torch.nn.Module:
    module: torch.nn.Module = component if isinstance(component, torch.nn.Module) else component.module
    return module
