"""Faults that tests inject into a veo process before it starts its work (see forked_veo)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable


def at_event(name: str, count: int, act: Callable[[], None]) -> None:
    """Call `act` when the `count`-th (from 1) event of that name is told; "stage_started:decode" names a stage."""
    from veo_cli import events

    seen = 0
    tell = events.Listeners.__call__

    def told(self: events.Listeners, event: events.Event) -> None:
        nonlocal seen
        tell(self, event)
        if name in (event.name, f"{event.name}:{getattr(event, 'stage', '')}"):
            seen += 1
            if seen == count:
                act()

    events.Listeners.__call__ = told  # type: ignore[method-assign]


def raise_signal(number: int) -> None:
    os.kill(os.getpid(), number)


def signal_ffmpeg(number: int) -> None:
    """Send a signal to every child process."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        child.send_signal(number)


def signal_at(name: str, count: int, number: int) -> None:
    at_event(name, count, lambda: raise_signal(number))


def kill_ffmpeg_at(name: str, count: int) -> None:
    at_event(name, count, lambda: signal_ffmpeg(signal.SIGKILL))


def stop_ffmpeg_at(name: str, count: int, stall_timeout_s: float) -> None:
    """Freeze ffmpeg, and wait less long than usual for it."""
    from veo_cli import ffmpeg

    ffmpeg.STALL_TIMEOUT_S = stall_timeout_s
    at_event(name, count, lambda: signal_ffmpeg(signal.SIGSTOP))


def fail_call(call: str, count: int, code: int) -> None:
    """The `count`-th call of durable_file.`call` ("write_all", "fsync", "rename") fails with errno `code`."""
    from veo_cli import durable_file

    real = getattr(durable_file, call)
    calls = 0

    def maybe_fail(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == count:
            raise OSError(code, os.strerror(code))
        return real(*arguments)

    setattr(durable_file, call, maybe_fail)


def slow_steps(seconds: float) -> None:
    """Every denoising step takes this much longer."""
    from veo_cli import events

    tell = events.Listeners.__call__

    def told(self: events.Listeners, event: events.Event) -> None:
        tell(self, event)
        if event.name == "step_done":
            time.sleep(seconds)

    events.Listeners.__call__ = told  # type: ignore[method-assign]


def out_of_memory(times: int) -> None:
    """The first `times` denoising runs end with torch's out-of-memory error."""
    import torch

    from veo_cli.models.wan import WanModel

    real = WanModel.denoise
    runs = 0

    def denoise(self, *arguments, **named):  # type: ignore[no-untyped-def]
        nonlocal runs
        runs += 1
        if runs <= times:
            raise torch.OutOfMemoryError("CUDA out of memory (simulated)")
        return real(self, *arguments, **named)

    WanModel.denoise = denoise  # type: ignore[method-assign]


def fail_prompt(word: str) -> None:
    """Jobs whose prompt has `word` in it give latents that are not numbers."""
    from veo_cli.models.wan import WanModel
    from veo_cli.values import Latents

    real = WanModel.denoise

    def denoise(self, job, text, **named):  # type: ignore[no-untyped-def]
        latents = real(self, job, text, **named)
        return Latents(latents.tensor * float("nan")) if word in job.prompt else latents

    WanModel.denoise = denoise  # type: ignore[method-assign]


def ffmpeg_exits_1() -> None:
    """The encoder takes a little of the first frame, says why it can't go on, and ends with 1."""
    from veo_cli.stages.video_encode import VideoEncoder

    script = 'head -c 100 > /dev/null; echo "Error while opening encoder" >&2; exit 1'
    VideoEncoder.command = lambda self, fps: ["/bin/sh", "-c", script]  # type: ignore[method-assign]


def fail_publish(code: int) -> None:
    """No clip can be given its final name."""
    from veo_cli import durable_file

    real = durable_file.rename

    def rename(source: os.PathLike[str], target: os.PathLike[str]) -> None:
        if os.fspath(target).endswith(".mp4"):
            raise OSError(code, os.strerror(code))
        real(source, target)

    durable_file.rename = rename


def killed_before_clean_up() -> None:
    """The process is killed when clip and sidecar are in place and the job's state is about to go."""
    from veo_cli.journal import JobJournal

    JobJournal.remove = lambda self: raise_signal(signal.SIGKILL)  # type: ignore[method-assign]


def bug_in_prompt(word: str) -> None:
    """Sampling a job whose prompt has `word` in it ends with an exception that nobody foresaw."""
    from veo_cli.models.wan import WanModel

    real = WanModel.denoise

    def denoise(self, job, text, **named):  # type: ignore[no-untyped-def]
        if word in job.prompt:
            raise TypeError("made by the test")
        return real(self, job, text, **named)

    WanModel.denoise = denoise  # type: ignore[method-assign]
