"""The page pool in NumPy: the specification of `cuda/memory_pool.cuh`, and its model in the tests.

Batches happen as if page by page in order; on the device the pages of one batch come in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EMPTY = 0xFFFFFFFF  # where there was no page left
Pages = NDArray[np.uint32]


@dataclass(frozen=True)
class PoolStatistics:
    """in_use, peak: pages. failed: pages asked for in vain. misused: double releases, foreign pages, sharing of free
    pages. fragmentation: 1 - longest run of free pages / free pages (0 while none are free); nothing in the pool
    depends on runs, it says how a neighbour would fare."""

    num_pages: int
    in_use: int
    peak: int
    failed: int
    misused: int
    fragmentation: float


def fragmentation(references: NDArray[np.uint32]) -> float:
    """See PoolStatistics. references: (num_pages,)."""
    free = np.concatenate([[0], (references == 0).astype(np.int8), [0]])
    edges = np.flatnonzero(np.diff(free))
    runs = edges[1::2] - edges[::2]
    return float(1 - runs.max() / runs.sum()) if len(runs) else 0.0


class ReferencePool:
    """num_pages pages, free pages handed out first in, first out."""

    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages
        self.references = np.zeros(num_pages, np.uint32)
        self._ring = np.arange(num_pages, dtype=np.uint32)
        self._head = self._tail = 0
        self._available = num_pages
        self._peak = self._failed = self._misused = 0

    def acquire(self, count: int) -> Pages:
        """(count,) page ids, each with one owner; EMPTY from where the pool ran out."""
        got = min(count, self._available)
        pages = np.full(count, EMPTY, np.uint32)
        pages[:got] = self._ring[(self._head + np.arange(got)) % self.num_pages]
        self._head = (self._head + got) % self.num_pages
        self._available -= got
        self.references[pages[:got]] = 1
        self._failed += count - got
        self._peak = max(self._peak, self.num_pages - self._available)
        return pages

    def share(self, pages: Pages) -> None:
        """One more owner for each page."""
        known = pages[pages < self.num_pages]
        used = known[self.references[known] > 0]
        np.add.at(self.references, used, 1)
        self._misused += len(pages) - len(used)

    def release(self, pages: Pages) -> None:
        """One owner less for each page; pages without one are free again. A page may occur more than once."""
        known = pages[pages < self.num_pages]
        order = np.argsort(known, kind="stable")
        ordered = known[order]
        # How often a page has come up in this batch before, in the batch's order.
        starts = (
            np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else order
        )
        lengths = np.diff(np.append(starts, len(ordered)))
        earlier = np.empty(len(known), np.int64)
        earlier[order] = np.arange(len(ordered)) - np.repeat(starts, lengths)
        left = self.references[known].astype(np.int64) - earlier
        freed = known[left == 1]
        good = known[left >= 1]
        np.subtract.at(self.references, good, 1)
        self._misused += len(pages) - len(good)
        self._ring[(self._tail + np.arange(len(freed))) % self.num_pages] = freed
        self._tail = (self._tail + len(freed)) % self.num_pages
        self._available += len(freed)

    def statistics(self) -> PoolStatistics:
        return PoolStatistics(
            num_pages=self.num_pages,
            in_use=self.num_pages - self._available,
            peak=self._peak,
            failed=self._failed,
            misused=self._misused,
            fragmentation=fragmentation(self.references),
        )
