"""The kernels against fastavro on generated schemas and data, byte for byte both ways, and on damaged bytes."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.formats.codec import CodecSpec, ValueCodec, Verdict, open_codec, propose_fields
from engine.records.records import ByteSpans
from tests.engine.formats.avro.avro_values import ORDER, framed, orders, schemas
from tests.engine.formats.conformance import rebuilt

pytestmark = pytest.mark.kernels

SLOW = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


def opened(schema: Any) -> ValueCodec:
    text = json.dumps(schema)
    return open_codec(CodecSpec(name="avro", schemas={7: text}), propose_fields("avro", text, ()).fields)


def shown_as_column(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"value": value}


@SLOW
@given(st.data())
def test_generated_values_show_what_fastavro_wrote_and_come_back_byte_for_byte(data: st.DataObject) -> None:
    made = data.draw(schemas())
    values = data.draw(st.lists(made.values, min_size=1, max_size=8))
    written = [framed(made.schema, value) for value in values]
    codec = opened(made.schema)
    decoded = codec.decode(ByteSpans.from_list(written))
    assert decoded.verdict.tolist() == [Verdict.EXACT] * len(values), decoded.reasons
    is_record = isinstance(made.schema, dict) and made.schema["type"] == "record"
    shown = [made.shown(value) for value in values]
    assert decoded.columns.to_pylist() == [one if is_record else {"value": one} for one in shown]
    assert rebuilt(codec, decoded) == written


@settings(SLOW, max_examples=30)
@given(st.data())
def test_generated_columns_survive_a_parquet_file(data: st.DataObject) -> None:
    made = data.draw(schemas())
    values = data.draw(st.lists(made.values, min_size=1, max_size=8))
    written = [framed(made.schema, value) for value in values] * 3
    codec = opened(made.schema)
    decoded = codec.decode(ByteSpans.from_list(written))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_struct_array(decoded.columns), sink, row_group_size=5)
    table = pq.read_table(pa.BufferReader(sink.getvalue()))
    columns = {name: table.column(name) for name in table.column_names}
    assert codec.encode(columns, decoded.schema_id, np.full(len(written), True)).to_list() == written


@st.composite
def damaged(draw: Any, value: bytes) -> bytes:
    """A value with a few bytes changed, cut out or put in, behind its header."""
    broken = bytearray(value)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(5, max(5, len(broken) - 1)))
        kind = draw(st.integers(0, 3))
        if kind == 0 and at < len(broken):
            broken[at] = draw(st.integers(0, 255))
        elif kind == 1:
            del broken[at : at + draw(st.integers(1, 9))]
        elif kind == 2:
            broken[at:at] = draw(st.binary(min_size=1, max_size=9))
        else:
            del broken[at:]
    return bytes(broken)


def check_damaged(codec: ValueCodec, good: list[bytes], bad: list[bytes]) -> None:
    """Good and bad alternate: what is called exact comes back exactly, and the good ones are untouched by the bad."""
    values = [value for pair in zip(good, bad, strict=True) for value in pair]
    decoded = codec.decode(ByteSpans.from_list(values))
    decoded.columns.validate(full=True)
    exact = decoded.verdict == Verdict.EXACT
    assert exact[::2].all()
    again = codec.encode(decoded.columns, decoded.schema_id, exact).to_list()
    assert again == [value if kept else None for value, kept in zip(values, exact.tolist(), strict=True)]
    assert all(decoded.reason_of(row) for row in np.flatnonzero(~exact).tolist())
    undecodable = np.flatnonzero(decoded.verdict == Verdict.UNDECODABLE)
    assert all(
        column.take(pa.array(undecodable)).null_count == len(undecodable) for column in decoded.columns.flatten()
    )


@settings(SLOW, max_examples=120)
@given(st.data())
def test_damaged_orders_spare_their_neighbours_and_are_never_called_exact_wrongly(data: st.DataObject) -> None:
    good = orders(8)
    check_damaged(opened(ORDER), good, [data.draw(damaged(value)) for value in good])


@SLOW
@given(st.data())
def test_damaged_values_of_any_schema_are_never_called_exact_wrongly(data: st.DataObject) -> None:
    made = data.draw(schemas())
    values = data.draw(st.lists(made.values, min_size=1, max_size=5))
    good = [framed(made.schema, value) for value in values]
    check_damaged(opened(made.schema), good, [data.draw(damaged(value)) for value in good])


def test_every_single_bit_of_an_order_may_flip() -> None:
    codec, value = opened(ORDER), orders(4)[3]
    flipped = []
    for bit in range(40, 8 * len(value)):
        broken = bytearray(value)
        broken[bit // 8] ^= 1 << bit % 8
        flipped.append(bytes(broken))
    check_damaged(codec, [value] * len(flipped), flipped)


def test_bits_of_floats_survive_not_only_their_values() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "d", "type": "double"}, {"name": "f", "type": "float"}],
    }
    bits = [0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001, 0x8000000000000000, 1]
    header = b"\0\0\0\0\x07"
    values = [header + one.to_bytes(8, "little") + (one & 0xFFFFFFFF).to_bytes(4, "little") for one in bits]
    codec = opened(schema)
    decoded = codec.decode(ByteSpans.from_list(values))
    assert math.isnan(decoded.columns.field("d")[0].as_py())
    assert rebuilt(codec, decoded) == values
