"""Encodings that mean the same, or nothing: which records keep their bytes, with which columns and which reason."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from engine.formats.codec import Decoded, Verdict, open_codec, propose_fields
from engine.records.records import ByteSpans
from tests.engine.formats.conformance import rebuilt
from tests.engine.formats.protobuf.values import HEADER, compiled, opened, sized, spec, tag, varint

FIELDS = """
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message M {
  int32 a = 1;
  optional int32 b = 2;
  uint32 u = 3;
  sint32 z = 4;
  bool flag = 5;
  string text = 6;
  repeated int32 packed = 7;
  repeated int32 apart = 8 [packed = false];
  map<string, int32> tags = 9;
  map<int64, M2> places = 10;
  M2 inner = 11;
  repeated M2 inners = 12;
  oneof choice { string left = 13; int32 right = 14; M2 middle = 15; }
  google.protobuf.Timestamp at = 16;
  google.protobuf.Duration took = 17;
  google.protobuf.StringValue wrapped = 18;
  google.protobuf.Empty nothing = 19;
  M again = 20;
  google.protobuf.Struct shapeless = 21;
  repeated google.protobuf.Timestamp moments = 22;
  float f = 23;
  google.protobuf.Any any = 24;
}
message M2 { int32 x = 1; repeated string names = 2; M3 deeper = 3; }
message M3 { repeated int32 xs = 1; }
"""
CLOSED = """
syntax = "proto2";
message M {
  optional E e = 1;
  repeated E es = 2;
  required int32 r = 3;
  optional group G = 4 { optional int32 x = 1; }
  extensions 100 to 200;
  enum E { ONE = 1; TWO = 2; }
}
"""


def decode(proto: str, *bodies: bytes) -> Decoded:
    decoded = opened(compiled(proto)).decode(ByteSpans.from_list([HEADER + body for body in bodies]))
    decoded.columns.validate(full=True)
    return decoded


def moment(seconds: int, nanos: int) -> bytes:
    return (b"\x08" + varint(seconds) if seconds else b"") + (b"\x10" + varint(nanos) if nanos else b"")


def entry(key: bytes, value: int) -> bytes:
    return sized(9, sized(1, key) + b"\x10" + varint(value))


NOT_EXACT = [
    (b"\x08\x00", {"a": 0}, "written although it has its default"),
    (b"\x32\x00", {"text": ""}, "written although it has its default"),
    (b"\x08\x81\x00", {"a": 1}, "longer than it needs"),
    (b"\x88\x00\x01", {"a": 1}, "longer than it needs"),
    (b"\x32\x81\x00a", {"text": "a"}, "longer than it needs"),
    (b"\x08\xff\xff\xff\xff\x0f", {"a": -1}, "passes the range"),
    (b"\x18" + varint(2**32 + 5), {"u": 5}, "passes the range"),
    (b"\x20" + varint(2**32 + 5), {"z": -3}, "passes the range"),
    (b"\x08" + b"\xff" * 9 + b"\x7f", {"a": -1}, "passes the range"),
    (b"\x28\x02", {"flag": True}, "passes the range"),
    (b"\x08\x01\x08\x02", {"a": 2}, "come twice"),
    (b"\x10\x01\x08\x02", {"a": 2, "b": 1}, "not in the order"),
    (b"\xf8\xff\x01\x01", {}, "none of the schema's"),
    (b"\x0d\0\0\0\0", {"a": 0}, "none of the schema's"),
    (b"\xfb\xff\x01\x08\x01\xfc\xff\x01", {}, "none of the schema's"),
    (b"\x38\x05", {"packed": [5]}, "packed where the schema has it apart"),
    (b"\x38\x05\x3a\x02\x06\x07", {"packed": [5, 6, 7]}, "packed where the schema has it apart"),
    (b"\x42\x02\x06\x07", {"apart": [6, 7]}, "packed where the schema has it apart"),
    (b"\x3a\x00", {"packed": []}, "empty or in several pieces"),
    (b"\x3a\x01\x05\x3a\x01\x06", {"packed": [5, 6]}, "empty or in several pieces"),
    (b"\x3a\x02\x81\x00", {"packed": [1]}, "longer than it needs"),
    (b"\x32\x01\xff", {"text": None}, "not UTF-8"),
    (
        sized(12, sized(2, b"a\xed\xa0\x80") + sized(2, b"b")),
        {"inners": [(0, [None, "b"])]},
        "UTF-8, at inners[].names",
    ),
    (entry(b"k", 1) + entry(b"k", 2), {"tags": None}, "key twice"),
    (sized(9, sized(1, b"k")), {"tags": {"k": 0}}, "lacks its key or its value"),
    (sized(9, b"\x10\x05"), {"tags": {"": 5}}, "lacks its key or its value"),
    (sized(9, b"\x10\x05" + sized(1, b"k")), {"tags": {"k": 5}}, "the wrong way round"),
    (entry(b"k", 1) + b"\x08\x01" + entry(b"l", 2), {"a": 1, "tags": {"k": 1, "l": 2}}, "order of their numbers, at a"),
    (entry(b"k", 1) + b"\x5a\0" + entry(b"l", 2), {"inner": (0, []), "tags": None}, "order of their numbers, at tags"),
    (sized(10, b"\x08\x01") + b"\x5a\0", {"places": {1: None}, "inner": (0, [])}, "lacks its key or its value"),
    (sized(11, b"\x08\x01") + sized(11, sized(2, b"n")), {"inner": (1, ["n"])}, "come twice"),
    (
        sized(11, sized(3, b"\x0a\x01\x05")) + b"\x08\x01" + sized(11, sized(3, b"\x0a\x02\x06\x07")),
        {"a": 1, "inner": (0, [], [5, 6, 7])},
        "come twice",
    ),
    (b"\x70\x00" + b"\x6a\x01x", {"left": "x"}, "come twice"),
    (b"\x6a\x01x" + b"\x70\x05", {"right": 5}, "more than one field of a oneof"),
    (
        b"\x70\x05" + sized(15, sized(2, b"n") + sized(3, b"\x0a\x01\x05")) + b"\x70\x06",
        {"right": 6},
        "more than one field of a oneof",
    ),
    (sized(16, b"\x10\x05\x08\x01"), {"at": "1970-01-01 00:00:01", "at__nanos": 5}, "not in the order"),
    (sized(16, b"\x08\x00"), {"at": "1970-01-01 00:00:00"}, "written although it has its default"),
    (sized(16, moment(1, -1)), {"at": None}, "not in its normal form"),
    (sized(16, moment(1, 10**9)), {"at": None}, "not in its normal form"),
    (sized(16, moment(2**62, 0)), {"at": None}, "passes the range of its column"),
    (sized(16, moment(1, 0) + b"\x18\x01"), {"at": "1970-01-01 00:00:01"}, "none of the schema's"),
    (sized(16, moment(1, 0)) * 2, {"at": None}, "come twice"),
    (sized(17, moment(1, -1)), {"took": "0.999999999"}, "not in its normal form"),
    (sized(17, moment(10**12, 0)), {"took": None}, "passes the range of its column"),
    (sized(18, b"\x0a\x00"), {"wrapped": ""}, "written although it has its default"),
    (sized(18, b"\x0a\x01\xff"), {"wrapped": None}, "not UTF-8"),
    (sized(19, b"\x08\x01"), {"nothing": True}, "a message without fields has some"),
    (sized(20, b"\x08\x01"), {}, "no column holds the field (the message M contains itself), at again"),
    (sized(21, b""), {}, "has no shape of its own), at shapeless"),
    (sized(22, moment(1, 1)), {"moments": ["1970-01-01 00:00:01"]}, "goes below the microsecond"),
    (b"\xbd\x01\0\0\0\0", {"f": 0.0}, "written although it has its default"),
]


def plain(value: Any) -> Any:
    """A column's value as the cases above write it."""
    if isinstance(value, dict) and set(value) == {"x", "names", "deeper"}:
        deeper = [] if value["deeper"] is None else [value["deeper"]["xs"]]
        return (value["x"], value["names"], *deeper)
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return str(value).removesuffix("+00:00") if hasattr(value, "year") or hasattr(value, "as_tuple") else value


