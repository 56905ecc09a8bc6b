"""The Protobuf codec: the conformance suite, several messages and schemas in one block, evolution, lying columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bench.values.python_producers import python_producers
from bench.values.value_formats import schema_text
from bench.values.value_records import KINDS, RecordKind
from engine.errors import Corrupt, Invalid
from engine.formats.codec import (
    CodecSpec,
    FieldProposal,
    KnownSchema,
    OnConflict,
    ValueCodec,
    Verdict,
    open_codec,
    propose_fields,
)
from engine.formats.confluent_framing import read_headers
from engine.formats.protobuf.message_indexes import BAD_INDEXES, key_of, read_indexes, write_indexes
from engine.records.records import ByteSpans
from tests.engine.formats.conformance import ValueCodecConformance, rebuilt
from tests.engine.formats.protobuf.values import HEADER, ORDER, compiled, framed, message_class, order, orders, spec

ORDERS = tuple(orders(40))
SEVERAL = """
syntax = "proto3";
package shop;
message Placed { int64 order_id = 1; Place place = 2; string note = 3; }
message Place { string city = 1; }
message Cancelled { string reason = 1; int64 order_id = 2; int32 note = 3; Place place = 4; Tree tree = 5; }
message Tree { repeated Tree branches = 1; }
message Archived { Archived previous = 1; bool place = 2; }
"""


class TestProtobufCodec(ValueCodecConformance):
    spec = spec(compiled(ORDER), unresolved={9: "the registry has no schema 9"})
    schema_text = compiled(ORDER)
    exact_values = ORDERS
    inexact_values = (
        b"",
        b"\0\0\0\0",
        b"\1" + ORDERS[3][1:],
        b"\0\0\0\0\x09" + ORDERS[3][5:],
        b"\0\0\0\0\x0a" + ORDERS[3][5:],
        b"\0\0\0\0\x07",
        b"\0\0\0\0\x07\x01" + ORDERS[3][6:],
        b"\0\0\0\0\x07\x02\x01" + ORDERS[3][6:],
        b"\0\0\0\0\x07\x02\x00" + ORDERS[3][6:],
        ORDERS[4] + b"\x00",
        ORDERS[5] + b"\x08\x01",
        ORDERS[6] + b"\xf8\xff\x7f\x01",
    )

    def test_reasons_say_what_where_and_by_which_schema(self) -> None:
        decoded = self.open().decode(ByteSpans.from_list(list(self.inexact_values)))
        assert [decoded.reason_of(row) for row in range(len(decoded))] == [
            "the value is shorter than the 5 bytes of a schema header",
            "the value is shorter than the 5 bytes of a schema header",
            "the value does not begin with the zero byte of a schema header",
            "schema 9 is unavailable: the registry has no schema 9",
            "schema 10 is unavailable: it is not known",
            "the message indexes behind the schema header can't be read",
            "the message indexes behind the schema header can't be read",
            "schema 7: the message indexes lead to no message that values are",
            "schema 7: the message indexes are not written in their usual form",
            "schema 7: a tag has no field number or no wire type that exists",
            "schema 7: fields come twice, or not in the order of their numbers, at order_id",
            "schema 7: a field is none of the schema's",
        ]
        assert decoded.missing_schema_ids == {10}

    def test_columns_of_an_order_are_what_its_writer_set(self) -> None:
        row = self.open().decode(ByteSpans.from_list([ORDERS[7]])).columns[0].as_py(maps_as_pydicts="strict")
        made = order(7)
        assert row["order_id"] == made.order_id
        assert row["status"] == "-3"
        assert row["created_at"].timestamp() == 1_760_000_000.007
        assert row["created_at__nanos"] == 7
        assert row["address"] == {"city": "Sund" * 7, "zip": None}
        assert [item["sku"] for item in row["items"]] == ["SKU-0", "SKU-1", "SKU-2"]
        assert row["items"][2]["places"] == {-1: {"city": "", "zip": "0"}, 0: {"city": "", "zip": "1"}}
        assert (row["card"], row["cash"], row["free"]) == (None, {"city": "x", "zip": None}, None)
        assert str(row["took"]) == "-864.197523084"
        assert row["mask"] == ["a.b"]
        assert row["points"] == 2


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_confluents_serializer_writes_is_exact(kind: RecordKind) -> None:
    write = python_producers(kind)["protobuf_confluent"]
    values = [write(record) for record in kind.records(200)]
    text = schema_text("protobuf", kind)
    schema_id = int.from_bytes(values[0][1:5], "big")
    codec = open_codec(
        CodecSpec(name="protobuf", schemas={schema_id: text}), propose_fields("protobuf", text, ()).fields
    )
    decoded = codec.decode(ByteSpans.from_list(values))
    assert (decoded.verdict == Verdict.EXACT).sum() == len(values), decoded.reasons
    assert rebuilt(codec, decoded) == values


@pytest.mark.parametrize("path", [(0,), (1,), (0, 0), (3, 1, 70), (200,)])
def test_message_indexes_are_read_as_they_are_written(path: tuple[int, ...]) -> None:
    raw = write_indexes(path)
    values = ByteSpans.from_list([HEADER[:5] + raw, HEADER[:5] + raw + b"more", None])
    key, header = read_indexes(values, read_headers(values)[1])
    assert key.tolist() == [key_of(raw), key_of(raw), 0]
    assert header.tolist()[:2] == [5 + len(raw)] * 2


@pytest.mark.parametrize("raw", [b"", b"\x01", b"\x03", b"\x02", b"\x80", b"\x0e" + b"\0" * 7, b"\xff" * 9 + b"\x01"])
def test_message_indexes_that_lead_nowhere_are_told(raw: bytes) -> None:
    values = ByteSpans.from_list([HEADER[:5] + raw])
    _, state = read_headers(values)
    read_indexes(values, state)
    assert state.tolist() == [BAD_INDEXES]


def several(name: str, number: int) -> bytes:
    index = {"Placed": 0, "Cancelled": 2, "Archived": 4}[name]
    made = message_class(SEVERAL, name)()
    if name == "Placed":
        made.order_id, made.note = number, "n" * (number % 3)
        made.place.city = "c"
    elif name == "Cancelled":
        made.order_id, made.reason, made.note = number, "r", number
        if number % 2:
            made.place.city = "d"
    else:
        made.place = True
    return HEADER[:5] + write_indexes((index,)) + made.SerializeToString()


def test_messages_that_no_other_refers_to_share_the_columns_and_are_told_by_name() -> None:
    text = compiled(SEVERAL)
    proposal = propose_fields("protobuf", text, ())
    names = ["order_id", "place", "note", "reason", "note__Cancelled", "place__Archived", "protobuf_message"]
    assert [field.name for field in proposal.fields] == names
    assert proposal.unmapped == (
        "tree: a message without columns",
        "previous: the message shop.Archived contains itself",
    )
    kinds = ["Placed", "Cancelled", "Cancelled", "Archived", "Placed"]
    values: list[bytes | None] = [several(kind, number) for number, kind in enumerate(kinds)]
    values += [None, HEADER[:5] + write_indexes((1,)), values[1] + b"\0"] if values[1] is not None else []
    codec = open_codec(spec(text), proposal.fields)
    decoded = codec.decode(ByteSpans.from_list(values))
    assert decoded.verdict.tolist() == [0, 0, 0, 0, 0, 0, 2, 2]
    assert decoded.columns.field("protobuf_message").to_pylist() == [
        None,
        "shop.Cancelled",
        "shop.Cancelled",
        "shop.Archived",
        *[None] * 4,
    ]
    assert decoded.columns.field("order_id").to_pylist() == [0, 1, 2, None, 4, None, None, None]
    assert decoded.columns.field("note__Cancelled").to_pylist()[1:4] == [1, 2, None]
    wanted = np.array([True] * 5 + [False] * 3)
    assert codec.encode(decoded.columns, decoded.schema_id, wanted).to_list() == [*values[:5], None, None, None]
    without = open_codec(spec(text), proposal.fields[:-1])
    assert without.decode(ByteSpans.from_list(values[:4])).verdict.tolist() == [0, 1, 1, 1]


def proposed(*protos: str, on_conflict: OnConflict = OnConflict.SIBLING) -> list[FieldProposal]:
    """What each schema in turn makes of the table."""
    made: list[FieldProposal] = []
    fields: tuple[pa.Field, ...] = ()
    known: list[KnownSchema] = []
    for text in map(compiled, protos):
        made.append(propose_fields("protobuf", text, fields, known=known, on_conflict=on_conflict))
        fields = made[-1].fields
        known.append(KnownSchema(text=text, placement=made[-1].placement))
    return made


def schema(name: str, body: str) -> str:
    return f'syntax = "proto3"; package p; import "google/protobuf/timestamp.proto"; message {name} {{ {body} }}'


def table(protos: list[str]) -> ValueCodec:
    """The codec of a table with several schemas, with the ids 1, 2, …"""
    proposals = proposed(*protos)
    return open_codec(
        CodecSpec(
            name="protobuf",
            schemas={index + 1: compiled(proto) for index, proto in enumerate(protos)},
            placements={index + 1: one.placement for index, one in enumerate(proposals)},
        ),
        proposals[-1].fields,
    )


def test_field_is_known_by_its_number_at_every_level_whatever_its_name() -> None:
    first = schema("M", "int32 old = 1; In in = 2; google.protobuf.Timestamp at = 3; message In { string a = 1; }")
    second = schema(
        "M",
        "int64 new = 1; In box = 2; google.protobuf.Timestamp when = 3; string old = 4; message In { string b = 1; }",
    )
    codec = table([first, second])
    assert [(field.name, str(field.type)) for field in codec.fields] == [
        ("old", "int64"),
        ("in", "struct<a: string>"),
        ("at", "timestamp[us, tz=UTC]"),
        ("at__nanos", "int32"),
        ("old__field_4", "string"),
    ]
    one = message_class(first)(old=-5, at={"seconds": 1, "nanos": 5})
    two = message_class(second)(new=2**40, box={"b": "x"}, when={"nanos": 1001}, old="y")
    values = [b"\0\0\0\0\1\0" + one.SerializeToString(), b"\0\0\0\0\2\0" + two.SerializeToString()]
    decoded = codec.decode(ByteSpans.from_list(values))
    assert decoded.verdict.tolist() == [0, 0], decoded.reasons
    assert decoded.columns.field("old").to_pylist() == [-5, 2**40]
    assert decoded.columns.field("in").to_pylist() == [None, {"a": "x"}]
    assert decoded.columns.field("at__nanos").to_pylist() == [5, 1]
    assert rebuilt(codec, decoded) == values


def test_same_number_in_a_message_of_another_name_is_another_field_and_the_same_name_the_same_column() -> None:
    codec = table(
        [schema("Order", "int64 order_id = 1; string city = 2;"), schema("Visit", "string city = 1; int64 at = 2;")]
    )
    assert [field.name for field in codec.fields] == ["order_id", "city", "at"]


def test_narrow_fields_write_into_promoted_columns_bit_for_bit() -> None:
    narrow = "int32 i = 1; sfixed32 s = 2; float f = 3; repeated sint32 l = 4; optional float n = 5;"
    codec = table([schema("M", narrow), schema("M", narrow.replace("float", "double").replace("int32 i", "int64 i"))])
    assert str(codec.fields[2].type) == "double"
    bits = [0, 1, 0x80000000, 0x7F800001, 0xFFC00123, 0x00400000, 0x7F7FFFFF, 0x3F800000, 0x807FFFFF, 0x00800000]
    values = []
    for one in bits:
        raw = one.to_bytes(4, "little")
        body = b"\x08\x05" + (b"\x1d" + raw if one else b"") + b"\x2d" + raw
        values.append(b"\0\0\0\0\1\0" + body)
    decoded = codec.decode(ByteSpans.from_list(values))
    assert decoded.verdict.tolist() == [0] * len(bits), decoded.reasons
    shown = decoded.columns.field("n").to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        assert np.array_equal(shown, np.array(bits, np.uint32).view(np.float32).astype(np.float64), equal_nan=True)
    assert rebuilt(codec, decoded) == values
    wide = decoded.columns.field(0).cast(pa.int64()).to_pylist()
    assert wide == [5] * len(bits)


def test_field_without_a_column_keeps_its_bytes_only_where_it_is_used() -> None:
    text = compiled(schema("M", "int32 a = 1; string b = 2; int32 c = 3;"))
    codec = open_codec(spec(text), [pa.field("a", pa.int32()), pa.field("c", pa.string())])
    message = message_class(schema("M", "int32 a = 1; string b = 2; int32 c = 3;"))
    values = [framed(message(a=1)), framed(message(a=2, b="x")), framed(message(c=3))]
    decoded = codec.decode(ByteSpans.from_list(values))
    assert decoded.verdict.tolist() == [Verdict.EXACT, Verdict.KEEP_RAW, Verdict.KEEP_RAW]
    assert decoded.columns.field("a").to_pylist() == [1, 2, 0]
    assert decoded.reasons == (
        "schema 7: no column holds the field (the table has no column for it), at b",
        "schema 7: no column holds the field (the schema has int32, the table has string), at c",
    )


def test_type_that_can_not_be_promoted_gets_a_column_beside() -> None:
    protos = [schema("M", "int32 a = 1; uint32 b = 2;"), schema("M", "string a = 1; uint64 b = 2;")]
    assert [field.name for field in proposed(*protos)[-1].fields] == ["a", "b", "a__string", "b__decimal_20_0"]
    raw = proposed(*protos, on_conflict=OnConflict.RAW)[-1]
    assert raw.placement == {"a": "", "b": ""}


@pytest.mark.parametrize("text", ["", "syntax", "Cg4KDHNjaGVtYS5wcm90bw=="])
def test_text_that_is_no_schema_is_invalid_and_a_reason_for_its_records(text: str) -> None:
    with pytest.raises(Invalid):
        propose_fields("protobuf", text, ())
    decoded = open_codec(spec(text), []).decode(ByteSpans.from_list([ORDERS[0]]))
    assert decoded.verdict.tolist() == [Verdict.UNDECODABLE]
    assert str(decoded.reason_of(0)).startswith("schema 7 can't be used: ")


@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        ("a", [None], "null"),
        ("u", [-1], "does not have"),
        ("e", ["NOPE"], "no symbol"),
        ("l", [None], "null"),
        ("l", [[None]], "null"),
        ("at__nanos", [1000], "does not have"),
        ("m", [[(1, None)]], "null"),
    ],
)
def test_column_that_decoding_can_not_have_made_is_corrupt(column: str, values: list[object], told: str) -> None:
    body = "int32 a = 1; uint32 u = 2; E e = 3; repeated int32 l = 4; google.protobuf.Timestamp at = 5;"
    text = compiled(schema("M", body + "map<int32, bool> m = 6; enum E { ZERO = 0; }"))
    fields = propose_fields("protobuf", text, ()).fields
    codec = open_codec(spec(text), fields)
    columns = codec.decode(ByteSpans.from_list([HEADER + b"\x2a\0"])).columns
    lying = {field.name: columns.field(field.name) for field in fields}
    assert codec.encode(lying, pa.array([7], pa.int32()), np.full(1, True)).to_list() == [HEADER + b"\x2a\0"]
    lying[column] = pa.array(values, lying[column].type)
    with pytest.raises(Corrupt, match=told):
        codec.encode(lying, pa.array([7], pa.int32()), np.full(1, True))


def test_row_that_names_a_message_the_schema_does_not_have_is_corrupt() -> None:
    text = compiled(SEVERAL)
    codec = open_codec(spec(text), propose_fields("protobuf", text, ()).fields)
    names = pa.array(["shop.Nobody"])
    with pytest.raises(Corrupt, match="names a message"):
        codec.encode({"protobuf_message": names}, pa.array([7], pa.int32()), np.full(1, True))
