"""cuda/delta_quant.cu, run on the CPU, against the NumPy specification: the same bytes, the same pixels."""

from __future__ import annotations

import re

import numpy as np
import pytest

from kernels_cupy import loader
from kernels_cupy.frame_format import RAW_UNITS, UNIT_BYTES, FrameLayout, make_entries, split_entries
from kernels_cupy.reference import delta_quant
from tests.kernels import on_cpu
from tests.kernels.frames import KINDS, plane
from tests.kernels.on_cpu import aligned, launch, needs_compiler, shuffled

pytestmark = needs_compiler


def descriptors(layout: FrameLayout):
    rows, first = [], 0
    for (height, width), (tile_rows, columns) in zip(layout.planes, layout.plane_tiles, strict=True):
        rows.append((height, width, columns, first))
        first += tile_rows * columns
    array = aligned((len(rows), 4), np.int32)
    array[:] = rows
    return array


def addresses(frames) -> np.ndarray:
    return np.array([[plane.ctypes.data for plane in planes] for planes in frames], np.uint64).reshape(-1)


def on_boundary(frames):
    copies = [[aligned(plane.shape, np.uint16) for plane in planes] for planes in frames]
    for planes, copied in zip(frames, copies, strict=True):
        for original, copy in zip(planes, copied, strict=True):
            copy[...] = original
    return copies


