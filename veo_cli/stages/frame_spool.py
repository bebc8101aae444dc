"""Frames on disk while they wait: segments of framed records, readable to the last whole one after any kill.

A segment is a file `frames-NNNNNN.spool` of records: a 32-byte header with its own CRC-32, then a
compressed-frame stream (kernels_cupy/FORMAT.md) with its checksums. The first record of a segment stands
alone; later ones may be chained to the record before. A segment is removed once its last frame was taken.
Records are not fsynced: they outlive the process, not a power cut, after which the clip is decoded again from
its latents.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veo_cli import durable_file
from veo_cli.values import Chroma, YuvFrame

if TYPE_CHECKING:
    from kernels_cupy.frame_codec import CompressedFrames

SEGMENT_BYTES = 256 << 20  # a segment is closed at the first record that ends beyond this
_RECORD = struct.Struct(
    "<4sHHQQI4x"
)  # magic, bit depth, chroma, index, stream bytes, CRC-32 of what precedes
_MAGIC = b"VSP1"
_CHROMAS: tuple[Chroma, ...] = ("420", "444")


@dataclass(frozen=True)
class SpoolRecord:
    """Where a frame lies."""

    path: Path
    offset: int  # of the compressed stream
    nbytes: int  # of the stream
    index: int
    chroma: Chroma
    bit_depth: int


class FrameSpool:
    """The writing end, and the reading of what it wrote; not safe for several writers, readers are free."""

    def __init__(self, folder: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._number = 0
        self._descriptor = -1
        self._path = folder
        self._size = 0

    @property
    def at_segment_start(self) -> bool:
        """Whether the next record opens a segment, and so must not be chained."""
        return self._descriptor < 0

    def append(self, compressed: CompressedFrames, frame: YuvFrame) -> SpoolRecord:
        """Write one frame. Raises DiskFull or EnvironmentFault and leaves the spool as it was."""
        assert not (self.at_segment_start and compressed.layout.chained)
        stream = compressed.to_bytes()
        chroma = _CHROMAS.index(frame.chroma)
        head = _RECORD.pack(_MAGIC, frame.bit_depth, chroma, frame.index, len(stream), 0)[:24]
        head += struct.pack("<I4x", zlib.crc32(head))
        try:
            if self._descriptor < 0:
                self._open_segment()
            durable_file.write_all(self._descriptor, head + stream)
        except OSError as error:
            if self._descriptor >= 0:
                os.ftruncate(self._descriptor, self._size)
                os.lseek(self._descriptor, self._size, os.SEEK_SET)
            raise durable_file.as_veo_error(error, self._path) from error
        offset = self._size + len(head)
        record = SpoolRecord(self._path, offset, len(stream), frame.index, frame.chroma, frame.bit_depth)
        self._size = offset + len(stream)
        if self._size >= self._segment_bytes:
            self._close_segment()
        return record

    def read(self, record: SpoolRecord) -> CompressedFrames:
        """A record's compressed frame, in host memory. Raises FormatError if it was damaged since."""
        from kernels_cupy.frame_codec import CompressedFrames

        with record.path.open("rb") as file:
            file.seek(record.offset)
            return CompressedFrames.from_bytes(file.read(record.nbytes))

    def forget_before(self, record: SpoolRecord | None) -> None:
        """Remove the segments that end before `record` (None: all of them)."""
        for path in segments(self._folder):
            if record is not None and path.name >= record.path.name:
                break
            if record is None and path == self._path:
                self._close_segment()
            path.unlink(missing_ok=True)

    def _open_segment(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._number += 1
        self._path = self._folder / f"frames-{self._number:06d}.spool"
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._size = 0

    def _close_segment(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def remove(self) -> None:
        """Close and delete every segment of the folder; the folder too, if nothing else is in it."""
        self._close_segment()
        for path in segments(self._folder):
            path.unlink(missing_ok=True)
        try:
            self._folder.rmdir()
        except OSError:
            return  # never made, or something of another's is in it


def segments(folder: Path) -> list[Path]:
    """The segments in a folder, oldest first."""
    return sorted(folder.glob("frames-??????.spool"))


def frame_of(planes: list[Any], record: SpoolRecord) -> YuvFrame:
    y, cb, cr = planes
    return YuvFrame(y, cb, cr, record.index, record.chroma, record.bit_depth)


def recover(folder: Path) -> Iterator[YuvFrame]:
    """The frames that a killed process left in `folder`, up to the last whole record; nothing is removed.

    Frames that were never spooled, or taken already, are missing: look at `index`.
    """
    from kernels_cupy.frame_codec import CompressedFrames, decompress
    from kernels_cupy.frame_format import FormatError

    for path in segments(folder):
        data = path.read_bytes()
        offset = 0
        planes: list[Any] | None = None
        while offset + _RECORD.size <= len(data):
            magic, bit_depth, chroma, index, nbytes, checksum = _RECORD.unpack_from(data, offset)
            if magic != _MAGIC or zlib.crc32(data[offset : offset + 24]) != checksum:
                return
            offset += _RECORD.size
            if offset + nbytes > len(data) or chroma >= len(_CHROMAS):
                return
            try:
                compressed = CompressedFrames.from_bytes(memoryview(data)[offset : offset + nbytes])
                previous = planes if compressed.layout.chained else None
                planes = decompress(compressed, previous=previous)[0]
            except FormatError:
                return
            yield frame_of(planes, SpoolRecord(path, offset, nbytes, index, _CHROMAS[chroma], bit_depth))
            offset += nbytes
