"""The JSON codec: the conformance suite, spelling by spelling, and columns that lie."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import Corrupt
from engine.formats.codec import CodecSpec, open_codec, propose_fields
from tests.engine.formats.conformance import ValueCodecConformance

ORDER_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "amount": {"type": "number"},
        "paid": {"type": "boolean"},
        "address": {
            "oneOf": [{"type": "null"}, {"$ref": "#/$defs/address"}],
        },
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "string"}, "qty": {"type": "integer"}}},
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "$defs": {
        "address": {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "string"}}},
    },
}


def order(number: int) -> dict[str, object]:
    return {
        "id": number,
        "note": None if number % 3 else f'größer "{number}"\n</b>',
        "amount": number / 7,
        "paid": number % 2 == 0,
        "address": None if number % 5 == 0 else {"city": "Łódź", "zip": f"{number:05d}"},
        "items": [{"sku": f"S-{line}", "qty": line} for line in range(number % 4)],
        "labels": {f"k{line}": "v/w" for line in range(number % 3)},
    }


ORDERS = tuple(json.dumps(order(number)).encode() for number in range(30))


class TestJsonCodec(ValueCodecConformance):
    spec = CodecSpec(
        name="json", schemas={-1: json.dumps(ORDER_SCHEMA)}, unresolved={9: "the registry has no schema 9"}
    )
    schema_text = json.dumps(ORDER_SCHEMA)
    exact_values = ORDERS
    inexact_values = (
        b"",
        b"\0\0\0",
        b"\0\0\0\0\x09" + ORDERS[3],
        b"\0\0\0\0\x0a" + ORDERS[3],
        b"\0\xff\0\0\x07" + ORDERS[3],
        ORDERS[4] + b"]",
        ORDERS[5][:-1],
        b"[" + ORDERS[6] + b"]",
        b'{"id": 1, "id": 2}',
        b'{"id": 1.0}',
        b'{"id":18446744073709551616}',
        b'{"other": 5}',
        b'{"note": "\xff"}',
        b"null",
    )


class TestFramedJsonCodec(ValueCodecConformance):
    spec = CodecSpec(name="json", schemas={7: json.dumps(ORDER_SCHEMA)})
    schema_text = json.dumps(ORDER_SCHEMA)
    exact_values = tuple(b"\0\0\0\0\x07" + value for value in ORDERS)
    inexact_values = (ORDERS[0], b"\0\0\0\0\x07", b"\0\0\0\0\x07{", b"\0\0\0\0\x07{ }")


def encode_lie(columns: dict[str, pa.Array]) -> None:
    spec = CodecSpec(name="json", schemas={-1: json.dumps(ORDER_SCHEMA)})
    codec = open_codec(spec, propose_fields("json", json.dumps(ORDER_SCHEMA), ()).fields)
    codec.encode(columns, pa.array([-1], pa.int32()), np.full(1, True))


def test_text_that_is_cut_inside_of_a_character_is_corrupt_where_it_must_be_escaped() -> None:
    offsets = pa.py_buffer(np.array([0, 2], np.int32))
    cut = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"a\xf0")])
    form = pa.array(['{"traits":["ascii","escaped pairs"]}'])
    with pytest.raises(Corrupt, match="note"):
        encode_lie({"note": cut, "kafka_form": form})


def test_offsets_and_indices_that_leave_their_data_are_corrupt() -> None:
    # Arrow looks at the last offset by itself, and not at those between.
    offsets = pa.py_buffer(np.array([0, 900, 0], np.int32))
    for column in (
        pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"a")]),
        pa.DictionaryArray.from_arrays(pa.array([7], pa.int32()), pa.array(["x"]), safe=False),
    ):
        with pytest.raises(Corrupt, match="note"):
            encode_lie({"note": column})
    items = propose_fields("json", json.dumps(ORDER_SCHEMA), ()).fields[5].type
    empty = pa.array([], items.value_type)
    with pytest.raises(Corrupt, match="items"):
        encode_lie({"items": pa.Array.from_buffers(items, 2, [None, offsets], children=[empty])})


def test_row_that_names_no_schema_or_an_unknown_one_is_corrupt() -> None:
    codec = open_codec(CodecSpec(name="json"), propose_fields("json", json.dumps(ORDER_SCHEMA), ()).fields)
    for number in (None, -1, 5):
        with pytest.raises(Corrupt, match="schema"):
            codec.encode({"id": pa.array([1])}, pa.array([number], pa.int32()), np.full(1, True))
