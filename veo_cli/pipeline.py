"""THE MAP: how one job becomes one clip.

    Job -> text_encode -> TextEmbedding -> denoise -> Latents (durable)
        -> decode -> FrameChunk -> fit -> FrameChunk -> to_yuv -> YuvFrame -> reuse -> ClipWriter (ffmpeg) -> NAME.mp4
        -> quality gate -> sidecar -> NAME.json

Data moves one way. `render` returns as soon as the last frame is handed over, so that the caller may sample the next
job while this one's encoder is still at work; `PendingClip.finish` waits for the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kernels_cupy.loader import why_not
from veo_cli import durable_file
from veo_cli.errors import VeoError
from veo_cli.events import (
    CheckpointSaved,
    FramesDone,
    Listener,
    Stage,
    StageDone,
    StageStarted,
    StepDone,
    Warned,
)
from veo_cli.ffmpeg import choose_encoder
from veo_cli.job import Job
from veo_cli.journal import JobJournal
from veo_cli.models.video_model import VideoModel
from veo_cli.resolve import ResolvedJob
from veo_cli.stages import denoise, quality_gate, sidecar
from veo_cli.stages.block_reuse import BlockReuse
from veo_cli.stages.clip_writer import ClipWriter
from veo_cli.stages.fit import fit
from veo_cli.stages.to_yuv import to_yuv
from veo_cli.stages.video_encode import pixel_format
from veo_cli.stop import StopRequest
from veo_cli.values import ClipFacts, DenoiseState, Latents, StepReport, TextEmbedding

MIN_CHECKPOINT_S = 2.0
TEXTS_KEPT = 16  # 8 MiB each for Wan, on the device
KEPT_LATENTS = "the finished latents: only decoding and encoding are left to do"


@dataclass
class StageClock:
    """Times the stages of one job and tells the listener of their beginning and end."""

    job_id: str
    listener: Listener
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: Stage) -> Iterator[None]:
        self.listener(StageStarted(self.job_id, name))
        start = time.monotonic()
        yield
        self.done(name, time.monotonic() - start)

    def done(self, name: Stage, seconds: float) -> None:
        self.seconds[name] = seconds
        self.listener(StageDone(self.job_id, name, seconds))


class TextCache:
    """Remembers the last text embeddings of one loaded model: a prompt with many seeds is encoded once."""

    def __init__(self) -> None:
        self._embeddings: dict[tuple[str, str, bool], TextEmbedding] = {}

    def get(self, model: VideoModel, job: Job) -> TextEmbedding:
        key = (job.prompt, job.negative_prompt, denoise.needs_negative(job))
        if key not in self._embeddings:
            if len(self._embeddings) >= TEXTS_KEPT:
                self._embeddings.pop(next(iter(self._embeddings)))  # the oldest
            self._embeddings[key] = model.encode_text(job)
        return self._embeddings[key]


@dataclass(frozen=True)
class PendingClip:
    """A clip whose frames are all handed to the encoder."""

    resolved: ResolvedJob
    journal: JobJournal
    clock: StageClock
    writer: ClipWriter
    checks: quality_gate.FrameChecks
    notes: tuple[str, ...]
    started: float  # time.monotonic()
    device: str
    handed_over: float  # time.monotonic(), when the last frame was handed to the encoder

    @property
    def kept(self) -> str:
        """What is safe on disk while the encoder is at work."""
        return KEPT_LATENTS

    @property
    def ready(self) -> bool:
        """Whether the file is whole, so that `finish` will not wait."""
        return self.writer.finished_at is not None

    def finish(self) -> sidecar.Sidecar:
        """Wait for the encoder, check the file, put clip and sidecar in place, forget the journal.

        Raises EncodeFailed, DiskFull or QualityGateFailed; the latents are then still in the journal.
        """
        job, final = self.resolved.job, self.resolved.output_path
        self.clock.listener(StageStarted(self.resolved.job_id, "video_encode"))
        with keeping(KEPT_LATENTS):
            try:
                facts: ClipFacts = self.writer.finish()
                quality_gate.check_clip(facts, job)
                self.writer.publish(final)
            except BaseException:
                self.writer.abort()
                raise
        whole_at = (
            self.writer.finished_at or time.monotonic()
        )  # the caller may have sampled another job since
        self.clock.done("video_encode", whole_at - self.handed_over)
        record = sidecar.build(
            self.resolved,
            facts=facts,
            checks=self.checks,
            frames_sha256=self.writer.frames_sha256,
            encoder=self.writer.encoder,
            stage_seconds=self.clock.seconds,
            seconds=whole_at - self.started,
            notes=self.notes,
            device=self.device,
        )
        with keeping(KEPT_LATENTS):
            durable_file.replace(sidecar.path_of(final), record.to_json().encode())
        self.journal.remove()
        return record

    def abort(self) -> None:
        """Stop the encoder and leave nothing but the journal."""
        self.writer.abort()


def render(
    resolved: ResolvedJob,
    model: VideoModel,
    *,
    journal: JobJournal,
    progress: Latents | DenoiseState | None,
    texts: TextCache,
    listener: Listener,
    stop: StopRequest,
    device: str,
) -> PendingClip:
    """Sample (or go on from `progress`, read from the journal), decode, and hand the frames to the encoder.

    device: the model's; with a GPU, frames wait on disk rather than the decoder for the encoder. Raises Stopped at
    the next safe point after `stop` was asked for, and any VeoError of the stages; `kept` of the error says what the
    next run goes on from.
    """
    started = time.monotonic()
    clock = StageClock(resolved.job_id, listener)
    job, encode = resolved.job, resolved.job.encode
    notes = list(resolved.notes)
    # That there is none is better known before sampling than after it.
    encoder = choose_encoder(encode, pixel_format(encode))
    if encoder.note:
        notes.append(encoder.note)
        listener(Warned("encoder_fallback", encoder.note, resolved.job_id))

    kernels_missing = why_not() if device != "cpu" else ""
    if kernels_missing:
        notes.append(f"frames are converted by torch and compressed by NumPy: {kernels_missing}")
        listener(Warned("kernels_missing", notes[-1], resolved.job_id))
    kernels = device != "cpu" and not kernels_missing

    if isinstance(progress, Latents):
        latents = progress
    else:
        latents, text_note = _sample(resolved, model, journal, progress, texts, clock, stop)
        notes += text_note
    stop.raise_if_requested(kept=KEPT_LATENTS)

    watch = quality_gate.FrameWatch()
    reuse = BlockReuse(encode.reuse_threshold)
    with keeping(KEPT_LATENTS), clock.stage("decode"):
        writer = ClipWriter(resolved.output_path, job, journal.folder / "frames" if device != "cpu" else None)
        try:
            for chunk in model.decode(job, latents):
                watch.see(chunk)
                fitted = fit(chunk, job.width, job.height, job.upscale.fit, kernels=kernels)
                writer.put_rgb(fitted)
                for frame in to_yuv(fitted, color=encode.color, chroma=encode.chroma, kernels=kernels):
                    writer.put(reuse(frame))
                listener(FramesDone(resolved.job_id, watch.num_frames, job.num_frames))
                stop.raise_if_requested(kept=KEPT_LATENTS)
            checks = watch.check(num_frames=job.num_frames)
            writer.close()
        except BaseException:
            writer.abort()
            raise
    return PendingClip(
        resolved, journal, clock, writer, checks, tuple(notes), started, device, time.monotonic()
    )


def _sample(
    resolved: ResolvedJob,
    model: VideoModel,
    journal: JobJournal,
    start: DenoiseState | None,
    texts: TextCache,
    clock: StageClock,
    stop: StopRequest,
) -> tuple[Latents, list[str]]:
    """text_encode and denoise, with step checkpoints; the finished latents are in the journal before it returns."""
    job = resolved.job
    durable_step = start.next_step if start else 0
    stop.raise_if_requested(kept=_steps_kept(durable_step, job))
    with clock.stage("text_encode"):
        text = texts.get(model, job)
    notes = []
    if text.cut_text:
        notes.append(
            f"the prompt is too long for the text encoder; it does not see its end: “{text.cut_text}”"
        )
        clock.listener(Warned("text_cut", notes[-1], resolved.job_id))
    stop.raise_if_requested(kept=_steps_kept(durable_step, job))
    with clock.stage("denoise"):
        checkpoints = _checkpointer(resolved, journal, clock.listener, stop, durable_step)
        latents = model.denoise(job, text, start=start, on_step=checkpoints)
        notes += say_warnings(model, clock)
        quality_gate.check_latents(latents)
        journal.save_latents(latents)
        clock.listener(CheckpointSaved(resolved.job_id, job.num_inference_steps))
    return latents, notes


def say_warnings(model: VideoModel, clock: StageClock) -> list[str]:
    """Tell the listener what the model found worth a warning, once; the same words for the sidecar."""
    said = list(model.warnings)
    model.warnings.clear()
    for message in said:
        clock.listener(Warned("model", message, clock.job_id))
    return said


def _checkpointer(
    resolved: ResolvedJob, journal: JobJournal, listener: Listener, stop: StopRequest, durable_step: int
) -> Callable[[StepReport], None]:
    """The function called after every step: it reports, saves every 10 % (or as asked), and stops where asked.

    Where nothing was asked, no two checkpoints are closer than MIN_CHECKPOINT_S: quick steps are done again sooner than
    they are synced to a disk.
    """
    job = resolved.job
    every = job.memory.checkpoint_every
    min_pause_s = 0.0
    if every is None:
        every, min_pause_s = max(1, round(job.num_inference_steps / 10)), MIN_CHECKPOINT_S
    kept_step, kept_at = durable_step, time.monotonic()

    def on_step(report: StepReport) -> None:
        nonlocal kept_step, kept_at
        listener(
            StepDone(
                resolved.job_id,
                report.step,
                report.num_steps,
                report.seconds,
                report.sigma,
                report.guidance_scale,
            )
        )
        done = report.step + 1
        if done == report.num_steps:
            return  # the finished latents are saved instead, at once
        is_due = every and done % every == 0 and time.monotonic() - kept_at >= min_pause_s
        if report.state is not None and (stop.reason is not None or is_due):
            with keeping(_steps_kept(kept_step, job)):
                journal.save_step(report.state)
            kept_step, kept_at = done, time.monotonic()
            listener(CheckpointSaved(resolved.job_id, done))
        stop.raise_if_requested(kept=_steps_kept(kept_step, job))

    return on_step


def _steps_kept(next_step: int, job: Job) -> str:
    return f"{next_step} of {job.num_inference_steps} steps" if next_step else ""


@contextmanager
def keeping(what: str) -> Iterator[None]:
    """Errors that leave the block say that `what` is safe on disk, unless they say better."""
    try:
        yield
    except VeoError as error:
        error.kept = error.kept or what
        raise
