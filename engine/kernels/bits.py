"""Products of 64-bit numbers to 128 bits, and leading zeros: what numba has no name for."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def multiply_high(typing_context, one, other):  # noqa: ARG001 - numba's protocol
    """The upper 64 bits of the product of two unsigned numbers."""

    def generate(context, builder, signature, arguments):  # noqa: ARG001
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def leading_zeros(typing_context, value):  # noqa: ARG001 - numba's protocol
    """How many zero bits an unsigned number begins with; 64 for zero."""

    def generate(context, builder, signature, arguments):  # noqa: ARG001
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def bits_of_double(typing_context, value):  # noqa: ARG001 - numba's protocol
    def generate(context, builder, signature, arguments):  # noqa: ARG001
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.uint64(types.float64), generate


@intrinsic
def double_of_bits(typing_context, bits):  # noqa: ARG001 - numba's protocol
    def generate(context, builder, signature, arguments):  # noqa: ARG001
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), generate
