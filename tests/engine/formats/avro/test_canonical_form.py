"""Encodings that mean the same, or nothing: which records keep their bytes, with which columns and which reason."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from engine.formats.codec import CodecSpec, Decoded, Verdict, open_codec, propose_fields
from engine.records.records import ByteSpans
from tests.engine.formats.avro.avro_values import framed, number, text
from tests.engine.formats.conformance import rebuilt

HEADER = struct.pack(">bI", 0, 7)
LIST = {"type": "array", "items": "int"}
MAP = {"type": "map", "values": "int"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
FIXED_DECIMAL = {"type": "fixed", "name": "F", "size": 20, "logicalType": "decimal", "precision": 4, "scale": 0}
UUID = {"type": "string", "logicalType": "uuid"}
LINKED = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "x", "type": "int"},
        {"name": "next", "type": ["null", "Node"]},
        {"name": "children", "type": {"type": "array", "items": "Node"}},
        {"name": "y", "type": "string"},
    ],
}


def decode(schema: Any, *values: bytes) -> Decoded:
    text_of = json.dumps(schema)
    codec = open_codec(CodecSpec(name="avro", schemas={7: text_of}), propose_fields("avro", text_of, ()).fields)
    decoded = codec.decode(ByteSpans.from_list(list(values)))
    decoded.columns.validate(full=True)
    return decoded


def logical(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "logicalType": name}


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("schema", "body", "column", "reason"),
    [
        ("long", b"\x82\x00", 1, "longer than it needs"),
        ("int", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 0, "longer than it needs"),
        ("string", b"\x82\x00a", "a", "longer than it needs"),
        (["null", "int"], b"\x82\x00\x04", 2, "longer than it needs"),
        (["null", "int"], b"\x80\x00", None, "longer than it needs"),
        (LIST, number(1) + number(5) + number(1) + number(6) + b"\0", [5, 6], "several blocks"),
        (LIST, number(-2) + number(2) + number(5) + number(6) + b"\0", [5, 6], "several blocks"),
        (LIST, number(1) + number(5) + b"\x80\x00", [5], "longer than it needs"),
        (MAP, number(-1) + number(3) + text("k") + number(6) + b"\0", [("k", 6)], "several blocks"),
        (MAP, number(2) + 2 * (text("k") + number(6)) + b"\0", None, "key twice"),
        (["null", MAP], b"\x02" + number(2) + 2 * (text("") + number(6)) + b"\0", None, "key twice"),
        ("boolean", b"\x02", None, "neither 0 nor 1"),
        (["null", "boolean"], b"\x02\xff", None, "neither 0 nor 1"),
        ("string", text(b"\xff"), None, "not UTF-8"),
        (["null", "string"], b"\x02" + text(b"abc\xed\xa0\x80"), None, "not UTF-8"),
        (logical("long", "timestamp-millis"), number(2**62), None, "passes the range of microseconds"),
        (logical("long", "local-timestamp-millis"), number(-(2**62)), None, "passes the range of microseconds"),
        (logical("int", "time-millis"), number(86_400_000), None, "not within a day"),
        (logical("int", "time-millis"), number(-1), None, "not within a day"),
        (logical("long", "time-micros"), number(86_400_000_000), None, "not within a day"),
        (DECIMAL, text(b"\0\1"), "0.01", "longer than it needs"),
        (DECIMAL, text(b"\xff\xff"), "-0.01", "longer than it needs"),
        (DECIMAL, text(b""), None, "more digits"),
        (DECIMAL, text((10_000).to_bytes(2, "big")), None, "more digits"),
        (DECIMAL, text((-10_000).to_bytes(2, "big", signed=True)), None, "more digits"),
        (DECIMAL, text(b"\1" + b"\0" * 16), None, "more digits"),
        (DECIMAL, text(b"\x80" + b"\0" * 15), None, "more digits"),
        (FIXED_DECIMAL, b"\1" + b"\0" * 19, None, "more digits"),
        (UUID, text("00010203-0405-0607-0809-0A0B0C0D0E0F"), None, "canonical text"),
        (UUID, text("00010203-0405-0607-0809-0a0b0c0d0e0"), None, "canonical text"),
        (UUID, text("00010203x0405-0607-0809-0a0b0c0d0e0f"), None, "canonical text"),
        (UUID, text(""), None, "canonical text"),
        ("int", number(3) + b"\0", 3, "left over"),
    ],
)
def test_uncommon_encoding_keeps_its_bytes_beside_its_columns(
    schema: Any, body: bytes, column: Any, reason: str
) -> None:
    plain = {"type": "record", "name": "Top", "fields": [{"name": "value", "type": schema}]}
    for whole in (schema, plain):
        decoded = decode(whole, HEADER + body)
        assert decoded.verdict.tolist() == [Verdict.KEEP_RAW]
        shown = decoded.columns.field("value")[0].as_py()
        assert (str(shown) if isinstance(column, str) and "." in column else shown) == column
        assert reason in str(decoded.reason_of(0))
        assert str(decoded.reason_of(0)).startswith("schema 7: ")


@pytest.mark.kernels
@pytest.mark.parametrize("key_count", [1, 2, 12, 13, 14, 1000, 40_000])
def test_key_a_map_has_twice_is_found_among_few_and_many(key_count: int) -> None:
    keys = [f"key {index}" for index in range(key_count)]
    twice = [*keys[1:], keys[0], keys[0]]
    written = [HEADER + number(len(of)) + b"".join(text(key) + b"\2" for key in of) + b"\0" for of in (keys, twice)]
    decoded = decode(MAP, *written, written[0])
    assert decoded.verdict.tolist() == [Verdict.EXACT, Verdict.KEEP_RAW, Verdict.EXACT]
    assert decoded.columns.field("value").to_pylist() == [[(key, 1) for key in keys], None, [(key, 1) for key in keys]]


def test_map_of_more_keys_than_are_checked_keeps_its_bytes() -> None:
    body = b"".join(text(str(index)) + b"\2" for index in range(65_537))
    decoded = decode(MAP, HEADER + number(65_537) + body + b"\0")
    assert decoded.verdict.tolist() == [Verdict.KEEP_RAW]
    assert "65536" in str(decoded.reason_of(0))


def test_map_taken_back_gives_back_the_lists_and_maps_inside_of_it() -> None:
    inner = {"type": "map", "values": {"type": "array", "items": "int"}}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "m", "type": {"type": "array", "items": {"type": "map", "values": inner}}},
            {"name": "after", "type": {"type": "map", "values": "string"}},
        ],
    }

    def lists(*items: int) -> bytes:
        return number(len(items)) + b"".join(map(number, items)) + (b"\0" if items else b"")

    def maps(*pairs: tuple[str, bytes]) -> bytes:
        return number(len(pairs)) + b"".join(text(key) + value for key, value in pairs) + (b"\0" if pairs else b"")

    good = maps(("a", maps(("x", lists(1, 2)), ("y", lists(3)))))
    outer_twice = maps(("a", maps(("x", lists(4, 5)))), ("a", maps(("z", lists(6)))))
    inner_twice = maps(("b", maps(("x", lists(7)), ("x", lists(8)))), ("c", maps(("w", lists(9, 10)))))
    body = number(4) + good + outer_twice + inner_twice + good + b"\0" + maps(("k", text("v")))
    decoded = decode(schema, HEADER + body, HEADER + number(1) + good + b"\0" + maps())
    whole = [("a", [("x", [1, 2]), ("y", [3])])]
    assert decoded.verdict.tolist() == [Verdict.KEEP_RAW, Verdict.EXACT]
    assert decoded.reason_of(0) == "schema 7: a map has a key twice, or more than 65536 keys, at m[]"
    assert decoded.columns.to_pylist() == [
        {"m": [whole, None, [("b", None), ("c", [("w", [9, 10])])], whole], "after": [("k", "v")]},
        {"m": [whole], "after": []},
    ]


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("schema", "body", "reason"),
    [
        ("long", b"", "ends inside"),
        ("long", b"\xff" * 10, "ends inside"),
        ("long", b"\xff" * 9 + b"\x02", "ends inside"),
        ("int", number(2**31), "32 bits"),
        (logical("int", "time-millis"), number(-(2**31) - 1), "32 bits"),
        ("double", b"\0" * 7, "ends inside"),
        ("float", b"\0" * 3, "ends inside"),
        ("boolean", b"", "ends inside"),
        ("string", number(5) + b"abcd", "ends inside"),
        ("bytes", number(-1), "negative"),
        ({"type": "fixed", "name": "F", "size": 3}, b"ab", "ends inside"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, number(1), "enum's index"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, number(-1), "enum's index"),
        (["null", "int"], number(2), "branch"),
        (["null", "int"], number(-1), "branch"),
        (["int"], number(1), "branch"),
        (LIST, number(2) + number(1), "ends inside"),
        (LIST, number(1) + number(1), "ends inside"),
        (LIST, number(-1) + number(-1) + number(1) + b"\0", "negative"),
        (MAP, number(1) + text(b"\xff") + number(1) + b"\0", "key is not UTF-8"),
        (DECIMAL, number(3) + b"ab", "ends inside"),
    ],
)
def test_bytes_that_mean_nothing_are_undecodable_with_the_reason(schema: Any, body: bytes, reason: str) -> None:
    decoded = decode(schema, HEADER + body)
    assert decoded.verdict.tolist() == [Verdict.UNDECODABLE]
    assert decoded.columns.to_pylist() == [{"value": None}]
    assert reason in str(decoded.reason_of(0))


def test_general_union_is_skipped_and_the_other_fields_have_columns() -> None:
    union = ["int", "string", "null", {"type": "map", "values": ["double", "boolean"]}]
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "before", "type": "int"},
            {"name": "u", "type": union},
            {"name": "after", "type": "string"},
        ],
    }
    choices = [5, "text", None, {"a": 1.5, "b": True}, {}]
    values = [framed(schema, {"before": row, "u": choice, "after": "z"}) for row, choice in enumerate(choices)]
    decoded = decode(schema, *values)
    assert decoded.columns.to_pylist() == [{"before": row, "after": "z"} for row in range(5)]
    assert [Verdict(verdict).name for verdict in decoded.verdict] == [
        "KEEP_RAW",
        "KEEP_RAW",
        "EXACT",
        "KEEP_RAW",
        "KEEP_RAW",
    ]
    assert decoded.reason_of(3) == "schema 7: no column holds the field (a union of several types), at u"


def test_record_inside_itself_is_exact_where_it_ends_and_keeps_its_bytes_where_it_goes_on() -> None:
    leaf = {"x": 1, "next": None, "children": [], "y": "end"}
    deep = {"x": 2, "next": {"x": 3, "next": leaf, "children": [leaf, leaf], "y": ""}, "children": [leaf], "y": "top"}
    decoded = decode(LINKED, framed(LINKED, leaf), framed(LINKED, deep))
    assert decoded.columns.to_pylist() == [{"x": 1, "y": "end"}, {"x": 2, "y": "top"}]
    assert decoded.verdict.tolist() == [Verdict.EXACT, Verdict.KEEP_RAW]
    assert decoded.reason_of(1) == "schema 7: no column holds the field (the type Node contains itself), at next"


def test_recursion_without_end_is_undecodable() -> None:
    bottomless = HEADER + number(1) + (number(1) + number(1)) * 5000
    decoded = decode(LINKED, bottomless, framed(LINKED, {"x": 1, "next": None, "children": [], "y": "end"}))
    assert decoded.verdict.tolist() == [Verdict.UNDECODABLE, Verdict.EXACT]
    assert "nests deeper" in str(decoded.reason_of(0))


def test_list_of_nothing_is_not_counted_through() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": {"type": "array", "items": "null"}}]}
    decoded = decode(schema, HEADER + number(2**60) + b"\0", HEADER + b"\0")
    assert decoded.verdict.tolist() == [Verdict.KEEP_RAW, Verdict.EXACT]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("null", None),
        (["null"], None),
        ({"type": "record", "name": "Empty", "fields": []}, {}),
        ({"type": "fixed", "name": "F", "size": 0}, b""),
    ],
)
def test_schema_without_bytes_or_columns_is_exact(schema: Any, value: Any) -> None:
    text_of = json.dumps(schema)
    fields = propose_fields("avro", text_of, ()).fields
    codec = open_codec(CodecSpec(name="avro", schemas={7: text_of}), fields)
    values = [framed(schema, value)] * 3
    decoded = codec.decode(ByteSpans.from_list(values))
    assert fields == ()
    assert decoded.verdict.tolist() == [Verdict.EXACT] * 3
    assert rebuilt(codec, decoded) == values


def test_proposal_names_what_has_no_column() -> None:
    assert propose_fields("avro", json.dumps(LINKED), ()).unmapped == (
        "next: the type Node contains itself",
        "children: the type Node contains itself",
    )
