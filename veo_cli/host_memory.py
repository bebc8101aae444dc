"""Keeping the process's resident memory at what is in use."""

from __future__ import annotations

import ctypes
import sys

_M_MMAP_THRESHOLD = -3  # <malloc.h>
_MAP_FROM_BYTES = 1 << 20


def return_freed_memory() -> None:
    """Have glibc take every block of 1 MiB or more from the system and give it back when it is freed.

    By default its threshold grows to 32 MiB with use: the feature maps of a decoder then stay behind in a fragmented
    heap, and peak memory varies by a hundred megabytes from one clip to the next. Does nothing elsewhere than on Linux.
    """
    if sys.platform != "linux":
        return
    try:
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MAP_FROM_BYTES)
    except (OSError, AttributeError):
        return  # a C library without mallopt
