"""The queue: one process, one writer per output folder, models loaded once, every job accounted for."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from veo_cli import preflight
from veo_cli.device import resolve_device
from veo_cli.errors import (
    DeadlineReached,
    EnvironmentFault,
    FolderLocked,
    OutOfMemory,
    Stopped,
    VeoError,
)
from veo_cli.events import (
    JobDone,
    JobFailed,
    JobSkipped,
    JobStarted,
    JobStopped,
    Listener,
    ResumedFrom,
    RunDone,
    RunStarted,
    Warned,
)
from veo_cli.exit_codes import ExitCode
from veo_cli.job import Job
from veo_cli.journal import STATE_FOLDER, JobJournal, JobRecord
from veo_cli.models import registry
from veo_cli.models.video_model import VideoModel
from veo_cli.pipeline import PendingClip, TextCache, render
from veo_cli.plan import state_of
from veo_cli.resolve import ResolvedJob
from veo_cli.stages import sidecar
from veo_cli.stop import StopRequest
from veo_cli.versions import versions

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


@dataclass
class _Tally:
    done: int = 0
    skipped: int = 0
    failed: int = 0
    waiting: int = 0


@dataclass
class _Pace:
    """Measured seconds of the jobs done so far, by what decides their length."""

    seconds: dict[tuple[object, ...], float] = field(default_factory=dict)

    @staticmethod
    def key(job: Job) -> tuple[object, ...]:
        sampler = job.sampler
        size = (sampler.width, sampler.height, sampler.num_frames)
        return (job.model, size, job.num_inference_steps, job.guidance_scale != 1, job.width, job.height)

    def learn(self, job: Job, seconds: float) -> None:
        self.seconds[self.key(job)] = seconds

    def fits(self, job: Job, deadline: datetime | None) -> bool:
        """False only if a job of the same kind was measured and this one would end after the deadline."""
        expected = self.seconds.get(self.key(job))
        return (
            deadline is None or expected is None or datetime.now() + timedelta(seconds=expected) <= deadline
        )


def run_batch(resolved_jobs: Sequence[ResolvedJob], options: BatchOptions, listener: Listener) -> ExitCode:
    """Render all jobs and return the exit code that says how it went.

    Raises FolderLocked when another process has the output folder. Everything else that goes wrong is told to the
    listener and is in the exit code.
    """
    with folder_lock(options.output_folder, wait=options.wait_for_lock):
        return _Batch(options, listener).run(resolved_jobs)


class _Batch:
    def __init__(self, options: BatchOptions, listener: Listener) -> None:
        self._options = options
        self._listen = listener
        self._stop = StopRequest(options.deadline)
        self._tally = _Tally()
        self._pace = _Pace()
        self._codes: set[ExitCode] = set()
        self._model: VideoModel | None = None
        self._model_key: tuple[object, ...] = ()
        self._texts = TextCache()
        self._pending: PendingClip | None = None
        self._device = "cpu"
        self._num_jobs = 0

    def run(self, resolved_jobs: Sequence[ResolvedJob]) -> ExitCode:
        started = time.monotonic()
        self._num_jobs = len(resolved_jobs)
        options = self._options
        self._device = device = resolve_device(options.device)
        folder = str(options.output_folder)
        todo = self._todo(resolved_jobs)
        preflight.check(todo[: options.max_jobs], options.output_folder, device, force=options.force)
        self._listen(
            RunStarted(len(resolved_jobs), folder, device, versions(), os.getpid(), socket.gethostname())
        )
        to_do = {resolved.job_id for resolved in todo}
        for resolved in resolved_jobs:
            if resolved.job_id not in to_do:
                self._tally.skipped += 1
                self._listen(JobSkipped(resolved.job_id, str(resolved.output_path)))
        with self._stop.listening():
            try:
                for position, resolved in enumerate(todo):
                    left = len(todo) - position
                    if self._must_end(resolved, position):
                        self._tally.waiting += left
                        break
                    self._one(resolved, device)
                self._settle()
            except EnvironmentFault as error:
                self._codes.add(error.exit_code)
                self._tally.waiting = len(resolved_jobs) - self._accounted()
            except Stopped as error:
                self._codes.add(error.exit_code)
                self._tally.waiting = len(resolved_jobs) - self._accounted()
            finally:
                if self._pending is not None:
                    self._pending.abort()
        code = _worst(self._codes)
        tally = self._tally
        seconds = time.monotonic() - started
        self._listen(RunDone(code, tally.done, tally.skipped, tally.failed, tally.waiting, seconds))
        return code

    def _accounted(self) -> int:
        return self._tally.done + self._tally.skipped + self._tally.failed

    def _todo(self, resolved_jobs: Sequence[ResolvedJob]) -> list[ResolvedJob]:
        """The jobs not done yet, in the order they will run."""
        force, folder = self._options.force, self._options.output_folder
        todo = [resolved for resolved in resolved_jobs if force or state_of(resolved, folder) != "done"]
        if self._options.shuffle:
            random.shuffle(todo)
        elif not self._options.in_order:
            todo.sort(key=lambda r: (r.job.model, r.job.loras, r.job.sampler.width * r.job.sampler.height))
        return todo

    def _must_end(self, resolved: ResolvedJob, started_jobs: int) -> bool:
        if self._stop.reason is not None:
            self._codes.add(self._stop.reason.exit_code)
            return True
        if not self._options.keep_going and self._tally.failed:
            return True
        if self._options.max_jobs is not None and started_jobs >= self._options.max_jobs:
            return True
        if not self._pace.fits(resolved.job, self._options.deadline):
            self._codes.add(DeadlineReached.exit_code)
            return True
        return False

    def _one(self, resolved: ResolvedJob, device: str) -> None:
        """First attempt of one job; its encoder is left at work while the next job is sampled."""
        try:
            pending = self._attempt(resolved, device, attempt=1)
        except VeoError as error:
            self._settle()
            self._after_failure(resolved, device, error)
            return
        self._pace.learn(resolved.job, time.monotonic() - pending.started)  # refined once its file is whole
        self._settle()
        self._pending = pending

    def _settle(self) -> None:
        """Wait for the clip whose encoder is still at work."""
        if self._pending is None:
            return
        pending, self._pending = self._pending, None
        try:
            self._finish(pending)
        except VeoError as error:
            self._after_failure(pending.resolved, self._device, error)

    def _attempt(self, resolved: ResolvedJob, device: str, attempt: int) -> PendingClip:
        job = resolved.job
        journal = self._journal(resolved)
        has_latents = journal.load_latents() is not None
        step = None if has_latents else journal.load_step()
        next_step = job.num_inference_steps if has_latents else step.next_step if step else 0
        resumed: ResumedFrom = "latents" if has_latents else "step" if step else "start"
        self._record(resolved, "running", attempt)
        self._listen(
            JobStarted(
                resolved.job_id,
                str(resolved.output_path),
                resolved.model.name,
                job.prompt,
                job.seed,
                job.num_inference_steps,
                job.num_frames,
                attempt,
                resumed,
                next_step,
            )
        )
        with _memory_errors():
            model = self._load(resolved, device)
            return render(
                resolved,
                model,
                journal=journal,
                texts=self._texts,
                listener=self._listen,
                stop=self._stop,
                spool_frames=device != "cpu",  # a CPU that encodes has no time to sample meanwhile
            )

    def _finish(self, pending: PendingClip) -> None:
        record = pending.finish()
        resolved = pending.resolved
        self._pace.learn(resolved.job, record.seconds)
        self._tally.done += 1
        final = resolved.output_path
        self._listen(
            JobDone(
                resolved.job_id,
                str(final),
                str(sidecar.path_of(final)),
                resolved.model.name,
                record.seconds,
                resolved.job.num_frames,
                record.clip.size_bytes,
                record.peak_rss_bytes,
                record.peak_vram_bytes,
                record.stage_seconds,
            )
        )

    def _after_failure(self, resolved: ResolvedJob, device: str, error: VeoError) -> None:
        """Try again where that may help (one job at a time, with back-off); else account for the failure."""
        from tenacity import (
            Retrying,
            retry_if_exception,
            sleep_using_event,
            stop_after_attempt,
            wait_exponential,
        )

        attempt = 1
        if isinstance(error, OutOfMemory) and resolved.job.memory.offload in ("auto", "none", "model"):
            leaner = resolved.on_leaner_memory()
            self._warn(
                resolved, "leaner_memory", "out of memory: trying once more with the weights offloaded"
            )
            attempt += 1
            try:
                self._finish(self._attempt(leaner, device, attempt))
                return
            except VeoError as second:
                error = second
        if error.transient and self._options.retries:
            self._failed(resolved, error, attempt, will_retry=True)
            retrying = Retrying(
                stop=stop_after_attempt(self._options.retries),
                wait=wait_exponential(RETRY_WAIT_S, RETRY_WAIT_MAX_S),
                retry=retry_if_exception(lambda e: isinstance(e, VeoError) and e.transient),
                sleep=sleep_using_event(self._stop.event),
                reraise=True,
            )
            try:
                for trial in retrying:
                    with trial:
                        attempt += 1
                        self._stop.raise_if_requested(kept=error.kept)
                        self._finish(self._attempt(resolved, device, attempt))
                return
            except VeoError as last:
                error = last
        if isinstance(error, Stopped):
            self._record(resolved, "stopped", attempt, error)
            self._listen(JobStopped(resolved.job_id, str(resolved.output_path), error.code, error.kept))
            raise error
        self._failed(resolved, error, attempt, will_retry=False)
        self._tally.failed += 1
        if isinstance(error, EnvironmentFault) and not isinstance(error, OutOfMemory):
            raise error  # nothing further can run
        alone = isinstance(error, OutOfMemory) and self._num_jobs == 1
        self._codes.add(error.exit_code if alone else ExitCode.JOB_FAILED)

    def _failed(self, resolved: ResolvedJob, error: VeoError, attempt: int, *, will_retry: bool) -> None:
        self._record(resolved, "failed", attempt, error)
        output = str(resolved.output_path)
        message = str(error)
        self._listen(
            JobFailed(
                resolved.job_id,
                output,
                resolved.model.name,
                error.code,
                message,
                error.kept,
                attempt,
                will_retry,
            )
        )

    def _load(self, resolved: ResolvedJob, device: str) -> VideoModel:
        """The job's model, kept from the last job where it is the same."""
        job = resolved.job
        key = (resolved.model.fingerprint, device, job.loras, job.memory.offload)
        if self._model is None or key != self._model_key:
            self._model = None  # let its memory go before the next is loaded
            self._texts = TextCache()
            self._model = registry.load(
                resolved.model,
                device=device,
                loras=job.loras,
                offload=job.memory.offload,
                budget_bytes=self._options.budget_bytes,
            )
            self._model_key = key
        return self._model

    def _journal(self, resolved: ResolvedJob) -> JobJournal:
        def on_damage(message: str) -> None:
            self._warn(resolved, "damaged_journal", message)

        return JobJournal(self._options.output_folder, resolved.job_id, on_damage)

    def _record(
        self, resolved: ResolvedJob, state: str, attempts: int, error: VeoError | None = None
    ) -> None:
        job = resolved.job
        record = JobRecord(
            resolved.job_id,
            str(resolved.output_path),
            job.prompt,
            resolved.model.name,
            state,  # type: ignore[arg-type]
            job.num_inference_steps,
            attempts,
            code=error.code if error else "",
            message=str(error) if error else "",
            kept=error.kept if error else "",
        )
        try:
            self._journal(resolved).write_record(record)
        except EnvironmentFault as fault:
            if error is None:
                raise
            self._warn(resolved, fault.code, f"the failure could not be recorded: {fault}")

    def _warn(self, resolved: ResolvedJob, code: str, message: str) -> None:
        self._listen(Warned(code, message, resolved.job_id))


