"""A stand-in for CuPy without a device: NumPy arrays, kernels through `on_cpu`. Just what the wrappers use of CuPy.

So the wrappers' Python (argument order and types, sizes, checks) is tested where there is no GPU.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernels_cupy import loader
from tests.kernels import on_cpu


class ndarray(np.ndarray):
    """NumPy's array with CuPy's way to the host and CuPy's pointer."""

    def get(self, out: np.ndarray | None = None) -> np.ndarray:
        result = np.array(self, subok=False)
        if out is None:
            return result
        out[...] = result
        return out

    @property
    def data(self) -> Any:
        return types.SimpleNamespace(ptr=self.ctypes.data if self.size else 0)


ndarray.__module__ = "cupy"


def _aligned(shape: Any, dtype: Any, fill: int) -> ndarray:
    return on_cpu.aligned(shape, dtype, fill).view(ndarray)


def empty(shape: Any, dtype: Any = np.float64) -> ndarray:
    return _aligned(shape, dtype, 0x5A)  # what an allocation holds is nobody's business


def zeros(shape: Any, dtype: Any = np.float64) -> ndarray:
    return _aligned(shape, dtype, 0)


def asarray(values: Any, dtype: Any = None) -> ndarray:
    if isinstance(values, ndarray) and dtype in (None, values.dtype):
        return values
    host = np.asarray(values, dtype)
    copy = empty(host.shape, host.dtype)
    copy[...] = host
    return copy


def ascontiguousarray(values: Any, dtype: Any = None) -> ndarray:
    result = asarray(values, dtype)
    return result if result.flags.c_contiguous else asarray(np.ascontiguousarray(result.get()))


class RawModule:
    """Knows which of the project's sources it was given; checks the types that CuPy would pass on unseen."""

    def __init__(self, code: str, options: tuple[str, ...] = ()) -> None:
        assert options[1:] == loader.definitions()
        (self._name,) = (name for name in loader.SOURCES if loader.source(name) == code)

    def get_function(self, function: str) -> Callable[..., None]:
        def run(grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any]) -> None:
            assert all(isinstance(size, int) for size in (*grid, *block))
            for argument, kind in zip(arguments, parameter_kinds(self._name, function), strict=True):
                if isinstance(argument, ndarray):
                    assert kind == "pointer" and argument.flags.c_contiguous
                else:
                    assert argument.dtype.itemsize == {"pointer": 8, "u64": 8, "u32": 4, "int": 4}[kind]
                    assert kind != "pointer" or argument == 0
            on_cpu.launch(self._name, function, tuple(grid), tuple(block), *arguments)

        return run


def parameter_kinds(name: str, function: str) -> list[str]:
    """The kinds of a kernel's parameters as its source declares them: "pointer", "u64", "u32" or "int"."""
    text = loader.source(name)
    start = text.index("(", text.index(f" {function}(" if f" {function}(" in text else f"\n{function}("))
    parameters = text[start + 1 : text.index(")", start)].split(",")
    return ["pointer" if "*" in parameter else parameter.split()[0] for parameter in parameters]


def module() -> types.ModuleType:
    """The stand-in, to be put into sys.modules under CuPy's name."""
    cupy = types.ModuleType("cupy")
    for name in ("uint8", "uint16", "uint32", "uint64", "int16", "float32", "bool_"):
        setattr(cupy, name, getattr(np, name))
    for name in ("clip", "nan_to_num", "rint", "cumsum", "empty_like"):
        setattr(cupy, name, getattr(np, name))
    cupy.__dict__.update(
        ndarray=ndarray,
        empty=empty,
        where=lambda *given: asarray(np.where(*given)),
        zeros=zeros,
        asarray=asarray,
        array=asarray,
        ascontiguousarray=ascontiguousarray,
        RawModule=RawModule,
        cuda=types.SimpleNamespace(
            Device=lambda: types.SimpleNamespace(id=0),
            alloc_pinned_memory=bytearray,
            runtime=types.SimpleNamespace(CUDARuntimeError=RuntimeError),
        ),
    )
    return cupy
