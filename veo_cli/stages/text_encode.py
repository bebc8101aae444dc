"""The prompt, and the negative prompt if any step is guided, to the transformer's states."""

from __future__ import annotations

from typing import Protocol

import torch

from veo_cli.job import Job
from veo_cli.stages.denoise import needs_negative
from veo_cli.values import TextEmbedding


class TextEncoder(Protocol):
    def encode(self, text: str) -> tuple[torch.Tensor, str]:
        """States (1, tokens, text_dim), zero beyond the text; and the end of `text` that did not fit."""
        ...


def text_encode(encoder: TextEncoder, job: Job) -> TextEmbedding:
    """Encode the job's prompts. Only the prompt's own cut end is reported: a cut negative still guides."""
    states, cut_text = encoder.encode(job.prompt)
    negative = encoder.encode(job.negative_prompt)[0] if needs_negative(job) else None
    return TextEmbedding(states, negative, cut_text)