@pytest.mark.kernels
@pytest.mark.parametrize(("body", "columns", "reason"), NOT_EXACT)
def test_uncommon_encoding_keeps_its_bytes_beside_its_columns(
    body: bytes, columns: dict[str, Any], reason: str
) -> None:
    decoded = decode(FIELDS, b"", body, b"")
    assert decoded.verdict.tolist() == [Verdict.EXACT, Verdict.KEEP_RAW, Verdict.EXACT]
    absent, found, after = (plain(row) for row in decoded.columns.to_pylist(maps_as_pydicts="strict"))
    assert absent == after
    assert found == absent | columns
    assert reason in str(decoded.reason_of(1))
    assert str(decoded.reason_of(1)).startswith("schema 7: ")


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x08", "ends inside"),
        (b"\x08\x80", "ends inside, at a"),
        (b"\x88", "ends inside"),
        (b"\x08" + b"\xff" * 11, "longer than 10 bytes, at a"),
        (b"\x32\x05abcd", "ends inside, at text"),
        (b"\x32" + varint(2**31), "ends inside, at text"),
        (b"\x32" + varint(-1), "ends inside, at text"),
        (b"\x3a\x02\x05\x80", "ends inside, at packed"),
        (b"\x3a\x7f\x05", "ends inside, at packed"),
        (b"\xbd\x01\0\0\0", "ends inside, at f"),
        (sized(11, b"\x08"), "ends inside, at inner"),
        (sized(11, b"\x12\x05a"), "ends inside, at inner.names"),
        (sized(16, b"\x08"), "ends inside, at at"),
        (sized(16, b"\x00\x01"), "no field number or no wire type"),
        (b"\x00\x01", "no field number or no wire type"),
        (b"\x0f\x01", "no field number or no wire type"),
        (b"\x0c", "no field number or no wire type"),
        (b"\xfb\xff\x01\x0c", "no field number or no wire type"),
        (b"\xfb\xff\x01", "ends inside"),
        (b"\xfb\xff\x01" * 101, "nest deeper than 100"),
        (varint(2**32 | 8) + b"\x01", "no field number or no wire type"),
        (sized(9, sized(1, b"\xff") + b"\x10\x05"), "key is not UTF-8"),
    ],
)
def test_bytes_that_mean_nothing_are_undecodable_with_the_reason(body: bytes, reason: str) -> None:
    decoded = decode(FIELDS, b"", body, b"")
    assert decoded.verdict.tolist() == [Verdict.EXACT, Verdict.UNDECODABLE, Verdict.EXACT]
    assert set(decoded.columns[1].as_py().values()) == {None}
    assert reason in str(decoded.reason_of(1))


