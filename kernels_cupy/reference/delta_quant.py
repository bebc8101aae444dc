"""The tile codec in NumPy: the executable specification of `cuda/delta_quant.cu`, and the CPU path.

The bytes are the same. Everything is done for many tiles at once, as many as stay in the cache.
FORMAT.md is the text; names and order follow it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernels_cupy.frame_format import (
    CONSTANT,
    DC,
    FIRST_PREDICTED,
    GRADIENT,
    GROUP_COLUMNS,
    GROUP_ROWS,
    GROUP_SAMPLES,
    GROUPS_PER_TILE,
    LEFT,
    PREDICTED_LIMIT,
    RAW,
    RAW_UNITS,
    TEMPORAL,
    TILE,
    TILE_SAMPLES,
    UNCHANGED,
    UNIT_BYTES,
    UP,
    WIDTHS_BYTES,
    Entries,
    FormatError,
    FrameLayout,
    check_table,
    make_entries,
)

Plane = NDArray[np.uint16]  # (height, width)
Tiles = NDArray[np.uint16]  # (num_positions, TILE, TILE)
_HALFWORDS_PER_UNIT = UNIT_BYTES // 2
_BATCH_TILES = 256  # 2 MB of samples: a batch and its residuals stay in the cache
_FAR_TOO_MUCH = 1 << 20  # halfwords; the cost of a predictor that may not be used


def _bit_lengths() -> NDArray[np.uint8]:
    lengths = np.zeros(1 << 16, np.uint8)
    for bits in range(16):
        lengths[1 << bits :] = bits + 1
    return lengths


_BIT_LENGTH = _bit_lengths()
_STORED_WIDTH = np.where(_BIT_LENGTH == 15, 16, _BIT_LENGTH).astype(np.uint8)  # the nibble 15 says 16


def quantise(plane: Plane, shift: int) -> Plane:
    """Round to the nearest multiple of 2^shift and drop the low bits; an error of at most 2^shift / 2."""
    if shift == 0:
        return plane
    half = np.uint16(1 << (shift - 1))
    result: Plane = (np.minimum(plane, np.uint16(0xFFFF - half)) + half) >> np.uint16(shift)
    return result


def dequantise(plane: Plane, shift: int, bit_depth: int) -> Plane:
    if shift == 0:
        return plane
    whole = plane.astype(np.uint32) << np.uint32(shift)
    result: Plane = np.minimum(whole, np.uint32((1 << bit_depth) - 1)).astype(np.uint16)
    return result


def to_tiles(plane: Plane) -> Tiles:
    """(height, width) -> (tile rows x tile columns, TILE, TILE); edge samples fill the last tiles."""
    height, width = plane.shape
    rows, columns = -(-height // TILE), -(-width // TILE)
    if (height, width) != (rows * TILE, columns * TILE):
        plane = np.pad(plane, ((0, rows * TILE - height), (0, columns * TILE - width)), mode="edge")
    split = plane.reshape(rows, TILE, columns, TILE).swapaxes(1, 2)
    return np.ascontiguousarray(split).reshape(rows * columns, TILE, TILE)


def from_tiles(tiles: Tiles, height: int, width: int) -> Plane:
    """The inverse of `to_tiles`; C-contiguous."""
    rows, columns = -(-height // TILE), -(-width // TILE)
    whole = tiles.reshape(rows, columns, TILE, TILE).swapaxes(1, 2).reshape(rows * TILE, columns * TILE)
    return np.ascontiguousarray(whole[:height, :width])


def _left_difference(samples: NDArray[np.int16]) -> NDArray[np.int16]:
    result = samples.copy()
    result[:, :, 1:] -= samples[:, :, :-1]
    return result


def _up_difference(samples: NDArray[np.int16]) -> NDArray[np.int16]:
    result = samples.copy()
    result[:, 1:] -= samples[:, :-1]
    return result


def _group_widths(residual: NDArray[np.int16]) -> NDArray[np.uint8]:
    """(tiles, TILE, TILE) -> (tiles, GROUPS_PER_TILE): bits that a group's widest residual needs.

    In two's complement, sign included: r ^ (r << 1) has its highest set bit where r's sign stops repeating,
    so 0 needs 0 bits, -1 needs 1, 1 needs 2.
    """
    bits = residual.view(np.uint16)
    changes = bits ^ (bits << np.uint16(1))
    # A group's row is 8 samples, two 64-bit words: OR those, then the two rows, then the four lanes.
    words = changes.view(np.uint64).reshape(-1, TILE // GROUP_ROWS, GROUP_ROWS, TILE // GROUP_COLUMNS, 2)
    folded = words[:, :, 0] | words[:, :, 1]
    folded = folded[..., 0] | folded[..., 1]
    folded |= folded >> np.uint64(32)
    folded |= folded >> np.uint64(16)
    return _STORED_WIDTH[folded.astype(np.uint16)].reshape(len(residual), GROUPS_PER_TILE)


def _cost(pairs: NDArray[np.int16]) -> NDArray[np.int64]:
    """(tiles, groups, 2) residuals -> (tiles,): the width that each pair needs, added up."""
    bits = pairs.view(np.uint16)
    changes = bits ^ (bits << np.uint16(1))
    widths = _STORED_WIDTH[changes[..., 0] | changes[..., 1]]
    costs: NDArray[np.int64] = widths.reshape(len(pairs), -1).sum(axis=1, dtype=np.int64)
    return costs


def _choose(
    samples: NDArray[np.int16], spread: NDArray[np.uint16], reference: NDArray[np.int16] | None
) -> NDArray[np.int64]:
    """(tiles,): the predictor of each tile, counted from DC. spread: largest - smallest sample.

    Looks at the last two samples of every group's second row, with those above and to the left; for dc at the
    range alone. On photographs that costs 0.6 % of the ratio.
    """

    def last_of_groups(tiles: NDArray[np.int16], row: int, shift: int = 0) -> NDArray[np.int16]:
        """(tiles, groups, 2): the last two columns (less `shift`) of the groups' row 0 or 1."""
        grouped = tiles[:, row::GROUP_ROWS].reshape(len(tiles), -1, GROUP_COLUMNS)
        return grouped[..., GROUP_COLUMNS - 2 - shift : GROUP_COLUMNS - shift]

    upper, lower = last_of_groups(samples, 0), last_of_groups(samples, 1)
    lower_left = lower - last_of_groups(samples, 1, 1)
    costs = [
        GROUPS_PER_TILE * _BIT_LENGTH[spread].astype(np.int64),
        _cost(lower_left),
        _cost(lower - upper),
        _cost(lower_left - (upper - last_of_groups(samples, 0, 1))),
    ]
    if reference is not None:
        far = reference.view(np.uint16).reshape(len(reference), -1).max(axis=1) >= PREDICTED_LIMIT
        costs.append(_cost(lower - last_of_groups(reference, 1)) + np.where(far, _FAR_TOO_MUCH, 0))
    # Of equals the highest mode: argmin takes the first.
    choice: NDArray[np.int64] = len(costs) - 1 - np.stack(costs[::-1]).argmin(axis=0)
    return choice


