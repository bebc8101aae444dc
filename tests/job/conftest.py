from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.job.batch_folder import Batch
from tests.job.described import describe
from veo_cli.errors import SpecificationError
from veo_cli.prompt_file import read_specs
from veo_cli.resolve import ResolvedJob, resolve_jobs

Resolve = Callable[..., list[ResolvedJob]]
Faults = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the presets of the person who runs it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def resolve(tmp_path: Path) -> Resolve:
    """resolve(text, settings=[...], preset=...) -> the jobs of a file `job.yaml` with that text."""
    numbers = itertools.count()

    def run(text: str | bytes, name: str = "job.yaml", **options: Any) -> list[ResolvedJob]:
        folder = tmp_path / f"file{next(numbers)}"
        folder.mkdir()
        data = text.encode() if isinstance(text, str) else text
        (folder / name).write_bytes(data)
        options.setdefault("output", tmp_path / "out")
        options.setdefault("describe", describe)
        return resolve_jobs(read_specs([str(folder / name)], stdin=io.StringIO()), **options)

    return run


@pytest.fixture
def faults(resolve: Resolve) -> Faults:
    """faults(text) -> the fault texts of a file that must be refused, positions as "line:column: ..."."""

    def run(text: str | bytes, name: str = "job.yaml", **options: Any) -> Sequence[str]:
        with pytest.raises(SpecificationError) as caught:
            resolve(text, name, **options)
        return [str(fault).partition(f"{name}:")[2] or str(fault) for fault in caught.value.faults]

    return run


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Wan2.1."""
    from tests.tiny_models import make_wan21

    return make_wan21(tmp_path_factory.mktemp("tiny") / "wan")


@pytest.fixture
def batch(tmp_path: Path, model: Path) -> Batch:
    """One job, not yet rendered."""
    return Batch(tmp_path, model)


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory, model: Path) -> dict[str, str]:
    """Clip name -> digest of its frames, of an undisturbed run of `batch`."""
    undisturbed = Batch(tmp_path_factory.mktemp("reference"), model)
    assert undisturbed.run()[0] == 0
    return undisturbed.digests()
