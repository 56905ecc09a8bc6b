"""Loads, stores and copies at raw addresses, for the kernels whose buffers are too many to pass one by one.

Nothing here checks an address: a caller compares positions with sizes first. Little-endian machines only, as Arrow's
and Avro's fixed-width values are.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from engine.kernels.inner import inner


def _loader(bits: int, kind: types.Type) -> Any:
    @intrinsic
    def load(typing_context, address):  # noqa: ARG001 - numba's protocol
        def generate(context, builder, signature, arguments):  # noqa: ARG001
            return builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()), align=1)

        return kind(types.int64), generate

    return load


def _storer(bits: int, kind: types.Type) -> Any:
    @intrinsic
    def store(typing_context, address, value):  # noqa: ARG001 - numba's protocol
        def generate(context, builder, signature, arguments):  # noqa: ARG001
            builder.store(arguments[1], builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, kind), generate

    return store


load_u8 = _loader(8, types.uint8)
load_i32 = _loader(32, types.int32)
load_u64 = _loader(64, types.uint64)
load_i64 = _loader(64, types.int64)
store_u8 = _storer(8, types.uint8)
store_i32 = _storer(32, types.int32)
store_u64 = _storer(64, types.uint64)
store_i64 = _storer(64, types.int64)


@intrinsic
def addresses_of(typing_context, tables):  # noqa: ARG001 - numba's protocol
    """A NamedTuple of arrays as the same NamedTuple of their addresses, which lives no longer than they do.

    What runs once a value takes addresses: numba counts the references to each array that a function is passed, which
    costs ten times what reading a number does (measured: 5 M orders/s against 0.5).
    """

    def generate(context, builder, signature, arguments):
        arrays = zip(tables, cgutils.unpack_tuple(builder, arguments[0]), strict=True)
        data = [context.make_array(kind)(context, builder, array).data for kind, array in arrays]
        return context.make_tuple(
            builder, signature.return_type, [builder.ptrtoint(pointer, ir.IntType(64)) for pointer in data]
        )

    return types.BaseTuple.from_types([types.int64] * len(tables), tables.instance_class)(tables), generate


@inner(forceinline=True)
def word(table, index):
    """The 64-bit word ``index`` of the table at an address."""
    return load_i64(table + 8 * index)


@inner(forceinline=True)
def set_word(table, index, value):
    store_i64(table + 8 * index, np.int64(value))


# Copies of up to this many bytes write whole words when both sides have room for them: strings are short.
SLACK = 16
SHORT = 32


@inner
def copy(to, source, size):
    """Copy ``size`` bytes, touching nothing beyond them: words, then a last word that overlaps."""
    if size >= 8:
        last = size - 8
        at = np.int64(0)
        while at < last:
            store_u64(to + at, load_u64(source + at))
            at += 8
        store_u64(to + last, load_u64(source + last))
    else:
        for index in range(size):
            store_u8(to + index, load_u8(source + index))


@inner(forceinline=True)
def copy_short(to, source, size, source_room):
    """Copy ``size`` bytes, SHORT at once where they are no more: how many they are need not be guessed.

    ``to`` has SHORT bytes of room; ``source_room`` bytes can be read from ``source``.
    """
    if size <= SHORT and source_room >= SHORT:
        for at in range(0, SHORT, 8):
            store_u64(to + at, load_u64(source + at))
    else:
        copy(to, source, size)


@inner
def copy_text(to, source, size, source_room):
    """Copy ``size`` bytes and tell whether any is outside ASCII.

    ``to`` has SLACK bytes of room behind ``size``; ``source_room`` bytes can be read from ``source``.
    """
    high = np.uint64(0x8080808080808080)
    if size <= SLACK and source_room >= SLACK:
        first = load_u64(source)
        second = load_u64(source + 8)
        store_u64(to, first)
        store_u64(to + 8, second)
        if size >= 8:
            shift = np.uint64((16 - size) * 8)
            tail = np.uint64(0) if size == 8 else second << shift
            return ((first | tail) & high) != 0
        if size == 0:
            return False
        return ((first << np.uint64((8 - size) * 8)) & high) != 0
    seen = np.uint64(0)
    if size >= 8:
        last = size - 8
        at = np.int64(0)
        while at < last:
            word = load_u64(source + at)
            store_u64(to + at, word)
            seen |= word
            at += 8
        word = load_u64(source + last)
        store_u64(to + last, word)
        seen |= word
    else:
        for index in range(size):
            byte = load_u8(source + index)
            store_u8(to + index, byte)
            seen |= np.uint64(byte)
    return (seen & high) != 0
