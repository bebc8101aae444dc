"""Runs the encoder beside the decoder: frames wait in a frame store and are written by a thread of their own."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path

from veo_cli.job import Job
from veo_cli.stages.frame_store import FrameStore, StoreAborted
from veo_cli.stages.video_encode import PngWriter, VideoEncoder, as_bytes
from veo_cli.values import ClipFacts, FrameChunk, YuvFrame

HOST_BUDGET_BYTES = 8 * 2**20  # of frames that wait, or as many as HOST_BUDGET_FRAMES of large ones
HOST_BUDGET_FRAMES = 16
DEVICE_BUDGET_BYTES = 1 * 2**30


class ClipWriter:
    """The writing end of one clip. `put` blocks while the store is full and raises the encoder's error as soon
    as there is one; `finish` waits for the file. Nothing appears under the final name before `publish`.

    spool_dir: where frames go that do not fit into memory, so that the next job's sampling need not wait for
    this one's encoder; None: `put` blocks instead.
    """

    def __init__(self, final: Path, job: Job, spool_dir: Path | None = None) -> None:
        self._part = final.with_name(final.name + ".part")
        self._encoder = VideoEncoder(
            self._part,
            job.encode,
            width=job.width,
            height=job.height,
            fps=job.fps,
            num_frames=job.num_frames,
        )
        self._pngs: PngWriter | None = None
        if job.encode.frames == "png16":
            try:
                self._pngs = PngWriter(final, job.width, job.height)
            except BaseException:
                self._encoder.abort()
                raise
        frame_bytes = job.width * job.height * 2 * (3 if job.encode.chroma == "444" else 1.5)
        budget = max(HOST_BUDGET_BYTES, int(HOST_BUDGET_FRAMES * frame_bytes))
        on_device = min(DEVICE_BUDGET_BYTES, int(job.num_frames * frame_bytes))
        self._store = FrameStore(budget, spool_dir, budget_device_bytes=on_device)
        self._digest = hashlib.sha256()
        self._error: BaseException | None = None
        self._facts: ClipFacts | None = None
        self.finished_at: float | None = None  # time.monotonic() when the file was whole
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
        try:
            self._store.put(frame)
        except StoreAborted:
            raise self._error or StoreAborted() from None

    def put_rgb(self, chunk: FrameChunk) -> None:
        """The frames before Y'CbCr, for `frames: png16`; otherwise nothing is done."""
        if self._pngs is not None:
            self._pngs.write(chunk)

    def close(self) -> None:
        """No more frames; returns at once."""
        self._store.close()

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
        self._store.abort()
        self._encoder.abort()
        if self._pngs is not None:
            self._pngs.abort()
        self._thread.join()

    def _run(self) -> None:
        try:
            for frame in self._store.frames():
                for plane in (frame.y, frame.cb, frame.cr):
                    self._digest.update(as_bytes(plane))
                self._encoder.write(frame)
            self._facts = self._encoder.finish()
            self.finished_at = time.monotonic()
        except StoreAborted:
            return
        except Exception as error:  # handed to the caller's thread, which raises it
            self._error = error
            self._store.abort()
