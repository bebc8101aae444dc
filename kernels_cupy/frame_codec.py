"""Compress and decompress frames: one small interface over the kernels and over NumPy.

Where the frames lie decides: CuPy arrays and torch CUDA tensors go through `delta_quant` (the kernels),
everything else through `reference.delta_quant`. Both write the format of FORMAT.md and read each other's.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from kernels_cupy.frame_format import (
    ENTRY_BYTES,
    LZ4_CHUNK_BYTES,
    LZ4_STORED,
    TILE_SAMPLES,
    FormatError,
    FrameLayout,
    Header,
    SampleType,
    compression_ratio,
    pack_header,
    unpack_header,
)
from kernels_cupy.launch import on_device
from kernels_cupy.reference import delta_quant as reference

MAX_CODE_10BIT = 1023
DEFAULT_MAX_SAMPLES = 1 << 34  # 32 GiB of 16-bit samples; from_bytes refuses more unless told otherwise

Planes = Sequence[Any]  # one frame: arrays (height, width)


def as_samples(plane: Any) -> tuple[Any, SampleType]:
    """(height, width) of any usual dtype -> the same as C-contiguous uint16, and what it was.

    uint16, int16 (by its bits), uint8, bool: exact. Wider integers: exact if 0 .. 65535, else ValueError.
    float16, bfloat16, float32, float64: taken as [0, 1], clamped, rounded to 10-bit codes (lossy: steps of
    1/1023); NaN is 0.
    Host arrays come back as NumPy, device arrays as CuPy.
    """
    if on_device(plane):
        from kernels_cupy.delta_quant import device_array

        plane = device_array(plane)
        import cupy

        xp: Any = cupy
    else:
        xp = np
        if type(plane).__module__.partition(".")[0] == "torch":
            plane = plane.detach()
            plane = (plane.float() if plane.dtype.is_floating_point else plane).numpy()
        plane = np.asarray(plane)
    if plane.ndim != 2 or 0 in plane.shape:
        raise ValueError(f"a plane is (height, width), at least 1 x 1, not {plane.shape}")
    if plane.dtype == xp.uint16:
        return xp.ascontiguousarray(plane), "uint16"
    if plane.dtype == xp.int16:
        return xp.ascontiguousarray(plane).view(xp.uint16), "int16"
    if plane.dtype in (xp.uint8, xp.bool_):
        return plane.astype(xp.uint16, order="C"), "uint8"
    if plane.dtype.kind in "iu":
        if int(plane.min()) < 0 or int(plane.max()) > 0xFFFF:
            raise ValueError("samples outside 0 .. 65535")
        return plane.astype(xp.uint16, order="C"), "uint16"
    if plane.dtype.kind == "f":
        unit = xp.clip(xp.nan_to_num(plane.astype(xp.float32), nan=0.0), 0.0, 1.0)
        return xp.rint(unit * xp.float32(MAX_CODE_10BIT)).astype(xp.uint16, order="C"), "uint16"
    raise ValueError(f"samples of dtype {plane.dtype} are not understood")


def _from_samples(plane: Any, sample_type: SampleType) -> Any:
    if sample_type == "int16":
        return plane.view(np.int16)
    return plane.astype(np.uint8) if sample_type == "uint8" else plane


@dataclass(frozen=True)
class CompressedFrames:
    """Compressed frames in memory, on the host (NumPy) or on the device (CuPy).

    table: (num_positions, num_frames) uint64. payload: uint8, a whole number of 16-byte units.
    """

    layout: FrameLayout
    table: Any
    payload: Any

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes) + int(self.payload.nbytes)

    @property
    def ratio(self) -> float:
        """Against the samples at 16 bits; the padding of edge tiles is not counted as data."""
        return compression_ratio(self.layout, self.nbytes)

    @property
    def on_device(self) -> bool:
        return on_device(self.payload)

    def to_host(self) -> CompressedFrames:
        """The same in host memory (page-locked when it comes from a device)."""
        if not self.on_device:
            return self
        from kernels_cupy.delta_quant import to_pinned

        return replace(self, table=to_pinned(self.table), payload=to_pinned(self.payload))

    def to_device(self) -> CompressedFrames:
        """The same on the current device."""
        if self.on_device:
            return self
        from kernels_cupy.delta_quant import device_array

        return replace(self, table=device_array(self.table), payload=device_array(self.payload))

    def to_bytes(self, *, lz4: bool = True) -> bytes:
        """A stream with header and checksums. lz4: chunks over the body, kept only if that is shorter."""
        host = self.to_host()
        body = host.table.tobytes() + host.payload.tobytes()
        stored = _lz4_chunks(body) if lz4 else body
        shorter = len(stored) < len(body)
        stored = stored if shorter else body
        return pack_header(self.layout, int(host.payload.nbytes), stored, lz4=shorter) + stored

    @classmethod
    def from_bytes(cls, stream: bytes | memoryview, *, max_samples: int = DEFAULT_MAX_SAMPLES) -> Self:
        """Read a whole stream into host memory. Raises FormatError for one that is not whole and undamaged.

        Table entries and tile payloads are checked when they are decoded.
        """
        view = memoryview(stream)
        header = unpack_header(view)
        layout = header.layout
        if layout.num_tiles * TILE_SAMPLES > max_samples:
            raise FormatError(f"the stream holds more than the {max_samples} samples allowed here")
        stored = view[header.size :]
        if len(stored) != header.body_bytes:
            raise FormatError(f"{len(stored)} bytes after the header, which promises {header.body_bytes}")
        if zlib.crc32(stored) != header.body_checksum:
            raise FormatError("the checksum does not match: the stream is damaged")
        body = _read_body(header, stored)
        table_bytes = layout.num_tiles * ENTRY_BYTES
        table = np.frombuffer(body, "<u8", layout.num_tiles).reshape(layout.num_positions, layout.num_frames)
        return cls(layout, table, np.frombuffer(body, np.uint8, offset=table_bytes))


def _lz4_chunks(body: bytes) -> bytes:
    import lz4.block

    parts = []
    for start in range(0, len(body), LZ4_CHUNK_BYTES):
        chunk = body[start : start + LZ4_CHUNK_BYTES]
        packed = lz4.block.compress(chunk, store_size=False)
        if len(packed) < len(chunk):
            parts += [struct.pack("<I", len(packed)), packed]
        else:
            parts += [struct.pack("<I", len(chunk) | LZ4_STORED), chunk]
    return b"".join(parts)


def _read_body(header: Header, stored: memoryview) -> bytes | memoryview:
    length = header.layout.num_tiles * ENTRY_BYTES + header.payload_bytes
    if not header.lz4:
        if len(stored) != length:
            raise FormatError(f"a body of {len(stored)} bytes where the layout needs {length}")
        return stored
    import lz4.block

    # An LZ4 block grows at most 255-fold: a small stream cannot make us allocate much.
    if length > 255 * len(stored):
        raise FormatError("more data promised than the stream can hold")
    body = bytearray(length)
    position = 0
    for start in range(0, length, LZ4_CHUNK_BYTES):
        size = min(LZ4_CHUNK_BYTES, length - start)
        if position + 4 > len(stored):
            raise FormatError("the stream ends inside its chunks")
        (word,) = struct.unpack_from("<I", stored, position)
        packed = stored[position + 4 : position + 4 + (word & (LZ4_STORED - 1))]
        position += 4 + (word & (LZ4_STORED - 1))
        if position > len(stored):
            raise FormatError("a chunk is longer than the stream")
        if word & LZ4_STORED:
            chunk: bytes | memoryview = packed
        else:
            try:
                chunk = lz4.block.decompress(packed, uncompressed_size=size)
            except (lz4.block.LZ4BlockError, ValueError, OverflowError) as error:
                raise FormatError(f"a damaged LZ4 chunk: {error}") from error
        if len(chunk) != size:
            raise FormatError(f"a chunk of {len(chunk)} bytes where {size} belong")
        body[start : start + size] = chunk
    if position != len(stored):
        raise FormatError("bytes are left over after the last chunk")
    return memoryview(body).toreadonly()


def compress(
    frames: Sequence[Planes] | Any,
    *,
    previous: Planes | None = None,
    bit_depth: int = 10,
    shift: int = 0,
    deterministic: bool = True,
) -> CompressedFrames:
    """Compress frames where they lie.

    frames: frames[frame][plane] is an array (height, width); an array (num_frames, num_planes, height, width)
    will do. Dtypes: see `as_samples`. All frames have the same planes.
    previous: the frame before the first, as decoded; the result is then chained to it.
    shift: low bits to give up; 0 is lossless. deterministic: payloads in table order (always so on the CPU).
    """
    samples = [[as_samples(plane) for plane in planes] for planes in frames]
    if not samples or not samples[0]:
        raise ValueError("nothing to compress")
    shapes = tuple((int(plane.shape[0]), int(plane.shape[1])) for plane, _ in samples[0])
    kinds = {kind for planes in samples for _, kind in planes}
    if any(tuple(plane.shape for plane, _ in planes) != shapes for planes in samples):
        raise ValueError("the frames differ in the sizes of their planes")
    if len(kinds) != 1:
        raise ValueError(f"the planes differ in dtype: {', '.join(sorted(kinds))}")
    layout = FrameLayout(len(samples), shapes, bit_depth, shift, previous is not None, kinds.pop())
    arrays = [[plane for plane, _ in planes] for planes in samples]
    before = None if previous is None else [as_samples(plane)[0] for plane in previous]
    if on_device(arrays[0][0]):
        from kernels_cupy import delta_quant

        return CompressedFrames(
            layout, *delta_quant.encode(layout, arrays, before, deterministic=deterministic)
        )
    return CompressedFrames(layout, *reference.encode(layout, arrays, before))


def decompress(compressed: CompressedFrames, *, previous: Planes | None = None) -> list[list[Any]]:
    """The frames, frames[frame][plane], (height, width) of the type that went in, where `compressed` lies.

    previous: needed if the stream is chained (ValueError otherwise). Raises FormatError for a stream that no
    encoder wrote.
    """
    layout = compressed.layout
    before = None if previous is None else [as_samples(plane)[0] for plane in previous]
    if compressed.on_device:
        from kernels_cupy import delta_quant

        frames = delta_quant.decode(layout, compressed.table, compressed.payload, before)
    else:
        frames = reference.decode(layout, compressed.table, compressed.payload, before)
    return [[_from_samples(plane, layout.sample_type) for plane in planes] for planes in frames]
