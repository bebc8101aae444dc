"""The wrappers' Python, with a stand-in for CuPy that runs the kernels on the CPU."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from kernels_cupy import loader
from kernels_cupy.frame_codec import CompressedFrames, compress, decompress
from kernels_cupy.frame_format import LZ4_CHUNK_BYTES, FormatError
from kernels_cupy.reference import block_diff as reference_block_diff
from kernels_cupy.reference import color as reference_color
from kernels_cupy.reference import lanczos as reference_lanczos
from tests.kernels import cupy_on_cpu
from tests.kernels.frames import KINDS, plane
from tests.kernels.on_cpu import needs_compiler
from tests.kernels.test_gpu_kernels import assert_the_same, equal, to_device

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def cupy(monkeypatch):
    stand_in = cupy_on_cpu.module()
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    loader._module.cache_clear()
    yield stand_in
    loader._module.cache_clear()


@pytest.mark.parametrize("kind", KINDS)
def test_the_codec_on_the_device_is_the_codec_on_the_host(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    frames = [[plane(kind, 65, 70, rng), plane("grain", 3, 4, rng)] for _ in range(2)]
    frames.append(frames[-1])
    assert_the_same(frames, bit_depth=16)
    assert_the_same(frames[1:], previous=frames[0], shift=2, bit_depth=16)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.float16, np.float64])
def test_dtypes(dtype, cupy):
    values = np.random.default_rng(0).random((20, 30))
    given = values.astype(dtype) if np.dtype(dtype).kind == "f" else (values * 255).astype(dtype)
    (ours,), (theirs,) = (decompress(compress([[part]]))[0] for part in (cupy.asarray(given), given))
    assert ours.dtype == theirs.dtype
    assert np.array_equal(ours.get(), theirs)


def test_damaged_frames_are_an_error(cupy):
    frames = [[plane("grain", 70, 70, np.random.default_rng(0))]]
    good = compress(frames)
    bad_table = good.table.copy()
    bad_table[1, 0] ^= np.uint64(1) << np.uint64(49)  # another size
    with pytest.raises(FormatError, match="impossible"):
        decompress(CompressedFrames(good.layout, cupy.asarray(bad_table), cupy.asarray(good.payload)))
    with pytest.raises(FormatError, match="layout"):
        decompress(CompressedFrames(good.layout, cupy.asarray(good.table[1:]), cupy.asarray(good.payload)))
    with pytest.raises(ValueError, match="frame before"):
        decompress(good.to_device(), previous=to_device(frames)[0])


def test_frames_of_nothing_but_constants_have_no_payload():
    assert_the_same([[np.full((70, 70), 64, np.uint16)]] * 2)


def test_changed_blocks(cupy):
    from kernels_cupy import block_diff

    rng = np.random.default_rng(1)
    before = [[plane("noise10", 70, 130, rng), plane("smooth", 35, 65, rng)] for _ in range(2)]
    after = [[part.copy() for part in planes] for planes in before]
    after[0][0][69, 129] ^= 1
    after[1][1][0, 0] += 500
    for threshold_ppm in (0, 5000):
        ids = block_diff.changed_blocks(to_device(after), to_device(before), threshold_ppm=threshold_ppm)
        expected = reference_block_diff.changed_blocks(after, before, threshold_ppm=threshold_ppm)
        assert np.array_equal(ids, expected)


def test_the_pool(cupy):
    from kernels_cupy.memory_pool import MemoryPool, PoolExhausted, PoolMisuse

    pool = MemoryPool(300, 64, debug=True)
    pages = pool.acquire(300)
    assert np.array_equal(np.sort(pages.get()), np.arange(300))
    with pytest.raises(PoolExhausted, match="2 pages asked for, 0 of 300 free"):
        pool.acquire(2)
    pool.share(pages[:10])
    pool.release(pages)
    assert pool.statistics().in_use == 10
    pool.release(pages[:10])
    with pytest.raises(PoolMisuse, match="1 of the pages"):
        pool.release(pages[:1])
    with pytest.raises(PoolMisuse, match="2 of the pages"):
        pool.share(cupy.asarray(np.array([300, 5], np.uint32)))
    statistics = pool.statistics()
    assert (statistics.in_use, statistics.peak, statistics.failed, statistics.misused) == (0, 300, 2, 3)
    pool.acquire(250)
    with pytest.raises(PoolExhausted, match="50 of 300"):
        pool.acquire(51)
    assert pool.statistics().in_use == 250  # all or none
    assert pool.acquire(0).size == 0
    assert pool.page(2).size == 64


def test_lz4(cupy):
    from kernels_cupy import lz4_block

    rng = np.random.default_rng(2)
    data = rng.integers(0, 3, LZ4_CHUNK_BYTES + 5000, np.uint8).tobytes() + bytes(LZ4_CHUNK_BYTES)
    blocks = lz4_block.compress(cupy.asarray(np.frombuffer(data, np.uint8)))
    assert len(blocks) == 3
    assert sum(map(len, blocks)) < len(data) / 2
    assert lz4_block.decompress(blocks, len(data)).get().tobytes() == data
    assert lz4_block.compress(cupy.zeros(0, np.uint8)) == []
    assert lz4_block.decompress([], 0).size == 0
    for damaged in ([blocks[0][:-1], *blocks[1:]], blocks[:2], [bytes(3 * LZ4_CHUNK_BYTES), *blocks[1:]]):
        with pytest.raises(FormatError):
            lz4_block.decompress(damaged, len(data))


def test_color(cupy):
    from kernels_cupy import color

    rgb = np.random.default_rng(3).random((2, 3, 19, 67)).astype(np.float32)
    for chroma in ("420", "444"):
        ours = color.rgb_to_yuv(cupy.asarray(rgb), color="bt2020", chroma=chroma)
        expected = reference_color.rgb_to_yuv(rgb, color="bt2020", chroma=chroma)
        for part, other in zip(ours, expected, strict=True):
            assert part.shape == other.shape
            assert np.abs(part.get().astype(int) - other).max() <= 1


def test_lanczos(cupy):
    from kernels_cupy import lanczos

    frames = np.random.default_rng(4).random((2, 3, 20, 30), dtype=np.float32)
    for target in ((45, 80), (7, 11), (20, 64), (33, 30), (20, 30)):
        ours = lanczos.resize(cupy.asarray(frames), *target).get()
        assert np.abs(ours - reference_lanczos.resize(frames, *target)).max() < 1e-5


def test_the_store_with_frames_made_on_the_device(cupy, tmp_path):
    from tests.kernels.test_frame_store import assert_same, make_frame
    from veo_cli.stages.frame_store import FrameStore
    from veo_cli.values import YuvFrame

    store = FrameStore(10_000, tmp_path / "spool", budget_device_bytes=40_000)
    for index in range(9):
        frame = make_frame(index)
        store.put(YuvFrame(*(cupy.asarray(part) for part in (frame.y, frame.cb, frame.cr)), index=index))
    store.close()
    report = store.report()
    assert report.frames_compressed == 9
    assert 0 < report.peak_device_bytes <= 40_000
    assert 0 < report.peak_host_bytes <= 10_000
    assert report.frames_spooled > 0
    for index, taken in enumerate(store.frames()):
        assert type(taken.y) is np.ndarray
        assert_same(taken, index)
    assert index == 8


def test_equal_sees_a_difference():
    a = [[np.zeros((2, 2), np.uint16)]]
    assert equal(to_device(a), a)
    assert not equal(to_device(a), [[np.ones((2, 2), np.uint16)]])