@contextmanager
def folder_lock(output_folder: Path, *, wait: bool) -> Iterator[None]:
    """Be the only writer of an output folder. The kernel drops the lock of a process that died.

    Raises FolderLocked, naming the holder's pid and host, unless `wait`; EnvironmentFault if the folder can't be made.
    """
    from filelock import FileLock, Timeout

    folder = output_folder / STATE_FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot make the output folder: {error.strerror}",
            where=str(output_folder),
            fix="choose another with --output",
        ) from error
    lock = FileLock(folder / "lock")
    holder_file = folder / "lock.holder"
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        holder = holder_file.read_text().strip() if holder_file.is_file() else "another process"
        raise FolderLocked(
            f"{holder} is writing to this folder",
            where=str(output_folder),
            fix="wait for it (--wait), or choose another folder with --output",
        ) from None
    try:
        holder_file.write_text(f"pid {os.getpid()} on {socket.gethostname()}\n")
        yield
    finally:
        holder_file.unlink(missing_ok=True)
        lock.release()


@contextmanager
def _memory_errors() -> Iterator[None]:
    """Turn the host's and torch's out-of-memory errors into ours."""
    import torch

    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise OutOfMemory(
            "out of memory", why=str(error).splitlines()[0] if str(error) else "", fix="try a smaller clip"
        ) from error


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
