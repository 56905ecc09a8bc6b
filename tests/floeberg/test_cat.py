"""What ``floeberg cat`` makes of a record: the value and the key as they were meant, nothing that is noted beside."""

from __future__ import annotations

import json

import pyarrow as pa

from engine.formats.codec import CodecSpec, open_codec, propose_fields
from engine.records.records import ByteSpans
from floeberg.cat.plain_record import decoded_or_text

_SCHEMA = json.dumps({"properties": {"a": {"type": "number"}, "b": {"type": "string"}}})
_SPELLED = [b'{"a": 1.5, "b": "x"}', b'{"b":"x","a":2}', b'{"a":NaN}', b'{"a":1,"c":2}', b"null", b"not json"]


def test_json_value_is_shown_without_the_columns_that_say_how_it_was_spelled() -> None:
    fields = propose_fields("json", _SCHEMA, ()).fields
    for form in ("kafka_form", "json_form"):
        named = tuple(field.with_name(form) if field.name == "kafka_form" else field for field in fields)
        codec = open_codec(CodecSpec(name="json", schemas={-1: _SCHEMA}), named)
        values = ByteSpans.from_list(_SPELLED)
        assert decoded_or_text(values, codec.decode(values), codec) == [
            {"a": 1.5, "b": "x"},
            {"a": 2.0, "b": "x"},
            {"a": "NaN", "b": None},
            '{"a":1,"c":2}',
            "null",
            "not json",
        ]


def test_field_of_another_format_that_has_such_a_name_is_shown() -> None:
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "json_form", "type": "string"}]})
    codec = open_codec(CodecSpec(name="avro", schemas={1: schema}), (pa.field("json_form", pa.string()),))
    values = ByteSpans.from_list([b"\0\0\0\0\1\4ab", None])
    assert decoded_or_text(values, codec.decode(values), codec)[0] == {"json_form": "ab"}
