"""Where finished frames wait for the encoder: device memory, then host memory, then disk, within budgets.

One thread puts, another takes; frames leave in the order they came. A frame goes to the first tier that has
room for it: compressed on the device, in pages of a pool, if it was made there; in host memory, as it is while
that fits, compressed after that; in a spool on disk. With every tier full, `put` waits for the reader. Nothing is
lost: what comes out is bit-equal.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from veo_cli.stages.frame_spool import FrameSpool, SpoolRecord
from veo_cli.values import Chroma, YuvFrame

if TYPE_CHECKING:
    from kernels_cupy.frame_codec import CompressedFrames
    from kernels_cupy.launch import Ready
    from kernels_cupy.memory_pool import MemoryPool

SHARE_OF_FREE = 1 / 8  # of the device's free memory: the next job's model needs the rest

Codec = Literal["auto", "always", "never"]
Tier = Literal["device", "host", "disk"]


class StoreAborted(Exception):
    """The other side called `abort`: there will be no more frames and none are wanted."""


@dataclass(frozen=True)
class StoreReport:
    """What a store did so far."""

    frames_put: int
    frames_taken: int
    frames_compressed: int
    frames_spooled: int
    peak_device_bytes: int
    peak_host_bytes: int
    peak_disk_bytes: int
    bytes_in: int  # of the frames as they came
    bytes_held: int  # what they took up where they were held, all frames together


@dataclass(frozen=True)
class _Held:
    """A frame that waits. Exactly one of frame, compressed, record says where.

    pages: where the payload of `compressed` is, in the pool. ready: of a frame made on a device, when it is whole.
    """

    tier: Tier
    nbytes: int
    index: int
    chroma: Chroma
    bit_depth: int
    frame: YuvFrame | None = None
    compressed: CompressedFrames | None = None
    record: SpoolRecord | None = None
    pages: Any = None
    payload_bytes: int = 0
    ready: Ready | None = None
    decode_on_device: bool = False


class FrameStore:
    """Frames in, the same frames out.

    budget_host_bytes: for the frames held in host memory; one frame is always let in, so that the smallest
    budget works. Beside it the store keeps one uncompressed frame at each end, which later frames are
    compressed against. spool_dir: made when first needed, emptied in the end; None: no disk tier.
    budget_disk_bytes: None is unlimited. codec: "auto" holds frames uncompressed while they fit into host
    memory, or wherever there is no disk (the NumPy codec takes 0.4 s of a core for a 4K frame), "always", or
    "never" (for those made on the host and held there; on a device and on disk they are always compressed).
    budget_device_bytes: for frames that are made on a device; taken whole, as one slab, when the first comes.

    A frame that was put must not be written to by its maker.
    """

    def __init__(
        self,
        budget_host_bytes: int,
        spool_dir: Path | None = None,
        codec: Codec = "auto",
        *,
        budget_device_bytes: int = 0,
        budget_disk_bytes: int | None = None,
        segment_bytes: int | None = None,
    ) -> None:
        self._budget = {"device": budget_device_bytes, "host": budget_host_bytes, "disk": budget_disk_bytes}
        self._used = {"device": 0, "host": 0, "disk": 0}
        self._peak = {"device": 0, "host": 0, "disk": 0}
        self._codec = codec
        self._spool: FrameSpool | None = None
        if spool_dir is not None:
            more = {} if segment_bytes is None else {"segment_bytes": segment_bytes}
            self._spool = FrameSpool(spool_dir, **more)
        self._held: deque[_Held] = deque()
        self._changed = threading.Condition()
        self._spool_lock = threading.Lock()  # an abort must not pull the files away from under the other side
        self._closed = self._aborted = False
        self._pool: MemoryPool | None = None
        self._last_put: tuple[list[Any], Tier] | None = None  # planes of the newest frame, and where it went
        self._put = self._taken = self._compressed = self._spooled = self._bytes_in = self._bytes_held = 0

    # The producer's side

    def put(self, frame: YuvFrame) -> None:
        """Take a frame; waits while there is no room. Raises StoreAborted, DiskFull, EnvironmentFault."""
        from kernels_cupy.frame_codec import compress
        from kernels_cupy.launch import mark_ready, on_device

        planes = [frame.y, frame.cb, frame.cr]
        raw_bytes = sum(int(plane.nbytes) for plane in planes)
        made_on_device = on_device(frame.y)
        if made_on_device and self._pool is None and self._budget["device"]:
            self._make_pool()
        compressed: CompressedFrames | None = None
        if made_on_device or not self._stays_raw(raw_bytes):
            previous = self._last_put[0] if self._last_put is not None and self._same_planes(planes) else None
            compressed = compress(
                [planes], previous=previous, bit_depth=frame.bit_depth, deterministic=not made_on_device
            )
        held = None
        while held is None:
            held = self._place(frame, raw_bytes, compressed, made_on_device)
        if made_on_device:
            held = replace(held, ready=mark_ready())
        with self._changed:
            self._held.append(held)
            self._put += 1
            self._compressed += held.frame is None
            self._spooled += held.tier == "disk"
            self._bytes_in += raw_bytes
            self._bytes_held += held.nbytes
            self._last_put = (planes, held.tier)
            self._changed.notify_all()

    def _make_pool(self) -> None:
        """The device tier's slab; without room for it on the device there is no such tier."""
        from kernels_cupy.launch import free_device_bytes
        from kernels_cupy.memory_pool import PAGE_BYTES, MemoryPool

        free_bytes = free_device_bytes()
        budget = self._budget["device"] or 0
        if free_bytes is not None:
            budget = min(budget, int(free_bytes * SHARE_OF_FREE))
        self._budget["device"] = 0
        if pages := budget // PAGE_BYTES:
            with suppress(MemoryError):
                self._pool = MemoryPool(pages)
                self._budget["device"] = pages * PAGE_BYTES

    def close(self) -> None:
        """No more frames: `frames` ends after the last one."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _stays_raw(self, raw_bytes: int) -> bool:
        """Whether a host frame is to be held as it is. Without a disk it waits for room rather than take processor
        time from the encoder that it waits for."""
        if self._codec == "always":
            return False
        with self._changed:
            return self._spool is None or self._has_room("host", raw_bytes)

    def _same_planes(self, planes: list[Any]) -> bool:
        assert self._last_put is not None
        return [tuple(plane.shape) for plane in planes] == [tuple(plane.shape) for plane in self._last_put[0]]

    def _has_room(self, tier: Tier, nbytes: int) -> bool:
        budget = self._budget[tier]
        if tier == "host" and self._used["host"] == 0:
            return True
        return budget is None or self._used[tier] + nbytes <= budget

    def _reserve(self, tier: Tier, nbytes: int) -> bool:
        """Take room in a tier, if it has any. The caller holds the lock."""
        if not self._has_room(tier, nbytes):
            return False
        self._used[tier] += nbytes
        self._peak[tier] = max(self._peak[tier], self._used[tier])
        return True

    def _place(
        self, frame: YuvFrame, raw_bytes: int, compressed: CompressedFrames | None, made_on_device: bool
    ) -> _Held | None:
        """Put the frame into the first tier with room; None after a wait for some."""
        about = (frame.index, frame.chroma, frame.bit_depth)
        nbytes = raw_bytes if compressed is None else compressed.nbytes
        in_pages = 0 if compressed is None or self._pool is None else self._bytes_in_pages(compressed)
        with self._changed:
            if self._aborted:
                raise StoreAborted
            on_device = in_pages > 0 and made_on_device and self._reserve("device", in_pages)
            may_be_held = self._codec != "never" or compressed is None or made_on_device
            on_host = not on_device and may_be_held and self._reserve("host", nbytes)
            to_disk = (
                not (on_device or on_host) and self._spool is not None and self._has_room("disk", nbytes)
            )
            if not (on_device or on_host or to_disk):
                self._changed.wait()
                return None
        if on_device:
            assert compressed is not None
            return self._into_pages(_Held("device", in_pages, *about, decode_on_device=True), compressed)
        if on_host and compressed is None:
            return _Held("host", nbytes, *about, frame=frame)
        if on_host:
            assert compressed is not None
            return _Held(
                "host", nbytes, *about, compressed=compressed.to_host(), decode_on_device=made_on_device
            )
        record = self._write(frame, compressed)
        with self._changed:
            self._used["disk"] += record.nbytes
            self._peak["disk"] = max(self._peak["disk"], self._used["disk"])
        return _Held("disk", record.nbytes, *about, record=record, decode_on_device=made_on_device)

    def _bytes_in_pages(self, compressed: CompressedFrames) -> int:
        assert self._pool is not None
        pages = self._pool.pages_for(int(compressed.payload.nbytes))
        return int(compressed.table.nbytes) + pages * self._pool.page_bytes

    def _into_pages(self, held: _Held, compressed: CompressedFrames) -> _Held:
        assert self._pool is not None
        pages = self._pool.write(compressed.payload)
        kept = replace(compressed, payload=None)
        size = int(compressed.payload.nbytes)
        return replace(held, compressed=kept, pages=pages, payload_bytes=size)

    def _write(self, frame: YuvFrame, compressed: CompressedFrames | None) -> SpoolRecord:
        from kernels_cupy.frame_codec import compress

        assert self._spool is not None
        follows = (
            self._last_put is not None and self._last_put[1] == "disk" and not self._spool.at_segment_start
        )
        if compressed is None or (compressed.layout.chained and not follows):
            # The record before this one is not the frame before it: the record has to stand alone.
            compressed = compress([[frame.y, frame.cb, frame.cr]], bit_depth=frame.bit_depth)
        with self._spool_lock:
            if self._aborted:
                raise StoreAborted
            return self._spool.append(compressed.to_host(), frame)

    # The consumer's side

    def frames(self) -> Iterator[YuvFrame]:
        """Every frame in order, in host memory (uint16 NumPy planes), until `close`; waits for those to come.

        Raises StoreAborted. To be iterated once, by one thread.
        """
        from kernels_cupy.frame_codec import as_samples
        from kernels_cupy.launch import beside, to_host

        before: list[Any] | None = None
        while True:
            with self._changed:
                while not (self._held or self._closed or self._aborted):
                    self._changed.wait()
                if self._aborted:
                    raise StoreAborted
                if not self._held:
                    break
                held = self._held.popleft()
            if held.frame is not None:
                before = [held.frame.y, held.frame.cb, held.frame.cr]
                frame = held.frame
            else:
                with beside(held.ready):
                    before = [as_samples(plane)[0] for plane in self._decode(held, before)]
                    y, cb, cr = (to_host(plane) for plane in before)
                frame = YuvFrame(y, cb, cr, held.index, held.chroma, held.bit_depth)
            with self._changed:
                self._used[held.tier] -= held.nbytes
                self._taken += 1
                self._changed.notify_all()
            yield frame
        if self._spool is not None:
            self._spool.remove()

    def _decode(self, held: _Held, before: list[Any] | None) -> list[Any]:
        from kernels_cupy.frame_codec import decompress

        compressed = held.compressed
        if held.record is not None:
            assert self._spool is not None
            with self._spool_lock:
                if self._aborted:
                    raise StoreAborted
                compressed = self._spool.read(held.record)
                self._spool.forget_before(held.record)
        assert compressed is not None
        if held.pages is not None:
            assert self._pool is not None
            compressed = replace(compressed, payload=self._pool.read(held.pages, held.payload_bytes))
            self._pool.release(held.pages)
        elif held.decode_on_device:
            compressed = compressed.to_device()
        return decompress(compressed, previous=before if compressed.layout.chained else None)[0]

    # Either side

    def abort(self) -> None:
        """Forget every frame and remove the spool; the other side gets StoreAborted."""
        with self._changed:
            self._aborted = True
            self._held.clear()
            self._changed.notify_all()
        if self._spool is not None:
            with self._spool_lock:
                self._spool.remove()

    def report(self) -> StoreReport:
        with self._changed:
            return StoreReport(
                frames_put=self._put,
                frames_taken=self._taken,
                frames_compressed=self._compressed,
                frames_spooled=self._spooled,
                peak_device_bytes=self._peak["device"],
                peak_host_bytes=self._peak["host"],
                peak_disk_bytes=self._peak["disk"],
                bytes_in=self._bytes_in,
                bytes_held=self._bytes_held,
            )