def test_values_at_their_limits_are_exact() -> None:
    bodies = [
        b"\x08" + varint(-(2**31)),
        b"\x10\x00",
        b"\x18" + varint(2**32 - 1),
        b"\x20" + varint(2**32 - 1),
        entry(b"", 0),
        sized(10, b"\x08\x00\x12\x00"),
        sized(16, b""),
        sized(16, moment(253402300799, 999_999_999)),
        sized(16, moment(-62135596800, 0)),
        sized(17, moment(-315576000000, -999_999_999)),
        sized(17, moment(0, -1)),
        sized(18, b""),
        sized(22, moment(1, 1000)),
        b"\xbd\x01\0\0\0\x80",
        b"\xbd\x01\x01\0\xa0\x7f",
        b"\x6a\x00",
        b"\x70\x00",
    ]
    codec = opened(compiled(FIELDS))
    decoded = codec.decode(ByteSpans.from_list([HEADER + body for body in bodies]))
    assert decoded.verdict.tolist() == [Verdict.EXACT] * len(bodies), decoded.reasons
    assert rebuilt(codec, decoded) == [HEADER + body for body in bodies]


def test_closed_enum_keeps_what_it_has_no_symbol_for_and_absent_fields_are_null() -> None:
    decoded = decode(
        CLOSED, b"\x18\x00", b"\x08\x02\x10\x01\x18\x05", b"\x08\x03", b"\x10\x01\x10\x09", b"\x08\xff\x01"
    )
    assert [row["e"] for row in decoded.columns.to_pylist()] == [None, "TWO", None, None, None]
    assert decoded.columns.field("es").to_pylist() == [[], ["ONE"], [], ["ONE", None], []]
    assert decoded.columns.field("r").to_pylist() == [0, 5, None, None, None]
    assert decoded.verdict.tolist() == [0, 0, 1, 1, 1]
    assert "closed enum" in str(decoded.reason_of(2))


