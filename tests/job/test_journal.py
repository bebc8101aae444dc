"""What a journal wrote is what it reads, and damage costs only the damaged part."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from veo_cli.journal import (
    JobJournal,
    JobRecord,
    QueuedJob,
    progress_of,
    read_queue,
    read_records,
    write_queue,
)
from veo_cli.values import DenoiseState, Latents


def journal(folder: Path, told: list[str] | None = None) -> JobJournal:
    return JobJournal(folder, "ab" * 32, told.append if told is not None else lambda message: None)


def test_a_step_checkpoint_comes_back_bit_for_bit(tmp_path: Path) -> None:
    state = DenoiseState(
        next_step=7,
        latents=torch.randn(1, 16, 3, 6, 8),
        scheduler_tensors={"model_outputs.0": torch.randn(1, 16, 3, 6, 8)},
        scheduler_scalars={"lower_order_nums": 2, "timesteps": [999.0, None]},
    )
    journal(tmp_path).save_step(state)
    loaded = journal(tmp_path).load_step()
    assert loaded is not None
    assert loaded.next_step == 7
    assert torch.equal(loaded.latents, state.latents)
    assert torch.equal(
        loaded.scheduler_tensors["model_outputs.0"], state.scheduler_tensors["model_outputs.0"]
    )
    assert loaded.scheduler_scalars == {"lower_order_nums": 2, "timesteps": [999.0, None]}


def test_finished_latents_replace_the_step_checkpoint(tmp_path: Path) -> None:
    latents = torch.randn(1, 16, 3, 6, 8)
    book = journal(tmp_path)
    job_id = book.folder.name
    assert progress_of(tmp_path, job_id) is None
    book.save_step(DenoiseState(3, latents))
    assert progress_of(tmp_path, job_id) == "step"
    book.save_latents(Latents(latents))
    assert progress_of(tmp_path, job_id) == "latents"
    assert book.load_step() is None
    loaded = book.load_latents()
    assert loaded is not None
    assert torch.equal(loaded.tensor, latents)
    book.remove()
    assert not book.folder.exists()


def test_damage_is_said_and_treated_as_absent(tmp_path: Path) -> None:
    told: list[str] = []
    book = journal(tmp_path, told)
    book.save_step(DenoiseState(3, torch.randn(1, 16, 3, 6, 8)))
    file = book.folder / "step.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert book.load_step() is None
    assert len(told) == 1
    assert "step.safetensors" in told[0]
    assert not file.exists()


def test_records_are_listed_and_damaged_ones_passed_over(tmp_path: Path) -> None:
    record = JobRecord(
        "ab" * 32,
        str(tmp_path / "a.mp4"),
        "a prompt",
        "veo-mini",
        "failed",
        24,
        2,
        "encode_failed",
        "it died",
        "latents",
    )
    journal(tmp_path).write_record(record)
    other = JobJournal(tmp_path, "cd" * 32, lambda message: None)
    other.write_record(record)
    (other.folder / "record.json").write_bytes(b"rubbish")
    assert read_records(tmp_path) == [record]
    assert journal(tmp_path).read_record() == record


def test_a_moved_folder_speaks_of_its_own_clips_and_of_others_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = Path("first"), Path("second")
    outputs = [str(tmp_path / "first" / "shots" / "..a.mp4"), str(tmp_path / "first-elsewhere" / "b.mp4")]
    write_queue(first, [QueuedJob(name, output) for name, output in zip("ab", outputs, strict=True)])
    for name, output in zip("ab", outputs, strict=True):
        JobJournal(first, name, pytest.fail).write_record(JobRecord(name, output, "p", "m", "failed", 4, 1))
    assert [job.output for job in read_queue(first)] == outputs
    first.rename(second)
    moved = [str(tmp_path / "second" / "shots" / "..a.mp4"), outputs[1]]
    assert [job.output for job in read_queue(second)] == moved
    assert [record.output for record in read_records(second)] == moved
    record = JobJournal(second, "a", pytest.fail).read_record()
    assert record is not None
    assert record.output == moved[0]
