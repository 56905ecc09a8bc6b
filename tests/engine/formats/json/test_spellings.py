"""What each spelling of JSON becomes: exact, kept, or not read; and what the writers of the ecosystem write."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from engine.errors import Corrupt
from engine.formats.codec import CodecSpec, Decoded, Verdict, open_codec, propose_fields
from engine.formats.json.form import form_of
from engine.formats.json.form_book import MAX_FORMS
from engine.formats.json.program import compile_program
from engine.records.records import ByteSpans
from tests.engine.formats.json.spellings import EXACT, KEPT, NOT_READ, SCHEMA, opened


def decoded_alone(value: bytes, schema: dict[str, Any] | bool = SCHEMA) -> tuple[Decoded, dict[str, Any]]:
    """One value between two others, which must come back whatever it is."""
    codec = opened(schema)
    neighbour = b'{"i":1}' if schema == SCHEMA else b"null"
    decoded = codec.decode(ByteSpans.from_list([neighbour, value, neighbour]))
    decoded.columns.validate(full=True)
    wanted = decoded.verdict == Verdict.EXACT
    found = codec.encode(decoded.columns, decoded.schema_id, wanted).to_list()
    assert found[::2] == [neighbour if wanted[0] else None] * 2
    assert found[1] == (value if wanted[1] else None)
    return decoded, decoded.columns.to_pylist()[1]


def outcome(value: bytes, schema: dict[str, Any] | bool = SCHEMA) -> tuple[Verdict, str | None]:
    decoded, _ = decoded_alone(value, schema)
    return Verdict(int(decoded.verdict[1])), decoded.reason_of(1)


@pytest.mark.parametrize("value", EXACT, ids=repr)
def test_spelling_is_exact_and_its_columns_are_what_python_reads(value: bytes) -> None:
    decoded, row = decoded_alone(value)
    assert (decoded.verdict[1], decoded.reason_of(1)) == (Verdict.EXACT, None)
    assert row["kafka_rest"] is None
    read = json.loads(value)
    for name, member in read.items():
        if name in row and name != "d":
            expected = list(member.items()) if name == "m" else member
            assert row[name] == ({"x": None, "y": None} if expected == {} else expected)
    if "d" in read:
        number = json.loads(value, parse_int=float)["d"]
        assert np.array(row["d"]).tobytes() == np.array(number).tobytes()


@pytest.mark.parametrize(("value", "reason"), KEPT, ids=lambda item: repr(item)[:60])
def test_spelling_keeps_its_bytes_with_the_reason(value: bytes, reason: str) -> None:
    decoded, row = decoded_alone(value)
    assert (decoded.verdict[1], decoded.reason_of(1)) == (Verdict.KEEP_RAW, f"schema -1: {reason}")
    # What the columns hold all of is not shown a second time.
    is_only_spelling = any(word in reason for word in ("spell", "escaped", "white space", "order mark"))
    is_only_spelling &= "not spelled as an integer" not in reason
    assert row["kafka_rest"] == (None if is_only_spelling else value.decode())
    assert row["kafka_form"] is None


@pytest.mark.parametrize(("value", "reason"), NOT_READ, ids=lambda item: repr(item)[:60])
def test_text_that_is_not_json_has_no_columns(value: bytes, reason: str) -> None:
    decoded, row = decoded_alone(value)
    assert (decoded.verdict[1], decoded.reason_of(1)) == (Verdict.UNDECODABLE, f"schema -1: {reason}")
    assert {name for name, column in row.items() if column is not None} <= {"kafka_rest"}


def test_value_that_is_no_object_stands_in_one_column() -> None:
    for schema, value in (
        ({"type": "string"}, b'"x"'),
        ({"type": "array", "items": {"type": "integer"}}, b"[1,null]"),
        ({"additionalProperties": {"type": "array", "items": {"type": "string"}}}, b'{"a":["x"],"b":null}'),
        ({"type": ["number", "null"]}, b"null"),
    ):
        decoded, row = decoded_alone(value, schema)
        assert decoded.verdict[1] == Verdict.EXACT
        read = json.loads(value)
        assert row["value"] == (list(read.items()) if isinstance(read, dict) else read)
    assert outcome(b"5", True) == (
        Verdict.KEEP_RAW,
        "schema -1: no column holds the member (its type is not said), at value",
    )


ORDERS: list[dict[str, Any]] = [
    {"i": number, "d": number / 3, "s": f"ä<{number}>/", "o": {"x": 1, "y": "\x7f"}, "l": [1e22, 1e-7, 2.0], "n": None}
    for number in range(20)
]


def slashes(order: dict[str, Any]) -> bytes:
    """As PHP's json_encode."""
    return json.dumps(order, separators=(",", ":")).replace("/", "\\/").encode()


