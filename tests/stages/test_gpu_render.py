"""Whole clips on a GPU: the kernels' way from decoded frames to the encoder. `make test-gpu`; skipped without one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from kernels_cupy.loader import why_not
from veo_cli.stages.fit import fit
from veo_cli.stages.to_yuv import to_yuv
from veo_cli.values import FrameChunk

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("default"),
]


def chunk(height: int, width: int) -> FrameChunk:
    generator = torch.Generator().manual_seed(0)
    return FrameChunk(torch.rand((3, 3, height, width), generator=generator).cuda(), 0)


def test_the_kernels_work_here():
    assert why_not() == ""


@pytest.mark.parametrize("mode", ["crop", "pad", "stretch"])
@pytest.mark.parametrize("size", [(3840, 2160), (500, 333), (1280, 720)])
def test_fit(size, mode):
    ours = fit(chunk(480, 832), *size, mode, kernels=True)
    theirs = fit(chunk(480, 832), *size, mode)
    assert ours.frames.shape == theirs.frames.shape == (3, 3, *reversed(size))
    assert float((ours.frames - theirs.frames).abs().max()) < 1e-4


@pytest.mark.parametrize("color", ["bt709", "bt2020"])
@pytest.mark.parametrize("chroma", ["420", "444"])
def test_to_yuv(color, chroma):
    frames = chunk(721, 1283)
    pairs = zip(
        to_yuv(frames, color=color, chroma=chroma, kernels=True),
        to_yuv(frames, color=color, chroma=chroma),
        strict=True,
    )
    for ours, theirs in pairs:
        for part in ("y", "cb", "cr"):
            difference = getattr(ours, part).get().astype(int) - getattr(theirs, part)
            assert np.abs(difference).max() <= 1


@pytest.mark.parametrize("reuse_threshold", [0.0, 0.005])
def test_a_clip_twice(tmp_path: Path, reuse_threshold: float):
    """Frames of 1080p from a tiny model, twice: the same bits, and held on the device while the encoder works."""
    from tests.tiny_models import make_wan21
    from veo_cli.batch import BatchOptions, run_batch
    from veo_cli.models import registry
    from veo_cli.prompt_file import read_specs
    from veo_cli.resolve import resolve_jobs
    from veo_cli.stages import frame_store, sidecar

    make_wan21(tmp_path / "model")
    prompt = tmp_path / "prompt.yaml"
    prompt.write_text(
        f"model: {tmp_path / 'model'}\nprompt: a red ball\nseed: 1\nwidth: 1920\nheight: 1080\nnum_frames: 17\n"
        "num_inference_steps: 4\nsampler: {width: 64, height: 32}\n"
        f"encode: {{codec_preset: ultrafast, reuse_threshold: {reuse_threshold}}}\n"
    )
    reports = []
    original = frame_store.FrameStore.close

    def close(store: frame_store.FrameStore) -> None:
        original(store)
        reports.append(store.report())

    digests = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_store.FrameStore, "close", close)
        for number in range(2):
            output = tmp_path / str(number)
            jobs = resolve_jobs(read_specs([str(prompt)]), output=output, describe=registry.describe)
            assert run_batch(jobs, BatchOptions(output, device="cuda"), lambda event: None) == 0
            record = sidecar.read(sidecar.path_of(jobs[0].output_path))
            digests.append(record.frames_sha256)
            assert not any("converted by torch" in note for note in record.notes)
    assert digests[0] == digests[1]
    assert all(report.frames_compressed == 17 and report.peak_device_bytes > 0 for report in reports)
