"""Runs the encoder beside the decoder: frames are queued here and written by a thread of their own."""

from __future__ import annotations

import hashlib
import queue
import threading
from pathlib import Path

from veo_cli.job import Job
from veo_cli.stages.video_encode import PngWriter, VideoEncoder, as_bytes
from veo_cli.values import ClipFacts, FrameChunk, YuvFrame

QUEUE_FRAMES = 16  # bounds memory; the encoder's own look-ahead is deeper than this
_POLL_S = 0.1


class ClipWriter:
    """The writing end of one clip. `put` blocks while the queue is full and raises the encoder's error as soon as there
    is one; `finish` waits for the file. Nothing appears under the final name before `publish`."""

    def __init__(self, final: Path, job: Job) -> None:
        self._part = final.with_name(final.name + ".part")
        self._encoder = VideoEncoder(
            self._part,
            job.encode,
            width=job.width,
            height=job.height,
            fps=job.fps,
            num_frames=job.num_frames,
        )
        self._pngs = PngWriter(final, job.width, job.height) if job.encode.frames == "png16" else None
        self._queue: queue.Queue[YuvFrame | None] = queue.Queue(QUEUE_FRAMES)
        self._digest = hashlib.sha256()
        self._error: BaseException | None = None
        self._aborted = threading.Event()
        self._facts: ClipFacts | None = None
        self._thread = threading.Thread(target=self._run, name="clip-writer", daemon=True)
        self._thread.start()

    @property
    def frames_sha256(self) -> str:
        """Over the Y, Cb and Cr planes of all frames in order; the same job gives the same digest."""
        return self._digest.hexdigest()

    @property
    def encoder(self) -> str:
        return self._encoder.description

    def put(self, frame: YuvFrame) -> None:
        self._offer(frame)

    def put_rgb(self, chunk: FrameChunk) -> None:
        """The frames before Y'CbCr, for `frames: png16`; otherwise nothing is done."""
        if self._pngs is not None:
            self._pngs.write(chunk)

    def close(self) -> None:
        """No more frames; returns at once."""
        self._offer(None)

    def finish(self) -> ClipFacts:
        """Wait for the encoder and read the file back. Raises what the encoder raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        if self._pngs is not None:
            self._pngs.finish()
        assert self._facts is not None
        return self._facts

    def publish(self, final: Path) -> None:
        """Give the clip (and the PNG folder) its final name."""
        if self._pngs is not None:
            self._pngs.publish()
        self._encoder.publish(final)

    def abort(self) -> None:
        """Stop ffmpeg and remove what it wrote. Safe to call twice and after an error."""
        self._aborted.set()
        self._encoder.abort()
        if self._pngs is not None:
            self._pngs.abort()
        self._thread.join()

    def _offer(self, frame: YuvFrame | None) -> None:
        while True:
            if self._error is not None:
                raise self._error
            try:
                self._queue.put(frame, timeout=_POLL_S)
                return
            except queue.Full:
                continue

    def _run(self) -> None:
        try:
            while not self._aborted.is_set():
                try:
                    frame = self._queue.get(timeout=_POLL_S)
                except queue.Empty:
                    continue
                if frame is None:
                    self._facts = self._encoder.finish()
                    return
                for plane in (frame.y, frame.cb, frame.cr):
                    self._digest.update(as_bytes(plane))
                self._encoder.write(frame)
        except Exception as error:  # handed to the caller's thread, which raises it
            self._error = error
