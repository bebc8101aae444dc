"""Telling a person how a run goes: a live display where stderr is a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from veo_cli.byte_size import in_words
from veo_cli.counted import counted
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
    StageDone,
    StageStarted,
    StepDone,
    StopAsked,
    Warned,
)
from veo_cli.exit_codes import ExitCode
from veo_cli.terminal import NORMAL, QUIET, Terminal, shorten, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

PLAIN_LINE_EVERY_S = 15.0  # a log should show that a long job is alive without growing by a line a step
_STAGE_WORDS = {
    "load": "loading the model",
    "text_encode": "reading the prompt",
    "denoise": "sampling",
    "decode": "decoding",
    "video_encode": "encoding",
}


class StepDisplay(Protocol):
    """What shows the running job between its first and last line.

    tag: which job of several at work; "" if it is the only one.
    """

    def run_started(self, num_jobs: int) -> None: ...

    def job_started(self, label: str, num_steps: int, next_step: int) -> None: ...

    def stage_started(self, stage: str, tag: str) -> None: ...

    def advanced(self, stage: str, done: int, total: int, seconds: float | None) -> None: ...

    def jobs_ended(self, count: int) -> None: ...


class RunProgress:
    """A Listener: results to stdout (paths, or JSON with --json), all else to stderr."""

    def __init__(self, terminal: Terminal, display: StepDisplay) -> None:
        self._terminal = terminal
        self._display = display
        self._num_jobs = 0
        self._positions: dict[str, int] = {}  # job_id -> 1, 2, ... in order of starting
        self._at_work: set[str] = set()  # job_ids: a clip is encoded while the next one is sampled
        self._skipped = 0  # told of before the first job starts
        self._ended = 0
        self._failures: list[JobFailed] = []

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._run_started(event)
            case JobStarted():
                self._job_started(event)
            case JobSkipped():
                self._skipped += 1
                self._end_one()
                self._result("skipped", event, event.output)
            case StageStarted():
                tag = self._tag(event.job_id) if len(self._at_work) > 1 else ""
                self._display.stage_started(event.stage, tag)
            case StepDone():
                self._display.advanced("denoise", event.step + 1, event.num_steps, event.seconds)
            case FramesDone():
                self._display.advanced("decode", event.frames_done, event.num_frames, None)
            case StageDone():
                self._terminal.detail(
                    f"{self._tag(event.job_id)} {_STAGE_WORDS[event.stage]}: {duration(event.seconds)}"
                )
            case JobDone():
                self._job_done(event)
            case JobFailed():
                self._job_failed(event)
            case JobStopped():
                self._at_work.discard(event.job_id)
                self._terminal.note(
                    f"{self._tag(event.job_id)} stopped ({event.reason}): {visible(event.output)}"
                )
                self._terminal.note(f"  kept: {event.kept or 'nothing yet'}")
                self._json("stopped", event)
            case StopAsked():
                again = " (Ctrl-C again ends at once)" if event.reason == "interrupted" else ""
                self._terminal.note(f"{event.reason}: ending at the next safe point{again}")
            case Warned():
                tag = f"{self._tag(event.job_id)} " if event.job_id in self._positions else ""
                self._terminal.warning(tag + event.message)
            case RunDone():
                self._run_done(event)

    def _run_started(self, event: RunStarted) -> None:
        self._num_jobs = event.num_jobs
        on_device = f" on {event.device}" if event.device else ""
        self._terminal.note(
            f"{counted(event.num_jobs, 'clip')} into {visible(event.output_folder)}{on_device}"
        )
        self._terminal.detail(", ".join(f"{name} {version}" for name, version in event.versions.items()))
        self._display.run_started(event.num_jobs)

    def _job_started(self, event: JobStarted) -> None:
        self._at_work.add(event.job_id)
        is_new = event.job_id not in self._positions
        self._positions.setdefault(event.job_id, self._skipped + len(self._positions) + 1)
        label = f"{self._tag(event.job_id)} {shorten(event.prompt, 60)}"
        if is_new:
            self._terminal.note(f"{label} ({event.model}, seed {event.seed})")
        if event.attempt > 1:
            self._terminal.note(f"{self._tag(event.job_id)} attempt {event.attempt}")
        if event.resumed_from == "step":
            self._terminal.note(
                f"{self._tag(event.job_id)} going on after step {event.next_step} of {event.num_steps}"
            )
        elif event.resumed_from == "latents":
            self._terminal.note(
                f"{self._tag(event.job_id)} sampled before; only decoding and encoding are left"
            )
        self._display.job_started(label, event.num_steps, event.next_step)

    def _job_done(self, event: JobDone) -> None:
        self._at_work.discard(event.job_id)
        self._end_one()
        facts = f"{in_words(event.size_bytes)}; peak memory {in_words(event.peak_rss_bytes)}"
        if event.peak_vram_bytes:
            facts += f", on the GPU {in_words(event.peak_vram_bytes)}"
        self._terminal.note(f"{self._tag(event.job_id)} done in {duration(event.seconds)} ({facts})")
        self._result("done", event, event.output)

    def _job_failed(self, event: JobFailed) -> None:
        self._at_work.discard(event.job_id)
        self._terminal.error(f"{self._tag(event.job_id)} {event.message}")
        if event.kept:
            self._terminal.note(f"  kept: {event.kept}")
        if event.will_retry:
            self._terminal.note(f"{self._tag(event.job_id)} will be tried again")
            return
        self._end_one()
        self._failures.append(event)
        self._json("failed", event)

    def _run_done(self, event: RunDone) -> None:
        counts = {
            "done": event.done,
            "there already": event.skipped,
            "failed": event.failed,
            "not finished": event.waiting,
        }
        said = ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "nothing to do"
        if self._num_jobs > 1 or event.waiting or event.skipped:
            why = "; stopped at the deadline" if event.exit_code == ExitCode.DEADLINE else ""
            self._terminal.note(f"{said}, in {duration(event.seconds)}{why}")
        if len(self._failures) > 1:
            for failure in self._failures:
                first_line = failure.message.partition("\n")[0]
                self._terminal.error(f"{visible(failure.output)}: {failure.code}: {first_line}")
        if event.waiting:
            self._terminal.note("run the same command again to go on")

    def _result(self, state: str, event: Event, output: str) -> None:
        if self._terminal.json:
            self._json(state, event)
        else:
            self._terminal.result(output)

    def _json(self, state: str, event: Event) -> None:
        if self._terminal.json:
            self._terminal.result_json({"state": state, **event.fields()})

    def _end_one(self) -> None:
        self._ended += 1
        self._display.jobs_ended(self._ended)

    def _tag(self, job_id: str) -> str:
        position = self._positions.get(job_id)
        return f"[{position}/{self._num_jobs}]" if position else f"[{job_id[:8]}]"


class PlainLines:
    """A StepDisplay of whole lines: one at a stage's start, then one every PLAIN_LINE_EVERY_S."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._said_at = time.monotonic()
        self._rate = _Rate()

    def run_started(self, num_jobs: int) -> None:
        pass

    def job_started(self, label: str, num_steps: int, next_step: int) -> None:
        self._rate = _Rate()
        self._said_at = time.monotonic()

    def stage_started(self, stage: str, tag: str) -> None:
        self._terminal.note(f"{tag or ' '} {_STAGE_WORDS[stage]}")

    def advanced(self, stage: str, done: int, total: int, seconds: float | None) -> None:
        self._rate.learn(seconds)
        now = time.monotonic()
        if now - self._said_at < PLAIN_LINE_EVERY_S or done == total:
            return
        self._said_at = now
        what = "step" if stage == "denoise" else "frame"
        pace = self._rate.words(total - done) if stage == "denoise" else ""
        self._terminal.note(f"  {what} {done} of {total}{pace}")

    def jobs_ended(self, count: int) -> None:
        pass


