"""Event files hold whole lines, whatever was there before and whoever else writes."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest

from veo_cli.errors import EnvironmentFault
from veo_cli.events import CheckpointSaved, RunStarted, Warned
from veo_cli.events_file import EventsFile


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_line_says_version_time_run_and_event(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write = EventsFile(path, pytest.fail)
    write(RunStarted(2, "clips", "cpu", {"veo": "0.1"}, 12, "host"))
    write(Warned("text_cut", "zu lang: 红球", "ab"))
    write.close()
    first, second = lines(path)
    assert list(first)[:4] == ["v", "time", "run_id", "event"]
    assert (first["v"], first["event"], first["num_jobs"]) == (1, "run_started", 2)
    assert (second["event"], second["message"], second["job_id"]) == ("warned", "zu lang: 红球", "ab")
    assert first["run_id"] == second["run_id"]
    assert str(first["time"]).endswith("+00:00")


def test_half_a_line_of_a_killed_run_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"v": 1, "event": "ru')
    write = EventsFile(path, pytest.fail)
    write(CheckpointSaved("ab", 3))
    torn, whole = path.read_text().splitlines()
    assert torn == '{"v": 1, "event": "ru'
    assert json.loads(whole)["next_step"] == 3


def test_two_writers_do_not_mix_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    message = "x" * 5000

    def write_many() -> None:
        write = EventsFile(path, pytest.fail)
        for _ in range(100):
            write(Warned("w", message))

    threads = [threading.Thread(target=write_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines(path)) == 400
    assert len({line["run_id"] for line in lines(path)}) == 4


def test_a_disk_that_is_full_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.jsonl"
    warnings: list[str] = []
    write = EventsFile(path, warnings.append)
    real = os.write

    def half(descriptor: int, data: bytes) -> int:
        return real(descriptor, data[:20])

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for fault in (half, full):
        monkeypatch.setattr(os, "write", fault)
        write(CheckpointSaved("ab", 1))
    monkeypatch.setattr(os, "write", real)
    write(CheckpointSaved("ab", 2))
    write(CheckpointSaved("ab", 3))
    torn, *whole = path.read_text().splitlines()
    assert len(torn) == 20
    assert [json.loads(line)["next_step"] for line in whole] == [2, 3]
    assert len(warnings) == 1
    assert str(path) in warnings[0]


def test_a_file_that_cannot_be_opened_is_known_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="/proc/run"):
        EventsFile(Path("/proc/run.jsonl"), pytest.fail)


def test_no_folder_is_made_for_a_mistyped_path(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"there is no folder .*/logz"):
        EventsFile(tmp_path / "logz" / "run.jsonl", pytest.fail)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_events_file(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="it is a folder"):
        EventsFile(tmp_path, pytest.fail)
