"""What `status` and `clean` find in folders that runs were disturbed in."""

from __future__ import annotations

import json
import os
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.forked_veo import run
from tests.job import faults
from tests.job.batch_folder import Batch
from veo_cli import durable_file, error_boundary
from veo_cli.folder_lock import folder_lock
from veo_cli.folder_status import leftovers, read_status, remove
from veo_cli.journal import JobJournal, JobRecord, QueuedJob, write_queue


def states(folder: Path) -> list[str]:
    return [job.state for job in read_status(folder)]


def begun(folder: Path, job_id: str, state: str) -> None:
    record = JobRecord(job_id, str(folder / f"{job_id}.mp4"), "a ball", "wan", state, 6, 1)  # type: ignore[arg-type]
    JobJournal(folder, job_id, pytest.fail).write_record(record)


def test_a_terminated_batch_has_done_stopped_and_waiting_jobs(tmp_path: Path, model: Path) -> None:
    three = Batch(tmp_path, model, ("a red ball", "a blue ball", "a green ball"))
    elsewhere = tmp_path / "elsewhere" / "red.mp4"
    first = three.jobs / "0.yaml"
    first.write_text(first.read_text() + f"output: {elsewhere}\n")
    stop = partial(faults.signal_at, "step_done", 6 + 3, signal.SIGTERM)  # in the second job
    assert three.run(before=stop)[0] == 143
    done, stopped, waiting = read_status(three.out)
    assert (done.state, done.output) == ("done", str(elsewhere))
    assert (stopped.state, stopped.kept) == ("stopped", "3 of 6 steps")
    assert "terminated" in stopped.reason
    assert (waiting.state, waiting.reason) == ("waiting", "the last run ended before its turn")
    assert waiting.output.startswith(str(three.out / "2-a-green-ball"))

    code, stdout, stderr = run(["status", str(three.out)], three.folder)
    assert code == 0
    assert [line.split()[0] for line in stdout.splitlines()] == ["STATE", "done", "stopped", "waiting"]
    assert "1 done, 1 stopped, 1 waiting" in stderr

    assert run(["clean", "--yes", str(three.out)], three.folder)[0] == 0
    assert states(three.out) == ["done", "waiting", "waiting"]
    assert three.run()[0] == 0
    assert states(three.out) == ["done", "done", "done"]
    assert {event["next_step"] for event in three.events("job_started")[-2:]} == {0}


def test_running_is_believed_only_of_a_locked_folder(tmp_path: Path) -> None:
    begun(tmp_path, "ab" * 32, "running")
    write_queue(tmp_path, [QueuedJob("cd" * 32, str(tmp_path / "next.mp4"))])
    with folder_lock(tmp_path, wait=False):
        child = os.fork()
        if child == 0:  # the lock is seen from another process
            os._exit(0 if states(tmp_path) == ["running", "waiting"] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    killed, waiting = read_status(tmp_path)
    assert (killed.state, killed.reason) == ("stopped", "the run was killed")
    assert waiting.state == "waiting"


def test_clips_are_shown_below_the_folder_as_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path / "clips", "ab" * 32, "failed")
    write_queue(tmp_path / "clips", [QueuedJob("cd" * 32, str(tmp_path / "clips" / "next.mp4"))])
    monkeypatch.chdir(tmp_path)
    assert [Path(job.output).parent for job in read_status(Path("clips"))] == [Path("clips")] * 2


def test_a_damaged_or_foreign_queue_costs_only_the_waiting_jobs(tmp_path: Path) -> None:
    begun(tmp_path, "ab" * 32, "failed")
    write_queue(tmp_path, [QueuedJob("cd" * 32, str(tmp_path / "next.mp4"))])
    queue = tmp_path / ".veo" / "queue"
    queue.write_bytes(queue.read_bytes()[:-3])
    assert states(tmp_path) == ["failed"]
    durable_file.replace_checked(queue, b'[{"job_id": "cd", "output": "next.mp4", "priority": 3}]')
    assert states(tmp_path) == ["failed"]


def test_clean_takes_only_what_is_veos(tmp_path: Path) -> None:
    begun(tmp_path, "ab" * 32, "failed")
    below, elsewhere = tmp_path / "shots", tmp_path.with_name(tmp_path.name + "-elsewhere")
    below.mkdir()
    elsewhere.mkdir()
    write_queue(tmp_path, [QueuedJob("cd" * 32, str(elsewhere / "any name.mp4"))])
    ours = [
        tmp_path / ".veo" / ("ab" * 32),
        below / "a-boat-7-0123abcd.mp4.part",
        below / "a-boat-7-0123abcd.json.part",
        elsewhere / "any name.mp4.part",
    ]
    theirs = [
        tmp_path / "download.mp4.part",
        tmp_path / "a-boat-7-0123abcd.mp4",
        tmp_path / "a-boat-7-0123abcd.json",
        elsewhere / "other.mp4.part",
    ]
    for path in ours[1:] + theirs:
        path.write_text("x")
    assert sorted(item.path for item in leftovers(tmp_path)) == sorted(ours)
    remove(item.path for item in leftovers(tmp_path))
    assert leftovers(tmp_path) == []
    assert all(path.exists() for path in theirs)


def test_clean_of_a_folder_that_veo_never_wrote_to_leaves_it_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a-boat-7-0123abcd.mp4.part").write_text("x")
    assert error_boundary.main(["clean", "--yes", str(tmp_path)]) == 0
    assert "nothing to remove" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a-boat-7-0123abcd.mp4.part"]


def test_status_reads_a_folder_that_is_not_ours_to_write(tmp_path: Path) -> None:
    # As another user sees it: the lock cannot be opened for writing.
    state = tmp_path / ".veo"
    state.mkdir()
    (state / "lock").mkdir()
    begun(tmp_path, "ab" * 32, "running")
    assert states(tmp_path) == ["stopped"]


def test_status_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun(tmp_path, "ab" * 32, "failed")
    assert error_boundary.main(["status", "--json", str(tmp_path)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["state"] == "failed"


def test_a_copied_folder_is_asked_about_its_own_clips(tmp_path: Path, model: Path) -> None:
    two = Batch(tmp_path, model, ("a red ball", "a blue ball"))
    assert two.run()[0] == 0
    copied = tmp_path / "copied"
    shutil.copytree(two.out, copied)
    gone = sorted(copied.glob("*.mp4"))[0]
    gone.unlink()
    told = read_status(copied)
    assert [job.state for job in told] == ["done", "waiting"]
    assert all(job.output.startswith(str(copied)) for job in told)
    assert states(two.out) == ["done", "done"]