def _pack_groups(values: NDArray[np.uint16], width: int) -> NDArray[np.uint16]:
    """(16, n) residuals as 16-bit lanes -> (width, n) halfwords: value i begins at bit i * width."""
    mask = np.uint16((1 << width) - 1)
    words = np.zeros((width, values.shape[1]), np.uint16)
    for i in range(GROUP_SAMPLES):
        word, bit = divmod(i * width, 16)
        value = values[i] & mask
        words[word] |= value << np.uint16(bit)
        if bit + width > 16:
            words[word + 1] |= value >> np.uint16(16 - bit)
    return words


def _unpack_groups(words: NDArray[np.uint16], width: int) -> NDArray[np.int16]:
    """The inverse of `_pack_groups`, sign-extended: (width, n) -> (16, n)."""
    values = np.empty((GROUP_SAMPLES, words.shape[1]), np.uint16)
    for i in range(GROUP_SAMPLES):
        word, bit = divmod(i * width, 16)
        value = words[word] >> np.uint16(bit)
        if bit + width > 16:
            value = value | words[word + 1] << np.uint16(16 - bit)
        values[i] = value << np.uint16(16 - width)
    signed: NDArray[np.int16] = values.view(np.int16) >> np.int16(16 - width)
    return signed


def _group_order(residual: NDArray[np.int16]) -> NDArray[np.uint16]:
    """(tiles, TILE, TILE) -> (tiles * GROUPS_PER_TILE, 16): a group's first row, then its second."""
    bits = residual.view(np.uint16)
    split = bits.reshape(-1, TILE // GROUP_ROWS, GROUP_ROWS, TILE // GROUP_COLUMNS, GROUP_COLUMNS)
    return split.swapaxes(2, 3).reshape(-1, GROUP_SAMPLES)


def _raster_order(groups: NDArray[np.int16]) -> NDArray[np.int16]:
    split = groups.reshape(-1, TILE // GROUP_ROWS, TILE // GROUP_COLUMNS, GROUP_ROWS, GROUP_COLUMNS)
    return split.swapaxes(2, 3).reshape(-1, TILE, TILE)


def _encode_tiles(
    tiles: Tiles, reference: Tiles | None
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint16], NDArray[np.uint16]]:
    """One frame's tiles -> modes, sizes in units, values, and the payload in tile order as halfwords."""
    count = len(tiles)
    flat = tiles.reshape(count, TILE_SAMPLES)
    smallest, largest = flat.min(axis=1), flat.max(axis=1)
    mode = np.full(count, RAW, np.uint8)
    value = np.zeros(count, np.uint16)
    constant = smallest == largest
    mode[constant] = CONSTANT
    value[constant] = smallest[constant]
    open_tiles = ~constant
    if reference is not None:
        unchanged = open_tiles & (tiles == reference).reshape(count, -1).all(axis=1)
        mode[unchanged] = UNCHANGED
        open_tiles &= ~unchanged
    index = np.flatnonzero(open_tiles & (largest < PREDICTED_LIMIT))

    if len(index) == 0:
        return _assemble(mode, value, flat, [])
    samples = tiles[index].view(np.int16)
    before = None if reference is None else reference[index].view(np.int16)
    choice = _choose(samples, largest[index] - smallest[index], before) + FIRST_PREDICTED
    middle = ((smallest[index].astype(np.int32) + largest[index] + 1) >> 1).astype(np.int16)
    parts = []
    for each in np.unique(choice):
        members = np.flatnonzero(choice == each)
        chosen = samples[members]
        base = middle[members] if each == DC else chosen[:, 0, 0].copy()
        if each == TEMPORAL:
            assert before is not None
            base = np.zeros_like(base)
            residual = chosen - before[members]
        else:
            residual = chosen - base[:, None, None]
        if each in (LEFT, GRADIENT):
            residual = _left_difference(residual)
        if each in (UP, GRADIENT):
            residual = _up_difference(residual)
        widths = _group_widths(residual)
        units = -(-(WIDTHS_BYTES + 2 * widths.sum(axis=1, dtype=np.int64)) // UNIT_BYTES)
        packed = units < RAW_UNITS
        numbers = index[members[packed]]
        mode[numbers], value[numbers] = each, base[packed].view(np.uint16)
        parts.append((numbers, units[packed], widths[packed], residual[packed]))
    return _assemble(mode, value, flat, parts)


_Part = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int16]]


