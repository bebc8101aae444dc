"""NVIDIA's run-time compiler through ctypes: it needs no device, no driver and no CUDA headers."""

from __future__ import annotations

import ctypes
import functools
import sysconfig
from pathlib import Path


@functools.cache
def library() -> ctypes.CDLL | None:
    """The newest libnvrtc among the installed packages and on the system, or None."""
    packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    found = sorted(packages.glob("**/libnvrtc.so.*"), key=lambda path: path.name.split("."), reverse=True)
    names = [str(path) for path in found if "builtins" not in path.name and ".alt." not in path.name]
    for name in [*names, "libnvrtc.so.13", "libnvrtc.so.12"]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def architectures() -> set[int]:
    """What the compiler can compile for: {80, 89, ...}."""
    nvrtc = library()
    assert nvrtc is not None
    count = ctypes.c_int()
    assert nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count)) == 0
    values = (ctypes.c_int * count.value)()
    assert nvrtc.nvrtcGetSupportedArchs(values) == 0
    return set(values)


def compile_cubin(text: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    """Machine code and log. AssertionError with the log where the source does not compile."""
    nvrtc = library()
    assert nvrtc is not None
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None) == 0
    try:
        encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        status = nvrtc.nvrtcCompileProgram(program, len(options), encoded)
        size = ctypes.c_size_t()
        assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
        log = ctypes.create_string_buffer(size.value)
        assert nvrtc.nvrtcGetProgramLog(program, log) == 0
        assert status == 0, log.value.decode()
        assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
        cubin = ctypes.create_string_buffer(size.value)
        assert nvrtc.nvrtcGetCUBIN(program, cubin) == 0
        return cubin.raw, log.value.decode()
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
