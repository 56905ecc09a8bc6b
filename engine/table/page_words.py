"""Eight bytes at a time inside kernels: loads, stores and the bit counts that the machine has one instruction for.

Intrinsics and not functions: a function would count references to its arrays, which costs more than the load.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

WORD_BYTES = 8


def _constant(value: int) -> Any:
    return ir.Constant(ir.IntType(64), value)


def _refuse(context: Any, builder: Any, outside: Any) -> None:
    with builder.if_then(outside, likely=False):
        context.call_conv.return_user_exc(builder, IndexError, ("a word would leave its buffer",))


def _checked_pointer(context: Any, builder: Any, kind: Any, value: Any, at: Any) -> Any:
    array = context.make_array(kind)(context, builder, value)
    room = builder.sub(array.nitems, _constant(WORD_BYTES))
    _refuse(
        context,
        builder,
        builder.or_(builder.icmp_signed("<", at, _constant(0)), builder.icmp_signed(">", at, room)),
    )
    return builder.bitcast(builder.gep(array.data, [at]), ir.IntType(64).as_pointer())


@intrinsic
def load_word(_context: Any, data: Any, _at: Any) -> Any:
    """``load_word(data, at)``: eight bytes, little-endian. Errors: IndexError outside the array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_checked_pointer(context, builder, signature.args[0], *arguments), align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def store_word(_context: Any, data: Any, _at: Any, _value: Any) -> Any:
    """``store_word(data, at, value)``: eight bytes, little-endian. Errors: IndexError outside the array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _checked_pointer(context, builder, signature.args[0], *arguments[:2])
        builder.store(arguments[2], pointer, align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


@intrinsic
def load_prefix(_context: Any, data: Any, _at: Any, _size: Any) -> Any:
    """``load_prefix(data, at, size)``: the first eight of ``size`` bytes, zeros behind them where there are fewer.

    Near the array's end the word that ends there is loaded and shifted. Errors: IndexError when the bytes are outside
    the array, or the array is shorter than a word.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        at, size = arguments[1], arguments[2]
        last = builder.sub(array.nitems, _constant(WORD_BYTES))
        outside = builder.icmp_signed("<", last, _constant(0))
        outside = builder.or_(outside, builder.icmp_signed("<", at, _constant(0)))
        outside = builder.or_(outside, builder.icmp_signed("<", size, _constant(0)))
        outside = builder.or_(outside, builder.icmp_signed(">", size, builder.sub(array.nitems, at)))
        _refuse(context, builder, outside)
        is_near = builder.icmp_signed(">", at, last)
        start = builder.select(is_near, last, at)
        pointer = builder.bitcast(builder.gep(array.data, [start]), ir.IntType(64).as_pointer())
        word = builder.load(pointer, align=1)
        skipped = builder.shl(builder.sub(at, start), _constant(3))
        # At the very end, with no bytes wanted, the shift would be 64: the mask below is 0 there in any case.
        word = builder.lshr(word, builder.and_(skipped, _constant(63)))
        is_short = builder.icmp_signed("<", size, _constant(WORD_BYTES))
        missing = builder.sub(_constant(64), builder.shl(size, _constant(3)))
        mask = builder.lshr(_constant(-1), builder.and_(missing, _constant(63)))
        mask = builder.select(builder.icmp_signed("==", size, _constant(0)), _constant(0), mask)
        return builder.and_(word, builder.select(is_short, mask, _constant(-1)))

    return types.uint64(data, types.int64, types.int64), generate


@intrinsic
def swap_bytes(_context: Any, _value: Any) -> Any:
    """``swap_bytes(word)``: the bytes in the other order, in which text compares as a number."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def trailing_zeros(_context: Any, _value: Any) -> Any:
    """``trailing_zeros(word)``: zero bits below the lowest one bit; 64 for 0."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def bit_length(_context: Any, _value: Any) -> Any:
    """``bit_length(word)``: bits that hold an unsigned number; 0 for 0."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.sub(_constant(64), builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0)))

    return types.int64(types.uint64), generate
