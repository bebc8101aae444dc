"""The durable progress of one job, in `OUTPUT/.veo/JOB_ID/`: what was asked, step checkpoints, finished latents, failure.

Every file is written whole under a temporary name, synced and renamed, and carries a checksum. A damaged file is
reported through `on_damage` and treated as absent: that much of the job is done again.

Paths below the output folder are kept relative to it on disk, so that a folder that was moved or copied speaks of its own
clips; whoever reads them gets absolute ones.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from veo_cli import durable_file
from veo_cli.durable_file import Damaged
from veo_cli.values import DenoiseState, Latents

STATE_FOLDER = ".veo"
_RECORD = "record.json"
_LATENTS = "latents.safetensors"
_STEP = "step.safetensors"
_QUEUE = "queue"

State = Literal["running", "failed", "stopped"]


@dataclass(frozen=True)
class JobRecord:
    """The small file that says whose folder this is. `state` of a killed run stays "running".

    output: an absolute path.
    """

    job_id: str
    output: str
    prompt: str
    model: str
    state: State
    num_steps: int
    attempts: int
    code: str = ""
    message: str = ""
    kept: str = ""


@dataclass(frozen=True)
class QueuedJob:
    """A job that the last run was asked for. output: an absolute path."""

    job_id: str
    output: str


class JobJournal:
    """Reads and writes the state of one job. Nothing is created on disk before the first write."""

    def __init__(self, output_folder: Path, job_id: str, on_damage: Callable[[str], None]) -> None:
        self.folder = output_folder / STATE_FOLDER / job_id
        self._output_folder = output_folder
        self._on_damage = on_damage

    def write_record(self, record: JobRecord) -> None:
        """For `status`; what a power cut takes of it is no work."""
        stored = vars(record) | {"output": _stored_path(record.output, self._output_folder)}
        durable_file.replace_checked(self.folder / _RECORD, json.dumps(stored).encode(), sync=False)

    def read_record(self) -> JobRecord | None:
        payload = self._read(_RECORD)
        return _record(payload, self._output_folder) if payload is not None else None

    def save_step(self, state: DenoiseState) -> None:
        """Replace the step checkpoint by this one."""
        tensors = {f"scheduler.{name}": tensor for name, tensor in state.scheduler_tensors.items()}
        tensors["latents"] = state.latents
        header = {"next_step": state.next_step, "scheduler": dict(state.scheduler_scalars)}
        durable_file.replace_checked(self.folder / _STEP, _pack(tensors, header))

    def load_step(self) -> DenoiseState | None:
        payload = self._read(_STEP)
        if payload is None:
            return None
        tensors, header = _unpack(payload)
        latents = tensors.pop("latents")
        history = {name.removeprefix("scheduler."): tensor for name, tensor in tensors.items()}
        return DenoiseState(header["next_step"], latents, history, header["scheduler"])

    def save_latents(self, latents: Latents) -> None:
        """Keep the finished sample; the step checkpoint is no longer needed."""
        durable_file.replace_checked(self.folder / _LATENTS, _pack({"latents": latents.tensor}, {}))
        (self.folder / _STEP).unlink(missing_ok=True)

    def load_progress(self) -> Latents | DenoiseState | None:
        """The furthest durable point: the finished latents, else the step checkpoint, else None."""
        return self.load_latents() or self.load_step()

    def load_latents(self) -> Latents | None:
        payload = self._read(_LATENTS)
        return Latents(_unpack(payload)[0]["latents"]) if payload is not None else None

    def remove(self) -> None:
        """Forget the job: its clip and sidecar are in place."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, name: str) -> bytes | None:
        path = self.folder / name
        try:
            return durable_file.read_checked(path)
        except FileNotFoundError:
            return None
        except Damaged:
            self._on_damage(f"{path} is damaged (its checksum does not match); what it held is done again")
            path.unlink(missing_ok=True)
            return None


def progress_of(output_folder: Path, job_id: str) -> Literal["latents", "step"] | None:
    """The furthest point that a job's folder has a file of, by their names alone; nothing is read."""
    folder = output_folder / STATE_FOLDER / job_id
    if (folder / _LATENTS).is_file():
        return "latents"
    return "step" if (folder / _STEP).is_file() else None


def read_records(output_folder: Path) -> list[JobRecord]:
    """The records of all unfinished jobs under an output folder; damaged ones are passed over."""
    folder = output_folder / STATE_FOLDER
    records = []
    for job_folder in sorted(folder.iterdir()) if folder.is_dir() else []:
        try:
            records.append(_record(durable_file.read_checked(job_folder / _RECORD), output_folder))
        except (OSError, Damaged, TypeError):  # TypeError: written by another version
            continue
    return records


def write_queue(output_folder: Path, jobs: Sequence[QueuedJob]) -> None:
    """Replace the list of the jobs that the last run was asked for."""
    stored = [vars(job) | {"output": _stored_path(job.output, output_folder)} for job in jobs]
    payload = json.dumps(stored).encode()
    durable_file.replace_checked(output_folder / STATE_FOLDER / _QUEUE, payload, sync=False)


def read_queue(output_folder: Path) -> list[QueuedJob]:
    """The jobs that the last run was asked for; empty if there was none, or the list is damaged."""
    try:
        payload = durable_file.read_checked(output_folder / STATE_FOLDER / _QUEUE)
        jobs = [QueuedJob(**entry) for entry in json.loads(payload)]
        return [replace(job, output=_read_path(job.output, output_folder)) for job in jobs]
    except (OSError, Damaged, TypeError):  # TypeError: written by another version
        return []


def _record(payload: bytes, output_folder: Path) -> JobRecord:
    record = JobRecord(**json.loads(payload))
    return replace(record, output=_read_path(record.output, output_folder))


def _stored_path(path: str, output_folder: Path) -> str:
    folder = os.path.abspath(output_folder)
    below = os.path.relpath(os.path.abspath(path), folder)
    return path if below.split(os.sep)[0] == os.pardir else below


def _read_path(stored: str, output_folder: Path) -> str:
    return os.path.join(os.path.abspath(output_folder), stored)  # an absolute one stays as it is


def _pack(tensors: dict[str, Any], header: dict[str, Any]) -> bytes:
    from safetensors.torch import save

    on_cpu = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    return bytes(save(on_cpu, metadata={"veo": json.dumps(header)}))


def _unpack(payload: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    from safetensors.torch import load

    header_size = int.from_bytes(payload[:8], "little")
    metadata = json.loads(payload[8 : 8 + header_size]).get("__metadata__", {})
    return load(payload), json.loads(metadata.get("veo", "{}"))
