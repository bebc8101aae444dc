"""Models in the local Hugging Face cache, found without touching the network."""

from __future__ import annotations

from pathlib import Path


def cache_folder() -> Path:
    """Where huggingface_hub keeps its downloads, by the environment variables that it reads."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def find(hub_id: str) -> Path | None:
    """The cached snapshot of `owner/name` (its main revision, else the newest), or None."""
    repository = cache_folder() / f"models--{hub_id.replace('/', '--')}"
    snapshots = repository / "snapshots"
    try:
        revision = (repository / "refs" / "main").read_text().strip()
        if (snapshots / revision).is_dir():
            return snapshots / revision
    except OSError:
        pass
    found = sorted(snapshots.iterdir(), key=lambda p: p.stat().st_mtime) if snapshots.is_dir() else []
    return found[-1] if found else None


def cached_pipelines() -> list[str]:
    """The hub ids of all cached repositories that are diffusers pipelines, sorted."""
    folder = cache_folder()
    names = []
    for repository in sorted(folder.glob("models--*--*")) if folder.is_dir() else []:
        if any(repository.glob("snapshots/*/model_index.json")):
            owner, _, name = repository.name.removeprefix("models--").partition("--")
            names.append(f"{owner}/{name}")
    return names
