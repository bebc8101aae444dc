"""The interface of a loaded model: what the pipeline calls. `wan` and `diffusers_generic` implement it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from veo_cli.job import Job
from veo_cli.models.model_info import ModelInfo
from veo_cli.values import DenoiseState, FrameChunk, Latents, StepReport, TextEmbedding

OnStep = Callable[[StepReport], None]


class VideoModel(Protocol):
    """A model on its device, with the LoRAs that it was loaded with, whatever `job.loras` says.

    The same job gives the same bits whatever was rendered before it.
    """

    info: ModelInfo
    warnings: list[str]  # what users should be told; the pipeline says them and empties the list

    def encode_text(self, job: Job) -> TextEmbedding:
        """The prompt's and, if any step is guided, the negative prompt's states."""
        ...

    def denoise(
        self,
        job: Job,
        text: TextEmbedding,
        *,
        start: DenoiseState | None = None,
        on_step: OnStep | None = None,
    ) -> Latents:
        """Run the sampler, from noise drawn on the CPU from job.seed or from `start`. `on_step` may raise.

        `start` is the state of an earlier report; a model whose reports have none is never given one.
        """
        ...

    def decode(self, job: Job, latents: Latents) -> Iterator[FrameChunk]:
        """The first job.sampler.num_frames frames, a few at a time; memory does not grow with them."""
        ...
