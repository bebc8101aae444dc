"""The queue: one process, one writer per output folder, models loaded once, every job accounted for.

    lock -> preflight -> for each job not done: sample and decode while the last job's encoder ends -> RunDone

How one attempt at a job goes is in job_runner.py; the stages of a job are in pipeline.py. Both bring torch along, and are
imported once there is something to render.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING

from veo_cli import preflight
from veo_cli.device import resolve_device
from veo_cli.errors import DeadlineReached, EnvironmentFault, OutOfMemory, Stopped, VeoError
from veo_cli.events import Event, JobSkipped, Listener, RunDone, RunRefused, RunStarted, StepDone, StopAsked
from veo_cli.exit_codes import ExitCode
from veo_cli.folder_lock import folder_lock
from veo_cli.folder_status import parts_of, remove
from veo_cli.journal import STATE_FOLDER, QueuedJob, write_queue
from veo_cli.pace import Pace
from veo_cli.plan import state_of
from veo_cli.resolve import ResolvedJob
from veo_cli.stop import StopRequest
from veo_cli.versions import versions

if TYPE_CHECKING:
    from veo_cli.pipeline import PendingClip

RETRY_WAIT_S = 2.0  # doubled at each further try
RETRY_WAIT_MAX_S = 60.0


@dataclass(frozen=True)
class BatchOptions:
    output_folder: Path
    device: str = "auto"
    retries: int = 0
    force: bool = False
    keep_going: bool = True
    deadline: datetime | None = None
    max_jobs: int | None = None
    in_order: bool = False
    shuffle: bool = False
    wait_for_lock: bool = False
    budget_bytes: int | None = None  # --max-vram


def run_batch(resolved_jobs: Sequence[ResolvedJob], options: BatchOptions, listener: Listener) -> ExitCode:
    """Render all jobs and return the exit code that says how it went.

    Raises FolderLocked when another process has the output folder, and what the preflight found. Everything that goes
    wrong after that is told to the listener and is in the exit code.
    """
    stop = StopRequest(options.deadline, lambda reason: listener(StopAsked(reason)))
    try:
        # Signals are heard from here on: an interrupt raised inside the imports that follow would be swallowed by them.
        with folder_lock(options.output_folder, wait=options.wait_for_lock), stop.listening():
            todo = _in_order(_not_done(resolved_jobs, options), options)
            device = resolve_device(options.device) if todo else ""
            preflight.check(todo[: options.max_jobs], options.output_folder, device, force=options.force)
            write_queue(options.output_folder, [_queued(resolved) for resolved in resolved_jobs])
            return _Batch(options, device, listener, stop).run(resolved_jobs, todo)
    except VeoError as error:
        listener(RunRefused(error.exit_code, error.code, tuple(str(fault) for fault in error.faults)))
        raise


def _not_done(resolved_jobs: Sequence[ResolvedJob], options: BatchOptions) -> list[ResolvedJob]:
    folder = options.output_folder
    return [resolved for resolved in resolved_jobs if options.force or state_of(resolved, folder) != "done"]


def _in_order(todo: list[ResolvedJob], options: BatchOptions) -> list[ResolvedJob]:
    """The order in which jobs run: by default the one that loads each model once."""
    if options.shuffle:
        return random.sample(todo, len(todo))
    if options.in_order:
        return todo
    return sorted(
        todo, key=lambda r: (r.job.model, repr(r.job.loras), r.job.sampler.width * r.job.sampler.height)
    )


def _queued(resolved: ResolvedJob) -> QueuedJob:
    return QueuedJob(resolved.job_id, os.path.abspath(resolved.output_path))


class _Batch:
    """The state of a run: its counts, the exit codes that apply, and the clip whose encoder is still at work."""

    def __init__(self, options: BatchOptions, device: str, listener: Listener, stop: StopRequest) -> None:
        self._options = options
        self._device = device
        self._listen = listener
        self._stop = stop
        self._failed_early: tuple[ResolvedJob, VeoError] | None = None
        self._pace = Pace()
        self._codes: set[ExitCode] = set()
        self._num_jobs = self._done = self._skipped = self._failed = 0
        self._pending: PendingClip | None = None

    def run(self, resolved_jobs: Sequence[ResolvedJob], todo: Sequence[ResolvedJob]) -> ExitCode:
        started = time.monotonic()
        self._num_jobs = len(resolved_jobs)
        folder = str(self._options.output_folder)
        self._listen(
            RunStarted(self._num_jobs, folder, self._device, versions(), os.getpid(), socket.gethostname())
        )
        self._skip(resolved_jobs, todo)
        if todo:
            self._render(todo)
        code = _worst(self._codes)
        waiting = self._num_jobs - self._done - self._skipped - self._failed
        seconds = time.monotonic() - started
        self._listen(RunDone(code, self._done, self._skipped, self._failed, waiting, seconds))
        return code

    def _render(self, todo: Sequence[ResolvedJob]) -> None:
        from veo_cli.job_runner import JobRunner

        self._runner = JobRunner(
            self._options.output_folder,
            self._device,
            budget_bytes=self._options.budget_bytes,
            listener=self._hear,
            stop=self._stop,
        )
        try:
            for position, resolved in enumerate(todo):
                if self._must_end(resolved, position):
                    break
                self._one(resolved)
            self._settle()
        except (EnvironmentFault, Stopped) as error:  # nothing further can run, or should
            self._codes.add(error.exit_code)
            self._abandon(error)
        finally:
            if self._pending is not None:
                self._pending.abort()

    def _skip(self, resolved_jobs: Sequence[ResolvedJob], todo: Sequence[ResolvedJob]) -> None:
        """Tell of the jobs that are done; a run killed between sidecar and clean-up has left the state of one."""
        to_do = {resolved.job_id for resolved in todo}
        state = self._options.output_folder / STATE_FOLDER
        left = {entry.name for entry in os.scandir(state) if entry.is_dir()}
        for resolved in resolved_jobs:
            if resolved.job_id not in to_do:
                if resolved.job_id in left:
                    remove([state / resolved.job_id, *parts_of(resolved.output_path)])
                self._skipped += 1
                self._listen(JobSkipped(resolved.job_id, str(resolved.output_path)))

    def _must_end(self, resolved: ResolvedJob, started_jobs: int) -> bool:
        if self._stop.reason is not None:
            self._codes.add(self._stop.reason.exit_code)
            return True
        if not self._options.keep_going and self._failed:
            return True
        if self._options.max_jobs is not None and started_jobs >= self._options.max_jobs:
            return True
        if not self._pace.fits(resolved.job, self._options.deadline):
            self._codes.add(DeadlineReached.exit_code)
            return True
        return False

    def _one(self, resolved: ResolvedJob) -> None:
        """First attempt at one job; its encoder is left at work while the next job is sampled."""
        try:
            pending = self._runner.begin(resolved)
        except VeoError as error:
            try:
                self._settle()
            except VeoError:  # the run is at its end: no second try for this job
                self._account(resolved, error)
                raise
            self._after_failure(resolved, error)
            return
        self._pace.learn(resolved.job, time.monotonic() - pending.started)  # refined once its file is whole
        previous, self._pending = self._pending, pending
        self._complete(previous)

    def _settle(self) -> None:
        """Wait for the clip whose encoder is still at work."""
        pending, self._pending = self._pending, None
        self._complete(pending)

    def _complete(self, pending: PendingClip | None) -> None:
        early, self._failed_early = self._failed_early, None
        if early is not None:
            self._after_failure(*early)
        if pending is not None:
            try:
                self._finish(pending)
            except VeoError as error:
                self._after_failure(pending.resolved, error)

    def _hear(self, event: Event) -> None:
        """Tell of what happens; and between two steps, put a clip in place whose encoder has come to its end."""
        self._listen(event)
        if isinstance(event, StepDone) and self._pending is not None and self._pending.ready:
            pending, self._pending = self._pending, None
            try:
                self._finish(pending)
            except VeoError as error:  # its second try has to wait for the job that is being sampled
                self._failed_early = (pending.resolved, error)

    def _finish(self, pending: PendingClip) -> None:
        try:
            seconds = self._runner.finish(pending)
        except BaseException:
            pending.abort()
            raise
        self._pace.learn(pending.resolved.job, seconds)
        self._done += 1

    def _after_failure(self, resolved: ResolvedJob, error: VeoError) -> None:
        """Try again where that may help (this job alone); else account for the failure.

        Raises Stopped, and EnvironmentFault when nothing further can run.
        """
        left: VeoError | None = error
        if isinstance(error, OutOfMemory) and resolved.job.memory.offload != "group":
            self._runner.failed(resolved, error, will_retry=True)
            self._runner.warn(
                resolved, "leaner_memory", "out of memory: trying once more with the weights offloaded"
            )
            resolved = resolved.on_leaner_memory()
            left = self._try_again(resolved, error)
        if left is not None and left.transient and self._options.retries:
            left = self._retry(resolved, left)
        if left is None:
            return
        self._account(resolved, left)
        if isinstance(left, Stopped) or (
            isinstance(left, EnvironmentFault) and not isinstance(left, OutOfMemory)
        ):
            raise left

    def _retry(self, resolved: ResolvedJob, error: VeoError) -> VeoError | None:
        """Up to --retries further attempts at what may pass, with growing pauses; what is wrong after the last."""
        from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_attempt, wait_exponential

        def outcome(state: RetryCallState) -> VeoError | None:
            assert state.outcome is not None
            failure: VeoError | None = state.outcome.result()
            return failure

        def tell(state: RetryCallState) -> None:
            failure = outcome(state)
            assert failure is not None
            self._runner.failed(resolved, failure, will_retry=True)

        # The first attempt has been made: its outcome is `error`.
        attempts = chain([lambda: error], repeat(lambda: self._try_again(resolved, error)))
        retrying = Retrying(
            retry=retry_if_result(lambda failure: failure is not None and failure.transient),
            stop=stop_after_attempt(1 + self._options.retries),
            wait=wait_exponential(multiplier=RETRY_WAIT_S, max=RETRY_WAIT_MAX_S),
            sleep=self._stop.sleep,
            before_sleep=tell,
            retry_error_callback=outcome,
        )
        result: VeoError | None = retrying(lambda: next(attempts)())
        return result

    def _try_again(self, resolved: ResolvedJob, error: VeoError) -> VeoError | None:
        """One more attempt, to the finished file; None when it is there, else what went wrong."""
        try:
            self._stop.raise_if_requested(kept=error.kept)
            self._finish(self._runner.begin(resolved))
        except VeoError as again:
            return again
        return None

    def _account(self, resolved: ResolvedJob, error: VeoError) -> None:
        """Record that a job ended without a clip, and what that means for the exit code."""
        if isinstance(error, Stopped):
            self._runner.stopped(resolved, error, error.kept)
            return
        self._runner.failed(resolved, error, will_retry=False)
        self._failed += 1
        alone = isinstance(error, OutOfMemory) and self._num_jobs == 1
        own_code = alone or error.exit_code is ExitCode.BUG
        self._codes.add(error.exit_code if own_code else ExitCode.JOB_FAILED)

    def _abandon(self, error: VeoError) -> None:
        """Another job's fault ends the run before this clip's encoder did: its latents are kept."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.abort()
            self._runner.stopped(pending.resolved, error, pending.kept)


def _worst(codes: set[ExitCode]) -> ExitCode:
    """Where several apply: 3, then 130/143, then 4, then 5, then 1."""
    order = (
        ExitCode.BUG,
        ExitCode.INTERRUPTED,
        ExitCode.TERMINATED,
        ExitCode.ENVIRONMENT,
        ExitCode.DEADLINE,
        ExitCode.JOB_FAILED,
    )
    return next((code for code in order if code in codes), ExitCode.OK)
