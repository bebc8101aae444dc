"""Which form of the tile codec is quickest: launch bounds, and variants of cuda/delta_quant.cu in files.

    python -m benchmarks.kernel_variants [FILE.cu ...]

Every variant encodes and decodes the anchor frames (see benchmarks/kernels.py) and has to give them back. Prints a line for
each and writes nothing: what wins goes into the source, and `benchmarks.kernels` measures that.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import numpy as np

from benchmarks.kernels import DeviceClock, anchor_frames
from kernels_cupy import delta_quant, loader
from kernels_cupy.frame_format import UNIT_BYTES, FrameLayout, compression_ratio
from kernels_cupy.launch import device_array, on_current_stream, pointers

NUM_FRAMES = 24
BLOCKS_A_MULTIPROCESSOR = (3, 4, 6, 7, 8)


def variants(paths: list[Path]) -> Iterator[tuple[str, str]]:
    """(name, source text), the project's own first."""
    own = loader.source("delta_quant")
    yield "as it is", own
    for blocks in BLOCKS_A_MULTIPROCESSOR:
        yield (
            f"{blocks} blocks",
            re.sub(r"__launch_bounds__\(THREADS, \d\)", f"__launch_bounds__(THREADS, {blocks})", own),
        )
    header = files("kernels_cupy").joinpath("cuda", "tile.cuh").read_text(encoding="utf-8")
    for path in paths:
        yield path.name, path.read_text(encoding="utf-8").replace('#include "tile.cuh"', header)


def measure(name: str, text: str, frames: object, clock: DeviceClock) -> str:
    import cupy

    module = cupy.RawModule(code=text, options=("-std=c++17", *loader.definitions()))
    original = loader.kernel
    loader.kernel = lambda source, function: module.get_function(function)
    try:
        whole = device_array(frames).view(np.uint16)
        planes = [plane for frame in whole for plane in frame]
        layout = FrameLayout(len(whole), tuple(plane.shape for plane in whole[0]))
        size = layout.samples_per_frame * layout.num_frames * 2
        with on_current_stream():
            workspace, sources = delta_quant.Workspace(layout), pointers(planes)
            encode_ms = clock.ms(lambda: delta_quant.encode_into(workspace, sources))
            used = int(workspace.state.get()[0])
            decoded, failed = cupy.zeros_like(whole), cupy.zeros(1, np.uint32)
            payload, table = workspace.payload[: used * UNIT_BYTES], workspace.table
            targets = pointers([plane for frame in decoded for plane in frame])
            decode_ms = clock.ms(
                lambda: delta_quant.decode_into(layout, workspace.planes, table, payload, targets, failed)
            )
            assert bool((decoded == whole).all()), f"{name}: the frames came back changed"
    finally:
        loader.kernel = original
    registers = [module.get_function(function).num_regs for function in ("encode_tiles", "decode_tiles")]
    ratio = compression_ratio(layout, used * UNIT_BYTES + int(table.nbytes))
    return (
        f"{name:24} encode {size / encode_ms / 1e6:6.0f} GB/s, decode {size / decode_ms / 1e6:6.0f} GB/s, "
        f"ratio {ratio:.3f}, registers {registers[0]} and {registers[1]}"
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.cu")
    options = parser.parse_args(arguments)
    frames, clock = anchor_frames(NUM_FRAMES, "cuda"), DeviceClock(20)
    for name, text in variants(options.files):
        print(measure(name, text, frames, clock), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
