"""How fast are the kernels, beside nvCOMP and beside a plain copy, on the anchor frames?

    python -m benchmarks.kernels [--frames N] [--quick] [--out FILE]

The frames: a slow pan over an upscaled photograph with 0.5 LSB of grain, 3840x2160, 10 bits in int16, 3 planes; 24 of them
are 1.2 GB, far beyond any cache. Times are medians by CUDA events after a warm-up. GB/s count uncompressed bytes; `of peak`
is the least traffic that the work needs over the traffic of a device-to-device copy (read + write). nvCOMP (package
nvidia-nvcomp) is measured in the same run where it is installed. Without a device the NumPy path is measured instead
(in seconds of processor time: it uses one core).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import record
from kernels_cupy import frame_codec
from kernels_cupy.frame_format import UNIT_BYTES, FrameLayout, compression_ratio, split_entries
from kernels_cupy.reference import color as reference_color

HEIGHT, WIDTH = 2160, 3840
STATIC_FRAMES = 64  # enough for the first frame, which is coded by itself, not to matter most


@dataclass(frozen=True)
class Figure:
    """ms: median; gb_per_s: of uncompressed data; ratio: against 16 bits; of_peak: share of the copy's traffic."""

    name: str
    ms: float
    gb_per_s: float | None = None
    ratio: float | None = None
    ratio_10_bit: float | None = None
    of_peak: float | None = None
    note: str = ""

    def line(self) -> str:
        def cell(value: float | None, form: str) -> str:
            return format(value, form) if value is not None else ""

        return (
            f"{self.name:<44}{self.ms:>10.3f}{cell(self.gb_per_s, '10.2f'):>11}{cell(self.ratio, '9.2f'):>10}"
            f"{cell(self.ratio_10_bit, '9.2f'):>10}{cell(self.of_peak, '9.0%'):>10}  {self.note}"
        )


HEADER = f"{'':<44}{'ms':>10}{'GB/s':>11}{'x 16 bit':>10}{'x 10 bit':>10}{'of peak':>10}"


def anchor_frames(num_frames: int, device: str) -> Any:
    """(num_frames, 3, 2160, 3840) int16 torch tensor of 10-bit samples; the same recipe wherever it is measured."""
    import torch
    from sklearn.datasets import load_sample_image
    from torch.nn.functional import interpolate

    image = (
        torch.from_numpy(load_sample_image("china.jpg").copy()).to(device).float().permute(2, 0, 1)[None]
        / 255
    )
    big = interpolate(image, size=(2400, 4200), mode="bicubic", align_corners=False).clamp(0, 1)
    generator = torch.Generator(device).manual_seed(0)
    frames = torch.empty((num_frames, 3, HEIGHT, WIDTH), dtype=torch.int16, device=device)
    for i in range(num_frames):
        top, left = 20 + i % 200, 30 + 2 * (i % 150)
        cut = big[0, :, top : top + HEIGHT, left : left + WIDTH]
        grain = 0.5 * torch.randn(cut.shape, device=device, generator=generator)
        frames[i] = (cut * 1023 + grain).round().clamp(0, 1023).to(torch.int16)
    return frames


