"""LZ4 blocks in plain Python: the specification of `cuda/lz4_block.cu` (lz4_Block_format.md of the lz4 project).

For reading and for checking; whoever needs speed on a CPU uses the lz4 package, which the codec does.
"""

from __future__ import annotations

from kernels_cupy.frame_format import FormatError

MIN_MATCH = 4
LAST_MATCH = 12  # no match begins in the last 12 bytes
LAST_LITERALS = 5  # the last 5 bytes are literals
MAX_DISTANCE = 65535


def worst_case_bytes(num_bytes: int) -> int:
    """No block that `compress` or the kernel writes for so many bytes is longer."""
    return num_bytes + num_bytes // 255 + 16


def _length_bytes(length: int) -> bytes:
    """What follows a nibble of 15 for this length; nothing below 15."""
    if length < 15:
        return b""
    full, rest = divmod(length - 15, 255)
    return b"\xff" * full + bytes([rest])


def _sequence(literals: bytes, match: tuple[int, int] | None) -> bytes:
    code = match[1] - MIN_MATCH if match else 0
    token = min(len(literals), 15) << 4 | min(code, 15)
    start = bytes([token]) + _length_bytes(len(literals)) + literals
    return start if match is None else start + match[0].to_bytes(2, "little") + _length_bytes(code)


def compress(data: bytes) -> bytes:
    """One block, greedily: at every position the latest earlier one with the same four bytes, if there is one."""
    latest: dict[bytes, int] = {}
    block = bytearray()
    anchor = position = 0
    while position < len(data) - LAST_MATCH:
        key = data[position : position + MIN_MATCH]
        candidate = latest.get(key, -1)
        latest[key] = position
        if candidate < 0 or position - candidate > MAX_DISTANCE:
            position += 1
            continue
        length = MIN_MATCH
        end = len(data) - LAST_LITERALS
        while position + length < end and data[candidate + length] == data[position + length]:
            length += 1
        block += _sequence(data[anchor:position], (position - candidate, length))
        position += length
        anchor = position
    return bytes(block + _sequence(data[anchor:], None))


def decompress(block: bytes, num_bytes: int) -> bytes:
    """The num_bytes bytes that a block holds. Raises FormatError if it is malformed or holds another number."""
    out = bytearray()
    read = 0

    def length_of(nibble: int) -> int:
        nonlocal read
        length = nibble
        byte = 255
        while nibble == 15 and byte == 255:
            if read >= len(block):
                raise FormatError("an LZ4 block ends inside a length")
            byte = block[read]
            read += 1
            length += byte
        return length

    while read < len(block):
        token = block[read]
        read += 1
        literals = length_of(token >> 4)
        if literals > len(block) - read or literals > num_bytes - len(out):
            raise FormatError("literals beyond the end of an LZ4 block or of its data")
        out += block[read : read + literals]
        read += literals
        if read == len(block):
            if len(out) != num_bytes:
                raise FormatError(f"an LZ4 block of {len(out)} bytes where {num_bytes} belong")
            return bytes(out)
        if len(block) - read < 2:
            raise FormatError("an LZ4 block ends inside a distance")
        distance = int.from_bytes(block[read : read + 2], "little")
        read += 2
        length = length_of(token & 15) + MIN_MATCH
        if not 1 <= distance <= len(out) or length > num_bytes - len(out):
            raise FormatError("an LZ4 match outside the data")
        start = len(out) - distance
        pattern = bytes(out[start : start + length])
        out += (pattern * -(-length // len(pattern)))[:length]
    raise FormatError("an LZ4 block without its last literals")
