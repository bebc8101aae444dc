"""What a run would do: the jobs, what is done already, and estimates of the memory and disk that it takes.

The estimates are of the right size, not promises; `Plan.how` says in words what they are made of.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from veo_cli.byte_size import in_words
from veo_cli.counted import counted
from veo_cli.job import EncodeSettings, Job
from veo_cli.journal import progress_of
from veo_cli.layer import flattened
from veo_cli.models.model_info import ModelInfo
from veo_cli.resolve import ResolvedJob
from veo_cli.schedules import steps_of
from veo_cli.stages.video_encode import DEFAULT_CRF

JobState = Literal["done", "latents", "part", "new"]
STATE_WORDS: dict[JobState, str] = {
    "done": "done",
    "latents": "sampled, to be decoded",
    "part": "begun, goes on from a checkpoint",
    "new": "new",
}

_LIBRARIES_BYTES = 900 * 2**20  # torch, diffusers and transformers once imported, measured on Linux
_LIVE_VAE_MAPS = 4  # full-size feature maps of a decoder alive at once: input, output, residual, causal cache
_LIVE_TOKEN_STATES = 16  # of hidden size, per token: q, k, v, attention, the feed-forward's four, residuals
_LIVE_FRAME_COPIES = 6  # delivered float RGB frames at once: fit, conversion, queue to the encoder
_CRF_18_BITS_PER_PIXEL = 0.15  # x265 medium, generated content; each 6 crf halve it
_LOSSLESS_BITS_PER_PIXEL = 6.0
_PNG16_BYTES_PER_PIXEL = 4.0
_CHECKPOINT_COPIES = 4  # latents and a multistep scheduler's history


@dataclass(frozen=True)
class PlannedJob:
    """One row of a plan. Sizes in pixels; clip_bytes and memory_bytes are estimates.

    job_id and seed are None where only the render draws the seed; output then has `{seed}` and `{id}` in it.
    """

    output: str
    state: JobState
    job_id: str | None
    model: str
    prompt: str
    seed: int | None
    width: int
    height: int
    num_frames: int
    fps: float
    duration_s: float
    num_inference_steps: int
    generated: str  # "256x144"
    clip_bytes: int
    memory_bytes: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """disk_bytes: all clips still to be made, and the state of the largest unfinished job. free_bytes: None
    if the folder's disk cannot be asked. memory_bytes: of the largest job."""

    jobs: tuple[PlannedJob, ...]
    disk_bytes: int
    free_bytes: int | None
    memory_bytes: int
    how: tuple[str, ...]

    @property
    def counts(self) -> dict[JobState, int]:
        found = Counter(job.state for job in self.jobs)
        return {state: found[state] for state in STATE_WORDS}

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headers, and a row for each job."""
        rows = [
            [
                job.output,
                f"{job.width}x{job.height}",
                f"{job.num_frames}",
                f"{job.fps:g}",
                f"{job.num_inference_steps}",
                STATE_WORDS[job.state],
            ]
            for job in self.jobs
        ]
        return ["CLIP", "SIZE", "FRAMES", "FPS", "STEPS", "STATE"], rows

    def summary(self) -> list[str]:
        """A few lines for people: how many, what they need, how that is known."""
        counts = self.counts
        to_do = len(self.jobs) - counts["done"]
        lines = [f"{counted(len(self.jobs), 'job')}: {counts['done']} done, {to_do} to do"]
        if to_do:
            begun = counts["latents"] + counts["part"]
            if begun:
                lines[0] += f" ({begun} of them begun)"
            free = "" if self.free_bytes is None else f" of {in_words(self.free_bytes)} free"
            lines.append(f"disk, estimated: {in_words(self.disk_bytes)}{free}")
            lines.append(f"memory, estimated: {in_words(self.memory_bytes)}")
            lines += [f"  {line}" for line in self.how]
        return lines

    def as_json(self) -> list[dict[str, Any]]:
        """One plain object for each job."""
        return [dataclasses.asdict(job) for job in self.jobs]


@dataclass(frozen=True)
class Details:
    """What `veo plan -v` shows of a job: (field, value, provenance) and (step, sigma, guidance, expert)
    rows.
    """

    fields: tuple[tuple[str, str, str], ...]
    steps: tuple[tuple[int, float, float, int], ...]


def plan(resolved: Sequence[ResolvedJob], output_folder: Path | None = None, *, device: str = "cpu") -> Plan:
    """The plan of a run into `output_folder` (None: the current one) on `device` ("cpu", "cuda"). Writes
    nothing.
    """
    folder = output_folder or Path()
    jobs = tuple(_planned(entry, folder, device) for entry in resolved)
    pending = [(job, entry) for job, entry in zip(jobs, resolved, strict=True) if job.state != "done"]
    state_bytes = max((_state_bytes(entry.job, entry.model) for _, entry in pending), default=0)
    return Plan(
        jobs,
        sum(job.clip_bytes for job, _ in pending) + state_bytes,
        _free_bytes(folder),
        max((job.memory_bytes for job, _ in pending), default=0),
        _how(pending, state_bytes, device),
    )


def details(resolved: ResolvedJob) -> Details:
    """Every value of a job with where it came from, and its steps (none for pipelines that sample by
    themselves).
    """
    values = flattened(resolved.job.model_dump(mode="json"))
    if resolved.open_path is not None:
        values["seed"] = "drawn by the render"
    fields = tuple(
        (name, _text(value), resolved.provenance.get(name, "default")) for name, value in values.items()
    )
    steps = steps_of(resolved.job, resolved.model)
    return Details(fields, tuple((row.step, row.sigma, row.guidance_scale, row.expert) for row in steps))


def state_of(resolved: ResolvedJob, output_folder: Path) -> JobState:
    """How far a job has come, from its sidecar and its state folder; nothing heavy is read."""
    if _is_whole(resolved.output_path, resolved.job_id):
        return "done"
    progress = progress_of(output_folder, resolved.job_id)
    if progress == "latents":
        return "latents"
    return "part" if progress == "step" else "new"


def _is_whole(clip: Path, job_id: str) -> bool:
    """Whether the clip is there, made by this job, and as large as its sidecar says."""
    try:
        size_bytes = clip.stat().st_size
        record = json.loads(clip.with_suffix(".json").read_bytes())
    except (OSError, ValueError):
        return False
    if not isinstance(record, dict) or record.get("job_id") != job_id:
        return False
    facts = record.get("clip")
    return not isinstance(facts, dict) or facts.get("size_bytes", size_bytes) == size_bytes


def _planned(resolved: ResolvedJob, folder: Path, device: str) -> PlannedJob:
    job = resolved.job
    is_open = resolved.open_path is not None
    return PlannedJob(
        str(resolved.open_path or resolved.output_path),
        state_of(resolved, folder),
        None if is_open else resolved.job_id,
        job.model,
        job.prompt,
        None if is_open else job.seed,
        job.width,
        job.height,
        job.num_frames,
        job.fps,
        round(job.num_frames / job.fps, 3),
        job.num_inference_steps,
        f"{job.sampler.width}x{job.sampler.height}",
        clip_bytes(job),
        memory_bytes(job, resolved.model, device),
        resolved.notes,
    )


def clip_bytes(job: Job) -> int:
    """Estimated size of the clip, and of its folder of PNGs where one is asked for."""
    pixels = job.width * job.height * job.num_frames
    size = pixels * _bits_per_pixel(job.encode) / 8
    if job.encode.bitrate is not None:
        size = _bits_per_second(job.encode.bitrate) * job.num_frames / job.fps / 8
    if job.encode.frames == "png16":
        size += pixels * _PNG16_BYTES_PER_PIXEL
    return int(size) + 4096


def _bits_per_pixel(encode: EncodeSettings) -> float:
    chroma = 1.6 if encode.chroma == "444" else 1.0
    if encode.lossless:
        return _LOSSLESS_BITS_PER_PIXEL * chroma
    crf = DEFAULT_CRF if encode.crf is None else encode.crf
    return _CRF_18_BITS_PER_PIXEL * chroma * 2 ** ((18 - crf) / 6)


def _bits_per_second(bitrate: str) -> float:
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kKmMgG]?)\w*\s*", bitrate)
    if not match:
        return 0.0
    return float(match[1]) * {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[match[2].lower()]


def memory_bytes(job: Job, model: ModelInfo, device: str) -> int:
    """Estimated peak memory of one job: libraries, weights, and the larger of sampling and decoding."""
    value_bytes = 4 if device == "cpu" else 2
    resident = model.num_parameters
    if job.memory.offload not in ("auto", "none"):
        resident = max(model.extra.get("component_parameters", {}).values(), default=resident)
    width, height = job.sampler.width, job.sampler.height
    spatial, temporal = model.spatial_compression, model.temporal_compression
    hidden, vae_width = _widths(model.path)
    tokens = math.ceil(job.sampler.num_frames / temporal) * (width // spatial) * (height // spatial) // 4
    sampling = tokens * hidden * _LIVE_TOKEN_STATES * value_bytes
    decoding = vae_width * width * height * temporal * 4 * _LIVE_VAE_MAPS
    fitting = job.width * job.height * 3 * 4 * _LIVE_FRAME_COPIES
    return _LIBRARIES_BYTES + resident * value_bytes + max(sampling, decoding + fitting)


@lru_cache(maxsize=64)
def _widths(path: Path) -> tuple[int, int]:
    """(hidden size of the transformer, channels of the VAE at full size), Wan2.1 1.3B's where the folder is
    silent.
    """

    def read(part: str) -> dict[str, Any]:
        try:
            config = json.loads((path / part / "config.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return config if isinstance(config, dict) else {}

    transformer, vae = read("transformer"), read("vae")
    hidden = int(transformer.get("num_attention_heads", 12)) * int(transformer.get("attention_head_dim", 128))
    return hidden, int(vae.get("decoder_base_dim") or vae.get("base_dim") or 96)


def _state_bytes(job: Job, model: ModelInfo) -> int:
    """The largest that a job's folder in .veo becomes."""
    sampler = job.sampler
    if model.family == "generic":  # its finished sample is the frames themselves
        return sampler.width * sampler.height * sampler.num_frames * 3 * 4
    latent_frames = (sampler.num_frames - 1) // model.temporal_compression + 1
    latent_pixels = (sampler.width // model.spatial_compression) * (
        sampler.height // model.spatial_compression
    )
    return latent_frames * latent_pixels * model.latent_channels * 4 * _CHECKPOINT_COPIES


def _free_bytes(folder: Path) -> int | None:
    existing = folder.resolve()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        return shutil.disk_usage(existing).free
    except OSError:
        return None


def _how(pending: Sequence[tuple[PlannedJob, ResolvedJob]], state_bytes: int, device: str) -> tuple[str, ...]:
    if not pending:
        return ()
    largest, entry = max(pending, key=lambda pair: pair[0].memory_bytes)
    kind = "float32 on the CPU" if device == "cpu" else "16 bits on the GPU"
    return (
        "disk: clips by pixels and crf or bitrate, "
        f"and {in_words(state_bytes)} of checkpoints while a job runs",
        f"memory: of {largest.output}: libraries {in_words(_LIBRARIES_BYTES)}, "
        f"{entry.model.num_parameters / 1e6:.0f} M weights ({kind}), "
        f"and the larger of sampling {largest.generated} and decoding it",
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value, ensure_ascii=False)
