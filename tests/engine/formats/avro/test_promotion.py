"""Values of an Avro type in a column that was promoted beyond it: the kernels against numpy, bit for bit."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import Corrupt
from engine.formats.codec import CodecSpec, ValueCodec, Verdict, open_codec
from engine.records.records import ByteSpans
from tests.evolution.case import a, decimal, record
from tests.evolution.evolving_topic import avro

pytestmark = pytest.mark.kernels


def codec_of(kind: object, column: pa.DataType) -> ValueCodec:
    spec = CodecSpec(name="avro", schemas={1: json.dumps(record(a("a", kind)))})
    return open_codec(spec, (pa.field("a", column),))


def floats(bits: np.ndarray) -> ByteSpans:
    """Avro values of a float each, from its bits."""
    header = b"\x00\x00\x00\x00\x01"
    return ByteSpans.from_list([header + word.tobytes() for word in bits.astype("<u4")])


def interesting_floats() -> np.ndarray:
    rng = np.random.default_rng(5)
    edges = [0, 1, 2, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF]
    bits = np.concatenate([np.array(edges, np.uint64), rng.integers(0, 2**32, 3000, np.uint64)])
    subnormal = rng.integers(0, 2**23, 500, np.uint64)
    return np.concatenate([bits, bits ^ np.uint64(1 << 31), subnormal]).astype(np.uint32)


def test_float_in_a_column_of_doubles_keeps_every_bit_both_ways() -> None:
    bits = interesting_floats()
    codec = codec_of("float", pa.float64())
    values = floats(bits)
    decoded = codec.decode(values)
    assert (decoded.verdict == Verdict.EXACT).sum() == len(bits)
    found = decoded.columns.field("a").to_numpy()
    numbers = bits.view(np.float32)
    is_nan = np.isnan(numbers)
    assert (found[~is_nan].view(np.uint64) == numbers[~is_nan].astype(np.float64).view(np.uint64)).all()
    assert (found[is_nan].view(np.uint64) >> np.uint64(29) & np.uint64(0x7FFFFF) == bits[is_nan] & 0x7FFFFF).all()
    back = codec.encode(decoded.columns, decoded.schema_id, np.full(len(bits), True))
    assert back.to_list() == values.to_list()


@pytest.mark.parametrize("value", [0.1, 1e39, 1e-46, 2.0**-150, float(np.nextafter(1.0, 2.0)), 2.0**128, 5e-324])
def test_double_that_no_float_becomes_is_corrupt(value: float) -> None:
    codec = codec_of("float", pa.float64())
    with pytest.raises(Corrupt, match="a: it holds a value that its schema's type does not have"):
        codec.encode({"a": pa.array([value])}, pa.array([1], pa.int32()), np.full(1, True))


def test_nan_with_more_bits_than_a_float_has_is_corrupt() -> None:
    wide = np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    with pytest.raises(Corrupt, match="does not have"):
        codec_of("float", pa.float64()).encode({"a": pa.array(wide)}, pa.array([1], pa.int32()), np.full(1, True))


def test_int_in_a_column_of_longs_has_the_bounds_of_an_int() -> None:
    codec = codec_of("int", pa.int64())
    schema = record(a("a", "long"))
    numbers = [0, -1, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**62]
    values = ByteSpans.from_list([avro(schema, 1, {"a": number}) for number in numbers])
    decoded = codec.decode(values)
    assert decoded.verdict.tolist() == [Verdict.EXACT] * 4 + [Verdict.UNDECODABLE] * 3
    assert decoded.columns.field("a").to_pylist() == [*numbers[:4], None, None, None]
    assert "32 bits" in str(decoded.reason_of(4))
    wanted = np.array([True] * 4 + [False] * 3)
    assert codec.encode(decoded.columns, decoded.schema_id, wanted).to_list()[:4] == values.to_list()[:4]
    with pytest.raises(Corrupt, match="does not have"):
        codec.encode({"a": pa.array([2**31])}, pa.array([1], pa.int32()), np.full(1, True))


def test_other_schemas_values_in_the_same_column_are_not_looked_at() -> None:
    spec = CodecSpec(name="avro", schemas={1: json.dumps(record(a("a", "int"))), 2: json.dumps(record(a("a", "long")))})
    codec = open_codec(spec, (pa.field("a", pa.int64()),))
    values: list[bytes | None] = [
        avro(record(a("a", "int")), 1, {"a": 5}),
        avro(record(a("a", "long")), 2, {"a": 2**40}),
    ]
    decoded = codec.decode(ByteSpans.from_list(values))
    assert decoded.columns.field("a").to_pylist() == [5, 2**40]
    assert codec.encode(decoded.columns, decoded.schema_id, np.full(2, True)).to_list() == values


def test_decimal_in_a_column_of_more_digits_has_the_bounds_of_its_own() -> None:
    codec = codec_of(decimal(4), pa.decimal128(20, 2))
    schema = record(a("a", decimal(20)))
    values = ByteSpans.from_list([avro(schema, 1, {"a": Decimal(text)}) for text in ("99.99", "-99.99", "100.00")])
    decoded = codec.decode(values)
    assert decoded.verdict.tolist() == [Verdict.EXACT, Verdict.EXACT, Verdict.KEEP_RAW]
    assert decoded.columns.field("a").to_pylist() == [Decimal("99.99"), Decimal("-99.99"), None]