def go(order: dict[str, Any]) -> bytes:
    """As Go's encoder of a map: sorted, with what HTML reads escaped, and a newline."""
    text = json.dumps(order, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").encode() + b"\n"


WRITERS = {
    "python": lambda order: json.dumps(order).encode(),
    "python, compact": lambda order: json.dumps(order, separators=(",", ":")).encode(),
    "python, utf-8": lambda order: json.dumps(order, ensure_ascii=False).encode(),
    "python, sorted": lambda order: json.dumps(order, sort_keys=True).encode(),
    "orjson": orjson.dumps,
    "php": slashes,
    "go": go,
    "backwards": lambda order: orjson.dumps(dict(reversed(order.items()))),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_record_of_a_writer_is_exact(name: str) -> None:
    codec, values = opened(), [WRITERS[name](order) for order in ORDERS]
    decoded = codec.decode(ByteSpans.from_list(values))
    assert decoded.reasons == ()
    assert codec.encode(decoded.columns, decoded.schema_id, np.full(len(values), True)).to_list() == values
    assert len(set(decoded.columns.field("kafka_form").to_pylist())) <= 3


def test_writers_side_by_side_share_a_topic() -> None:
    codec, values = opened(), [write(order) for order in ORDERS for write in WRITERS.values()]
    decoded = codec.decode(ByteSpans.from_list(values))
    assert decoded.reasons == ()
    assert codec.encode(decoded.columns, decoded.schema_id, np.full(len(values), True)).to_list() == values


def test_members_that_some_records_lack_need_no_form_of_their_own() -> None:
    members = {"i": 1, "d": 0.5, "s": "x", "b": True, "l": [1.5]}
    chosen = [[name for bit, name in enumerate(members) if number >> bit & 1] for number in range(32)]
    values = [orjson.dumps({name: members[name] for name in names}) for names in chosen]
    decoded = opened().decode(ByteSpans.from_list(values))
    assert decoded.reasons == ()
    assert decoded.columns.field("kafka_form").null_count == 32


def test_forms_are_bounded_and_the_records_beyond_keep_their_bytes() -> None:
    names = [f"f{number}" for number in range(12)]
    schema = {"properties": {name: {"type": "integer"} for name in names}}
    codec = opened(schema)
    values = [
        orjson.dumps({name: None for bit, name in enumerate(names) if number >> bit & 1}) for number in range(1 << 12)
    ]
    decoded = codec.decode(ByteSpans.from_list(values))
    exact = decoded.verdict == Verdict.EXACT
    assert 0 < exact.sum() <= MAX_FORMS
    assert len(set(decoded.columns.field("kafka_form").to_pylist())) <= MAX_FORMS
    assert set(decoded.reasons) == {
        "schema -1: the order of its members, or what is null and what is left out, fits no form"
    }
    found = codec.encode(decoded.columns, decoded.schema_id, exact).to_list()
    assert [value for value in found if value is not None] == [values[row] for row in np.flatnonzero(exact)]


def test_form_means_the_same_once_the_table_has_more_columns() -> None:
    text = json.dumps({"properties": {"b": {"type": "integer"}, "a": {"type": "string"}}})
    spec = CodecSpec(name="json", schemas={3: text})
    fields = propose_fields("json", text, ()).fields
    values = [b'\0\0\0\0\x03{"a": "x", "b": null}', b'\0\0\0\0\x03{"a": null, "b": 1}']
    decoded = open_codec(spec, fields).decode(ByteSpans.from_list(values))
    more = json.dumps({"properties": {"a": {"type": "string"}, "0": {"type": "integer"}, "b": {"type": "integer"}}})
    later = open_codec(spec, tuple(reversed(propose_fields("json", more, fields).fields)))
    assert later.encode(decoded.columns, decoded.schema_id, np.full(2, True)).to_list() == values


def test_names_that_no_column_could_have_or_that_look_like_paths_are_told_apart() -> None:
    member = {"properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}
    names = ["", "a.b", "a", "l[]", "kafka_offset", "json_form", "_", "\u0001", 'q"\\/']
    schema = {"properties": dict.fromkeys(names, member) | {"a": {"properties": {"b": member}}}}
    codec = opened(schema)
    columns = [field.name for field in codec.fields]
    assert columns[: len(names)] == [
        "__2", "a_b", "a", "l__", "_kafka_offset", "_json_form", "_", "__3", "q\"\\/",
    ]  # fmt: skip
    values = [
        json.dumps({name: {"y": index, "x": None} for index, name in enumerate(names) if name != "a"}
                   | {"a": {"b": {"x": 3, "y": None}}}).encode(),
        json.dumps(dict.fromkeys(names)).encode(),
    ]  # fmt: skip
    decoded = codec.decode(ByteSpans.from_list(values))
    assert decoded.reasons == ()
    assert codec.encode(decoded.columns, decoded.schema_id, np.full(2, True)).to_list() == values


def test_integers_of_a_schema_fit_a_column_of_doubles() -> None:
    text = json.dumps({"properties": {"a": {"type": "integer"}}})
    fields = (pa.field("a", pa.float64()), pa.field("kafka_form", pa.string()), pa.field("kafka_rest", pa.string()))
    codec = open_codec(CodecSpec(name="json", schemas={-1: text}), fields)
    values = [b'{"a":5}', b'{"a":9007199254740992}', b'{"a":9007199254740993}']
    decoded = codec.decode(ByteSpans.from_list(values))
    assert decoded.verdict.tolist() == [Verdict.EXACT, Verdict.EXACT, Verdict.KEEP_RAW]
    assert codec.encode(decoded.columns, decoded.schema_id, decoded.verdict == 0).to_list() == [*values[:2], None]


def test_placement_says_which_column_a_member_is_in() -> None:
    text = json.dumps({"properties": {"a": {"type": "string"}, "o": {"properties": {"b": {"type": "integer"}}}}})
    inner = pa.struct([pa.field("c", pa.int64())])
    fields = (pa.field("a__string", pa.string()), pa.field("o", inner), pa.field("a", pa.int64()))
    spec = CodecSpec(name="json", schemas={-1: text}, placements={-1: {"a": "a__string", "o.b": "c"}})
    codec = open_codec(spec, fields)
    decoded = codec.decode(ByteSpans.from_list([b'{"a":"x","o":{"b":7}}']))
    assert decoded.columns.to_pylist() == [{"a__string": "x", "o": {"c": 7}, "a": None}]
    assert codec.encode(decoded.columns, decoded.schema_id, np.full(1, True)).to_list() == [b'{"a":"x","o":{"b":7}}']


@pytest.mark.parametrize("text", ["x", "[]", '{"traits":["?"]}', '{"order":{"":["i"]}}', '{"null":{"":["?"]}}', "5"])
def test_form_that_is_none_is_corrupt(text: str) -> None:
    codec = opened()
    decoded = codec.decode(ByteSpans.from_list([b'{"i":1}']))
    columns = {field.name: decoded.columns.field(index) for index, field in enumerate(codec.fields)}
    columns["kafka_form"] = pa.array([text])
    with pytest.raises(Corrupt):
        codec.encode(columns, decoded.schema_id, np.full(1, True))


def test_table_of_before_the_forms_column_had_its_name_goes_on_under_the_old_one() -> None:
    text = json.dumps({"properties": {"a": {"type": "integer"}}})
    made = (pa.field("a", pa.int64()), pa.field("json_form", pa.string()), pa.field("kafka_rest", pa.string()))
    later = propose_fields("json", json.dumps({"properties": {"b": {"type": "integer"}}}), made)
    assert [field.name for field in later.fields] == ["a", "json_form", "kafka_rest", "b"]
    codec = open_codec(CodecSpec(name="json", schemas={-1: text}), made)
    values = [b'{"a": 1}', b'{"a":2}']
    decoded = codec.decode(ByteSpans.from_list(values))
    assert [bool(form) for form in decoded.columns.field("json_form").to_pylist()] == [True, False]
    assert codec.encode(decoded.columns, decoded.schema_id, np.full(2, True)).to_list() == values


def test_standard_form_has_no_text() -> None:
    program = compile_program(json.dumps(SCHEMA), {}, opened().fields)
    assert form_of(None, program).traits == 0
