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

    store = FrameStore(10_000, tmp_path / "spool", budget_device_bytes=50_000)
    for index in range(9):
        frame = make_frame(index)
        store.put(YuvFrame(*(cupy.asarray(part) for part in (frame.y, frame.cb, frame.cr)), index=index))
    store.close()
    report = store.report()
    assert report.frames_compressed == 9
    assert 0 < report.peak_device_bytes <= 50_000
    assert 0 < report.peak_host_bytes <= 10_000
    assert report.frames_spooled > 0
    for index, taken in enumerate(store.frames()):
        assert type(taken.y) is np.ndarray
        assert_same(taken, index)
    assert index == 8
    assert store._pool.statistics().in_use == 0


def test_data_in_pages(cupy):
    from kernels_cupy.memory_pool import MemoryPool, PoolExhausted

    pool = MemoryPool(7, 64)
    pool.release(pool.acquire(3))  # so that pages are not handed out from the first on
    data = cupy.asarray(np.random.default_rng(0).integers(0, 256, 208, np.uint8))
    pages = pool.write(data)
    assert np.array_equal(pool.read(pages, 208).get(), data.get())
    assert pool.statistics().in_use == 4
    assert [pool.page(int(page)).get()[0] for page in pages.get()] == list(data.get()[::64])
    with pytest.raises(PoolExhausted):
        pool.write(data)
    assert pool.write(data[:0]).size == 0
    with pytest.raises(ValueError, match="16 bytes"):
        pool.write(data[:17])


def test_a_device_without_room_for_the_slab_has_no_tier(cupy, tmp_path, monkeypatch):
    from kernels_cupy import memory_pool
    from tests.kernels.test_frame_store import assert_same, make_frame
    from veo_cli.stages.frame_store import FrameStore
    from veo_cli.values import YuvFrame

    def full(*_):
        raise MemoryError

    monkeypatch.setattr(memory_pool, "MemoryPool", full)
    store = FrameStore(1 << 20, tmp_path / "spool", budget_device_bytes=1 << 20)
    for index in range(3):
        frame = make_frame(index)
        store.put(YuvFrame(*(cupy.asarray(part) for part in (frame.y, frame.cb, frame.cr)), index=index))
    store.close()
    assert store.report().peak_device_bytes == 0
    for index, taken in enumerate(store.frames()):
        assert_same(taken, index)
    assert index == 2


def test_the_stages_with_kernels_are_those_without(cupy):
    import torch

    from veo_cli.stages.block_reuse import BlockReuse
    from veo_cli.stages.fit import fit
    from veo_cli.stages.to_yuv import to_yuv
    from veo_cli.values import FrameChunk

    frames = torch.rand((3, 3, 30, 40), generator=torch.Generator().manual_seed(0))
    frames[1] = frames[0] + 0.001
    chunk = FrameChunk(frames, 5)
    for width, height, mode in ((80, 60, "stretch"), (70, 70, "crop"), (64, 90, "pad"), (40, 30, "crop")):
        ours = fit(chunk, width, height, mode, kernels=True)
        theirs = fit(chunk, width, height, mode)
        assert ours.first_index == 5
        assert ours.frames.shape == (3, 3, height, width)
        assert float((ours.frames - theirs.frames).abs().max()) < 1e-5
    for color, chroma in (("bt709", "420"), ("bt2020", "444")):
        reuse, reuse_too = BlockReuse(0.005), BlockReuse(0.005)
        pairs = zip(
            to_yuv(chunk, color=color, chroma=chroma, kernels=True),
            to_yuv(chunk, color=color, chroma=chroma),
            strict=True,
        )
        for number, (made, other) in enumerate(pairs, 5):
            made, other = reuse(made), reuse_too(other)
            assert made.index == other.index == number and made.chroma == chroma
            for part in ("y", "cb", "cr"):
                a, b = getattr(made, part), getattr(other, part)
                assert type(a).__module__ == "cupy"
                assert np.abs(a.get().astype(int) - b).max() <= 1


def test_equal_sees_a_difference():
    a = [[np.zeros((2, 2), np.uint16)]]
    assert equal(to_device(a), a)
    assert not equal(to_device(a), [[np.ones((2, 2), np.uint16)]])


def test_a_clip_by_the_kernels(cupy, tmp_path):
    """pipeline.render as on a GPU: what reaches the encoder is what it is without kernels, within a code."""
    from tests.tiny_models import make_wan21
    from veo_cli import pipeline
    from veo_cli.journal import JobJournal
    from veo_cli.models import registry
    from veo_cli.prompt_file import read_specs
    from veo_cli.resolve import resolve_jobs
    from veo_cli.stages.clip_writer import ClipWriter
    from veo_cli.stop import StopRequest

    make_wan21(tmp_path / "model")
    (tmp_path / "prompt.yaml").write_text(
        f"model: {tmp_path / 'model'}\nprompt: a red ball\nseed: 1\nwidth: 96\nheight: 64\nnum_frames: 5\n"
        "num_inference_steps: 2\nsampler: {width: 64, height: 32}\nencode: {codec_preset: ultrafast}\n"
    )
    (resolved,) = resolve_jobs(
        read_specs([str(tmp_path / "prompt.yaml")]), output=tmp_path / "out", describe=registry.describe
    )
    model = registry.load(resolved.model, device="cpu")
    seen, original = {}, ClipWriter.put
    for device in ("cpu", "a GPU"):
        frames = seen[device] = []

        def put(writer, frame, frames=frames):
            frames.append(frame)
            original(writer, frame)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ClipWriter, "put", put)
            pending = pipeline.render(
                resolved,
                model,
                journal=JobJournal(tmp_path / "out", resolved.job_id, pytest.fail),
                progress=None,
                texts=pipeline.TextCache(),
                listener=lambda event: None,
                stop=StopRequest(),
                device=device,
            )
        assert pending.writer.finish().num_frames == 5
        assert not any("torch" in note for note in pending.notes)
        pending.abort()
    assert len(seen["cpu"]) == 5
    for ours, theirs in zip(seen["a GPU"], seen["cpu"], strict=True):
        assert type(ours.y).__module__ == "cupy"
        for part in ("y", "cb", "cr"):
            assert np.abs(getattr(ours, part).get().astype(int) - getattr(theirs, part)).max() <= 1