def encode(layout: FrameLayout, frames, previous=None, capacity_units: int | None = None):
    """encode_tiles, then reorder: the deterministic bytes; and the table that the blocks wrote."""
    frames = on_boundary(frames)
    before = None if previous is None else addresses(on_boundary([previous]))
    kept = None if previous is None else on_boundary([previous])
    before = None if kept is None else addresses(kept)
    capacity = layout.num_tiles * RAW_UNITS if capacity_units is None else capacity_units
    table = np.zeros((layout.num_positions, layout.num_frames), np.uint64)
    payload = aligned((capacity + 4) * UNIT_BYTES, np.uint8, 0xA5)
    cursor, failed = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    launch(
        "delta_quant",
        "encode_tiles",
        (layout.num_positions,),
        (256,),
        *(
            addresses(frames),
            before,
            descriptors(layout),
            len(layout.planes),
            layout.num_frames,
            layout.shift,
        ),
        *(table, payload, capacity, cursor, failed),
    )
    assert (payload[capacity * UNIT_BYTES :] == 0xA5).all()
    if failed[0]:
        return None
    assert (payload[int(cursor[0]) * UNIT_BYTES :] == 0xA5).all()
    units = split_entries(table).units.reshape(-1)
    assert cursor[0] == units.sum()
    offsets = (np.cumsum(units) - units).astype(np.uint64)
    ordered_table = np.zeros_like(table)
    ordered = aligned(int(units.sum()) * UNIT_BYTES, np.uint8)
    blocks = (-(-layout.num_tiles * 32 // 256),)
    launch(
        "delta_quant",
        "reorder",
        blocks,
        (256,),
        table,
        offsets,
        layout.num_tiles,
        payload,
        ordered_table,
        ordered,
    )
    return ordered_table, ordered, table, payload


def decode(layout: FrameLayout, table, payload, previous=None):
    targets = [[aligned(size, np.uint16, 0xDEAD) for size in layout.planes] for _ in range(layout.num_frames)]
    kept = None if previous is None else on_boundary([previous])
    failed = np.zeros(1, np.uint32)
    held = aligned(payload.shape, np.uint8)
    held[:] = payload
    launch(
        "delta_quant",
        "decode_tiles",
        (layout.num_positions,),
        (256,),
        *(
            np.ascontiguousarray(table),
            held,
            len(payload) // UNIT_BYTES,
            descriptors(layout),
            len(layout.planes),
        ),
        *(layout.num_frames, layout.shift, (1 << layout.bit_depth) - 1),
        *(None if kept is None else addresses(kept), addresses(targets), failed),
    )
    return targets, bool(failed[0])


def assert_same(layout: FrameLayout, frames, previous=None) -> None:
    table, payload = delta_quant.encode(layout, frames, previous)
    result = encode(layout, frames, previous)
    assert result is not None
    assert np.array_equal(result[0], table)
    assert np.array_equal(result[1], payload)
    expected = delta_quant.decode(layout, table, payload, previous)
    for given_table, given_payload in ((table, payload), (result[2], result[3])):
        decoded, failed = decode(layout, given_table, given_payload, previous)
        assert not failed
        for planes, others in zip(decoded, expected, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(planes, others, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bytes_and_pixels(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    for shapes in (((64, 64),), ((1, 1), (2, 2), (65, 70)), ((128, 136), (70, 61))):
        frames = [[plane(kind, *shape, rng) for shape in shapes] for _ in range(2)]
        frames.append(frames[-1])
        changed = [part.copy() for part in frames[-1]]
        changed[0][0, 0] ^= 1
        frames.append(changed)
        assert_same(FrameLayout(len(frames), shapes, 16), frames)


def test_random_mixtures_chained_and_quantised():
    rng = np.random.default_rng(4)
    for number in range(25):
        shapes = tuple(
            (int(rng.integers(1, 100)), int(rng.integers(1, 100))) for _ in range(rng.integers(1, 4))
        )
        frames = []
        for _ in range(rng.integers(1, 4)):
            planes = [plane(rng.choice(KINDS), *shape, rng) for shape in shapes]
            if frames and rng.random() < 0.6:
                planes = [
                    np.where(rng.random(a.shape) < 0.02, a, b)
                    for a, b in zip(planes, frames[-1], strict=True)
                ]
            frames.append(planes)
        previous = [plane(rng.choice(KINDS), *shape, rng) for shape in shapes] if number % 2 else None
        shift = int(rng.integers(0, 4)) if number % 3 == 0 else 0
        assert_same(FrameLayout(len(frames), shapes, 16, shift, previous is not None), frames, previous)


@pytest.mark.parametrize("seed", range(1, 9))
def test_no_result_depends_on_the_order_of_the_threads(seed):
    rng = np.random.default_rng(seed)
    shapes = ((70, 100), (33, 50))
    frames = []
    for number in range(5):
        planes = [plane(rng.choice(KINDS), *shape, rng) for shape in shapes]
        if number % 2:
            planes = [
                np.where(rng.random(a.shape) < 0.02, a, b) for a, b in zip(planes, frames[-1], strict=True)
            ]
        frames.append(planes)
    with shuffled("delta_quant", seed):
        assert_same(FrameLayout(len(frames), shapes, 16), frames)


@pytest.mark.slow
def test_every_barrier_that_is_taken_out_is_missed(monkeypatch):
    """What the shuffled orders are worth: each __syncthreads of the source is needed, and they show it."""
    text = loader.source("delta_quant")
    barriers = [match.span() for match in re.finditer(r"__syncthreads\(\);", text)]
    assert len(barriers) >= 6
    for start, stop in barriers:
        monkeypatch.setattr(loader, "source", lambda name, cut=text[:start] + text[stop:]: cut)
        on_cpu.library.cache_clear()
        with pytest.raises(AssertionError):
            for seed in range(1, 9):
                test_no_result_depends_on_the_order_of_the_threads(seed)
    monkeypatch.undo()
    on_cpu.library.cache_clear()


def test_planes_off_the_16_byte_boundary():
    rng = np.random.default_rng(9)
    layout = FrameLayout(1, ((64, 64),))
    raw = np.zeros(64 * 64 * 2 + 32, np.uint8)
    start = -raw.ctypes.data % 16 + 2
    view = raw[start : start + 64 * 64 * 2].view(np.uint16).reshape(64, 64)
    view[:] = plane("grain", 64, 64, rng)
    table, payload = np.zeros((1, 1), np.uint64), aligned(RAW_UNITS * UNIT_BYTES, np.uint8)
    cursor, failed = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    launch(
        "delta_quant",
        "encode_tiles",
        (1,),
        (256,),
        *(addresses([[view]]), None, descriptors(layout), 1, 1, 0, table, payload, RAW_UNITS, cursor, failed),
    )
    expected_table, expected = delta_quant.encode(layout, [[view]])
    assert np.array_equal(table, expected_table)
    assert np.array_equal(payload[: len(expected)], expected)


def test_a_payload_buffer_that_is_too_small_is_told_and_never_overrun():
    frames = [[plane("noise16", 130, 130, np.random.default_rng(0))]]
    layout = FrameLayout(1, ((130, 130),))
    for capacity in (0, 1, RAW_UNITS - 1, 3 * RAW_UNITS, 9 * RAW_UNITS - 1):
        assert encode(layout, frames, capacity_units=capacity) is None  # and the canary stood


def test_hostile_tables_and_payloads_never_touch_memory_beyond():
    rng = np.random.default_rng(6)
    layout = FrameLayout(2, ((66, 70),))
    frames = [[plane("grain", 66, 70, rng)] for _ in range(2)]
    table, payload = delta_quant.encode(layout, frames)
    failures = 0
    for number in range(150):
        bad_table, bad_payload = table.copy(), payload.copy()
        if number % 2:
            shape = bad_table.shape
            mode, units = rng.integers(0, 16, shape), rng.choice([0, 7, 8, 100, 511, 512, 1023], shape)
            offset = rng.choice([0, 1, 100, len(payload) // 16, 0xFFFFFFFF, 0xFFFFFF00], shape)
            chosen = rng.random(shape) < 0.5
            forged = make_entries(mode, units, np.zeros(shape, np.uint16), offset)
            bad_table[chosen] = forged[chosen]
        else:
            start = int(rng.integers(0, len(payload)))
            bad_payload[start : start + 200] = rng.integers(0, 256, len(bad_payload[start : start + 200]))
        decoded, failed = decode(layout, bad_table, bad_payload)
        try:
            expected = delta_quant.decode(layout, bad_table, bad_payload)
        except delta_quant.FormatError:
            assert failed
            failures += 1
        else:
            assert not failed
            if number % 2:
                assert np.array_equal(decoded[0][0], expected[0][0])
    assert 75 < failures < 150