def test_groups_and_extensions_keep_their_bytes() -> None:
    decoded = decode(CLOSED, b"\x23\x08\x01\x24", tag(100, 0) + b"\x01")
    assert decoded.verdict.tolist() == [Verdict.KEEP_RAW] * 2
    assert decoded.reason_of(0) == "schema 7: no column holds the field (a group), at g"
    assert decoded.reason_of(1) == "schema 7: a field is none of the schema's"


@pytest.mark.parametrize("key_count", [1, 12, 13, 3000, 65_537])
@pytest.mark.parametrize("kind", ["string", "int64", "fixed32"])
def test_key_a_map_has_twice_is_found_among_few_and_many(kind: str, key_count: int) -> None:
    proto = f'syntax = "proto3"; message M {{ map<{kind}, bool> m = 1; int32 after = 2; }}'

    def pair(key: int) -> bytes:
        if kind == "string":
            return sized(1, sized(1, str(key).encode()) + b"\x10\x01")
        return sized(1, (b"\x08" + varint(key) if kind == "int64" else b"\x0d" + struct.pack("<I", key)) + b"\x10\x01")

    once = b"".join(map(pair, range(key_count))) + b"\x10\x05"
    twice = b"".join(map(pair, [*range(1, key_count), 0, 0])) + b"\x10\x05"
    decoded = decode(proto, once, twice, pair(4))
    few = Verdict.EXACT if key_count <= 65_536 else Verdict.KEEP_RAW
    assert decoded.verdict.tolist() == [few, Verdict.KEEP_RAW, Verdict.EXACT]
    assert decoded.columns.field("after").to_pylist() == [5, 5, 0]
    assert decoded.columns.field("m")[1].as_py() is None
    assert decoded.columns.field("m")[2].as_py() == [("4" if kind == "string" else 4, True)]


@pytest.mark.kernels
def test_late_members_of_a_oneof_give_back_all_that_lay_in_the_others() -> None:
    lists = sized(15, sized(2, b"one") + sized(2, b"two") + sized(3, b"\x0a\x03\x01\x02\x03"))
    other = sized(15, sized(2, b"three"))
    decoded = decode(
        FIELDS, lists + b"\x6a\x01x", b"\x6a\x01x" + lists + b"\x70\x01" + other, lists, lists + b"\x6a\x00" + other
    )
    assert decoded.verdict.tolist() == [1, 1, 0, 1]
    assert [plain(row) for row in decoded.columns.field("middle").to_pylist()] == [
        None,
        (0, ["three"]),
        (0, ["one", "two"], [1, 2, 3]),
        (0, ["three"]),
    ]
    assert decoded.columns.field("left").to_pylist() == ["x", None, None, None]


def test_message_that_unfolds_beyond_the_memory_set_is_refused_and_spares_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = "".join(f"int64 f{index} = {index + 1};" for index in range(400))
    proto = f'syntax = "proto3"; message M {{ repeated N many = 1; }} message N {{ {fields} }}'
    monkeypatch.setattr("engine.formats.columns.arena.UNFOLDED_BASE_BYTES", 1 << 20)
    text = compiled(proto)
    codec = open_codec(spec(text), propose_fields("protobuf", text, ()).fields)
    decoded = codec.decode(ByteSpans.from_list([HEADER + b"\x0a\x00" * count for count in (1, 100_000, 2)]))
    assert decoded.verdict.tolist() == [Verdict.EXACT, Verdict.UNDECODABLE, Verdict.EXACT]
    assert "beyond the memory" in str(decoded.reason_of(1))
    assert [len(row) for row in decoded.columns.field("many").to_pylist() if row is not None] == [1, 2]
