"""The JSON codec: the conformance suite, spelling by spelling, and columns that lie."""

from __future__ import annotations

import json

from engine.formats.value_codec import CodecSpec
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