class LiveBars:
    """A StepDisplay of two bars at the bottom of the terminal: all jobs, and the running one."""

    def __init__(self, terminal: Terminal) -> None:
        from rich.console import Console

        self._console: Console = Console(
            file=terminal.stderr,
            force_terminal=True,
            no_color=not terminal.has_color,
            highlight=False,
            legacy_windows=False,
        )
        self._progress = self._new_progress()
        self._jobs = self._progress.add_task("clips", total=None, visible=False, right="")
        self._job = self._progress.add_task("", total=None, visible=False, right="")
        self._rate = _Rate()

    # LiveDisplay

    def start(self) -> None:
        from rich.live import Live

        # A Live started again would first erase as many lines as it drew last; by then those are our notes.
        self._live = Live(
            console=self._console,
            get_renderable=self._progress.get_renderable,
            transient=True,
            redirect_stdout=False,  # stdout is for results and may be another file
            redirect_stderr=False,
            refresh_per_second=4,
        )
        self._live.start()

    def stop(self) -> None:
        self._live.stop()

    # StepDisplay

    def run_started(self, num_jobs: int) -> None:
        self._progress.update(self._jobs, total=num_jobs, visible=num_jobs > 1, right=f"0 of {num_jobs}")
        self._num_jobs = num_jobs

    def job_started(self, label: str, num_steps: int, next_step: int) -> None:
        self._rate = _Rate()
        self._progress.update(
            self._job, description=label, completed=next_step, total=num_steps, visible=True, right=""
        )

    def stage_started(self, stage: str, tag: str) -> None:
        if stage != "video_encode":  # that one is the last job's, while this one goes on
            self._progress.update(self._job, right=_STAGE_WORDS[stage])

    def advanced(self, stage: str, done: int, total: int, seconds: float | None) -> None:
        self._rate.learn(seconds)
        pace = self._rate.words(total - done) if stage == "denoise" else ""
        right = f"{_STAGE_WORDS[stage]} {done}/{total}{pace}, {memory_now()}"
        self._progress.update(self._job, completed=done, total=total, right=right)

    def jobs_ended(self, count: int) -> None:
        self._progress.update(self._jobs, completed=count, right=f"{count} of {self._num_jobs}")

    def _new_progress(self) -> Progress:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        # On a narrow terminal the prompt gives way, then the bar: speed and time left are what is looked at.
        label = Column(no_wrap=True, overflow="ellipsis", ratio=1, min_width=8)
        figures = Column(no_wrap=True, overflow="ellipsis")
        bar_width = 20 if self._console.width >= 110 else 8
        return Progress(
            TextColumn("{task.description}", markup=False, table_column=label),
            BarColumn(bar_width=bar_width, table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[right]}", markup=False, table_column=figures),
            console=self._console,
            expand=True,
        )


