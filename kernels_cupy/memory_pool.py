"""A slab of fixed pages on the device, handed out and taken back by kernels and by the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels_cupy.frame_format import RAW_UNITS, UNIT_BYTES
from kernels_cupy.launch import launch, on_current_stream
from kernels_cupy.reference.memory_pool import EMPTY, PoolStatistics, fragmentation

PAGE_BYTES = RAW_UNITS * UNIT_BYTES  # a 64x64 tile of 16-bit samples
_COUNTERS = 6
_THREADS = 128


class PoolExhausted(MemoryError):
    """More pages were asked for than are free."""


class PoolMisuse(ValueError):
    """A page was released twice, shared while free, or is none of this pool's."""


class MemoryPool:
    """num_pages pages of page_bytes bytes in one slab from torch's allocator (`slab`, CuPy uint8).

    debug: misuse raises PoolMisuse at once, at the price of waiting for the device after every call. Without it
    misuse changes nothing in the pool and is counted (`statistics().misused`).
    """

    def __init__(self, num_pages: int, page_bytes: int = PAGE_BYTES, *, debug: bool = False) -> None:
        if not 1 <= num_pages < EMPTY or page_bytes < 1:
            raise ValueError(f"a pool of {num_pages} pages of {page_bytes} bytes")
        import cupy

        self.num_pages, self.page_bytes, self._debug = num_pages, page_bytes, debug
        self._misused = 0
        with on_current_stream():
            self.slab = cupy.empty(num_pages * page_bytes, np.uint8)
            self.ring = cupy.empty(num_pages, np.uint32)
            self.references = cupy.empty(num_pages, np.uint32)
            self.counters = cupy.empty(_COUNTERS, np.uint64)
            self._run("initialise_pool", max(num_pages, _COUNTERS))

    def _run(self, function: str, count: int, *more: Any) -> None:
        state = (self.ring, self.references, self.counters, np.uint32(self.num_pages))
        launch("memory_pool", function, (-(-count // _THREADS),), (_THREADS,), (*state, *more))

    def acquire_into(self, pages: Any) -> None:
        """Fill a CuPy uint32 array with page ids, reference.memory_pool.EMPTY where none was left; not waited for."""
        with on_current_stream():
            self._run("acquire_pages", pages.size, pages, np.uint32(pages.size))

    def acquire(self, count: int) -> Any:
        """(count,) page ids, CuPy uint32, each with one owner. All or none: raises PoolExhausted.

        Waits for the device; `acquire_into` does not.
        """
        import cupy

        with on_current_stream():
            pages = cupy.empty(count, np.uint32)
            if count == 0:
                return pages
            self.acquire_into(pages)
            got = pages[pages != np.uint32(EMPTY)]
            if got.size < count:
                self._apply("release_pages", got)
                raise PoolExhausted(f"{count} pages asked for, {got.size} of {self.num_pages} free")
        return pages

    def _apply(self, function: str, pages: Any) -> None:
        if pages.size:
            self._run(function, pages.size, pages, np.uint32(pages.size))

    def release(self, pages: Any) -> None:
        """One owner less for each page of a CuPy uint32 array; those without one are free again."""
        with on_current_stream():
            self._apply("release_pages", pages)
        self._check()

    def share(self, pages: Any) -> None:
        """One more owner for each page."""
        with on_current_stream():
            self._apply("share_pages", pages)
        self._check()

    def _check(self) -> None:
        if self._debug and (misused := int(self.counters[5])) != self._misused:
            new, self._misused = misused - self._misused, misused
            raise PoolMisuse(f"{new} of the pages are free already, or not of this pool")

    def pages_for(self, nbytes: int) -> int:
        return -(-nbytes // self.page_bytes)

    def write(self, data: Any) -> Any:
        """Copy `data`, CuPy uint8, a multiple of 16 bytes, into pages, (pages_for(data.nbytes),) ids, which the caller
        releases. Raises PoolExhausted."""
        pages = self.acquire(self.pages_for(data.nbytes))
        self._copy("write_pages", pages, data)
        return pages

    def read(self, pages: Any, nbytes: int) -> Any:
        """What `write` put there, (nbytes,) CuPy uint8; not waited for."""
        import cupy

        with on_current_stream():
            data = cupy.empty(nbytes, np.uint8)
        self._copy("read_pages", pages, data)
        return data

    def _copy(self, function: str, pages: Any, data: Any) -> None:
        if self.page_bytes % UNIT_BYTES or data.nbytes % UNIT_BYTES:
            raise ValueError(f"pages and data are copied in units of {UNIT_BYTES} bytes")
        if not pages.size:
            return
        sizes = np.uint32(self.page_bytes // UNIT_BYTES), np.uint64(int(data.nbytes) // UNIT_BYTES)
        arguments = (self.slab, sizes[0], pages, data, sizes[1])
        with on_current_stream():
            launch("memory_pool", function, (int(pages.size),), (_THREADS,), arguments)

    def page(self, page: int) -> Any:
        """The bytes of a page, a CuPy uint8 view of the slab."""
        return self.slab[page * self.page_bytes : (page + 1) * self.page_bytes]

    def statistics(self) -> PoolStatistics:
        """Waits for the device."""
        available, _, _, peak, failed, misused = (int(value) for value in self.counters.get())
        return PoolStatistics(
            num_pages=self.num_pages,
            in_use=self.num_pages - available,
            peak=peak,
            failed=failed,
            misused=misused,
            fragmentation=fragmentation(self.references.get()),
        )