class DeviceClock:
    """Medians of CUDA events on torch's current stream."""

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats

    def ms(self, work: Callable[[], object]) -> float:
        import torch

        for _ in range(2):
            work()
        torch.cuda.synchronize()
        times = []
        for _ in range(self._repeats):
            start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
            start.record()
            work()
            stop.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(stop))
        return sorted(times)[len(times) // 2]


def measure_device(num_frames: int, repeats: int) -> list[Figure]:
    """Every figure of a machine with a device."""
    clock = DeviceClock(repeats)
    frames = anchor_frames(num_frames, "cuda")
    copy, peak = _copy(clock, frames)
    return [
        copy,
        *_delta_quant(clock, frames, peak),
        *_block_diff(clock, frames, peak),
        *_lz4(clock, frames),
        *_nvcomp(clock, frames),
        *_color(clock, peak),
        *_lanczos(clock, peak),
        *_pool(clock),
    ]


def _copy(clock: DeviceClock, frames: Any) -> tuple[Figure, float]:
    """The device's limit: a copy, and its traffic (read + write) in GB/s."""
    import torch

    target = torch.empty_like(frames)
    ms = clock.ms(lambda: target.copy_(frames))
    peak = 2 * frames.nbytes / ms / 1e6
    note = f"{peak:.0f} GB/s of traffic: the peak below"
    return Figure("copy, device to device", ms, frames.nbytes / ms / 1e6, of_peak=1.0, note=note), peak


def _delta_quant(clock: DeviceClock, frames: Any, peak: float) -> list[Figure]:
    import cupy

    from kernels_cupy import delta_quant
    from kernels_cupy.launch import device_array, on_current_stream, pointers

    figures = []
    whole = device_array(frames).view(np.uint16)
    still = max(len(whole), STATIC_FRAMES)
    repeated = cupy.repeat(whole[:1], still, axis=0)  # copies, so that they come from memory, not the cache
    static = [[repeated[frame, plane] for plane in range(3)] for frame in range(still)]
    moving = [[whole[frame, plane] for plane in range(3)] for frame in range(len(whole))]
    for name, planes in (("moving", moving), ("static", static)):
        layout = FrameLayout(len(planes), tuple(plane.shape for plane in planes[0]))
        size = layout.samples_per_frame * layout.num_frames * 2
        with on_current_stream():
            workspace = delta_quant.Workspace(layout)
            sources = pointers([plane for frame in planes for plane in frame])
            ms = clock.ms(lambda w=workspace, s=sources: delta_quant.encode_into(w, s))
            used, failed = (int(value) for value in workspace.state.get())
            assert not failed
            packed = used * UNIT_BYTES + int(workspace.table.nbytes)
            ratios = {
                "ratio": compression_ratio(layout, packed),
                "ratio_10_bit": compression_ratio(layout, packed, 10),
            }
            figures.append(
                Figure(
                    f"delta_quant encode, {name}",
                    ms,
                    size / ms / 1e6,
                    **ratios,
                    of_peak=(size + packed) / ms / 1e6 / peak,
                )
            )
            outputs = cupy.empty((len(planes), 3, HEIGHT, WIDTH), np.uint16)
            targets = pointers([outputs[frame, plane] for frame in range(len(planes)) for plane in range(3)])
            state = cupy.zeros(1, np.uint32)
            payload = workspace.payload[: used * UNIT_BYTES]
            ms = clock.ms(
                lambda w=workspace, p=payload, t=targets, la=layout, st=state: delta_quant.decode_into(
                    la, w.planes, w.table, p, t, st
                )
            )
            assert not int(state[0])
            same = all(
                bool((outputs[frame, plane] == planes[frame][plane]).all())
                for frame in (0, len(planes) - 1)
                for plane in range(3)
            )
            assert same, "the decoded frames differ"
            figures.append(
                Figure(
                    f"delta_quant decode, {name}",
                    ms,
                    size / ms / 1e6,
                    **ratios,
                    of_peak=(size + packed) / ms / 1e6 / peak,
                )
            )
            if name == "moving":
                modes = np.bincount(
                    split_entries(workspace.table.get()).mode.reshape(-1), minlength=8
                ).tolist()
                ms = clock.ms(lambda la=layout, pl=planes: delta_quant.encode(la, pl))
                note = f"deterministic, exact size, waits; tiles by mode {modes}"
                figures.append(
                    Figure("frame_codec compress, moving", ms, size / ms / 1e6, **ratios, note=note)
                )
            del outputs, workspace
    return figures


def _block_diff(clock: DeviceClock, frames: Any, peak: float) -> list[Figure]:
    import cupy

    from kernels_cupy import block_diff
    from kernels_cupy.delta_quant import descriptors
    from kernels_cupy.launch import device_array, on_current_stream, pointers

    whole = device_array(frames).view(np.uint16)
    half = len(whole) // 2
    now = [[whole[frame, plane] for plane in range(3)] for frame in range(half)]
    before = [[whole[half + frame, plane] for plane in range(3)] for frame in range(half)]
    layout = FrameLayout(half, tuple(plane.shape for plane in now[0]))
    size = 2 * half * layout.samples_per_frame * 2
    with on_current_stream():
        sources, stored = (
            pointers([plane for planes in given for plane in planes]) for given in (now, before)
        )
        planes = cupy.asarray(descriptors(layout))
        ids, count = cupy.empty(layout.num_tiles, np.uint32), cupy.zeros(1, np.uint32)

    def find() -> None:
        with on_current_stream():
            count.fill(0)
            block_diff.find_changed(layout, planes, sources, stored, 5000, ids, count)

    ms = clock.ms(find)
    whole_ms = clock.ms(lambda: block_diff.changed_blocks(now, before, threshold_ppm=5000))
    found = block_diff.changed_blocks(now, before, threshold_ppm=5000)
    note = "both frames counted"
    crossing = f"with {4 * len(found) + 4} bytes of ids to the host, sorted there"
    return [
        Figure("block_diff, 0.5 %", ms, size / ms / 1e6, of_peak=size / ms / 1e6 / peak, note=note),
        Figure("block_diff, 0.5 %, to the host", whole_ms, size / whole_ms / 1e6, note=crossing),
    ]


def _byte_planes(frames: Any) -> Any:
    """The input that suits the rivals best: differences to the frame before, zigzag, low bytes then high bytes."""
    import torch

    delta = frames.clone()
    delta[1:] = frames[1:] - frames[:-1]
    zigzag = (delta << 1) ^ (delta >> 15)
    return torch.cat(
        [(zigzag & 255).to(torch.uint8).flatten(), ((zigzag >> 8) & 255).to(torch.uint8).flatten()]
    )


def _lz4(clock: DeviceClock, frames: Any) -> list[Figure]:
    import cupy

    from kernels_cupy import lz4_block
    from kernels_cupy.frame_format import LZ4_CHUNK_BYTES
    from kernels_cupy.launch import device_array, on_current_stream

    data = device_array(_byte_planes(frames[:8]))
    chunks = -(-int(data.size) // LZ4_CHUNK_BYTES)
    with on_current_stream():
        blocks, sizes = cupy.empty(chunks * lz4_block.STRIDE, np.uint8), cupy.empty(chunks, np.uint32)
        ms = clock.ms(lambda: lz4_block.compress_into(data, blocks, sizes))
        packed = int(sizes.sum())
        offsets = cupy.arange(chunks, dtype=np.uint64) * np.uint64(lz4_block.STRIDE)
        result, failed = cupy.empty_like(data), cupy.zeros(chunks, np.uint32)
        back = clock.ms(lambda: lz4_block.decompress_into(blocks, offsets, sizes, result, failed))
        assert not int(failed.any()) and bool((result == data).all())
    ratio = int(data.size) / packed
    size = int(data.size)
    return [
        Figure("lz4_block encode, delta byte planes", ms, size / ms / 1e6, ratio),
        Figure("lz4_block decode, delta byte planes", back, size / back / 1e6, ratio),
    ]


def _nvcomp(clock: DeviceClock, frames: Any) -> list[Figure]:
    try:
        from nvidia import nvcomp
    except ImportError:
        return [Figure("nvCOMP", 0.0, note="not installed: nothing to compare with in this run")]
    data = _byte_planes(frames[:8])
    figures = []
    for algorithm in ("LZ4", "Snappy", "Cascaded", "Bitcomp", "ANS", "GDeflate", "Zstd"):
        try:
            codec = nvcomp.Codec(algorithm=algorithm)
            array = nvcomp.as_array(data)
            encoded = codec.encode(array)
            encode_ms = clock.ms(lambda c=codec, a=array: c.encode(a))
            decode_ms = clock.ms(lambda c=codec, e=encoded: c.decode(e))
        except Exception as error:  # a rival that does not run is a line in the table, not the end of it
            figures.append(Figure(f"nvCOMP {algorithm}", 0.0, note=repr(error)[:80]))
            continue
        ratio = data.nbytes / encoded.buffer_size
        for what, ms in (("encode", encode_ms), ("decode", decode_ms)):
            figures.append(
                Figure(f"nvCOMP {algorithm} {what}, delta byte planes", ms, data.nbytes / ms / 1e6, ratio)
            )
    return figures


def _color(clock: DeviceClock, peak: float) -> list[Figure]:
    import torch

    from kernels_cupy import color

    rgb = torch.rand((8, 3, HEIGHT, WIDTH), device="cuda")
    pixels = 8 * HEIGHT * WIDTH
    figures = []
    colors: tuple[reference_color.Color, ...] = ("bt709", "bt2020")
    chromas: tuple[reference_color.Chroma, ...] = ("420", "444")
    for system in colors:
        for chroma in chromas:
            ms = clock.ms(lambda s=system, c=chroma: color.rgb_to_yuv(rgb, color=s, chroma=c))
            traffic = pixels * (12 + (3 if chroma == "420" else 6))
            share = traffic / ms / 1e6 / peak
            figures.append(Figure(f"color {system} {chroma}", ms, rgb.nbytes / ms / 1e6, of_peak=share))
    return figures


def _lanczos(clock: DeviceClock, peak: float) -> list[Figure]:
    import torch

    from kernels_cupy import lanczos

    frames = torch.rand((8, 3, 720, 1280), device="cuda")
    ms = clock.ms(lambda: lanczos.resize(frames, HEIGHT, WIDTH)) / len(frames)
    middle = 3 * 720 * WIDTH * 4
    traffic = 3 * 720 * 1280 * 4 + 2 * middle + 3 * HEIGHT * WIDTH * 4
    return [Figure("lanczos 1280x720 -> 3840x2160, a frame", ms, of_peak=traffic / ms / 1e6 / peak)]


def _pool(clock: DeviceClock) -> list[Figure]:
    import cupy
    import torch

    from kernels_cupy.launch import on_current_stream
    from kernels_cupy.memory_pool import PAGE_BYTES, MemoryPool

    pool = MemoryPool(1 << 16)
    with on_current_stream():
        pages = cupy.empty(1024, np.uint32)

        def both() -> None:
            pool.acquire_into(pages)
            pool.release(pages)

        figures = [Figure("memory_pool, acquire + release 1,024 pages", clock.ms(both), note="two launches")]

    def through_torch() -> None:
        held = [torch.empty(PAGE_BYTES, dtype=torch.uint8, device="cuda") for _ in range(1024)]
        del held

    def through_cupy() -> None:
        own = cupy.cuda.MemoryPool()
        held = [own.malloc(PAGE_BYTES) for _ in range(1024)]
        del held

    figures.append(Figure("torch's allocator, 1,024 pages", _host_ms(through_torch), note="host time"))
    figures.append(Figure("CuPy's pool, 1,024 pages", _host_ms(through_cupy), note="host time, a fresh pool"))
    return figures


def _host_ms(work: Callable[[], object], repeats: int = 5) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[len(times) // 2]


def measure_host(num_frames: int) -> list[Figure]:
    """The NumPy path, in seconds of one core: what a machine without a device gets."""
    frames = anchor_frames(num_frames, "cpu").numpy()
    half_planes = [[planes[0], planes[1, ::2, ::2], planes[2, ::2, ::2]] for planes in frames]
    figures = []
    for name, given in (("3 full planes", list(frames)), ("4:2:0 planes", half_planes)):
        size = sum(plane.nbytes for planes in given for plane in planes)
        start = time.process_time()
        compressed = frame_codec.compress(given)
        middle = time.process_time()
        decoded = frame_codec.decompress(compressed)
        stop = time.process_time()
        pairs = zip(decoded, given, strict=True)
        assert all(np.array_equal(a, b) for one, other in pairs for a, b in zip(one, other, strict=True))
        ratios = {"ratio": compressed.ratio, "ratio_10_bit": compressed.ratio * 10 / 16}
        for what, seconds in (("encode", middle - start), ("decode", stop - middle)):
            per_frame = f"{seconds / len(given):.2f} s a frame"
            figures.append(
                Figure(f"NumPy {what}, {name}", seconds * 1e3, size / seconds / 1e9, **ratios, note=per_frame)
            )
    start = time.process_time()
    still = frame_codec.compress([frames[0]] * 97)
    seconds = time.process_time() - start
    size = 97 * frames[0].nbytes
    ratios = {"ratio": still.ratio, "ratio_10_bit": still.ratio * 10 / 16}
    figures.append(Figure("NumPy encode, static, 97 frames", seconds * 1e3, size / seconds / 1e9, **ratios))
    return figures


def run(*, num_frames: int = 24, repeats: int = 20, out: Path | None = None) -> list[Figure]:
    """Measure what this machine can, and write the figures to `out` (default: benchmarks/results/)."""
    try:
        import torch

        device = torch.cuda.is_available()
    except ImportError:
        device = False
    figures = measure_device(num_frames, repeats) if device else measure_host(min(num_frames, 4))
    named = {
        figure.name: {k: v for k, v in asdict(figure).items() if v not in (None, "")} for figure in figures
    }
    packages = ("cupy-cuda13x", "cupy-cuda12x", "nvidia-nvcomp-cu13", "nvidia-nvcomp-cu12")
    record.write("kernels" if device else "kernels_cpu", named, to=out, packages=packages)
    return figures


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels", description="How fast are the kernels?"
    )
    parser.add_argument("--frames", type=int, default=24, help="4K frames to work on (24 are 1.2 GB)")
    parser.add_argument("--quick", action="store_true", help="few repeats")
    parser.add_argument("--out", type=Path, help="where the figures go, as JSON")
    options = parser.parse_args(arguments)
    figures = run(num_frames=options.frames, repeats=5 if options.quick else 20, out=options.out)
    print(HEADER)
    for figure in figures:
        print(figure.line())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
