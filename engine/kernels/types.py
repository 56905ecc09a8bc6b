"""Array types for kernel signatures.

Explicit signatures compile once, at import or from the cache, and never again for another layout. Inputs are typed
read-only because Arrow buffers and mapped files are; a writable array passes for a read-only one, not the reverse.
"""

from __future__ import annotations

from numba import types


def read_only(dtype: types.Type) -> types.Array:
    """A contiguous one-dimensional input."""
    return types.Array(dtype, 1, "C", readonly=True)


def strided(dtype: types.Type) -> types.Array:
    """A one-dimensional input of any stride (a column of a slice)."""
    return types.Array(dtype, 1, "A", readonly=True)


def writable(dtype: types.Type) -> types.Array:
    """A contiguous one-dimensional output."""
    return types.Array(dtype, 1, "C")
