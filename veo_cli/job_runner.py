"""One attempt at one job: the model it needs, its record on disk, its events, and what its errors are called.

Which job comes next, and what follows a failure, is decided in batch.py.
"""

from __future__ import annotations

import gc
import os
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from veo_cli.errors import Bug, EnvironmentFault, VeoError, as_expected
from veo_cli.events import JobDone, JobFailed, JobStarted, JobStopped, Listener, ResumedFrom, Warned
from veo_cli.journal import JobJournal, JobRecord, State
from veo_cli.models import registry
from veo_cli.models.video_model import VideoModel
from veo_cli.pipeline import PendingClip, StageClock, TextCache, render
from veo_cli.resolve import ResolvedJob
from veo_cli.stages import sidecar
from veo_cli.stop import StopRequest
from veo_cli.values import DenoiseState, Latents


class JobRunner:
    """Keeps the loaded model and the encoded texts from one job to the next."""

    def __init__(
        self,
        output_folder: Path,
        device: str,
        *,
        budget_bytes: int | None,
        listener: Listener,
        stop: StopRequest,
    ) -> None:
        self._output_folder = output_folder
        self._device = device
        self._budget_bytes = budget_bytes
        self._listen = listener
        self._stop = stop
        self._model: VideoModel | None = None
        self._model_key: tuple[object, ...] = ()
        self._texts = TextCache()
        self._attempts: Counter[str] = Counter()  # by job_id, this run's

    def begin(self, resolved: ResolvedJob) -> PendingClip:
        """Everything but waiting for the encoder. Raises a VeoError, whatever went wrong."""
        with _as_veo_errors():
            _reset_peak_memory(self._device)
            journal = self._journal(resolved)
            progress = journal.load_progress()
            self._attempts[resolved.job_id] += 1
            self._record(resolved, "running")
            self._listen(_job_started(resolved, self._attempts[resolved.job_id], progress))
            return render(
                resolved,
                self._load(resolved),
                journal=journal,
                progress=progress,
                texts=self._texts,
                listener=self._listen,
                stop=self._stop,
                device=self._device,
            )

    def finish(self, pending: PendingClip) -> float:
        """Wait until the clip is in place and tell of it; the seconds that the job took. Raises a VeoError."""
        with _as_veo_errors():
            record = pending.finish()
        resolved = pending.resolved
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
        return record.seconds

    def failed(self, resolved: ResolvedJob, error: VeoError, *, will_retry: bool) -> None:
        """Record a failed attempt and tell of it."""
        self._record(resolved, "failed", error)
        self._listen(
            JobFailed(
                resolved.job_id,
                str(resolved.output_path),
                resolved.model.name,
                error.code,
                str(error),
                error.kept,
                self._attempts[resolved.job_id],
                will_retry,
            )
        )

    def stopped(self, resolved: ResolvedJob, error: VeoError, kept: str) -> None:
        """Record that a job waits for the next run, because of a signal, the deadline or another job's fault."""
        state: State = "stopped"
        self._record(resolved, state, error, kept)
        self._listen(JobStopped(resolved.job_id, str(resolved.output_path), error.code, kept))

    def warn(self, resolved: ResolvedJob, code: str, message: str) -> None:
        self._listen(Warned(code, message, resolved.job_id))

    def _load(self, resolved: ResolvedJob) -> VideoModel:
        """The job's model, kept from the last job where it is the same."""
        job = resolved.job
        key = (resolved.model.fingerprint, job.loras, job.memory.offload)
        if self._model is None or key != self._model_key:
            self._model = None
            self._texts = TextCache()
            if self._model_key:
                _free_memory()  # of the last model, before the next one takes its place
            self._model_key = key
            with StageClock(resolved.job_id, self._listen).stage("load"):
                self._model = registry.load(
                    resolved.model,
                    device=self._device,
                    loras=job.loras,
                    offload=job.memory.offload,
                    budget_bytes=self._budget_bytes,
                )
        return self._model

    def _journal(self, resolved: ResolvedJob) -> JobJournal:
        def on_damage(message: str) -> None:
            self.warn(resolved, "damaged_journal", message)

        return JobJournal(self._output_folder, resolved.job_id, on_damage)

    def _record(
        self,
        resolved: ResolvedJob,
        state: State,
        error: VeoError | None = None,
        kept: str | None = None,
    ) -> None:
        job = resolved.job
        record = JobRecord(
            resolved.job_id,
            os.path.abspath(resolved.output_path),
            job.prompt,
            resolved.model.name,
            state,
            job.num_inference_steps,
            self._attempts[resolved.job_id],
            code=error.code if error else "",
            message=str(error) if error else "",
            kept=kept if kept is not None else error.kept if error else "",
        )
        try:
            self._journal(resolved).write_record(record)
        except EnvironmentFault as fault:
            if error is None:
                raise
            self.warn(resolved, fault.code, f"how the job ended could not be recorded: {fault}")


def _job_started(resolved: ResolvedJob, attempt: int, progress: Latents | DenoiseState | None) -> JobStarted:
    job = resolved.job
    resumed_from: ResumedFrom = "start"
    next_step = 0
    if isinstance(progress, Latents):
        resumed_from, next_step = "latents", job.num_inference_steps
    elif progress is not None:
        resumed_from, next_step = "step", progress.next_step
    return JobStarted(
        resolved.job_id,
        str(resolved.output_path),
        resolved.model.name,
        job.prompt,
        job.seed,
        job.num_inference_steps,
        job.num_frames,
        attempt,
        resumed_from,
        next_step,
    )


@contextmanager
def _as_veo_errors() -> Iterator[None]:
    """Give what libraries raise the project's names, so that one job's bug is not the end of a batch.

    The errors that leave the block hold no frames, and so none of the tensors that a retry needs the room of.
    """
    try:
        yield
    except VeoError as error:
        raise _without_frames(error) from None
    except Exception as error:
        raise _named(error) from None


def _named(error: Exception) -> VeoError:
    expected = as_expected(error)
    if expected is not None:
        return expected
    trace = "".join(traceback.format_exception(error)).rstrip()
    return Bug(
        f"this is a bug in veo: {type(error).__name__}: {str(error).partition(chr(10))[0]}",
        fix=f"please report it with these lines and what `veo doctor --json` prints\n{trace}",
    )


def _without_frames(error: VeoError) -> VeoError:
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _reset_peak_memory(device: str) -> None:
    """Have the sidecar tell of this job's device memory, and not of the run's."""
    if device != "cpu":
        import torch

        torch.cuda.reset_peak_memory_stats(device)


def _free_memory() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
