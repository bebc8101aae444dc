"""LZ4 on the device, in chunks: for what leaves it for the disk. Blocks are the lz4 package's and the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels_cupy.frame_format import LZ4_CHUNK_BYTES, FormatError
from kernels_cupy.launch import launch, on_current_stream
from kernels_cupy.reference.lz4_block import worst_case_bytes

_ALIGNMENT = 16
STRIDE = -(-worst_case_bytes(LZ4_CHUNK_BYTES) // _ALIGNMENT) * _ALIGNMENT


def compress_into(data: Any, blocks: Any, sizes: Any) -> None:
    """Compress `data`, CuPy uint8, chunk by chunk; not waited for.

    blocks: CuPy uint8, STRIDE bytes for each 65,536 of data; sizes: (chunks,) uint32, what each came to.
    """
    with on_current_stream():
        arguments = (data, np.uint64(data.size), blocks, np.uint32(STRIDE), sizes)
        launch("lz4_block", "compress_chunks", (int(sizes.size),), (32,), arguments)


def compress(data: Any) -> list[bytes]:
    """`data`, CuPy uint8, as LZ4 blocks in host memory, one for each 65,536 bytes (none for no data)."""
    import cupy

    chunks = -(-int(data.size) // LZ4_CHUNK_BYTES)
    if chunks == 0:
        return []
    with on_current_stream():
        if int(data.data.ptr) % 4:
            data = data.copy()
        blocks, sizes = cupy.empty(chunks * STRIDE, np.uint8), cupy.empty(chunks, np.uint32)
        compress_into(data, blocks, sizes)
        lengths = sizes.get()
        return [
            blocks[i * STRIDE : i * STRIDE + int(length)].get().tobytes() for i, length in enumerate(lengths)
        ]


def decompress_into(packed: Any, offsets: Any, sizes: Any, data: Any, failed: Any) -> None:
    """The inverse, into `data`, CuPy uint8; not waited for.

    packed: uint8; block i is packed[offsets[i] : offsets[i] + sizes[i]], offsets uint64, sizes uint32, which the
    caller has checked; failed: (chunks,) uint32, zeroed, raised for malformed blocks.
    """
    with on_current_stream():
        arguments = (packed, offsets, sizes, data, np.uint64(data.size), failed)
        launch("lz4_block", "decompress_chunks", (int(sizes.size),), (32,), arguments)


def decompress(blocks: Sequence[bytes], num_bytes: int) -> Any:
    """num_bytes of data, CuPy uint8, from host blocks of 65,536 bytes of data each (the last may hold less).

    Raises FormatError for a block that is malformed or does not hold its share.
    """
    import cupy

    if len(blocks) != -(-num_bytes // LZ4_CHUNK_BYTES):
        raise FormatError(f"{len(blocks)} LZ4 blocks for {num_bytes} bytes")
    lengths = np.array([len(block) for block in blocks], np.uint32)
    if (lengths > 2 * LZ4_CHUNK_BYTES).any():
        raise FormatError("an LZ4 block longer than any can be")
    with on_current_stream():
        data = cupy.empty(num_bytes, np.uint8)
        if not blocks:
            return data
        packed = cupy.asarray(np.frombuffer(b"".join(blocks) + b"\0", np.uint8))
        offsets = (np.cumsum(lengths, dtype=np.uint64) - lengths).astype(np.uint64)
        failed = cupy.zeros(len(blocks), np.uint32)
        decompress_into(packed, cupy.asarray(offsets), cupy.asarray(lengths), data, failed)
        if int(failed.any()):
            raise FormatError(f"LZ4 block {int(failed.argmax())} is damaged")
    return data
