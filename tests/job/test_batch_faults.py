"""What goes wrong in one place of a batch stays there, is said, and is in the events and the exit code."""

from __future__ import annotations

import errno
import signal
import subprocess
from functools import partial
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.job import faults
from tests.job.batch_folder import STEPS, Batch


def test_an_ffmpeg_that_gives_up_is_a_failed_job_with_its_reason(
    batch: Batch, reference: dict[str, str]
) -> None:
    code, stdout, stderr = batch.run("--retries", "1", before=faults.ffmpeg_exits_1)
    assert (code, stdout) == (1, "")
    assert "Error while opening encoder" in stderr
    failures = batch.events("job_failed")
    assert [(f["code"], f["attempt"], f["will_retry"]) for f in failures] == [
        ("encode_failed", 1, True),
        ("encode_failed", 2, False),
    ]
    assert all("latents" in failure["kept"] for failure in failures)
    assert [name for name in batch.strays() if name.endswith(".part")] == []
    assert batch.run()[0] == 0
    assert batch.digests() == reference
    assert len(batch.events("step_done")) == STEPS


def test_a_bug_in_one_job_leaves_the_others_alone_and_is_exit_3(tmp_path: Path, model: Path) -> None:
    mixed = Batch(tmp_path, model, ("a red ball", "a cursed ball", "a broken ball", "a blue ball"))

    code, stdout, stderr = mixed.run(before=_bug_and_failure)
    assert code == 3  # which outweighs the 1 of the broken one
    assert len(stdout.splitlines()) == 2
    assert "Traceback (most recent call last)" in stderr
    assert "TypeError: made by the test" in stderr
    assert {failure["code"] for failure in mixed.events("job_failed")} == {"bug", "quality_gate"}
    listed = [line for line in stderr.splitlines() if line.startswith("error: ") and "/out/" in line]
    assert len(listed) == 2  # what failed, named once more at the end
    ended = mixed.events("run_done")[0]
    assert (ended["exit_code"], ended["done"], ended["failed"], ended["waiting"]) == (3, 2, 2, 0)


def _bug_and_failure() -> None:
    faults.fail_prompt("broken")
    faults.bug_in_prompt("cursed")


def test_a_full_disk_under_the_first_clip_keeps_the_second_ones_sample(tmp_path: Path, model: Path) -> None:
    # The first clip is put in place while the second one's encoder is at work.
    three = Batch(tmp_path, model, ("a red ball", "a blue ball", "a green ball"))
    code, stdout, stderr = three.run(before=partial(faults.fail_publish, errno.ENOSPC))
    assert (code, stdout) == (4, "")
    assert "no space left" in stderr
    assert [name for name in three.strays() if not name.endswith(".safetensors")] == []
    (stopped,) = three.events("job_stopped")
    assert stopped["reason"] == "disk_full"
    assert "latents" in stopped["kept"]
    ended = three.events("run_done")[0]
    assert (ended["exit_code"], ended["failed"], ended["waiting"]) == (4, 1, 2)

    assert three.run()[0] == 0
    assert len(three.clips()) == 3
    assert len(three.events("step_done")) == 3 * STEPS
    assert three.strays() == []


def test_what_a_kill_before_the_clean_up_left_is_cleaned_by_the_next_run(batch: Batch) -> None:
    veo = batch.start(before=faults.killed_before_clean_up)
    assert veo.wait() == -signal.SIGKILL
    assert len(batch.clips()) == 1
    part = batch.out / (batch.clips()[0] + ".part")
    part.write_bytes(b"half")
    assert batch.run()[0] == 0
    assert [event["event"] for event in batch.events()][-3:] == ["run_started", "job_skipped", "run_done"]
    assert [path for path in (batch.out / ".veo").iterdir() if path.is_dir()] == []
    assert not part.exists()


def test_a_full_disk_under_events_and_metrics_is_said_once_and_costs_no_clip(batch: Batch) -> None:
    batch.events_file = Path("/dev/full")
    code, stdout, stderr = batch.run("--metrics", "/proc/veo.prom")
    assert code == 0
    assert len(stdout.splitlines()) == len(batch.clips()) == 1
    assert stderr.count("the run goes on") == 2
    assert "/dev/full" in stderr
    assert "/proc/veo.prom" in stderr


def test_a_run_that_is_refused_says_so_in_events_and_metrics(batch: Batch) -> None:
    metrics = batch.folder / "veo.prom"
    code, stdout, stderr = batch.run("--device", "cuda:63", "--metrics", str(metrics))
    assert (code, stdout) == (4, "")
    (refused,) = batch.events()
    assert (refused["event"], refused["exit_code"], refused["code"]) == ("run_refused", 4, "environment")
    assert refused["faults"][0].splitlines()[0] in stderr
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(metrics.read_text())
        for sample in family.samples
    }
    assert samples["veo_last_exit_code"] == 4
    assert samples["veo_last_success_timestamp_seconds"] == 0


def test_stdout_is_for_xargs(tmp_path: Path, model: Path) -> None:
    two = Batch(tmp_path, model, ("a red ball, with 'quotes'", "a blue ball"))
    for _ in range(2):  # rendered, then skipped
        code, stdout, _ = two.run("--quiet")
        assert code == 0
        listed = subprocess.run(
            ["xargs", "-n1", "ls"], input=stdout, capture_output=True, text=True, check=True
        )
        assert sorted(listed.stdout.splitlines()) == [str(two.out / name) for name in two.clips()]