def _assemble(
    mode: NDArray[np.uint8], value: NDArray[np.uint16], flat: NDArray[np.uint16], parts: list[_Part]
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint16], NDArray[np.uint16]]:
    """Lay out the payload. parts: tiles of one predictor each: their numbers, units, widths, residuals."""
    sizes = np.where(mode == RAW, RAW_UNITS, 0).astype(np.int64)
    for numbers, units, _, _ in parts:
        sizes[numbers] = units
    offsets = np.cumsum(sizes) - sizes
    payload = np.zeros(int(sizes.sum()) * _HALFWORDS_PER_UNIT, np.uint16)
    for tile in np.flatnonzero(mode == RAW):
        start = offsets[tile] * _HALFWORDS_PER_UNIT
        payload[start : start + TILE_SAMPLES] = flat[tile]
    for numbers, _, widths, residual in parts:
        if len(numbers):
            _write_packed(payload, offsets[numbers] * _HALFWORDS_PER_UNIT, widths, residual)
    return mode, sizes, value, payload


def _write_packed(
    payload: NDArray[np.uint16],
    starts: NDArray[np.int64],
    widths: NDArray[np.uint8],
    residual: NDArray[np.int16],
) -> None:
    nibbles = np.minimum(widths, 15)
    pairs = (nibbles[:, 0::2] | nibbles[:, 1::2] << 4).astype(np.uint8)  # even group in the low nibble
    payload[starts[:, None] + np.arange(WIDTHS_BYTES // 2)] = pairs.view("<u2")
    ends = np.cumsum(widths, axis=1, dtype=np.int64)
    first = (starts[:, None] + WIDTHS_BYTES // 2 + ends - widths).reshape(-1)
    groups = _group_order(residual)
    flat_widths = widths.reshape(-1)
    for width in np.unique(flat_widths):
        if width:
            members = np.flatnonzero(flat_widths == width)
            words = _pack_groups(np.ascontiguousarray(groups[members].T), int(width))
            payload[first[members] + np.arange(int(width))[:, None]] = words


def _decode_residuals(
    payload: NDArray[np.uint16], starts: NDArray[np.int64], units: NDArray[np.int64]
) -> NDArray[np.int16]:
    """Tiles at `starts` (halfwords) -> (tiles, TILE, TILE) residuals. FormatError: widths belie the size."""
    pairs = payload[starts[:, None] + np.arange(WIDTHS_BYTES // 2)].view(np.uint8)
    widths = np.empty((len(starts), GROUPS_PER_TILE), np.uint8)
    widths[:, 0::2], widths[:, 1::2] = pairs & 15, pairs >> 4
    widths[widths == 15] = 16
    ends = np.cumsum(widths, axis=1, dtype=np.int64)
    if (-(-(WIDTHS_BYTES + 2 * ends[:, -1]) // UNIT_BYTES) != units).any():
        raise FormatError("a tile's group widths do not add up to its size")
    first = (starts[:, None] + WIDTHS_BYTES // 2 + ends - widths).reshape(-1)
    flat_widths = widths.reshape(-1)
    groups = np.zeros((len(flat_widths), GROUP_SAMPLES), np.int16)
    for width in np.unique(flat_widths):
        if width:
            members = np.flatnonzero(flat_widths == width)
            words = payload[first[members] + np.arange(int(width))[:, None]]
            groups[members] = _unpack_groups(words, int(width)).T
    return _raster_order(groups)


def _decode_tiles(
    payload: NDArray[np.uint16], entries: Entries, frame: int, reference: Tiles | None
) -> Tiles:
    tiles = np.empty((len(entries.mode), TILE, TILE), np.uint16)
    for start in range(0, len(tiles), _BATCH_TILES):
        batch = slice(start, start + _BATCH_TILES)
        old = None if reference is None else reference[batch]
        _decode_batch(payload, entries, frame, batch, old, tiles[batch])
    return tiles


def _decode_batch(
    payload: NDArray[np.uint16],
    entries: Entries,
    frame: int,
    batch: slice,
    reference: Tiles | None,
    tiles: Tiles,
) -> None:
    mode, value = entries.mode[batch, frame], entries.value[batch, frame]
    units, starts = entries.units[batch, frame], entries.offset[batch, frame] * _HALFWORDS_PER_UNIT
    constant = mode == CONSTANT
    tiles[constant] = value[constant, None, None]
    if reference is not None:
        tiles[mode == UNCHANGED] = reference[mode == UNCHANGED]
    for tile in np.flatnonzero(mode == RAW):
        tiles[tile] = payload[starts[tile] : starts[tile] + TILE_SAMPLES].reshape(TILE, TILE)
    packed = np.flatnonzero(mode >= FIRST_PREDICTED)
    if len(packed) == 0:
        return
    residual = _decode_residuals(payload, starts[packed], units[packed])
    packed_mode = mode[packed]
    for each in (DC, LEFT, UP, GRADIENT, TEMPORAL):
        members = packed_mode == each
        if not members.any():
            continue
        samples = residual if members.all() else residual[members]
        chosen = packed[members]
        if each in (LEFT, GRADIENT):
            samples = np.cumsum(samples, axis=2, dtype=np.int16)
        if each in (UP, GRADIENT):
            samples = np.cumsum(samples, axis=1, dtype=np.int16)
        if each == TEMPORAL:
            assert reference is not None  # check_table has seen to it
            tiles[chosen] = samples.view(np.uint16) + reference[chosen]
        else:
            tiles[chosen] = samples.view(np.uint16) + value[chosen, None, None]


def frame_tiles(layout: FrameLayout, planes: Sequence[Plane]) -> Tiles:
    """One frame's planes, as the caller has them -> its quantised tiles, (num_positions, TILE, TILE)."""
    parts = []
    for plane, size in zip(planes, layout.planes, strict=True):
        if plane.shape != size or plane.dtype != np.uint16:
            raise ValueError(f"a plane of {plane.shape} {plane.dtype} where the layout has {size} uint16")
        parts.append(to_tiles(quantise(plane, layout.shift)))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def encode(
    layout: FrameLayout, frames: Sequence[Sequence[Plane]], previous: Sequence[Plane] | None = None
) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Compress frames[frame][plane], (height, width) uint16 each.

    previous: the planes of the frame before, if the layout is chained: as `decode` gives them, so that a
    quantised chain does not drift.
    Returns the tile table, (num_positions, num_frames) uint64, and the payload, uint8, in deterministic
    order: tile by tile, frames innermost.
    """
    if len(frames) != layout.num_frames or layout.chained != (previous is not None):
        raise ValueError("the frames given are not those of the layout")
    reference = None if previous is None else frame_tiles(layout, previous)
    shape = (layout.num_positions, layout.num_frames)
    mode, value = np.empty(shape, np.uint8), np.empty(shape, np.uint16)
    sizes = np.empty(shape, np.int64)
    parts: list[NDArray[np.uint16]] = []
    for number, planes in enumerate(frames):
        tiles = frame_tiles(layout, planes)
        batches = []
        for start in range(0, len(tiles), _BATCH_TILES):
            batch = slice(start, start + _BATCH_TILES)
            old = None if reference is None else reference[batch]
            results = _encode_tiles(tiles[batch], old)
            mode[batch, number], sizes[batch, number], value[batch, number] = results[:3]
            batches.append(results[3])
        parts.append(batches[0] if len(batches) == 1 else np.concatenate(batches))
        reference = tiles
    flat_sizes = sizes.reshape(-1)
    offsets = (np.cumsum(flat_sizes) - flat_sizes).reshape(shape)
    offsets_or_zero = np.where(sizes > 0, offsets, 0)
    table = make_entries(mode, sizes, value, offsets_or_zero)
    if len(parts) == 1:
        return table, parts[0].view(np.uint8)
    payload = np.empty((int(flat_sizes.sum()), UNIT_BYTES // 8), np.uint64)
    for number, part in enumerate(parts):
        units = sizes[:, number]
        within = np.arange(int(units.sum())) - np.repeat(np.cumsum(units) - units, units)
        rows = part.view(np.uint64).reshape(-1, UNIT_BYTES // 8)
        payload[np.repeat(offsets[:, number], units) + within] = rows
    return table, payload.reshape(-1).view(np.uint8)


def decode(
    layout: FrameLayout,
    table: NDArray[np.uint64],
    payload: NDArray[np.uint8],
    previous: Sequence[Plane] | None = None,
) -> list[list[Plane]]:
    """The planes of every frame, frames[frame][plane], (height, width) uint16. Raises FormatError."""
    if layout.chained != (previous is not None):
        raise ValueError("a chained stream needs the frame before it, and no other does")
    if len(payload) % UNIT_BYTES:
        raise FormatError("the payload is not a whole number of units")
    entries = check_table(layout, table, len(payload))
    halfwords = payload.view("<u2")
    reference = None if previous is None else frame_tiles(layout, previous)
    frames = []
    for number in range(layout.num_frames):
        tiles = _decode_tiles(halfwords, entries, number, reference)
        reference = tiles
        planes, start = [], 0
        for (rows, columns), (height, width) in zip(layout.plane_tiles, layout.planes, strict=True):
            stop = start + rows * columns
            plane = from_tiles(tiles[start:stop], height, width)
            planes.append(dequantise(plane, layout.shift, layout.bit_depth))
            start = stop
        frames.append(planes)
    return frames
