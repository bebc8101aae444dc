"""Memory of decoding and encoding does not grow with the clip."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.decode_memory import measure
from tests.tiny_models import make_wan21


@pytest.mark.slow
def test_long_clips_take_no_more_memory_than_short_ones(tmp_path: Path) -> None:
    model = make_wan21(tmp_path / "model")
    peaks = [measure(num_frames, model)["peak_bytes"] for num_frames in (33, 129, 513)]
    assert max(peaks) < 1.1 * min(peaks)
