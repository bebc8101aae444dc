"""How every kernel here is started: on torch's current stream, with memory from torch's caching allocator.

torch is the one owner of device memory; CuPy allocates through it. Without torch on the machine CuPy's own pool and
current stream serve (kernels alone, no models to share the memory with).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels_cupy import loader


@functools.cache
def _torch() -> Any:
    """torch if it is there and has a device, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


@functools.cache
def allocate_through_torch() -> None:
    """Make torch's caching allocator the source of CuPy's memory, once per process."""
    torch = _torch()
    if torch is None:
        return
    import cupy

    def allocate(size: int, device: int) -> int:
        stream = torch.cuda.current_stream(device).cuda_stream
        try:
            return int(torch.cuda.caching_allocator_alloc(size, device, stream)) if size else 0
        except torch.OutOfMemoryError as error:
            raise MemoryError(str(error)) from error

    def release(pointer: int, device: int) -> None:
        if pointer:
            torch.cuda.caching_allocator_delete(pointer)

    cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(allocate, release).malloc)


def free_device_bytes() -> int | None:
    """What may still be allocated on torch's current device; None without torch."""
    torch = _torch()
    if torch is None:
        return None
    held = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return int(torch.cuda.mem_get_info()[0] + held)


@contextmanager
def on_current_stream() -> Iterator[None]:
    """CuPy's work inside goes to torch's current device and stream."""
    torch = _torch()
    if torch is None:
        yield
        return
    import cupy

    allocate_through_torch()
    stream = torch.cuda.current_stream().cuda_stream
    with cupy.cuda.Device(torch.cuda.current_device()), cupy.cuda.ExternalStream(stream):
        yield


@dataclass(frozen=True)
class Ready:
    """When device arrays are whole: an event on the stream that makes them."""

    device: int
    event: Any


def mark_ready() -> Ready | None:
    """What is queued on torch's current stream by now; None without torch."""
    torch = _torch()
    if torch is None:
        return None
    event = torch.cuda.Event()
    event.record()
    return Ready(torch.cuda.current_device(), event)


@contextmanager
def beside(ready: Ready | None) -> Iterator[None]:
    """Work inside waits for `ready` and for nothing else: a stream of its own, so that a reader in another thread does
    not stand in line behind the next job's sampling. Wait for the work's end before arrays of another stream that it
    reads are freed.
    """
    torch = _torch()
    if torch is None or ready is None:
        yield
        return
    with torch.cuda.stream(_side_stream(ready.device)):
        torch.cuda.current_stream().wait_event(ready.event)
        with on_current_stream():
            yield


@functools.cache
def _side_stream(device: int) -> Any:
    return _torch().cuda.Stream(device)


def launch(
    source: str, function: str, grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any]
) -> None:
    """Start a kernel of cuda/SOURCE.cu. The caller is inside `on_current_stream`.

    arguments: CuPy arrays, NumPy scalars of the parameter's exact type, or None for a null pointer.
    """
    values = tuple(np.uint64(0) if argument is None else argument for argument in arguments)
    loader.kernel(source, function)(tuple(grid), tuple(block), values)


def device_array(array: Any) -> Any:
    """A CuPy view of a torch CUDA tensor, a CuPy array as it is, or a copy on the device of a host array."""
    import cupy

    with on_current_stream():
        if isinstance(array, cupy.ndarray):
            return array
        if getattr(array, "is_cuda", False):
            tensor = array.detach()
            # DLPack knows no bfloat16 in CuPy; floats are about to be converted anyhow.
            return cupy.from_dlpack(tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor)
        return cupy.asarray(np.asarray(array))


def on_device(array: Any) -> bool:
    """Whether this is a CuPy array or a torch CUDA tensor."""
    return bool(getattr(array, "is_cuda", False)) or type(array).__module__.partition(".")[0] == "cupy"


def to_host(array: Any) -> Any:
    """An array's contents as NumPy; a CuPy array is waited for on torch's current stream."""
    if not on_device(array):
        return array
    with on_current_stream():
        return array.get()


def to_pinned(array: Any) -> Any:
    """A device array's contents in page-locked host memory, as NumPy."""
    import cupy

    with on_current_stream():
        memory = cupy.cuda.alloc_pinned_memory(max(int(array.nbytes), 1))
        host = np.frombuffer(memory, array.dtype, int(array.size)).reshape(array.shape)
        array.get(out=host)
    return host


def pointers(arrays: Sequence[Any]) -> Any:
    """The addresses of device arrays as a device array of uint64."""
    import cupy

    return cupy.asarray(np.array([int(array.data.ptr) for array in arrays], np.uint64))
