"""Values with their schema beside: the payload alone reaches the inner codec, and every byte comes back."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats.envelopes.connect_json import MAX_SCHEMAS, SCHEMA_FIELD, ConnectSchemaCodec
from engine.formats.plain import RAW, PlainCodec
from engine.records.records import ByteSpans

PAYLOAD = pa.field("value", pa.binary())
TEXT = json.dumps({"type": "struct", "name": "é", "fields": [{"field": "a", "type": "int32"}]}, ensure_ascii=False)


def codec() -> ConnectSchemaCodec:
    """Around the codec that shows what it is handed."""
    return ConnectSchemaCodec(lambda fields: PlainCodec(RAW, fields), (PAYLOAD, SCHEMA_FIELD))


def shown(values: list[bytes | None]) -> list[tuple[bytes | None, str | None]]:
    """(payload, schema) of each value, once all of them came back."""
    one = codec()
    decoded = one.decode(ByteSpans.from_list(values))
    decoded.columns.validate(full=True)
    wanted = np.array([value is not None for value in values], np.bool_)
    for columns in (decoded.columns, {name: decoded.columns.field(name) for name in ("value", "schema")}):
        assert one.encode(columns, decoded.schema_id, wanted).to_list() == values
    return [(row["value"], row["schema"]) for row in decoded.columns.to_pylist()]


def with_schema(text: str, payload: bytes) -> bytes:
    return b'{"schema":' + text.encode() + b',"payload":' + payload + b"}"


@pytest.mark.kernels
def test_schemas_of_a_block_are_told_apart() -> None:
    values: list[bytes | None] = [with_schema(TEXT, b"1"), None, with_schema("null", b"{}"), with_schema(TEXT, b"22")]
    assert shown(values) == [(b"1", TEXT), (None, None), (b"{}", "null"), (b"22", TEXT)]


@pytest.mark.kernels
@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b'{"schema":',
        b'{"schema":}',
        b'{"schema":{"a":1}}',
        b'{"schema":{"a":1},"payload":',
        b'{"schema":{"a":1},"payload":1',
        b'{"schema": {"a":1},"payload":1 ',
        b'{"payload":1,"schema":{"a":1}}',
        b'{"schema":"\xff","payload":1}',
        b'{"schema":' + b"[" * 100_000 + b"}",
        b'{"schema":{"a":1} ,"payload":1}',
    ],
)
def test_value_of_another_form_stays_whole(value: bytes) -> None:
    assert shown([with_schema(TEXT, b"1"), value])[1] == (value, None)


def test_block_of_too_many_schemas_leaves_the_rest_whole() -> None:
    values: list[bytes | None] = [with_schema(str(number), b"1") for number in range(MAX_SCHEMAS + 5)]
    assert [schema for _, schema in shown(values)] == [*map(str, range(MAX_SCHEMAS)), *[None] * 5]


@given(st.lists(st.tuples(st.sampled_from(["null", "{}", TEXT, '{"a":"}"}']), st.binary(max_size=9)), max_size=9))
def test_any_payload_comes_back(parts: list[tuple[str, bytes]]) -> None:
    assert shown([with_schema(text, payload) for text, payload in parts]) == [(raw, text) for text, raw in parts]
