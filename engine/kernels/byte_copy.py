"""Copying bytes inside kernels."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def copy_bytes(_context: Any, target: Any, _at: Any, source: Any, _start: Any, _size: Any) -> Any:
    """Copy ``size`` bytes from ``source[start]`` to ``target[at]`` (uint8 arrays that do not overlap).

    The C library's memcpy: a loop over bytes is several times slower for the short strings that records are. An
    intrinsic and not a function, which would count references to both arrays: two atomic operations, a third of what
    taking a digest cost.
    Errors: IndexError, before anything is copied, when either end is outside its array.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target_array = context.make_array(signature.args[0])(context, builder, arguments[0])
        source_array = context.make_array(signature.args[2])(context, builder, arguments[2])
        at, start, size = arguments[1], arguments[3], arguments[4]
        zero = size.type(0)
        outside = builder.icmp_signed("<", size, zero)
        for array, position in ((target_array, at), (source_array, start)):
            outside = builder.or_(outside, builder.icmp_signed("<", position, zero))
            room = builder.sub(array.nitems, position)
            outside = builder.or_(outside, builder.icmp_signed(">", size, room))
        with builder.if_then(outside, likely=False):
            context.call_conv.return_user_exc(builder, IndexError, ("a copy would leave its buffer",))
        cgutils.raw_memcpy(
            builder, builder.gep(target_array.data, [at]), builder.gep(source_array.data, [start]), size, 1
        )
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate
