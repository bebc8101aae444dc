"""The frame store: in order, bit-equal, within its budgets, and readable after a kill."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from veo_cli import durable_file
from veo_cli.errors import DiskFull
from veo_cli.stages import frame_spool
from veo_cli.stages.frame_store import FrameStore, StoreAborted
from veo_cli.values import YuvFrame

HEIGHT, WIDTH = 130, 200
RAW_BYTES = HEIGHT * WIDTH * 2 + 2 * (HEIGHT // 2) * (WIDTH // 2) * 2


def make_frame(index: int, height: int = HEIGHT, width: int = WIDTH) -> YuvFrame:
    """A still picture with a noisy patch that is new in every frame."""
    rng = np.random.default_rng(1)
    planes = [
        rng.integers(400, 420, (height, width)).astype(np.uint16),
        np.full(((height + 1) // 2, (width + 1) // 2), 512, np.uint16),
        rng.integers(500, 503, ((height + 1) // 2, (width + 1) // 2)).astype(np.uint16),
    ]
    fresh = np.random.default_rng(100 + index)
    for plane in planes:
        part = plane[: max(1, plane.shape[0] // 4), : max(1, plane.shape[1] // 4)]
        part[:] = fresh.integers(64, 941, part.shape)
    return YuvFrame(*planes, index=index)


def assert_same(frame: YuvFrame, index: int, height: int = HEIGHT, width: int = WIDTH) -> None:
    expected = make_frame(index, height, width)
    assert (frame.index, frame.chroma, frame.bit_depth) == (index, "420", 10)
    for name in ("y", "cb", "cr"):
        plane = getattr(frame, name)
        assert plane.dtype == np.uint16
        assert np.array_equal(plane, getattr(expected, name))


def run_through(store: FrameStore, count: int, *, put_delay_s: float = 0, take_delay_s: float = 0) -> None:
    failures: list[BaseException] = []

    def produce() -> None:
        try:
            for index in range(count):
                time.sleep(put_delay_s)
                store.put(make_frame(index))
            store.close()
        except BaseException as error:
            failures.append(error)
            store.abort()

    producer = threading.Thread(target=produce)
    producer.start()
    taken = 0
    for frame in store.frames():
        time.sleep(take_delay_s)
        assert_same(frame, taken)
        taken += 1
    producer.join(10)
    assert not failures
    assert taken == count


@pytest.mark.parametrize("codec", ["auto", "always", "never"])
@pytest.mark.parametrize(("put_delay_s", "take_delay_s"), [(0.0, 0.004), (0.004, 0.0)])
@pytest.mark.parametrize("budget_frames", [0, 3, 100])
def test_frames_come_out_in_order_and_equal(tmp_path, codec, put_delay_s, take_delay_s, budget_frames):
    spool = tmp_path / "spool"
    store = FrameStore(budget_frames * RAW_BYTES, spool, codec)
    run_through(store, 20, put_delay_s=put_delay_s, take_delay_s=take_delay_s)
    report = store.report()
    assert report.frames_put == report.frames_taken == 20
    assert report.peak_host_bytes <= max(budget_frames * RAW_BYTES, RAW_BYTES)
    assert not spool.exists()
    if codec == "always":
        assert report.frames_compressed == 20
        assert report.bytes_held < report.bytes_in / 2
    if codec == "never" or budget_frames == 100:
        assert report.frames_compressed == (20 if codec == "always" else report.frames_spooled)


def test_auto_fills_host_memory_raw_then_compressed_then_the_disk(tmp_path):
    store = FrameStore(4 * RAW_BYTES, tmp_path / "spool")
    for index in range(30):
        store.put(make_frame(index))
    report = store.report()
    raw = 30 - report.frames_compressed
    in_memory = report.frames_compressed - report.frames_spooled
    assert raw == 4 and in_memory == 0  # the fifth finds no room at all, compressed or not
    assert report.peak_host_bytes <= 4 * RAW_BYTES
    store.close()
    for index, frame in enumerate(store.frames()):
        assert_same(frame, index)
    assert index == 29


def test_compressed_frames_use_what_room_is_left(tmp_path):
    store = FrameStore(4 * RAW_BYTES + RAW_BYTES // 2, tmp_path / "spool")
    for index in range(20):
        store.put(make_frame(index))
    report = store.report()
    assert report.frames_compressed > report.frames_spooled > 0
    store.close()
    for index, frame in enumerate(store.frames()):
        assert_same(frame, index)


@pytest.mark.parametrize("codec", ["auto", "never"])
def test_a_full_store_without_a_disk_makes_the_producer_wait(codec):
    store = FrameStore(2 * RAW_BYTES, None, codec)
    put: list[int] = []

    def produce() -> None:
        for index in range(6):
            store.put(make_frame(index))
            put.append(index)
        store.close()

    producer = threading.Thread(target=produce)
    producer.start()
    time.sleep(0.3)
    assert put == [0, 1]
    for index, frame in enumerate(store.frames()):
        assert_same(frame, index)
    producer.join(10)
    report = store.report()
    assert report.peak_host_bytes <= 2 * RAW_BYTES
    assert report.frames_compressed == 0


def test_the_disk_budget_holds_the_producer_back(tmp_path):
    store = FrameStore(RAW_BYTES, tmp_path / "spool", "never", budget_disk_bytes=40_000)

    def produce() -> None:
        for index in range(12):
            store.put(make_frame(index))
        store.close()

    producer = threading.Thread(target=produce)
    producer.start()
    producer.join(0.7)
    assert producer.is_alive()
    assert 0 < store.report().frames_spooled < 11
    for index, frame in enumerate(store.frames()):
        assert_same(frame, index)
    producer.join(10)
    assert index == 11
    assert store.report().peak_disk_bytes <= 60_000  # the last one in may be longer than its estimate


def test_abort_wakes_both_sides_and_removes_the_spool(tmp_path):
    spool = tmp_path / "spool"
    store = FrameStore(RAW_BYTES, spool, budget_disk_bytes=1)
    outcome: list[str] = []

    def produce() -> None:
        try:
            while True:
                store.put(make_frame(0))
        except StoreAborted:
            outcome.append("producer")

    producer = threading.Thread(target=produce)
    producer.start()
    time.sleep(0.1)
    store.abort()
    producer.join(10)
    assert outcome == ["producer"]
    with pytest.raises(StoreAborted):
        next(store.frames())
    assert not spool.exists()

    store = FrameStore(RAW_BYTES, spool)
    threading.Timer(0.1, store.abort).start()
    with pytest.raises(StoreAborted):
        next(store.frames())  # would wait for ever


def test_spooled_segments_are_removed_as_they_are_read(tmp_path):
    spool = tmp_path / "spool"
    store = FrameStore(0, spool, "always", segment_bytes=1)
    for index in range(8):
        store.put(make_frame(index))
    store.close()
    assert len(frame_spool.segments(spool)) == 7  # the first frame is in memory
    counts = []
    for index, frame in enumerate(store.frames()):
        assert_same(frame, index)
        counts.append(len(frame_spool.segments(spool)))
    assert counts == [7, 7, 6, 5, 4, 3, 2, 1]


def test_a_full_disk_is_the_projects_error_and_leaves_whole_records(tmp_path, monkeypatch):
    store = FrameStore(0, tmp_path / "spool", "always")
    for index in range(3):
        store.put(make_frame(index))
    real = durable_file.write_all

    def half_then_full(descriptor: int, data: bytes) -> None:
        real(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(durable_file, "write_all", half_then_full)
    with pytest.raises(DiskFull, match="space"):
        store.put(make_frame(3))
    monkeypatch.undo()
    store.put(make_frame(3))
    store.close()
    assert [frame.index for frame in frame_spool.recover(tmp_path / "spool")] == [1, 2, 3]
    for index, frame in enumerate(store.frames()):
        assert_same(frame, index)
    assert index == 3


CHILD = """
import sys
from pathlib import Path
from tests.kernels.test_frame_store import make_frame
from veo_cli.stages.frame_store import FrameStore
store = FrameStore(0, Path(sys.argv[1]), "always", segment_bytes=40_000)
for index in range(100_000):
    store.put(make_frame(index))
    sys.stdout.write(f"{index}\\n")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("after_s", [0.05, 0.4])
