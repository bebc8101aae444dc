"""`veo bench` measures real clips and leaves nothing behind."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from tests import forked_veo
from veo_cli import bench, error_boundary


def test_figures(tmp_path: Path, tiny_model: Path) -> None:
    before = set(Path(tempfile.gettempdir()).glob("veo-bench-*"))
    code, out, err = forked_veo.run(
        ["bench", "--clips", "2", "--json", "--set", f"model={tiny_model}", "--set", "num_inference_steps=3",
         "--set", "num_frames=5", "--set", "encode.codec_preset=ultrafast"],
        tmp_path,
    )  # fmt: skip
    assert code == 0, err
    figures = json.loads(out)
    assert figures["clip"] == "64x32, 5 frames, 3 steps"
    assert (figures["clips"], figures["job_seconds"]["count"], figures["step_seconds"]["count"]) == (2, 2, 6)
    assert {"text_encode", "denoise", "decode", "video_encode"} <= set(figures["stage_seconds"])
    assert figures["job_seconds"]["p95"] >= figures["stage_seconds"]["denoise"]["p50"] > 0
    assert figures["frames_per_second"] > 0
    assert figures["peak_rss_bytes"] > 50 * 2**20
    assert err.count("not counted") == 1
    assert set(Path(tempfile.gettempdir()).glob("veo-bench-*")) <= before


def test_a_model_that_cannot_render_is_the_benchmarks_exit_code(tmp_path: Path, broken_model: Path) -> None:
    code, out, err = forked_veo.run(
        ["bench", "--clips", "1", "--set", f"model={broken_model}", "--set", "num_inference_steps=2"],
        tmp_path,
    )
    assert (code, out) == (1, "")
    assert "error: " in err


def test_seeds_are_its_own(tmp_path: Path, tiny_model: Path) -> None:
    code, out, err = forked_veo.run(["bench", "--set", f"model={tiny_model}", "--set", "seed=1"], tmp_path)
    assert (code, out) == (2, "")
    assert "a seed of its own" in err


def test_kernels_where_only_the_package_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: None)
    assert error_boundary.main(["bench", "kernels"]) == 4
    assert "python -m benchmarks.kernels" in capsys.readouterr().err


@pytest.mark.parametrize("as_json", [False, True])
def test_kernel_figures(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks import kernels

    monkeypatch.setattr(kernels, "run", lambda out: [kernels.Figure("encode", 2.5, gb_per_s=1.25, ratio=4.0)])
    assert error_boundary.main(["bench", "kernels", *(["--json"] if as_json else [])]) == 0
    out = capsys.readouterr().out
    if as_json:
        assert json.loads(out)["gb_per_s"] == 1.25
    else:
        header, line = out.splitlines()
        assert "GB/s" in header
        assert line.split() == ["encode", "2.500", "1.25", "4.00"]
