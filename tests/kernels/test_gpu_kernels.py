"""The kernels on a real device against their specifications. `make test-gpu`; nothing here runs without one."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

from kernels_cupy import frame_codec
from kernels_cupy.frame_codec import CompressedFrames
from kernels_cupy.frame_format import LZ4_CHUNK_BYTES, FormatError, FrameLayout, make_entries
from kernels_cupy.reference import block_diff as reference_block_diff
from kernels_cupy.reference import color as reference_color
from kernels_cupy.reference import delta_quant as reference
from kernels_cupy.reference import lanczos as reference_lanczos
from kernels_cupy.reference import lz4_block as reference_lz4
from kernels_cupy.reference.memory_pool import EMPTY
from tests.kernels.frames import KINDS, photograph, plane


def has_device() -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import cupy

            return int(cupy.cuda.runtime.getDeviceCount()) > 0
        except Exception:  # no CuPy, no driver, no device: all the same here
            return False


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_device(), reason="no CUDA device, or no CuPy"),
    pytest.mark.filterwarnings("default"),
]


def to_device(frames):
    import cupy

    return [[cupy.asarray(part) for part in planes] for planes in frames]


def equal(frames, others) -> bool:
    pairs = [
        pair for planes, more in zip(frames, others, strict=True) for pair in zip(planes, more, strict=True)
    ]
    return all(np.array_equal(a.get() if hasattr(a, "get") else a, b) for a, b in pairs)


def assert_the_same(frames, *, previous=None, **options) -> None:
    """Deterministic bytes equal the reference's; each side decodes the other's; the free order decodes too."""
    host = frame_codec.compress(frames, previous=previous, **options)
    given, before = to_device(frames), None if previous is None else to_device([previous])[0]
    device = frame_codec.compress(given, previous=before, **options)
    assert np.array_equal(device.table.get(), host.table)
    assert np.array_equal(device.payload.get(), host.payload)
    expected = frame_codec.decompress(host, previous=previous)
    assert equal(frame_codec.decompress(device.to_host(), previous=previous), expected)
    assert equal(frame_codec.decompress(host.to_device(), previous=before), expected)
    free = frame_codec.compress(given, previous=before, deterministic=False, **options)
    assert free.nbytes == host.nbytes
    assert equal(frame_codec.decompress(free, previous=before), expected)
    assert equal(frame_codec.decompress(free.to_host(), previous=previous), expected)
    again = CompressedFrames.from_bytes(device.to_bytes(lz4=False))
    assert equal(frame_codec.decompress(again, previous=previous), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (65, 65), (64, 64), (130, 200), (129, 1000)])
def test_small_the_same_bytes_both_ways(kind, shape):
    rng = np.random.default_rng(KINDS.index(kind))
    frames = [[plane(kind, *shape, rng), plane("grain", 33, 47, rng)] for _ in range(2)]
    frames.append(frames[-1])
    assert_the_same(frames, bit_depth=16)


def test_small_random_mixtures_chained_and_quantised():
    rng = np.random.default_rng(1)
    for number in range(150):
        shapes = [tuple(rng.integers(1, 300, 2)) for _ in range(rng.integers(1, 4))]
        frames = []
        for _ in range(rng.integers(1, 5)):
            planes = [plane(rng.choice(KINDS), *shape, rng) for shape in shapes]
            if frames and rng.random() < 0.6:
                old = frames[-1]
                planes = [
                    np.where(rng.random(a.shape) < 0.02, a, b) for a, b in zip(planes, old, strict=True)
                ]
            frames.append(planes)
        previous = [plane(rng.choice(KINDS), *shape, rng) for shape in shapes] if number % 2 else None
        shift = int(rng.integers(0, 4)) if number % 3 == 0 else 0
        assert_the_same(frames, previous=previous, shift=shift, bit_depth=16)


@pytest.mark.parametrize("shape", [(768, 1366), (2160, 4096), (2160, 3840)])
@pytest.mark.parametrize("kind", ["grain", "noise10", "extremes"])
def test_whole_pictures(shape, kind):
    rng = np.random.default_rng(2)
    height, width = shape
    half = ((height + 1) // 2, (width + 1) // 2)
    frames = [
        [plane(kind, *shape, rng), plane("smooth", *half, rng), plane(kind, *half, rng)] for _ in range(2)
    ]
    assert_the_same(frames)


def test_anchor_frames():
    frames = photograph(4, 2160, 3840)
    device = frame_codec.compress(to_device(frames))
    assert equal(frame_codec.decompress(device), frames)
    assert device.ratio >= 3.6
    assert_the_same(list(frames[:2]))
    static = frame_codec.compress(to_device([frames[0]]) * 97)
    assert static.ratio >= 100
    assert equal(frame_codec.decompress(static)[-1:], [frames[0]])


@pytest.mark.parametrize(
    "name", ["uint8", "uint16", "int16", "int32", "float16", "bfloat16", "float32", "float64"]
)
def test_small_every_dtype_from_torch(name):
    import torch

    values = torch.rand((66, 75), generator=torch.Generator().manual_seed(0))
    dtype = getattr(torch, name)
    if not dtype.is_floating_point:
        values = (values * (255 if name == "uint8" else 1023)).round()
    given = values.to(dtype)
    (ours,), (theirs,) = (
        frame_codec.decompress(frame_codec.compress([[part]]))[0] for part in (given.cuda(), given)
    )
    assert ours.dtype == theirs.dtype
    assert np.array_equal(ours.get(), theirs)


def test_small_work_follows_torchs_stream_and_memory():
    import torch

    from kernels_cupy.launch import device_array, on_current_stream

    frames = [[part for part in photograph(1)[0]]]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        given = [[torch.from_numpy(part.copy()).cuda(non_blocking=True) for part in frames[0]]]
        before = torch.cuda.memory_allocated()
        compressed = frame_codec.compress(given)
        assert torch.cuda.memory_allocated() >= before + compressed.nbytes
        with on_current_stream():
            import cupy

            assert cupy.cuda.get_current_stream().ptr == side.cuda_stream
        assert equal(frame_codec.decompress(compressed), frames)
    tensor = torch.zeros(8, dtype=torch.int16, device="cuda")
    device_array(tensor)[:] = 7
    assert tensor.sum().item() == 56  # the same memory


def test_small_hostile_streams():
    """1,000 forged tables and payloads: an error or pixels, as the reference says; run under memcheck too."""
    import cupy

    rng = np.random.default_rng(3)
    layout = FrameLayout(2, ((66, 70), (33, 35)))
    frames = [[plane("grain", *size, rng) for size in layout.planes] for _ in range(2)]
    table, payload = reference.encode(layout, frames)
    failures = 0
    for number in range(1000):
        bad_table, bad_payload = table.copy(), payload.copy()
        if number % 2:
            shape = bad_table.shape
            mode, units = rng.integers(0, 16, shape), rng.choice([0, 7, 8, 100, 511, 512, 1023, 4095], shape)
            offset = rng.choice([0, 1, 100, len(payload) // 16, 0xFFFFFFFF, 0xFFFFFF00], shape)
            chosen = rng.random(shape) < 0.5
            bad_table[chosen] = make_entries(mode, units & 0xFFF, np.zeros(shape, np.uint16), offset)[chosen]
        else:
            start = int(rng.integers(0, len(payload)))
            bad_payload[start : start + 300] = rng.integers(0, 256, len(bad_payload[start : start + 300]))
        if number % 7 == 0:
            bad_payload = bad_payload[: 16 * int(rng.integers(0, len(payload) // 16))]
        forged = CompressedFrames(layout, cupy.asarray(bad_table), cupy.asarray(bad_payload))
        try:
            reference.decode(layout, bad_table, bad_payload)
        except FormatError:
            failures += 1
            with pytest.raises(FormatError):
                frame_codec.decompress(forged)
        else:
            frame_codec.decompress(forged)
    assert failures > 400


def test_small_block_diff():
    from kernels_cupy import block_diff

    rng = np.random.default_rng(4)
    for threshold_ppm in (0, 5000):
        for shape in ((1, 1), (130, 200), (768, 1366)):
            before = [[plane("noise10", *shape, rng), plane("smooth", 65, 100, rng)] for _ in range(3)]
            after = [[part.copy() for part in planes] for planes in before]
            for planes in after:
                planes[0][rng.random(shape) < 0.0005] ^= 1
                planes[1][:40] += np.uint16(rng.integers(0, 30))
            ids = block_diff.changed_blocks(to_device(after), to_device(before), threshold_ppm=threshold_ppm)
            expected = reference_block_diff.changed_blocks(after, before, threshold_ppm=threshold_ppm)
            assert np.array_equal(ids, expected)


def lz4_buffer(number: int, rng: np.random.Generator) -> bytes:
    size = int(rng.choice([1, 5, 12, 13, 14, 100, 1000, 65535, 65536, 65537, 200_000]))
    match number % 5:
        case 0:
            return rng.bytes(size)
        case 1:
            return bytes(size)
        case 2:
            period = rng.bytes(int(rng.integers(1, 70)))
            return (period * (size // len(period) + 1))[:size]
        case 3:
            return rng.integers(0, 3, size, np.uint8).tobytes()
        case _:
            noise = rng.bytes(size // 3 + 1)
            return (noise + bytes(size // 3) + noise)[:size]


def test_small_lz4_both_ways():
    import cupy

    from kernels_cupy import lz4_block

    try:
        import lz4.block as package
    except ImportError:
        package = None
    rng = np.random.default_rng(5)
    for number in range(1000):
        data = lz4_buffer(number, rng)
        parts = [data[i : i + LZ4_CHUNK_BYTES] for i in range(0, len(data), LZ4_CHUNK_BYTES)]
        blocks = lz4_block.compress(cupy.asarray(np.frombuffer(data, np.uint8)))
        for block, part in zip(blocks, parts, strict=True):
            assert len(block) <= reference_lz4.worst_case_bytes(len(part))
            if package is not None:
                assert package.decompress(block, uncompressed_size=len(part)) == part
            else:
                assert reference_lz4.decompress(block, len(part)) == part
        assert lz4_block.decompress(blocks, len(data)).get().tobytes() == data
        if package is not None:
            theirs = [package.compress(part, store_size=False) for part in parts]
        elif len(data) <= 1000:
            theirs = [reference_lz4.compress(part) for part in parts]
        else:
            continue
        assert lz4_block.decompress(theirs, len(data)).get().tobytes() == data


def test_small_hostile_lz4_blocks():
    from kernels_cupy import lz4_block

    rng = np.random.default_rng(6)
    failures = 0
    for number in range(1000):
        data = lz4_buffer(number, rng)[:1000]
        block = bytearray(reference_lz4.compress(data))
        for _ in range(rng.integers(1, 4)):
            block[rng.integers(len(block))] = rng.integers(256)
        try:
            expected = reference_lz4.decompress(bytes(block), len(data))
        except FormatError:
            failures += 1
            with pytest.raises(FormatError):
                lz4_block.decompress([bytes(block)], len(data))
        else:
            assert lz4_block.decompress([bytes(block)], len(data)).get().tobytes() == expected
    assert failures > 200


def test_small_pool_operations():
    import cupy

    from kernels_cupy.memory_pool import MemoryPool, PoolExhausted, PoolMisuse

    pool = MemoryPool(1000, debug=True)
    pages = pool.acquire(1000)
    assert np.array_equal(np.sort(pages.get()), np.arange(1000))
    with pytest.raises(PoolExhausted, match="0 of 1000"):
        pool.acquire(1)
    pool.share(pages[:10])
    pool.release(pages)
    assert pool.statistics().in_use == 10
    pool.release(pages[:10])
    with pytest.raises(PoolMisuse):
        pool.release(pages[:10])
    with pytest.raises(PoolMisuse):
        pool.share(cupy.array([1000, 5], np.uint32))
    statistics = pool.statistics()
    assert (statistics.in_use, statistics.peak, statistics.failed, statistics.misused) == (0, 1000, 1, 12)
    assert pool.page(3).size == pool.page_bytes


def test_small_pool_churn_never_gives_a_page_twice():
    """256 x 128 threads acquire and release for 300 rounds: about ten million operations, all at once."""
    import cupy

    from kernels_cupy.launch import launch, on_current_stream
    from kernels_cupy.memory_pool import MemoryPool

    for num_pages in (100, 5000, 40_000):
        pool = MemoryPool(num_pages)
        with on_current_stream():
            owners, faults = cupy.zeros(num_pages, np.uint32), cupy.zeros(1, np.uint32)
            state = (pool.ring, pool.references, pool.counters, np.uint32(num_pages))
            launch("memory_pool", "churn_pages", (256,), (128,), (*state, owners, np.uint32(300), faults))
            assert int(faults[0]) == 0
        assert pool.statistics().in_use == 0
        assert np.array_equal(np.sort(pool.ring.get()), np.arange(num_pages))
        assert int(pool.references.sum()) == 0


def test_ten_million_pool_operations_from_the_host():
    import cupy

    from kernels_cupy.memory_pool import MemoryPool

    rng = np.random.default_rng(7)
    num_pages = 60_000
    pool = MemoryPool(num_pages)
    owners = np.zeros(num_pages, np.int64)
    operations = 0
    while operations < 10_000_000:
        count = int(rng.integers(1, 60_000))
        operations += count
        if rng.random() < 0.5:
            pages = cupy.empty(count, np.uint32)
            pool.acquire_into(pages)
            got = pages.get()
            got = got[got != EMPTY]
            assert len(got) == min(count, int((owners == 0).sum()))
            assert len(np.unique(got)) == len(got) and (owners[got] == 0).all()
            owners[got] = 1
        else:
            pages = rng.integers(0, num_pages + 50, count).astype(np.uint32)
            pool.release(cupy.asarray(pages))
            owners -= np.minimum(np.bincount(pages[pages < num_pages], minlength=num_pages), owners)
    assert np.array_equal(pool.references.get(), owners)
    assert pool.statistics().in_use == owners.sum()


@pytest.mark.parametrize("which", ["bt709", "bt2020"])
@pytest.mark.parametrize("chroma", ["420", "444"])
@pytest.mark.parametrize("dither", ["none", "ordered"])
def test_small_color(which, chroma, dither):
    import cupy

    from kernels_cupy import color

    rng = np.random.default_rng(8)
    for height, width in ((1, 1), (2, 2), (17, 65), (541, 963)):
        rgb = rng.uniform(-0.05, 1.05, (2, 3, height, width)).astype(np.float32)
        ours = color.rgb_to_yuv(cupy.asarray(rgb), color=which, chroma=chroma, dither=dither)
        expected = reference_color.rgb_to_yuv(rgb, color=which, chroma=chroma, dither=dither)
        exact = reference_color.yuv_values(rgb, color=which, chroma=chroma)
        for part, other, values in zip(ours, expected, exact, strict=True):
            assert part.shape == other.shape
            assert np.abs(part.get().astype(int) - other).max() <= 1
            if dither == "none":
                clear = np.abs(values - np.floor(values) - 0.5) > 0.001
                assert np.array_equal(part.get()[clear], other[clear])


@pytest.mark.parametrize("target", [(2160, 3840), (720, 1280), (333, 500), (360, 1280), (1, 1)])
def test_small_lanczos(target):
    import cupy

    from kernels_cupy import lanczos

    frames = np.random.default_rng(9).random((2, 3, 720, 1280), dtype=np.float32)
    ours = lanczos.resize(cupy.asarray(frames), *target).get()
    assert np.abs(ours - reference_lanczos.resize(frames, *target)).max() < 1e-4


@pytest.mark.parametrize("slower", ["consumer", "producer"])
def test_97_frames_of_4k_under_256_mib_of_device_and_of_host_memory(tmp_path, slower):
    import time

    import cupy

    pytest.importorskip("lz4.block", reason="the spool needs the lz4 package")
    from veo_cli.stages.frame_store import FrameStore
    from veo_cli.values import YuvFrame

    source = photograph(8, 2160, 3840).astype(np.uint16)
    held = [
        [
            cupy.asarray(source[i, 0]),
            cupy.asarray(source[i, 1, ::2, ::2]),
            cupy.asarray(source[i, 2, ::2, ::2]),
        ]
        for i in range(8)
    ]
    store = FrameStore(256 << 20, tmp_path / "spool", budget_device_bytes=256 << 20)

    def produce() -> None:
        for index in range(97):
            if slower == "producer":
                time.sleep(0.05)
            y, cb, cr = held[index % 8]
            store.put(YuvFrame(y, cb, cr, index))
        store.close()

    producer = threading.Thread(target=produce)
    producer.start()
    if slower == "consumer":
        producer.join()
        assert store.report().frames_spooled > 0
    for index, frame in enumerate(store.frames()):
        assert frame.index == index
        assert np.array_equal(frame.y, source[index % 8, 0])
        assert np.array_equal(frame.cb, source[index % 8, 1, ::2, ::2])
    assert index == 96
    report = store.report()
    assert max(report.peak_device_bytes, report.peak_host_bytes) <= 256 << 20