def test_killed_in_the_middle_the_spool_is_readable_to_its_last_whole_frame(tmp_path, after_s):
    spool = tmp_path / "spool"
    root = Path(__file__).parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(spool)], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    for _ in range(4):
        last = int(child.stdout.readline())
    time.sleep(after_s)
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().splitlines()
    child.stdout.close()
    child.wait()
    told = int(rest[-1]) if rest else last
    frames = list(frame_spool.recover(spool))
    for index, frame in enumerate(frames, start=1):  # frame 0 was in memory
        assert_same(frame, index)
    assert len(frames) >= told  # every frame that `put` returned for


def test_a_torn_or_damaged_record_ends_the_recovery_there(tmp_path):
    spool = tmp_path / "spool"
    store = FrameStore(0, spool, "always")
    for index in range(6):
        store.put(make_frame(index))
    (path,) = frame_spool.segments(spool)
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    assert [frame.index for frame in frame_spool.recover(spool)] == [1, 2, 3, 4]
    for cut in range(0, len(data), len(data) // 50):
        path.write_bytes(data[:cut])
        indices = [frame.index for frame in frame_spool.recover(spool)]
        assert indices == list(range(1, len(indices) + 1))
    for position in np.random.default_rng(0).integers(0, len(data), 60):
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        path.write_bytes(damaged)
        for index, frame in enumerate(frame_spool.recover(spool), start=1):
            assert_same(frame, index)
    path.write_bytes(data)
    assert len(list(frame_spool.recover(spool))) == 5
    store.abort()


@pytest.mark.slow
def test_97_frames_of_4k_go_through_under_256_mib(tmp_path):
    """Without a device: 2.4 GB of frames through host memory and disk, the producer far ahead."""
    height, width, count = 2160, 3840, 97
    still = make_frame(0, height, width)
    store = FrameStore(256 << 20, tmp_path / "spool")

    def produce() -> None:
        for index in range(count):
            y = still.y.copy()
            y[512 * (index % 4) : 512 * (index % 4) + 512] ^= np.uint16(index % 7)
            store.put(YuvFrame(y, still.cb, still.cr, index))
        store.close()

    producer = threading.Thread(target=produce)
    producer.start()
    producer.join()  # the slowest of consumers: everything has to be held
    report = store.report()
    assert report.peak_host_bytes <= 256 << 20
    assert report.frames_spooled > 0
    for index, frame in enumerate(store.frames()):
        expected = still.y.copy()
        expected[512 * (index % 4) : 512 * (index % 4) + 512] ^= np.uint16(index % 7)
        assert frame.index == index
        assert np.array_equal(frame.y, expected)
        assert np.array_equal(frame.cb, still.cb) and np.array_equal(frame.cr, still.cr)
    assert index == count - 1
