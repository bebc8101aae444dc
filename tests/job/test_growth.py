"""Memory does not grow with the number of jobs a process has done."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.batch_overhead import batch, in_a_process, slope_per_job

NUM_JOBS = 60  # the benchmark measures 300


@pytest.mark.slow
def test_resident_memory(tmp_path: Path, model: Path) -> None:
    (tmp_path / "model").symlink_to(model)
    resident = in_a_process(batch, tmp_path, range(NUM_JOBS)).resident
    assert len(resident) == NUM_JOBS
    assert slope_per_job(resident) < 0.1 * 2**20
