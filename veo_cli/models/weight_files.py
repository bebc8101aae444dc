"""The safetensors files of one component, judged by their headers: no weight is read, no torch is loaded.

Format: 8 bytes, the header's length, little endian; the header, JSON, name -> dtype, shape, data_offsets;
the data.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veo_cli.errors import ModelMissing

_MAX_HEADER_BYTES = 100_000_000  # the format's own limit
_STEMS = ("diffusion_pytorch_model", "model")  # as diffusers and transformers name them
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")


@dataclass(frozen=True)
class Weights:
    """The weight files of one component, all there and whole."""

    files: tuple[Path, ...]
    variant: str | None  # "fp16" for model.fp16.safetensors
    num_parameters: int
    size_bytes: int


def find_weights(folder: Path, *, fix: str) -> Weights | None:
    """The weights in a component's folder, checked; None where there are none (a tokenizer).

    Raises ModelMissing for a missing shard, a truncated or damaged file, weights in another format than
    safetensors, or a folder with a config.json and no weights. `fix` is the command that brings the model
    again.
    """
    plain, variant = _index_or_file(folder, "*.safetensors.index.json"), None
    if plain is None:
        plain = _index_or_file(folder, "*.safetensors")
    if plain is None:
        if any(path.suffix in _PICKLED for path in folder.iterdir()):
            raise ModelMissing(
                "the weights are not in safetensors format",
                where=str(folder),
                why="other formats can run code when they are read",
                fix="save it again with save_pretrained(folder, safe_serialization=True)",
            )
        if (folder / "config.json").is_file():
            raise ModelMissing(
                "the weights are not there", where=str(folder), why="no .safetensors file", fix=fix
            )
        return None
    parts = plain.name.split(".")
    if len(parts) > 2 and parts[1] not in ("safetensors",) and not parts[1].startswith("safetensors"):
        variant = parts[1]
    files = (plain,) if plain.suffix == ".safetensors" else _shards(plain, fix)
    num_parameters = sum(_count_parameters(path, fix) for path in files)
    return Weights(files, variant, num_parameters, sum(path.stat().st_size for path in files))


def read_header(path: Path, *, fix: str = "") -> dict[str, Any]:
    """The header of a safetensors file that is exactly as long as it says. Raises ModelMissing."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > _MAX_HEADER_BYTES:
            raise _damaged(path, "it does not begin with a safetensors header", fix)
        if 8 + length > size:
            raise _damaged(path, f"it is truncated: {size:,} bytes, its header alone has {length:,}", fix)
        text = file.read(length)
    try:
        header = json.loads(text)
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise _damaged(path, "its header is not what safetensors writes", fix) from error
    expected = 8 + length + max(ends, default=0)
    if size != expected:
        what = "truncated" if size < expected else "too long"
        raise _damaged(path, f"it is {what}: {size:,} bytes of {expected:,}", fix)
    return dict(header)


def _index_or_file(folder: Path, pattern: str) -> Path | None:
    """The match that diffusers or transformers would take: no variant before a variant, known stems only."""
    found = [path for path in sorted(folder.glob(pattern)) if path.name.split(".")[0].split("-")[0] in _STEMS]
    found = [path for path in found if "-of-" not in path.name and path.is_file()]
    return min(found, key=lambda path: len(path.name), default=None)


def _shards(index: Path, fix: str) -> tuple[Path, ...]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError) as error:
        raise _damaged(index, "it is not an index of shards", fix) from error
    files = tuple(index.parent / name for name in names)
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        raise ModelMissing(
            f"{len(missing)} of {len(files)} weight files are missing: {', '.join(missing[:3])}",
            where=str(index.parent),
            why=f"{index.name} names them",
            fix=fix,
        )
    return files


def _count_parameters(path: Path, fix: str) -> int:
    header = read_header(path, fix=fix)
    return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")


def _damaged(path: Path, why: str, fix: str) -> ModelMissing:
    return ModelMissing("a weight file is damaged", where=str(path), why=why, fix=fix)
