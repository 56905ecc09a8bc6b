"""Tells the C library to keep what the process frees, up to a bound, instead of giving it back to the system."""

from __future__ import annotations

import ctypes
import ctypes.util

KEPT_BYTES = 128 << 20
"""A few row groups' worth of columns and batches: what a reader frees, the next one takes."""

# <malloc.h> of glibc
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST_FROM_THE_HEAP_BYTES = 32 << 20
"""glibc's own upper limit for the threshold that it adapts by itself."""


def keep_freed_memory() -> bool:
    """Blocks of megabytes come from memory that was used before, not from fresh pages that the system must clear.

    Measured on replay: 7 % less CPU. False where the C library has no such setting (musl, macOS): nothing changes.
    """
    name = ctypes.util.find_library("c")
    mallopt = getattr(ctypes.CDLL(name), "mallopt", None) if name else None
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_FROM_THE_HEAP_BYTES) and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))
