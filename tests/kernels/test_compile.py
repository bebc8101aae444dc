"""Every source compiles for every architecture that is promised, without a device; what it takes stays in bounds."""

from __future__ import annotations

import re

import pytest

from kernels_cupy import loader
from tests.kernels import nvrtc

ARCHITECTURES = (80, 89, 90, 100)
MAX_SPILLED_BYTES = 16  # a loop's invariant or two; more means that a change cost registers
KERNELS = {
    "delta_quant": {"encode_tiles", "decode_tiles", "reorder"},
    "block_diff": {"changed_blocks"},
    "memory_pool": {
        "initialise_pool",
        "acquire_pages",
        "release_pages",
        "share_pages",
        "write_pages",
        "read_pages",
        "churn_pages",
    },
    "lz4_block": {"compress_chunks", "decompress_chunks"},
    "color": {"rgb_to_yuv"},
    "lanczos": {"resize_columns", "resize_rows"},
}

pytestmark = pytest.mark.skipif(
    nvrtc.library() is None, reason="no NVRTC: pip install nvidia-cuda-nvrtc-cu12"
)


def test_every_source_is_listed():
    assert set(loader.SOURCES) == set(KERNELS)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", loader.SOURCES)
def test_compiles(name, architecture):
    assert architecture in nvrtc.architectures()
    options = (
        f"--gpu-architecture=sm_{architecture}",
        "-std=c++17",
        "--ptxas-options=-v",
        *loader.definitions(),
    )
    cubin, log = nvrtc.compile_cubin(loader.source(name), options)
    assert cubin.startswith(b"\x7fELF")
    assert "warning" not in log, log
    assert set(re.findall(r"entry function '(\w+)'", log)) == KERNELS[name]
    spilled = [int(size) for size in re.findall(r"(\d+) bytes spill stores", log)]
    assert len(spilled) == len(KERNELS[name])
    assert max(spilled) <= MAX_SPILLED_BYTES, log


def test_an_error_in_a_source_is_found():
    with pytest.raises(AssertionError, match="undefined"):
        nvrtc.compile_cubin("__global__ void f() { undefined_name(); }", ("--gpu-architecture=sm_90",))
