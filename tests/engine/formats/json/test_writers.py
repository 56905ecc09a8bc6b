"""Spellings that only some writers have: numbers by Rust's libraries, characters by Jackson."""

from __future__ import annotations

import json

import pytest

from engine.formats.codec import PLAIN_SCHEMA_ID, CodecSpec, Verdict, open_codec, propose_fields
from engine.records.records import ByteSpans
from tests.engine.formats.conformance import rebuilt

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"d": {"type": "array", "items": {"type": "number"}}, "s": {"type": "string"}},
    }
)


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("value", "traits"),
    [
        (b'{"d":[0.000051,8.3e-6,1e-7]}', ["1e-6", "1e-7"]),
        (b'{"d":[0.0000051,1.5e-7]}', ["1e-7"]),
        (b'{"d":[5.1e-05,8.3e-06,1e-07]}', ["1e-5", "1e-6", "1e-7", "e05"]),
        ('{"s":"für \\uD83D\\uDE00 und 東\u2028"}'.encode(), ["escaped pairs", "upper hex"]),
        (b'{"s":"f\\u00fcr \\ud83d\\ude00"}', ["ascii", "escaped pairs"]),
        ('{"s":"für 😀\\u2028"}'.encode(), ["escaped line separators"]),
        (('{"s":"' + "\\uD83D\\uDE00é" * 300 + '"}').encode(), ["escaped pairs", "upper hex"]),
    ],
)
def test_writers_spelling_is_a_form(value: bytes, traits: list[str]) -> None:
    spec = CodecSpec(name="json", schemas={PLAIN_SCHEMA_ID: SCHEMA})
    codec = open_codec(spec, propose_fields("json", SCHEMA, ()).fields)
    decoded = codec.decode(ByteSpans.from_list([value]))
    assert decoded.verdict.tolist() == [Verdict.EXACT], decoded.reasons
    assert rebuilt(codec, decoded) == [value]
    form = decoded.columns.field("kafka_form").to_pylist()[0]
    assert set(traits) <= set(json.loads(form)["traits"])


@pytest.mark.kernels
def test_text_that_is_escaped_one_way_here_and_another_there_keeps_its_bytes() -> None:
    spec = CodecSpec(name="json", schemas={PLAIN_SCHEMA_ID: SCHEMA})
    codec = open_codec(spec, propose_fields("json", SCHEMA, ()).fields)
    value = '{"s":"😀 \\uD83D\\uDE00"}'.encode()
    assert codec.decode(ByteSpans.from_list([value])).verdict.tolist() == [Verdict.KEEP_RAW]
