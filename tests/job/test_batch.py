"""A batch disturbed in every way that can be thought of loses nothing, and its exit code is true."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from tests import crash_matrix
from tests.forked_veo import run
from tests.job import faults
from tests.job.batch_folder import STEPS, Batch
from tests.tiny_models import make_wan21

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
MOMENTS = [
    ("run_started", 1, 0),
    ("stage_started:load", 1, 0),
    ("stage_started:text_encode", 1, 0),
    ("step_done", 3, 3),
    ("step_done", STEPS, STEPS),
    ("stage_started:decode", 1, STEPS),
    ("frames_done", 1, STEPS),
]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize(("event", "count", "goes_on_at"), MOMENTS)
def test_a_signal_stops_at_the_next_safe_point_and_the_next_run_goes_on(
    batch: Batch, reference: dict[str, str], number: int, code: int, event: str, count: int, goes_on_at: int
) -> None:
    ended, stdout, stderr = batch.run(before=partial(faults.signal_at, event, count, number))
    assert ended == code
    assert stdout == ""
    assert batch.clips() == []
    assert [name for name in batch.strays() if not name.endswith(".safetensors")] == []
    assert "same command" in stderr
    if goes_on_at:
        assert ("latents" if goes_on_at == STEPS else f"{goes_on_at} of {STEPS} steps") in stderr
    assert batch.run()[0] == 0
    assert batch.digests() == reference
    started = batch.events("job_started")
    assert started[-1]["next_step"] == goes_on_at
    assert len(batch.events("step_done")) == STEPS
    assert batch.strays() == []


def test_a_second_ctrl_c_ends_at_once(batch: Batch) -> None:
    veo = batch.start(before=partial(faults.slow_steps, 5.0))
    veo.wait_for(lambda: bool(batch.events("step_done")))
    os.kill(veo.pid, signal.SIGINT)
    time.sleep(0.2)
    begin = time.monotonic()
    os.kill(veo.pid, signal.SIGINT)
    assert veo.wait() == 130
    assert time.monotonic() - begin < 4
    assert batch.clips() == []
    assert [name for name in batch.strays() if name.endswith(".part")] == []


def test_sighup_does_not_stop_a_batch(batch: Batch) -> None:
    assert batch.run(before=partial(faults.signal_at, "step_done", 2, signal.SIGHUP))[0] == 0
    assert len(batch.clips()) == 1


@pytest.mark.parametrize("call", ["write_all", "fsync", "rename"])
@pytest.mark.parametrize(
    ("count", "fault"),
    [(1, errno.EIO), (2, errno.ENOSPC), (4, errno.EIO), (6, errno.ENOSPC), (8, errno.ENOSPC)],
)
def test_a_failing_disk_loses_nothing(
    batch: Batch, reference: dict[str, str], call: str, count: int, fault: int
) -> None:
    code, stdout, stderr = batch.run(before=partial(faults.fail_call, call, count, fault))
    if code != 0:  # the count may lie past the last call of this kind
        assert code == 4
        assert stdout == ""
        assert ("no space" if fault == errno.ENOSPC else "Input/output error") in stderr
        assert [name for name in batch.strays() if name.endswith(".part")] == []
        assert batch.clips() == [] or batch.run()[0] == 0
    assert batch.run()[0] == 0
    assert batch.digests() == reference
    assert batch.strays() == []
    assert len(batch.events("step_done")) <= STEPS + 2  # at most back to the last checkpoint


def test_ffmpeg_killed_midway_is_a_failed_job_that_keeps_its_latents(
    batch: Batch, reference: dict[str, str]
) -> None:
    code, stdout, stderr = batch.run(before=partial(faults.kill_ffmpeg_at, "frames_done", 1))
    assert code == 1
    assert stdout == ""
    assert "ffmpeg" in stderr
    assert "latents" in stderr
    assert batch.clips() == []
    assert batch.run()[0] == 0
    assert batch.events("job_started")[-1]["resumed_from"] == "latents"
    assert batch.digests() == reference


def test_a_failure_that_may_pass_is_tried_again(batch: Batch, reference: dict[str, str]) -> None:
    code, _, stderr = batch.run("--retries", "2", before=partial(faults.kill_ffmpeg_at, "frames_done", 1))
    assert code == 0, stderr
    assert batch.digests() == reference
    assert [event["will_retry"] for event in batch.events("job_failed")] == [True]
    assert len(batch.events("step_done")) == STEPS


def test_a_hanging_ffmpeg_is_ended(batch: Batch) -> None:
    code, _, stderr = batch.run(before=partial(faults.stop_ffmpeg_at, "frames_done", 1, 3.0))
    assert code == 1
    assert "hangs" in stderr


def test_out_of_memory_is_tried_once_more_with_less(batch: Batch, reference: dict[str, str]) -> None:
    code, _, stderr = batch.run(before=partial(faults.out_of_memory, 1))
    assert code == 0
    assert "out of memory" in stderr
    assert batch.digests() == reference


def test_one_job_out_of_memory_is_a_failed_job_in_a_batch_and_exit_4_alone(
    tmp_path: Path, model: Path
) -> None:
    alone, two = tmp_path / "alone", tmp_path / "two"
    alone.mkdir()
    two.mkdir()
    assert Batch(alone, model).run(before=partial(faults.out_of_memory, 2))[0] == 4
    both = Batch(two, model, ("a red ball", "a blue ball"))
    assert both.run(before=partial(faults.out_of_memory, 2))[0] == 1
    assert len(both.clips()) == 1


@pytest.mark.parametrize("damage", ["flip", "truncate"])
def test_a_damaged_checkpoint_is_said_and_that_job_done_again(
    batch: Batch, reference: dict[str, str], damage: str
) -> None:
    assert batch.run(before=partial(faults.signal_at, "step_done", 4, signal.SIGTERM))[0] == 143
    (file,) = batch.out.glob(".veo/*/step.safetensors")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data if damage == "flip" else data[: len(data) // 2])
    code, _, stderr = batch.run()
    assert code == 0
    assert "damaged" in stderr
    assert batch.events("job_started")[-1]["next_step"] == 0
    assert batch.digests() == reference


def test_a_mixed_batch(tmp_path: Path, model: Path) -> None:
    prompts = ("a red ball", "a broken ball", "a blue ball")
    mixed = Batch(tmp_path, model, prompts)
    code, stdout, stderr = mixed.run(before=partial(faults.fail_prompt, "broken"))
    assert code == 1
    assert [Path(line).is_file() for line in stdout.splitlines()] == [True, True]
    assert "a broken ball" in stderr
    (failure,) = mixed.events("job_failed")
    assert failure["code"] == "quality_gate"
    assert (
        mixed.events("run_done")[0] | {"done": 2, "failed": 1, "exit_code": 1} == mixed.events("run_done")[0]
    )

    code, stdout, _ = mixed.run("--json")
    assert code == 0
    states = [json.loads(line)["state"] for line in stdout.splitlines()]
    assert sorted(states) == ["done", "skipped", "skipped"]


def test_fail_fast_ends_after_the_first_failure(tmp_path: Path, model: Path) -> None:
    mixed = Batch(tmp_path, model, ("a broken ball", "a red ball"))
    assert mixed.run("--fail-fast", before=partial(faults.fail_prompt, "broken"))[0] == 1
    assert mixed.clips() == []
    assert mixed.events("run_done")[0]["waiting"] == 1


def test_max_jobs_leaves_the_rest_for_the_next_run(tmp_path: Path, model: Path) -> None:
    two = Batch(tmp_path, model, ("a red ball", "a blue ball"))
    assert two.run("--max-jobs", "1")[0] == 0
    assert len(two.clips()) == 1
    assert two.run("--max-jobs", "1")[0] == 0
    assert len(two.clips()) == 2


def test_the_deadline_checkpoints_the_running_job(batch: Batch, reference: dict[str, str]) -> None:
    begin = time.monotonic()
    code, _, stderr = batch.run("--deadline", "6s", before=partial(faults.slow_steps, 3.0))
    assert code == 5
    assert time.monotonic() - begin < 15
    assert "deadline" in stderr
    done = len(batch.events("step_done"))
    assert 0 < done < STEPS
    assert batch.run()[0] == 0
    assert len(batch.events("step_done")) == STEPS
    assert batch.digests() == reference


def test_no_job_starts_that_would_not_finish(tmp_path: Path, model: Path) -> None:
    three = Batch(tmp_path, model, ("a red ball", "a blue ball", "a green ball"))
    code, _, _ = three.run("--deadline", "10s", before=partial(faults.slow_steps, 1.0))
    assert code == 5
    assert len(three.clips()) == len(three.events("job_started")) == 1
    assert three.run()[0] == 0
    assert len(three.clips()) == 3


def test_each_model_is_loaded_once_and_sampling_goes_on_while_the_encoder_works(
    tmp_path: Path, model: Path
) -> None:
    other = make_wan21(tmp_path / "other", seed=1)
    four = Batch(tmp_path, model, ("a red ball", "a blue ball", "a red ball", "a blue ball"))
    for name in ("1.yaml", "3.yaml"):
        path = four.jobs / name
        path.write_text(path.read_text().replace(str(model), str(other)))

    arguments = [argument for argument in four.arguments() if argument != "--in-order"]
    assert run(arguments, four.folder)[0] == 0
    models = [event["model"] for event in four.events("job_started")]
    assert models in ([str(model)] * 2 + [str(other)] * 2, [str(other)] * 2 + [str(model)] * 2)
    assert [event["stage"] for event in four.events("stage_started")].count("load") == 2
    told = [event["event"] for event in four.events() if event["event"] in ("job_started", "job_done")]
    assert told[:3] == ["job_started", "job_started", "job_done"]
    assert len(four.clips()) == 4

    assert four.run("--force")[0] == 0  # which --in-order makes load at every job
    assert [event["stage"] for event in four.events("stage_started")].count("load") == 2 + 4


def test_a_clip_is_in_place_and_its_time_told_before_the_next_job_ends(tmp_path: Path, model: Path) -> None:
    two = Batch(tmp_path, model, ("a red ball", "a blue ball"))
    assert two.run(before=partial(faults.slow_steps, 1.0))[0] == 0
    names = [(event["event"], event.get("job_id")) for event in two.events()]
    first, second = (event["job_id"] for event in two.events("job_started"))
    steps_of_second = [i for i, name in enumerate(names) if name == ("step_done", second)]
    assert names.index(("job_done", first)) < steps_of_second[-1]
    for done in two.events("job_done"):
        assert done["seconds"] < 1.3 * sum(done["stage_seconds"].values()) + 1


def test_a_damaged_clip_is_rendered_again(batch: Batch, reference: dict[str, str]) -> None:
    assert batch.run()[0] == 0
    (clip,) = batch.out.glob("*.mp4")
    clip.write_bytes(b"junk")
    assert batch.run()[0] == 0
    assert batch.digests() == reference
    assert clip.stat().st_size > 100


def test_two_processes_on_one_folder(batch: Batch) -> None:
    first = batch.start(before=partial(faults.slow_steps, 1.0))
    first.wait_for(lambda: bool(batch.events("step_done")))
    code, _, stderr = batch.run()
    assert code == 4
    assert f"pid {first.pid}" in stderr
    (refused,) = batch.events("run_refused")
    assert (refused["exit_code"], refused["code"]) == (4, "folder_locked")
    waiting = batch.start("--wait")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert waiting.wait() == 0
    assert len(batch.clips()) == 1


def test_a_killed_run_leaves_no_ffmpeg_behind(batch: Batch) -> None:
    import psutil

    veo = batch.start(before=partial(faults.at_event, "frames_done", 1, partial(time.sleep, 60)))
    veo.wait_for(lambda: bool(batch.events("frames_done")))
    children = psutil.Process(veo.pid).children(recursive=True)
    assert children
    os.kill(veo.pid, signal.SIGKILL)
    veo.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


@pytest.mark.slow
def test_twenty_kills(tmp_path: Path) -> None:
    report = crash_matrix.run(20, 1, tmp_path)
    assert report.kills == 20