class Silence:
    """A StepDisplay for -q."""

    def run_started(self, num_jobs: int) -> None:
        pass

    def job_started(self, label: str, num_steps: int, next_step: int) -> None:
        pass

    def stage_started(self, stage: str, tag: str) -> None:
        pass

    def advanced(self, stage: str, done: int, total: int, seconds: float | None) -> None:
        pass

    def jobs_ended(self, count: int) -> None:
        pass


@contextmanager
def watching(terminal: Terminal) -> Iterator[RunProgress]:
    """The listener that suits this terminal and verbosity; its display is taken away at the block's end."""
    if terminal.verbosity <= QUIET:
        yield RunProgress(terminal, Silence())
    elif terminal.is_live and terminal.verbosity == NORMAL:
        bars = LiveBars(terminal)
        with terminal.displaying(bars):
            yield RunProgress(terminal, bars)
    else:
        yield RunProgress(terminal, PlainLines(terminal))


class _Rate:
    """Seconds a step, smoothed so that the time left does not jump about."""

    def __init__(self) -> None:
        self._seconds: float | None = None

    def learn(self, seconds: float | None) -> None:
        if seconds is not None:
            self._seconds = seconds if self._seconds is None else 0.7 * self._seconds + 0.3 * seconds

    def words(self, steps_left: int) -> str:
        if not self._seconds:
            return ""
        left = duration(self._seconds * steps_left)
        return f", {1 / self._seconds:.2f} step/s, {left} left"


def memory_now() -> str:
    """Memory in use by this process: the host's, and the GPUs' where one is in use."""
    import psutil

    text = in_words(psutil.Process().memory_info().rss)
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        gpus = range(torch.cuda.device_count())
        text += f", GPU {in_words(sum(torch.cuda.memory_reserved(gpu) for gpu in gpus))}"
    return text


def duration(seconds: float) -> str:
    """For people: 0.4 s, 52 s, 3 min 12 s, 2 h 05 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
