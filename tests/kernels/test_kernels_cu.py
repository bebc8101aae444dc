"""block_diff, memory_pool, lz4_block, color and lanczos: the .cu sources, run on the CPU, against their specifications."""

from __future__ import annotations

import lz4.block
import numpy as np
import pytest

from kernels_cupy import color, lanczos, loader
from kernels_cupy.frame_format import LZ4_CHUNK_BYTES, FormatError, FrameLayout
from kernels_cupy.lz4_block import STRIDE
from kernels_cupy.reference import block_diff, lz4_block
from kernels_cupy.reference import color as reference_color
from kernels_cupy.reference import lanczos as reference_lanczos
from kernels_cupy.reference.memory_pool import EMPTY, ReferencePool
from tests.kernels.frames import plane
from tests.kernels.on_cpu import aligned, launch, needs_compiler, shuffled
from tests.kernels.test_delta_quant_cu import addresses, descriptors
from tests.kernels.test_references import buffer

pytestmark = needs_compiler


@pytest.mark.parametrize("threshold_ppm", [0, 5000, 100_000])
def test_changed_blocks(threshold_ppm):
    rng = np.random.default_rng(0)
    for _ in range(4):
        shapes = tuple((int(rng.integers(1, 150)), int(rng.integers(1, 150))) for _ in range(2))
        before = [[plane("noise10", *shape, rng) for shape in shapes] for _ in range(2)]
        after = [[part.copy() for part in planes] for planes in before]
        for planes in after:
            for part in planes:
                part[rng.random(part.shape) < rng.choice([0, 0.0005, 0.3])] += np.uint16(rng.integers(0, 200))
        layout = FrameLayout(2, shapes)
        ids, count = np.zeros(layout.num_tiles, np.uint32), np.zeros(1, np.uint32)
        arguments = (addresses(after), addresses(before), descriptors(layout), 2, layout.num_positions)
        launch(
            "block_diff", "changed_blocks", (layout.num_tiles,), (256,), *arguments, threshold_ppm, ids, count
        )
        expected = block_diff.changed_blocks(after, before, threshold_ppm=threshold_ppm)
        assert np.array_equal(np.sort(ids[: int(count[0])]), expected)


