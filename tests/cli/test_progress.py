"""What a run says: plain lines, the live display on a terminal, JSON, -q."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from typing import get_args

import pytest

from veo_cli import progress
from veo_cli.events import (
    Event,
    FramesDone,
    JobDone,
    JobFailed,
    JobSkipped,
    JobStarted,
    JobStopped,
    RunDone,
    RunStarted,
    Stage,
    StageStarted,
    StepDone,
    StopAsked,
    Warned,
)
from veo_cli.stop import StopRequest
from veo_cli.terminal import QUIET, VERBOSE, Terminal

IDS = ["a" * 64, "b" * 64, "c" * 64]


def started(number: int, *, attempt: int = 1, resumed_from: str = "start", next_step: int = 0) -> JobStarted:
    return JobStarted(
        IDS[number],
        f"{number}.mp4",
        "veo-mini",
        f"prompt {number}",
        7,
        4,
        9,
        attempt,
        resumed_from,
        next_step,
    )  # type: ignore[arg-type]


def done(number: int) -> JobDone:
    return JobDone(IDS[number], f"{number}.mp4", f"{number}.json", "veo-mini", 61.0, 9, 2048, 3 * 2**30, 0)


def run_of_three() -> Iterator[Event]:
    yield RunStarted(3, "clips", "cpu", {"veo": "0.1.0"}, 1, "host")
    yield JobSkipped(IDS[0], "0.mp4")
    yield started(1)
    yield StageStarted(IDS[1], "denoise")
    for step in range(4):
        yield StepDone(IDS[1], step, 4, 0.5, 1.0, 5.0)
    yield StageStarted(IDS[1], "decode")
    yield FramesDone(IDS[1], 5, 9)
    yield Warned("text_cut", "the prompt is long", IDS[1])
    yield started(2, resumed_from="step", next_step=2)
    yield StageStarted(IDS[1], "video_encode")
    yield done(1)
    yield JobFailed(
        IDS[2], "2.mp4", "veo-mini", "quality_gate", "all frames are black", "the latents", 1, False
    )
    yield RunDone(1, 1, 1, 1, 0, 62.5)


def tell(events: Iterable[Event], *, verbosity: int = 0, as_json: bool = False) -> tuple[str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    terminal = Terminal(stdout, stderr)
    terminal.verbosity, terminal.json = verbosity, as_json
    with progress.watching(terminal) as listener:
        for event in events:
            listener(event)
    return stdout.getvalue(), stderr.getvalue()


def test_plain_lines() -> None:
    stdout, stderr = tell(run_of_three())
    assert stdout == "0.mp4\n1.mp4\n"
    assert stderr.splitlines() == [
        "3 clips into clips on cpu",
        "[2/3] prompt 1 (veo-mini, seed 7)",
        "  sampling",
        "  decoding",
        "warning: [2/3] the prompt is long",
        "[3/3] prompt 2 (veo-mini, seed 7)",
        "[3/3] going on after step 2 of 4",
        "[2/3] encoding",
        "[2/3] done in 1 min 01 s (2.0 KiB; peak memory 3.0 GiB)",
        "error: [3/3] all frames are black",
        "  kept: the latents",
        "1 done, 1 there already, 1 failed, in 1 min 02 s",
    ]


def test_json_has_every_ended_job() -> None:
    stdout, _ = tell(run_of_three(), as_json=True)
    records = [json.loads(line) for line in stdout.splitlines()]
    assert [(record["state"], record["output"]) for record in records] == [
        ("skipped", "0.mp4"),
        ("done", "1.mp4"),
        ("failed", "2.mp4"),
    ]
    assert records[2]["code"] == "quality_gate"


def test_quiet_says_only_what_went_wrong() -> None:
    stdout, stderr = tell(run_of_three(), verbosity=QUIET)
    assert stdout == "0.mp4\n1.mp4\n"
    assert stderr == "warning: [2/3] the prompt is long\nerror: [3/3] all frames are black\n"


def test_verbose_names_versions() -> None:
    assert "veo 0.1.0" in tell(run_of_three(), verbosity=VERBOSE)[1].splitlines()


def test_long_jobs_show_that_they_are_alive_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    stdout, stderr = io.StringIO(), io.StringIO()
    with progress.watching(Terminal(stdout, stderr)) as listener:
        listener(RunStarted(1, "clips", "cpu", {}, 1, "host"))
        listener(started(1))
        listener(StageStarted(IDS[1], "denoise"))
        for step in range(100):
            now += 4.0
            listener(StepDone(IDS[1], step, 100, 4.0, 1.0, 5.0))
    lines = [line for line in stderr.getvalue().splitlines() if line.startswith("  step ")]
    assert (
        len(lines) == 24
    )  # 400 s, a line when 15 s are past, steps of 4 s: one every 16 s, none for the last step
    assert lines[0] == "  step 4 of 100, 0.25 step/s, 6 min 24 s left"


def test_failures_of_several_jobs_are_listed_at_the_end() -> None:
    def failed(number: int) -> JobFailed:
        return JobFailed(
            IDS[number], f"{number}.mp4", "m", "encode_failed", "ffmpeg died\n  retry", "", 1, False
        )

    events = [RunStarted(2, "clips", "cpu", {}, 1, "h"), failed(0), failed(1), RunDone(1, 0, 0, 2, 0, 1.0)]
    assert tell(events)[1].splitlines()[-2:] == [
        "error: 0.mp4: encode_failed: ffmpeg died",
        "error: 1.mp4: encode_failed: ffmpeg died",
    ]


def test_a_retry_is_said_and_is_not_a_failure() -> None:
    retried = JobFailed(IDS[0], "0.mp4", "m", "encode_failed", "ffmpeg died", "", 1, True)
    events = [RunStarted(1, "c", "cpu", {}, 1, "h"), started(0), retried, started(0, attempt=2), done(0)]
    stdout, stderr = tell(events, as_json=True)
    assert [json.loads(line)["state"] for line in stdout.splitlines()] == ["done"]
    assert "[1/1] will be tried again\n[1/1] attempt 2\n" in stderr


def test_a_stop_says_what_is_kept_and_how_to_go_on() -> None:
    stopped = JobStopped(IDS[0], "0.mp4", "interrupted", "12 of 24 steps")
    events = [RunStarted(1, "c", "cpu", {}, 1, "h"), started(0), stopped, RunDone(130, 0, 0, 0, 1, 9.0)]
    assert tell(events)[1].splitlines()[2:] == [
        "[1/1] stopped (interrupted): 0.mp4",
        "  kept: 12 of 24 steps",
        "1 not finished, in 9.0 s",
        "run the same command again to go on",
    ]


def test_a_signal_is_answered_at_once() -> None:
    events = [RunStarted(1, "c", "cpu", {}, 1, "h"), started(0), StopAsked("interrupted")]
    assert tell(events)[1].splitlines()[-1] == (
        "interrupted: ending at the next safe point (Ctrl-C again ends at once)"
    )


def test_ctrl_c_is_no_advice_to_who_sends_sigterm() -> None:
    events = [RunStarted(1, "c", "cpu", {}, 1, "h"), started(0), StopAsked("terminated")]
    assert tell(events)[1].splitlines()[-1] == "terminated: ending at the next safe point"


def test_the_last_line_of_a_run_out_of_time_says_so() -> None:
    stopped = JobStopped(IDS[0], "0.mp4", "deadline", "")
    events = [RunStarted(1, "c", "cpu", {}, 1, "h"), started(0), stopped, RunDone(5, 0, 0, 0, 1, 1.0)]
    assert tell(events)[1].splitlines()[-2] == "1 not finished, in 1.0 s; stopped at the deadline"


def test_stages_name_their_job_only_while_two_are_at_work() -> None:
    events = [
        RunStarted(2, "c", "cpu", {}, 1, "h"),
        started(0),
        StageStarted(IDS[0], "denoise"),
        started(1),
        StageStarted(IDS[0], "video_encode"),
        StageStarted(IDS[1], "denoise"),
        done(0),
        StageStarted(IDS[1], "decode"),
    ]
    said = [line for line in tell(events)[1].splitlines() if line.endswith("ing")]
    assert said == ["  sampling", "[1/2] encoding", "[2/2] sampling", "  decoding"]


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
)
def test_the_first_signal_is_told_while_the_step_goes_on(number: int, reason: str) -> None:
    told: list[str] = []
    is_told = threading.Event()

    def tell_it(text: str) -> None:
        told.append(text)
        is_told.set()

    stop = StopRequest(None, tell_it)
    with stop.listening():
        os.kill(os.getpid(), number)
        assert is_told.wait(10)
    assert told == [reason]


def test_without_a_signal_nothing_is_told_and_no_thread_is_left() -> None:
    told: list[str] = []
    with StopRequest(None, told.append).listening():
        (teller,) = (thread for thread in threading.enumerate() if thread.name == "signal-teller")
    teller.join(10)
    assert not teller.is_alive()
    assert told == []


class Screen:
    """A pseudo terminal, and what is left visible of what was written to it."""

    def __init__(self) -> None:
        self._main, child = pty.openpty()
        self.stream = os.fdopen(child, "w")
        self._bytes = b""

    @property
    def written(self) -> str:
        return self._bytes.decode()

    def read(self) -> str:
        """All that was written, once the display (drawn four times a second) has had time to show it."""
        give_up = time.monotonic() + 1.0
        while time.monotonic() < give_up:
            if select.select([self._main], [], [], 0.1)[0]:
                self._bytes += os.read(self._main, 65536)
        return self.written

    def lines(self) -> list[str]:
        """Enough of a terminal for what rich sends: newline, return, cursor up, erase line."""
        rows, row, column = [""], 0, 0
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", self.read()):
            if part == "\n":
                row += 1
                rows += [""] * (row + 1 - len(rows))
                column = 0
            elif part == "\r":
                column = 0
            elif part.startswith("\x1b["):
                count = int(part[2:-1]) if part[2:-1].isdigit() else 1
                if part.endswith("A"):
                    row = max(0, row - count)
                elif part.endswith("K"):
                    rows[row] = ""
            else:
                rows[row] = rows[row][:column].ljust(column) + part + rows[row][column + len(part) :]
                column += len(part)
        return [line.rstrip() for line in rows if line.strip()]

    def close(self) -> None:
        self.stream.close()
        os.close(self._main)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("LINES", "30")
    monkeypatch.delenv("NO_COLOR", raising=False)
    made = Screen()
    yield made
    made.close()


def test_live_display_shows_stage_speed_time_left_and_memory(screen: Screen) -> None:
    stdout = io.StringIO()
    terminal = Terminal(stdout, screen.stream)
    with progress.watching(terminal) as listener:
        for event in run_of_three():
            listener(event)
            if isinstance(event, StepDone) and event.step == 1:
                during = screen.lines()
    assert any(re.search(r"clips .* 1 of 3$", line) for line in during), during
    bar = next(line for line in during if "sampling 2/4" in line)
    assert re.search(r"\[2/3\] prompt 1 .*sampling 2/4, 2\.00 step/s, 1\.0 s left, [\d.]+ [MG]iB$", bar)
    assert stdout.getvalue() == "0.mp4\n1.mp4\n"  # results never carry the display
    after = screen.lines()
    assert after[0] == "3 clips into clips on cpu"
    assert not any("sampling" in line or "━" in line for line in after), "the display is taken away"
    assert after[-1] == "1 done, 1 there already, 1 failed, in 1 min 02 s"
    assert "\x1b[?25h" in screen.written[screen.written.rindex("\x1b[?25l") :], "the cursor is back"


def test_no_color_keeps_the_display_and_drops_the_colours(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with progress.watching(Terminal(io.StringIO(), screen.stream)) as listener:
        for event in run_of_three():
            listener(event)
            if isinstance(event, StepDone) and event.step == 1:
                assert "sampling 2/4" in screen.read()
    assert not re.search(r"\x1b\[[0-9;]*3[0-9](;[0-9;]*)?m", screen.written)


def test_every_stage_has_words_for_people() -> None:
    assert set(progress._STAGE_WORDS) == set(get_args(Stage))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (12.3, "12 s"),
        (59.6, "1 min 00 s"),
        (3599.7, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_duration(seconds: float, words: str) -> None:
    assert progress.duration(seconds) == words
