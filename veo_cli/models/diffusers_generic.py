"""Any other text-to-video pipeline of diffusers (LTX, CogVideoX, HunyuanVideo, Mochi ...), by its own call.

The pipeline samples and decodes by itself: no resume within a run, and its own noise schedule only.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from safetensors import SafetensorError

from veo_cli.errors import Fault, JobFailed, ModelMissing, SpecificationError
from veo_cli.job import Job, Lora
from veo_cli.models.generic_settings import unsupported_settings
from veo_cli.models.lora import file_of, misfit, several_adapters_are_meant
from veo_cli.models.model_info import ModelInfo
from veo_cli.models.offload import Offload, choose_offload
from veo_cli.models.text_encoder import cut_end
from veo_cli.models.video_model import OnStep
from veo_cli.values import DenoiseState, FrameChunk, Latents, StepReport, TextEmbedding

_FRAMES_PER_CHUNK = 4


class GenericModel:
    """A `VideoModel` around a diffusers pipeline."""

    def __init__(
        self,
        info: ModelInfo,
        *,
        device: str,
        loras: Sequence[Lora] = (),
        offload: Offload = "auto",
        budget_bytes: int | None = None,
    ) -> None:
        """Loads the whole pipeline. Raises ModelMissing when diffusers has no such pipeline, or it makes no
        video from text; SpecificationError for a LoRA that it cannot take."""
        import diffusers

        self.info = info
        self.warnings: list[str] = []
        dtype = torch.float32 if device == "cpu" else torch.bfloat16
        try:
            self._pipe: Any = diffusers.DiffusionPipeline.from_pretrained(
                info.path,
                torch_dtype=dtype,
                use_safetensors=True,
                local_files_only=True,
                variant=next(iter(info.extra.get("variants", {}).values()), None),
            )
        except (AttributeError, ValueError, OSError) as error:
            raise ModelMissing(
                f"diffusers cannot load this {info.pipeline_class}",
                where=str(info.path),
                why=str(error).splitlines()[0],
                fix="a newer diffusers may know it:  pip install --upgrade diffusers",
            ) from error
        self._arguments = inspect.signature(self._pipe.__call__).parameters
        if "num_frames" not in self._arguments or "prompt" not in self._arguments:
            raise ModelMissing(
                f"{info.pipeline_class} does not make video from text",
                where=str(info.path),
                fix="choose a text-to-video model; list those that are here:  veo models",
            )
        self._pipe.set_progress_bar_config(disable=True)
        self._scheduler_config: Mapping[str, Any] = self._pipe.scheduler.config
        self._apply_loras(loras)
        layout = choose_offload(
            offload, info.extra.get("component_bytes", {}), device=device, budget_bytes=budget_bytes
        )
        if layout == "none":
            self._pipe.to(device)
        elif layout == "model":
            self._pipe.enable_model_cpu_offload(device=device)
        else:
            self._pipe.enable_sequential_cpu_offload(device=device)

    def encode_text(self, job: Job) -> TextEmbedding:
        """No states, for the pipeline encodes the prompt in its own call; only what it will cut off."""
        window = self._arguments.get("max_sequence_length")
        tokenizer = getattr(self._pipe, "tokenizer", None)
        cut_text = ""
        if tokenizer is not None and window is not None and isinstance(window.default, int):
            cut_text = cut_end(tokenizer, job.prompt, window.default)
        return TextEmbedding(torch.empty(1, 0, 0), None, cut_text)

    def denoise(
        self,
        job: Job,
        text: TextEmbedding,
        *,
        start: DenoiseState | None = None,
        on_step: OnStep | None = None,
    ) -> Latents:
        """Run the pipeline. The "latents" are its frames: (num_frames, 3, height, width), float32, in [0, 1].

        Raises SpecificationError for settings that only our own loop can follow and for tiles that the VAE
        cannot decode in, JobFailed when the pipeline makes fewer frames than asked.
        """
        faults = unsupported_settings(job)
        if faults:
            raise SpecificationError(faults)
        self._set_flow_shift(job)
        self._set_tiling(job.memory.tiled_decode)
        with torch.no_grad():
            frames = _as_frames(self._pipe(**self._call_arguments(job, on_step)).frames)
        asked = job.sampler.num_frames
        if frames.shape[0] < asked:
            raise JobFailed(
                f"the pipeline made {frames.shape[0]} of the {asked} frames asked",
                why=f"{self.info.pipeline_class} makes clips of its own lengths",
                fix=f"ask for num_frames: {frames.shape[0]}",
            )
        if frames.shape[0] > asked:
            self.warnings.append(
                f"{self.info.title} made {frames.shape[0]} frames; the first {asked} are kept"
            )
        return Latents(frames[:asked].contiguous())

    def decode(self, job: Job, latents: Latents) -> Iterator[FrameChunk]:
        for first in range(0, latents.tensor.shape[0], _FRAMES_PER_CHUNK):
            yield FrameChunk(latents.tensor[first : first + _FRAMES_PER_CHUNK], first)

    def _call_arguments(self, job: Job, on_step: OnStep | None) -> dict[str, Any]:
        """Those of the job's values that the pipeline's call has a parameter for."""
        rhythm = self.info.temporal_compression
        values: dict[str, Any] = {
            "prompt": job.prompt,
            "negative_prompt": job.negative_prompt,
            "width": job.sampler.width,
            "height": job.sampler.height,
            "num_frames": -(-(job.sampler.num_frames - 1) // rhythm) * rhythm + 1,  # whole latent frames
            "frame_rate": job.sampler.fps,
            "num_inference_steps": job.num_inference_steps,
            "guidance_scale": job.guidance_scale,
            "generator": torch.Generator("cpu").manual_seed(job.seed),
            "output_type": "np",
            "callback_on_step_end": self._callback(job, on_step),
        }
        if job.negative_prompt and "negative_prompt" not in self._arguments:
            self.warnings.append(f"{self.info.title} takes no negative prompt; it is not used")
        return {name: value for name, value in values.items() if name in self._arguments}

    def _callback(self, job: Job, on_step: OnStep | None) -> Any:
        began = time.monotonic()

        def after_step(pipe: Any, step: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
            nonlocal began
            now = time.monotonic()
            if on_step is not None:
                sigma = float(timestep) / float(pipe.scheduler.config.get("num_train_timesteps", 1000))
                on_step(
                    StepReport(
                        step, job.num_inference_steps, now - began, sigma, job.guidance_scale, state=None
                    )
                )
            began = now
            return {}

        return after_step

    def _set_tiling(self, tiled: bool) -> None:
        """For this job and no later one: the pipeline is kept from one job to the next."""
        vae = self._pipe.vae
        if not tiled:
            if hasattr(vae, "disable_tiling"):
                vae.disable_tiling()
            return
        try:
            vae.enable_tiling()
        except (AttributeError, NotImplementedError) as error:
            raise SpecificationError(
                Fault(
                    f"{self.info.title} cannot decode in tiles",
                    where="memory.tiled_decode",
                    why=f"diffusers has no tiling for its {type(vae).__name__}",
                    fix="leave tiled_decode out",
                )
            ) from error

    def _set_flow_shift(self, job: Job) -> None:
        config = self._scheduler_config
        if job.flow_shift is None:
            self._pipe.scheduler = type(self._pipe.scheduler).from_config(config)
            return
        name = next((name for name in ("flow_shift", "shift") if name in config), None)
        if name is None or config.get("use_dynamic_shifting"):
            raise SpecificationError(
                Fault(
                    f"flow_shift cannot be set on {self.info.title}",
                    where="flow_shift",
                    why="its scheduler has none, or chooses it by the clip's size",
                    fix="leave flow_shift out",
                )
            )
        self._pipe.scheduler = type(self._pipe.scheduler).from_config(config, **{name: job.flow_shift})

    def _apply_loras(self, loras: Sequence[Lora]) -> None:
        names = [f"lora_{index}" for index in range(len(loras))]
        for name, lora in zip(names, loras, strict=True):
            path = file_of(lora)
            try:
                with several_adapters_are_meant():
                    self._pipe.load_lora_weights(
                        str(path.parent),
                        weight_name=path.name,
                        adapter_name=name,
                        use_safetensors=True,
                        local_files_only=True,
                    )
                fits = any(name in adapters for adapters in self._pipe.get_list_adapters().values())
            except (AttributeError, ValueError, OSError, KeyError, SafetensorError) as error:
                why = str(error).splitlines()[0]
                raise misfit(lora, f"this LoRA cannot be put on {self.info.title}", why) from error
            if not fits:
                raise misfit(
                    lora, "none of the layers of this LoRA fits the model", "it is for another model"
                )
        if loras:
            self._pipe.set_adapters(names, [lora.scale for lora in loras])


def _as_frames(frames: Any) -> torch.Tensor:
    """`.frames` of a pipeline, (1, frames, height, width, 3) arrays, as (frames, 3, height, width)."""
    import numpy as np

    clip = np.asarray(frames[0], dtype=np.float32)
    return torch.from_numpy(np.ascontiguousarray(clip.transpose(0, 3, 1, 2))).clamp(0, 1)