class PoolOnCpu:
    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages
        self.ring, self.references = np.zeros(num_pages, np.uint32), np.zeros(num_pages, np.uint32)
        self.counters = np.zeros(6, np.uint64)
        self.run("initialise_pool", max(num_pages, 6))

    def run(self, function: str, count: int, *more) -> None:
        state = (self.ring, self.references, self.counters, self.num_pages)
        launch("memory_pool", function, (-(-count // 128),), (128,), *state, *more)


def test_the_pool_follows_its_model():
    rng = np.random.default_rng(1)
    pool, model = PoolOnCpu(500), ReferencePool(500)
    for _ in range(120):
        count = int(rng.integers(1, 300))
        match rng.integers(4):
            case 0 | 1:
                pages = np.zeros(count, np.uint32)
                pool.run("acquire_pages", count, pages, count)
                assert np.array_equal(pages, model.acquire(count))
            case 2:
                pages = rng.integers(0, 510, count).astype(np.uint32)
                pool.run("release_pages", count, pages, count)
                model.release(pages)
            case _:
                pages = rng.integers(0, 510, count).astype(np.uint32)
                pool.run("share_pages", count, pages, count)
                model.share(pages)
        expected = model.statistics()
        assert np.array_equal(pool.references, model.references)
        assert 500 - pool.counters[0] == expected.in_use
        assert pool.counters[3:].tolist() == [expected.peak, expected.failed, expected.misused]


def test_acquire_and_release_inside_one_kernel():
    pool = PoolOnCpu(300)
    owners, faults = np.zeros(300, np.uint32), np.zeros(1, np.uint32)
    pool.run("churn_pages", 512, owners, 20, faults)
    assert faults[0] == 0
    assert pool.counters[0] == 300
    assert np.array_equal(np.sort(pool.ring), np.arange(300))
    assert EMPTY not in pool.ring


def compress(data: bytes) -> list[bytes]:
    chunks = -(-len(data) // LZ4_CHUNK_BYTES)
    source = aligned(len(data), np.uint8)
    source[:] = np.frombuffer(data, np.uint8)
    blocks, sizes = np.full(chunks * STRIDE, 0xA5, np.uint8), np.zeros(chunks, np.uint32)
    launch("lz4_block", "compress_chunks", (chunks,), (32,), source, len(data), blocks, STRIDE, sizes)
    return [blocks[i * STRIDE : i * STRIDE + int(size)].tobytes() for i, size in enumerate(sizes)]


def decompress(blocks: list[bytes], num_bytes: int) -> bytes | None:
    """None where the kernel says that a block is damaged; bytes beyond the data must stay as they are."""
    packed = np.frombuffer(b"".join(blocks) + b"\0", np.uint8).copy()
    lengths = np.array([len(block) for block in blocks], np.uint32)
    offsets = (np.cumsum(lengths, dtype=np.uint64) - lengths).astype(np.uint64)
    data, failed = np.full(num_bytes + 64, 0xA5, np.uint8), np.zeros(len(blocks), np.uint32)
    launch(
        "lz4_block",
        "decompress_chunks",
        (len(blocks),),
        (32,),
        packed,
        offsets,
        lengths,
        data,
        num_bytes,
        failed,
    )
    assert (data[num_bytes:] == 0xA5).all()
    return None if failed.any() else data[:num_bytes].tobytes()


def test_lz4_both_ways():
    rng = np.random.default_rng(2)
    for number in range(1, 500):
        data = buffer(number, rng, longest=400)
        if not data:
            continue
        (block,) = compress(data)
        assert len(block) <= lz4_block.worst_case_bytes(len(data))
        assert lz4.block.decompress(block, uncompressed_size=len(data)) == data
        assert lz4_block.decompress(block, len(data)) == data
        for theirs in (lz4.block.compress(data, store_size=False), lz4_block.compress(data)):
            assert decompress([theirs], len(data)) == data


def test_lz4_in_several_chunks():
    rng = np.random.default_rng(3)
    text = b"".join(rng.choice([b"frame", b"store", b"tile "], 40_000))
    data = text[:70_000] + rng.bytes(70_000) + bytes(70_000)
    blocks = compress(data)
    parts = [data[i : i + LZ4_CHUNK_BYTES] for i in range(0, len(data), LZ4_CHUNK_BYTES)]
    for block, part in zip(blocks, parts, strict=True):
        assert lz4.block.decompress(block, uncompressed_size=len(part)) == part
    assert len(blocks[0]) < 0.6 * LZ4_CHUNK_BYTES
    assert len(blocks[3]) < 300
    theirs = [lz4.block.compress(part, mode="high_compression", store_size=False) for part in parts]
    assert decompress(theirs, len(data)) == data
    assert decompress(blocks, len(data)) == data


def test_mutated_lz4_blocks_are_told_and_never_written_beyond():
    rng = np.random.default_rng(4)
    failures = 0
    for number in range(600):
        data = buffer(number, rng) or b"x"
        block = bytearray(lz4_block.compress(data))
        for _ in range(rng.integers(1, 4)):
            block[rng.integers(len(block))] = rng.integers(256)
        result = decompress([bytes(block)], len(data))
        try:
            assert result == lz4_block.decompress(bytes(block), len(data))
        except FormatError:
            assert result is None
            failures += 1
    assert failures > 150


@pytest.mark.parametrize("which", ["bt709", "bt2020"])
@pytest.mark.parametrize("chroma", ["420", "444"])
@pytest.mark.parametrize("dither", ["none", "ordered"])
def test_color(which, chroma, dither):
    rng = np.random.default_rng(5)
    for height, width in ((1, 1), (2, 2), (17, 65), (40, 130)):
        rgb = aligned((2, 3, height, width), np.float32)
        rgb[:] = rng.uniform(-0.05, 1.05, rgb.shape)
        rgb[0, :, 0, 0] = (0, 1, 0)
        size = (height, width) if chroma == "444" else ((height + 1) // 2, (width + 1) // 2)
        planes = [np.full((2, height, width), 0xDEAD, np.uint16), *np.full((2, 2, *size), 0xDEAD, np.uint16)]
        planes = [np.ascontiguousarray(part) for part in planes]
        grid = (-(-width // loader.COLOR_COLUMNS), -(-height // loader.COLOR_ROWS), 2)
        code = color.flags(which, chroma, dither)
        launch(
            "color", "rgb_to_yuv", grid, (256,), rgb, color.parameters(which), height, width, code, *planes
        )
        expected = reference_color.rgb_to_yuv(rgb, color=which, chroma=chroma, dither=dither)
        for ours, theirs in zip(planes, expected, strict=True):
            assert np.abs(ours.astype(int) - theirs).max() <= 1
        if dither == "none":
            values = reference_color.yuv_values(rgb, color=which, chroma=chroma)
            for ours, theirs, exact in zip(planes, expected, values, strict=True):
                clear = np.abs(exact - np.floor(exact) - 0.5) > 0.001
                assert np.array_equal(ours[clear], theirs[clear])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((9, 16), (27, 48)),
        ((30, 41), (13, 17)),
        ((5, 7), (5, 14)),
        ((8, 8), (31, 8)),
        ((1, 1), (3, 4)),
        ((64, 70), (9, 9)),
    ],
)
def test_lanczos(source, target):
    frames = np.random.default_rng(6).random((2, 3, *source), dtype=np.float32)
    current = aligned(frames.shape, np.float32)
    current[:] = frames
    if source[1] != target[1]:
        first, weights = lanczos.filter_bank(source[1], target[1])
        rows = 6 * source[0]
        result = aligned((2, 3, source[0], target[1]), np.float32)
        grid = (-(-rows // 4), -(-target[1] // 128))
        sizes = (len(weights), rows, source[1], target[1])
        launch("lanczos", "resize_columns", grid, (128,), current, result, first, weights, *sizes)
        current = result
    if source[0] != target[0]:
        first, weights = lanczos.filter_bank(source[0], target[0])
        result = aligned((2, 3, *target), np.float32)
        grid = (-(-target[1] // 512), target[0], 6)
        sizes = (len(weights), source[0], target[0], target[1])
        launch("lanczos", "resize_rows", grid, (128,), current, result, first, weights, *sizes)
        current = result
    assert np.abs(current - reference_lanczos.resize(frames, *target)).max() < 1e-5


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_result_depends_on_the_order_of_the_threads(seed):
    with shuffled("color", seed):
        test_color("bt709", "420", "none")
    with shuffled("block_diff", seed):
        test_changed_blocks(5000)
    rng = np.random.default_rng(seed)
    for number in range(60):
        data = buffer(number, rng, longest=500) or b"x"
        block = compress(data)
        with shuffled("lz4_block", seed + number):
            assert compress(data) == block
            assert decompress(block, len(data)) == data
    with shuffled("memory_pool", seed):
        test_acquire_and_release_inside_one_kernel()
