"""Copying bytes inside kernels."""

from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def _copy(_context: Any, target: Any, _at: Any, source: Any, _start: Any, _size: Any) -> Any:
    """The C library's memcpy; a loop over bytes is several times slower for the short strings that records are."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target_data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        source_data = context.make_array(signature.args[2])(context, builder, arguments[2]).data
        cgutils.raw_memcpy(
            builder,
            builder.gep(target_data, [arguments[1]]),
            builder.gep(source_data, [arguments[3]]),
            arguments[4],
            1,
        )
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@njit(nogil=True, inline="always")
def copy_bytes(target, at, source, start, size):  # type: ignore[no-untyped-def]
    """Copy ``size`` bytes from ``source[start]`` to ``target[at]`` (uint8 arrays that do not overlap).

    Errors: IndexError, before anything is copied, when either end is outside its array.
    """
    if size < 0 or start < 0 or start + size > source.shape[0] or at < 0 or at + size > target.shape[0]:
        raise IndexError("a copy would leave its buffer")
    _copy(target, at, source, start, size)
