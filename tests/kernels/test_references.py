"""The NumPy and Python specifications of the smaller kernels."""

from __future__ import annotations

import lz4.block
import numpy as np
import pytest

from kernels_cupy.frame_format import FormatError
from kernels_cupy.reference import block_diff, lz4_block
from kernels_cupy.reference.memory_pool import EMPTY, ReferencePool, fragmentation
from tests.kernels.frames import plane


def buffer(number: int, rng: np.random.Generator, longest: int = 300) -> bytes:
    """Random, repetitive, periodic, sparse, text-like, and mixtures; every length from 0 on."""
    size = number % longest if number < 2 * longest else int(rng.integers(0, longest))
    match number % 6:
        case 0:
            return rng.bytes(size)
        case 1:
            return bytes(rng.integers(0, 2, size, np.uint8))
        case 2:
            period = rng.bytes(int(rng.integers(1, 20)))
            return (period * (size // len(period) + 1))[:size]
        case 3:
            sparse = np.zeros(size, np.uint8)
            if size:
                sparse[rng.integers(0, size, 3)] = rng.integers(0, 256, 3)
            return sparse.tobytes()
        case 4:
            return b"".join(rng.choice([b"frame", b"store", b"tile ", b"\0\0\0\0"], size // 5 + 1))[:size]
        case _:
            half = rng.bytes(size // 2)
            return half + half[: size - size // 2]


def test_ten_thousand_lz4_buffers_both_ways():
    rng = np.random.default_rng(1)
    for number in range(10_000):
        data = buffer(number, rng)
        ours = lz4_block.compress(data)
        assert len(ours) <= lz4_block.worst_case_bytes(len(data))
        assert lz4.block.decompress(ours, uncompressed_size=len(data)) == data
        theirs = lz4.block.compress(data, store_size=False)
        assert lz4_block.decompress(theirs, len(data)) == data


@pytest.mark.parametrize("size", [65535, 65536, 70_000])
def test_long_lz4_buffers_and_distances(size):
    rng = np.random.default_rng(size)
    far = rng.bytes(200)
    for data in (bytes(size), far + bytes(size - 400) + far, far + rng.bytes(size - 400) + far):
        ours = lz4_block.compress(data)
        assert lz4.block.decompress(ours, uncompressed_size=size) == data
        assert (
            lz4_block.decompress(lz4.block.compress(data, mode="high_compression", store_size=False), size)
            == data
        )


def test_mutated_lz4_blocks_give_an_error_or_bytes_of_the_promised_length():
    rng = np.random.default_rng(2)
    errors = 0
    for number in range(4000):
        data = buffer(number, rng)
        block = bytearray(lz4_block.compress(data))
        for _ in range(rng.integers(1, 4)):
            block[rng.integers(len(block))] = rng.integers(256)
        if rng.random() < 0.2:
            block = block[: rng.integers(len(block) + 1)]
        try:
            assert len(lz4_block.decompress(bytes(block), len(data))) == len(data)
        except FormatError:
            errors += 1
    assert errors > 1000


def test_changed_blocks_at_both_thresholds():
    rng = np.random.default_rng(3)
    before = [[plane("noise10", 130, 200, rng), plane("smooth", 65, 100, rng)] for _ in range(2)]
    after = [[part.copy() for part in planes] for planes in before]
    assert len(block_diff.changed_blocks(after, before)) == 0
    after[0][0][0, 0] ^= 1  # frame 0, position 0: barely
    after[0][1][64, 99] ^= (
        1  # frame 0, second plane's last block: an edge sample counts as often as it is repeated
    )
    after[1][0][129, 199] += 300
    after[1][1][:] += 30
    positions = 12 + 4
    exact = [0, 12 + 3, positions + 11, *range(positions + 12, positions + 16)]
    assert block_diff.changed_blocks(after, before).tolist() == exact
    half_percent = block_diff.changed_blocks(after, before, threshold_ppm=5000).tolist()
    assert half_percent == [positions + 11, *range(positions + 12, positions + 16)]


def test_black_blocks_change_at_any_threshold():
    black, other = np.zeros((64, 64), np.uint16), np.zeros((64, 64), np.uint16)
    other[5, 5] = 1
    assert block_diff.changed_blocks([[other]], [[black]], threshold_ppm=5000).tolist() == [0]
    assert block_diff.changed_blocks([[black]], [[other]], threshold_ppm=5000).tolist() == [0]


def test_ten_million_random_operations_on_the_pool():
    """Against a set of owners that knows nothing of rings: no page has two owners, none is lost."""
    rng = np.random.default_rng(4)
    num_pages = 60_000
    pool = ReferencePool(num_pages)
    owners = np.zeros(num_pages, np.int64)  # the model
    misused = failed = operations = peak = 0
    while operations < 10_000_000:
        count = int(rng.integers(1, 40_000))
        operations += count
        match rng.integers(5):
            case 0 | 1:
                pages = pool.acquire(count)
                got = pages[pages != EMPTY]
                free = int((owners == 0).sum())
                assert len(got) == min(count, free)
                assert len(np.unique(got)) == len(got)
                assert (owners[got] == 0).all()
                owners[got] = 1
                failed += count - len(got)
            case 2 | 3:
                pages = rng.integers(0, num_pages + 50, count).astype(np.uint32)
                pool.release(pages)
                asked = np.bincount(pages[pages < num_pages], minlength=num_pages)
                done = np.minimum(asked, owners)
                owners -= done
                misused += count - int(done.sum())
            case _:
                pages = rng.integers(0, num_pages + 50, count).astype(np.uint32)
                pool.share(pages)
                asked = np.bincount(pages[pages < num_pages], minlength=num_pages) * (owners > 0)
                owners += asked
                misused += count - int(asked.sum())
        peak = max(peak, int((owners > 0).sum()))
        statistics = pool.statistics()
        assert np.array_equal(pool.references, owners)
        assert (statistics.in_use, statistics.failed, statistics.misused) == (
            (owners > 0).sum(),
            failed,
            misused,
        )
    assert statistics.peak == peak
    assert failed > 0 and misused > 0
    for _ in range(int(owners.max())):
        pool.release(np.flatnonzero(pool.references).astype(np.uint32))
    assert pool.statistics().in_use == 0
    assert np.array_equal(np.sort(pool.acquire(num_pages)), np.arange(num_pages))


def test_fragmentation_is_what_the_longest_free_run_leaves():
    assert fragmentation(np.array([0, 0, 0, 0], np.uint32)) == 0
    assert fragmentation(np.array([1, 1], np.uint32)) == 0
    assert fragmentation(np.array([0, 1, 0, 0, 2, 0], np.uint32)) == pytest.approx(0.5)
