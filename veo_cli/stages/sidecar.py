"""NAME.json beside NAME.mp4: the job that made the clip, and what was measured while it was made."""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from veo_cli import PIXEL_VERSION
from veo_cli.errors import Fault, SpecificationError
from veo_cli.job import Job
from veo_cli.stages.quality_gate import FrameChecks
from veo_cli.values import ClipFacts
from veo_cli.versions import versions

if TYPE_CHECKING:
    from veo_cli.resolve import ResolvedJob

SCHEMA_VERSION = 1


class ModelRecord(BaseModel):
    """Which model it was; `fingerprint` hashes its configs and weights."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    name: str
    title: str
    pipeline_class: str
    num_parameters: int
    fingerprint: str


class Sidecar(BaseModel):
    """The record of one finished clip.

    Fields are only ever added within one schema version; unknown ones are ignored, but for those of `job`:
    they may decide pixels that this veo would not make, and are refused.
    """

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    schema_version: int = SCHEMA_VERSION
    job_id: str  # of Job.job_id: the same job has the same one
    pixel_version: int
    job: Job
    provenance: dict[str, str]  # dotted field -> where its value came from
    source: str  # "prompt.yaml:1:1"
    model: ModelRecord
    clip: ClipFacts
    checks: FrameChecks
    frames_sha256: str  # over the Y, Cb and Cr planes that went into the encoder, in order
    encoder: str  # with versions: "libx265 4.3 (ffmpeg n9.0.2)"
    device: str  # "cpu", or the GPU's name
    stage_seconds: dict[str, float]  # decode and video_encode run beside each other
    seconds: float  # the job in all, without loading the model
    peak_rss_bytes: int  # of the whole process, so far
    peak_vram_bytes: int  # allocated by torch; 0 without a GPU
    versions: dict[str, str]
    notes: tuple[str, ...]  # fallbacks and warnings, as they were shown
    finished_at: str  # UTC, ISO 8601

    def to_json(self) -> str:
        """Indented JSON text, ending in a newline."""
        return self.model_dump_json(indent=2) + "\n"


def build(
    resolved: ResolvedJob,
    *,
    facts: ClipFacts,
    checks: FrameChecks,
    frames_sha256: str,
    encoder: str,
    stage_seconds: Mapping[str, float],
    seconds: float,
    notes: Sequence[str],
    device: str = "cpu",
) -> Sidecar:
    """The record of a clip just written; memory peaks and versions are those of this process.

    device: the one that made it, as torch names it ("cpu", "cuda:1").
    """
    device_name, peak_vram_bytes = _device_facts(device)
    model = resolved.model
    return Sidecar(
        job_id=resolved.job_id,
        pixel_version=PIXEL_VERSION,
        job=resolved.job,
        provenance=dict(resolved.provenance),
        source=str(resolved.spec.source),
        model=ModelRecord(
            name=model.name,
            title=model.title,
            pipeline_class=model.pipeline_class,
            num_parameters=model.num_parameters,
            fingerprint=model.fingerprint,
        ),
        clip=facts,
        checks=checks,
        frames_sha256=frames_sha256,
        encoder=encoder,
        device=device_name,
        stage_seconds={name: round(spent, 3) for name, spent in stage_seconds.items()},
        seconds=round(seconds, 3),
        peak_rss_bytes=_peak_rss_bytes(),
        peak_vram_bytes=peak_vram_bytes,
        versions=versions(),
        notes=tuple(notes),
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _device_facts(device: str) -> tuple[str, int]:
    """(name, peak bytes allocated there by torch)."""
    if device == "cpu":
        return device, 0
    import torch

    return str(torch.cuda.get_device_name(device)), int(torch.cuda.max_memory_allocated(device))


def _peak_rss_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB


def path_of(clip: Path) -> Path:
    """Where the sidecar of a clip lies."""
    return clip.with_suffix(".json")


def read(path: Path) -> Sidecar:
    """The sidecar of a clip, given the clip or the sidecar itself. Raises SpecificationError."""
    where = path if path.suffix == ".json" else path_of(path)
    try:
        text = where.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecificationError(
            Fault(
                "there is no sidecar to read",
                where=str(where),
                why=error.strerror or str(error),
                fix="the .json that veo wrote beside the clip is needed",
            )
        ) from error
    except UnicodeDecodeError as error:
        raise SpecificationError(Fault("not a sidecar of veo", where=str(where), why="not UTF-8")) from error
    try:
        record = Sidecar.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(str(part) for part in first["loc"])
        why = f"{at}: {first['msg']}" if at else first["msg"]
        raise SpecificationError(Fault("not a sidecar of veo", where=str(where), why=why)) from error
    if record.schema_version != SCHEMA_VERSION:
        raise SpecificationError(
            Fault(
                f"the sidecar has schema version {record.schema_version}, this veo reads {SCHEMA_VERSION}",
                where=str(where),
            )
        )
    return record


def as_prompt_yaml(record: Sidecar) -> str:
    """A prompt file that renders the same clip: every value that decides a pixel is written out."""
    import yaml

    values = record.job.model_dump(mode="json", exclude_none=True)
    values.pop("output", None)  # the clip gets a name of its own; it must not overwrite the one it came from
    for group in ("memory", "loras"):
        default = Job.model_fields[group].default
        if getattr(record.job, group) == default:
            del values[group]
    head = (
        f"# rendered with veo {record.versions.get('veo', '?')}, {record.model.title}, "
        f"job {record.job_id[:8]}, model {record.model.fingerprint[:12]}\n"
    )
    body = yaml.dump(
        values,
        Dumper=_prompt_dumper(),
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=False,
    )
    return head + str(body)


def _prompt_dumper() -> Any:
    import yaml

    class PromptDumper(yaml.SafeDumper):
        """Quotes every text that is not plainly a word: prompt files are YAML 1.2, PyYAML thinks in 1.1."""

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*( [A-Za-z][A-Za-z0-9_-]*)*", value)
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')

    PromptDumper.add_representer(str, text)
    return PromptDumper
