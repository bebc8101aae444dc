"""What is found before any model loads, and that all of it is found at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.job.conftest import Resolve
from veo_cli import ffmpeg, plan, preflight
from veo_cli.errors import FfmpegMissing, SpecificationError
from veo_cli.job import EncodeSettings
from veo_cli.resolve import ResolvedJob

JOBS = """\
prompt: a boat
seed: {seed}
encode: {{codec_preset: ultrafast}}
"""


def check(jobs: list[ResolvedJob], out: Path, *, force: bool = False) -> None:
    preflight.check(jobs, out, "cpu", force=force)


def test_nothing_to_complain_of(tmp_path: Path, resolve: Resolve) -> None:
    check(resolve(JOBS.format(seed=1)), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == []


def test_a_file_that_is_there_already_is_not_overwritten_unless_forced(
    tmp_path: Path, resolve: Resolve
) -> None:
    (job,) = resolve(JOBS.format(seed=1))
    job.output_path.parent.mkdir()
    job.output_path.write_bytes(b"a film of mine")
    with pytest.raises(SpecificationError, match="no sidecar says") as caught:
        check([job], tmp_path / "out")
    assert "--force" in caught.value.fault.fix
    check([job], tmp_path / "out", force=True)
    # A run that was killed between clip and sidecar left a clip and the job's state.
    (tmp_path / "out" / ".veo" / job.job_id).mkdir(parents=True)
    check([job], tmp_path / "out")


def test_neither_pictures_nor_sidecar_replace_what_is_not_ours(tmp_path: Path, resolve: Resolve) -> None:
    (job,) = resolve("prompt: a boat\nseed: 1\noutput: boat.mp4\nencode: {frames: png16}\n")
    folder = job.output_path.parent / "boat_frames"
    folder.mkdir(parents=True)
    with pytest.raises(SpecificationError, match="boat_frames"):
        check([job], tmp_path / "out")
    folder.rmdir()
    (tmp_path / "out" / "boat.json").write_text('{"a file": "of mine"}')
    with pytest.raises(SpecificationError, match=r"boat\.json"):
        check([job], tmp_path / "out")


def test_a_plan_makes_no_folder_but_knows_where_none_can_be_made(tmp_path: Path, resolve: Resolve) -> None:
    jobs = [*resolve(JOBS.format(seed=1)), *resolve(JOBS.format(seed=2) + "output: deep/er/boat.mp4\n")]
    preflight.check(jobs, tmp_path / "out", "cpu", force=False, make_folders=False)
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "deep").write_text("a file of mine")
    with pytest.raises(
        preflight.PreflightFailed, match="deep/er: cannot write into the folder: Not a directory"
    ):
        preflight.check(jobs, tmp_path / "out", "cpu", force=False, make_folders=False)


@pytest.mark.parametrize(
    ("encoder", "advice"),
    [
        (
            "hevc_nvenc",
            "needs an NVIDIA GPU, its driver and an ffmpeg built for it; write encode: {encoder: auto}, or libx265",
        ),
        ("libx265", "write encode: {encoder: auto}, which takes the first that works here"),
        ("auto", "install ffmpeg"),
    ],
)
def test_what_to_do_without_the_encoder(
    encoder: str, advice: str, tmp_path: Path, resolve: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe(name: str, program: Path, pixel_format: str) -> ffmpeg.EncoderProbe:
        return ffmpeg.EncoderProbe(name, program, "9", works=False, why=f"Unknown encoder {name!r}")

    monkeypatch.setattr(ffmpeg, "probe_encoder", probe)
    jobs = resolve("prompt: a boat\nseed: 1\n", settings=[f"encode.encoder={encoder}"])
    with pytest.raises(preflight.PreflightFailed, match="Unknown encoder") as caught:
        check(jobs, tmp_path / "out")
    assert advice in caught.value.fault.fix


def test_all_faults_come_in_one_report(
    tmp_path: Path, resolve: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_h264(settings: EncodeSettings, pixel_format: str) -> None:
        if settings.codec == "h264":
            raise FfmpegMissing("no ffmpeg here encodes h264")

    monkeypatch.setattr(preflight, "choose_encoder", no_h264)
    monkeypatch.setattr(plan, "_free_bytes", lambda folder: 500)
    monkeypatch.setattr(preflight, "_memory_bytes", lambda: 2**20)
    jobs = [
        *resolve(JOBS.format(seed=1)),
        *resolve(JOBS.format(seed=2) + "output: /proc/boat.mp4\n"),
        *resolve("prompt: a boat\nseed: 3\nencode: {codec: h264}\n"),
        *resolve("prompt: a boat\nseed: 4\nencode: {codec: h264}\n"),
    ]
    with pytest.raises(preflight.PreflightFailed) as caught:
        check(jobs, tmp_path / "out")
    assert caught.value.exit_code == 4
    texts = [str(fault) for fault in caught.value.faults]
    assert len(texts) == 4  # the encoder's once for both of its jobs
    for expected in ("/proc: cannot write", "encodes h264", "500 B are free", "the machine has 1.0 MiB"):
        assert any(expected in text for text in texts), (expected, texts)

    jobs[0].output_path.parent.mkdir(exist_ok=True)
    jobs[0].output_path.write_bytes(b"a film of mine")
    with pytest.raises(SpecificationError) as both:
        check(jobs, tmp_path / "out")
    assert len(both.value.faults) == 1 + 4
