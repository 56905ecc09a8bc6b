"""The Avro codec: the conformance suite, several schemas in one block, evolution, and columns that lie."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from numpy.typing import NDArray

from engine.errors import Corrupt, Invalid
from engine.formats.avro.codec import AvroArena
from engine.formats.codec import CodecSpec, Verdict, open_codec, propose_fields
from engine.records.records import ByteSpans
from tests.engine.formats.avro.avro_values import ORDER, framed, number, orders, text
from tests.engine.formats.conformance import ValueCodecConformance, rebuilt

ORDERS = tuple(orders(40))
FIRST = {"type": "record", "name": "V", "fields": [{"name": "a", "type": "long"}]}
SECOND = {
    "type": "record",
    "name": "V",
    "fields": [
        {"name": "b", "type": {"type": "array", "items": "string"}},
        {"name": "a", "type": "long"},
        {"name": "n", "type": {"type": "record", "name": "N", "fields": [{"name": "x", "type": "int"}]}},
    ],
}


class TestAvroCodec(ValueCodecConformance):
    spec = CodecSpec(name="avro", schemas={7: json.dumps(ORDER)}, unresolved={9: "the registry has no schema 9"})
    schema_text = json.dumps(ORDER)
    exact_values = ORDERS
    inexact_values = (
        b"",
        b"\0\0\0\0",
        b"\1" + ORDERS[3][1:],
        b"\0\0\0\0\x09" + ORDERS[3][5:],
        b"\0\0\0\0\x0a" + ORDERS[3][5:],
        b"\0\xff\0\0\x07" + ORDERS[3][5:],
        ORDERS[4] + b"\0",
        ORDERS[5][:-1],
        ORDERS[6][:5],
        b"\0\0\0\0\x07\x80\0" + ORDERS[0][6:],
    )

    def test_ids_that_nobody_listed_are_reported_missing(self) -> None:
        decoded = self.open().decode(ByteSpans.from_list([ORDERS[0], *self.inexact_values]))
        assert decoded.missing_schema_ids == {10}
        assert decoded.schema_id.to_pylist()[:6] == [7, None, None, None, 9, 10]

    def test_reasons_say_what_where_and_by_which_schema(self) -> None:
        decoded = self.open().decode(ByteSpans.from_list(list(self.inexact_values)))
        assert [decoded.reason_of(row) for row in range(len(decoded))] == [
            "the value is shorter than the 5 bytes of a schema header",
            "the value is shorter than the 5 bytes of a schema header",
            "the value does not begin with the zero byte of a schema header",
            "schema 9 is unavailable: the registry has no schema 9",
            "schema 10 is unavailable: it is not known",
            "the schema header holds a negative id",
            "schema 7: bytes are left over behind the value",
            "schema 7: the value ends inside, at digest",
            "schema 7: the value ends inside, at order_id",
            "schema 7: a number is longer than it needs to be, at order_id",
        ]


@pytest.mark.kernels
def test_room_is_reckoned_from_what_was_written_and_not_from_what_lay_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lay_out = AvroArena._lay_out

    def in_used_memory(arena: AvroArena, capacity: NDArray[np.int64], data_size: NDArray[np.int64]) -> None:
        before = arena._buffer
        lay_out(arena, capacity, data_size)
        if arena._buffer is not before:
            arena._buffer[:] = 0x7F

    monkeypatch.setattr(AvroArena, "_lay_out", in_used_memory)
    codec = open_codec(CodecSpec(name="avro", schemas={2: json.dumps(SECOND)}), fields_for(SECOND))
    short = ByteSpans.from_list([framed(SECOND, {"a": 1, "b": [], "n": {"x": 1}}, 2)])
    assert codec.decode(short).verdict.tolist() == [Verdict.EXACT]
    long = ByteSpans.from_list([framed(SECOND, {"a": 1, "b": ["y" * 6000], "n": {"x": 1}}, 2)])
    decoded = codec.decode(long)
    assert decoded.reasons == ()
    assert decoded.columns.field("b").to_pylist() == [["y" * 6000]]


def test_first_block_of_long_lists_is_run_once_after_a_glance_at_its_first_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, runs = AvroArena._run, []

    def counted(arena: AvroArena, values: ByteSpans, *rest: Any) -> int:
        runs.append(len(values))
        return run(arena, values, *rest)

    monkeypatch.setattr(AvroArena, "_run", counted)
    codec = open_codec(CodecSpec(name="avro", schemas={2: json.dumps(SECOND)}), fields_for(SECOND))
    values = [framed(SECOND, {"a": row, "b": ["x" * 9] * 40, "n": {"x": 1}}, 2) for row in range(1000)]
    assert (codec.decode(ByteSpans.from_list(values)).verdict == Verdict.EXACT).sum() == 1000
    assert runs == [15, 1000]


def two_schemas() -> tuple[CodecSpec, list[bytes | None]]:
    spec = CodecSpec(name="avro", schemas={1: json.dumps(FIRST), 2: json.dumps(SECOND)})
    values: list[bytes | None] = []
    for row in range(30):
        second = {"a": row, "b": ["x" * row] * (row % 3), "n": {"x": -row}}
        values.append(framed(SECOND, second, 2) if row % 3 else framed(FIRST, {"a": -row}, 1))
    values[10] = None
    return spec, values


def fields_for(*schemas: object) -> tuple[pa.Field, ...]:
    fields: tuple[pa.Field, ...] = ()
    for schema in schemas:
        proposal = propose_fields("avro", json.dumps(schema), fields)
        assert proposal.conflicts == ()
        fields = proposal.fields
    return fields


def test_two_schemas_in_one_block_interleave_in_order() -> None:
    spec, values = two_schemas()
    codec = open_codec(spec, fields_for(FIRST, SECOND))
    decoded = codec.decode(ByteSpans.from_list(values))
    decoded.columns.validate(full=True)
    assert decoded.columns.field("a").to_pylist()[:12] == [0, 1, 2, -3, 4, 5, -6, 7, 8, -9, None, 11]
    assert decoded.columns.field("b").to_pylist()[:4] == [None, ["x"], ["xx", "xx"], None]
    present = np.array([value is not None for value in values])
    assert codec.encode(decoded.columns, decoded.schema_id, present).to_list() == values


def test_field_that_the_table_lacks_keeps_the_raw_bytes_beside_the_other_columns() -> None:
    spec, values = two_schemas()
    codec = open_codec(spec, fields_for(FIRST))
    decoded = codec.decode(ByteSpans.from_list(values[1:3]))
    assert decoded.columns.to_pylist() == [{"a": 1}, {"a": 2}]
    assert decoded.verdict.tolist() == [Verdict.KEEP_RAW] * 2
    assert decoded.reason_of(1) == "schema 2: no column holds the field (the table has no column for it), at b"


def test_field_of_another_type_than_its_column_keeps_the_raw_bytes_beside_the_other_columns() -> None:
    spec, values = two_schemas()
    fields = (pa.field("a", pa.int64()), pa.field("b", pa.int32()), pa.field("n", pa.int32()))
    decoded = open_codec(spec, fields).decode(ByteSpans.from_list(values[:3]))
    assert decoded.verdict.tolist() == [Verdict.EXACT, Verdict.KEEP_RAW, Verdict.KEEP_RAW]
    assert decoded.columns.to_pylist()[1] == {"a": 1, "b": None, "n": None}
    why = "the schema has list<string>, the table has int"
    assert decoded.reason_of(1) == f"schema 2: no column holds the field ({why}), at b"


def test_text_that_is_no_schema_makes_its_records_undecodable_and_its_proposal_invalid() -> None:
    spec = CodecSpec(name="avro", schemas={1: json.dumps(FIRST), 2: '{"type": "nonsense"}'})
    decoded = open_codec(spec, fields_for(FIRST)).decode(
        ByteSpans.from_list([framed(FIRST, {"a": 1}, i) for i in (1, 2)])
    )
    assert decoded.verdict.tolist() == [Verdict.EXACT, Verdict.UNDECODABLE]
    assert "nonsense" in str(decoded.reason_of(1))
    with pytest.raises(Invalid, match="nonsense"):
        propose_fields("avro", '{"type": "nonsense"}', ())


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ('{"type": "enum", "name": "E", "symbols": ["A", "B", "A"]}', "twice"),
        ('{"type": "enum", "name": "E", "symbols": ["\\ud800"]}', "Unicode"),
        ('{"type": "enum", "name": "E"}', "symbols"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a"}]}', "twice"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Unknown"}]}', "Unknown"),
        ('{"type": "fixed", "name": "F", "size": -1}', "size"),
        ('[["null", "int"], "string"]', "union"),
        ("{", "not JSON"),
    ],
)
def test_schema_that_avro_forbids_is_invalid_and_says_why(schema: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        propose_fields("avro", schema, ())


def test_proposal_adds_fields_at_every_level_behind_the_existing_ones() -> None:
    def schema(inner: list[dict[str, str]]) -> dict[str, object]:
        record = {"type": "record", "name": "R", "fields": inner}
        return {
            "type": "record",
            "name": "Top",
            "fields": [
                {"name": "list", "type": {"type": "array", "items": record}},
                {"name": "map", "type": {"type": "map", "values": ["null", "R"]}},
            ],
        }

    old, new = {"name": "x", "type": "int"}, {"name": "y", "type": "string"}
    fields = fields_for(schema([old]), schema([new, old]))
    struct_type = pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string())])
    assert fields[0].type.value_type == struct_type
    assert fields[1].type.item_type == struct_type
    values = [framed(schema([old]), {"list": [{"x": 1}], "map": {"k": {"x": 2}, "n": None}}, 1)]
    values.append(framed(schema([new, old]), {"list": [{"y": "a", "x": 3}], "map": {"": {"y": "", "x": 4}}}, 2))
    spec = CodecSpec(name="avro", schemas={1: json.dumps(schema([old])), 2: json.dumps(schema([new, old]))})
    codec = open_codec(spec, fields)
    decoded = codec.decode(ByteSpans.from_list(values))
    assert decoded.verdict.tolist() == [Verdict.EXACT] * 2
    assert decoded.columns.to_pylist()[1] == {"list": [{"x": 3, "y": "a"}], "map": [("", {"x": 4, "y": ""})]}
    assert rebuilt(codec, decoded) == values


def test_conflict_names_the_nested_field_and_both_types() -> None:
    existing = fields_for(SECOND)
    other = json.loads(json.dumps(SECOND).replace('"int"', '"string"'))
    proposal = propose_fields("avro", json.dumps(other), existing)
    what = "the schema has string, the table has int; it gets the column x__string"
    assert proposal.conflicts == (f"field n.x: {what}",)
    assert proposal.fields[:2] == existing[:2]
    assert proposal.fields[2].type == pa.struct([pa.field("x", pa.int32()), pa.field("x__string", pa.string())])
    assert proposal.placement == {"n.x": "x__string"}


# --- columns that can't be what the codec wrote -----------------------------------------------------------------------


def encode_order(columns: dict[str, pa.Array], rows: int = 3) -> list[bytes | None]:
    codec = open_codec(TestAvroCodec.spec, TestAvroCodec().fields())
    decoded = codec.decode(ByteSpans.from_list(list(ORDERS[:rows])))
    held = {field.name: decoded.columns.field(field.name) for field in codec.fields}
    return codec.encode(held | columns, decoded.schema_id, np.full(rows, True)).to_list()


@pytest.mark.parametrize(
    ("name", "column", "problem"),
    [
        ("order_id", pa.array([1, None, 2], pa.int64()), "row 1 .* at order_id: it is null"),
        ("status", pa.array(["NEW", "PAID", "LOST"]), "at status: .* no symbol"),
        ("status", pa.array(["NEW", "PAID", "LOST"]).dictionary_encode(), "at status: .* no symbol"),
        ("status", pa.nulls(3, pa.string()), "at status: it is null"),
        ("created_at", pa.array([1, 1000, 2000], pa.timestamp("us", "UTC")), "at created_at: .* does not have"),
        ("order_id", pa.array([1, 2, 3], pa.int32()), "order_id has the type int32"),
        ("order_id", pa.array([1, 2], pa.int64()), "2 entries where 3"),
        ("digest", pa.array([b"x" * 15] * 3, pa.binary(15)), "digest has the type"),
        ("items", pa.nulls(3, pa.list_(pa.int32())), "items.* has the type|at items: it is null"),
    ],
)
def test_damaged_column_is_corrupt(name: str, column: pa.Array, problem: str) -> None:
    with pytest.raises(Corrupt, match=problem):
        encode_order({name: column})


@pytest.mark.parametrize("offsets", [[0, 5, 1, 9], [0, 1 << 30, 1 << 30, 9], [0, -4, 2, 9]])
def test_string_offsets_out_of_order_are_corrupt(offsets: list[int]) -> None:
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(b"x" * 9)]
    with pytest.raises(Corrupt, match="offsets"):
        encode_order({"note": pa.Array.from_buffers(pa.string(), 3, buffers)})


@pytest.mark.parametrize("offsets", [[0, 5, 1, 9], [0, 1 << 30, 1 << 30, 9], [0, -4, 2, 9]])
def test_list_offsets_out_of_order_are_corrupt(offsets: list[int]) -> None:
    kind = TestAvroCodec().fields()[9].type
    child = pa.nulls(9, kind.value_type)
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32))]
    with pytest.raises(Corrupt, match=r"offsets|null"):
        encode_order({"items": pa.Array.from_buffers(kind, 3, buffers, children=[child])})


def test_dictionary_index_outside_of_its_dictionary_is_corrupt() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 7, 0], pa.int32()), pa.array(["x"]), safe=False)
    with pytest.raises(Corrupt, match="dictionary"):
        encode_order({"note": column})


def test_wanted_row_without_a_schema_id_is_corrupt() -> None:
    codec = open_codec(TestAvroCodec.spec, TestAvroCodec().fields())
    decoded = codec.decode(ByteSpans.from_list([ORDERS[0]]))
    for ids, problem in ((pa.nulls(1, pa.int32()), "names no schema"), (pa.array([5], pa.int32()), "not known")):
        with pytest.raises(Corrupt, match=problem):
            codec.encode(decoded.columns, ids, np.array([True]))


def test_narrow_dictionary_indices_and_wide_strings_are_read_too() -> None:
    note = pa.array(["a", None, "b"])
    narrow = pc.dictionary_encode(note)
    narrow = pa.DictionaryArray.from_arrays(narrow.indices.cast(pa.int8()), narrow.dictionary)
    plain_bytes = encode_order({"note": note})
    assert encode_order({"note": narrow}) == plain_bytes
    assert encode_order({"note": note.cast(pa.large_string())}) == plain_bytes
    assert encode_order({"note": note.cast(pa.binary())}) == plain_bytes


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_null_records_that_unfold_beyond_the_bound_keep_their_bytes_and_spare_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.formats.columns.arena.UNFOLDED_BASE_BYTES", 1 << 20)
    wide = {"type": "record", "name": "W", "fields": [{"name": f"f{index}", "type": "double"} for index in range(500)]}
    schema = {"type": "array", "items": ["null", wide]}
    spec = CodecSpec(name="avro", schemas={1: json.dumps(schema)})
    codec = open_codec(spec, fields_for(schema))
    header = struct.pack(">bI", 0, 1)
    bomb = header + number(50_000) + b"\0" * 50_001
    small = header + number(2) + b"\0" * 3
    decoded = codec.decode(ByteSpans.from_list([small, bomb, small]))
    decoded.columns.validate(full=True)
    assert decoded.verdict.tolist() == [Verdict.EXACT, Verdict.UNDECODABLE, Verdict.EXACT]
    assert decoded.reason_of(1) == "schema 1: the value unfolds beyond the memory set for one block"
    assert decoded.columns.to_pylist()[2] == {"value": [None, None]}


@pytest.mark.parametrize("count", [2**62, 2**31, -(2**63), -(2**40)])
def test_huge_count_ends_the_record_without_work(count: int) -> None:
    schema = {"type": "array", "items": "long"}
    codec = open_codec(CodecSpec(name="avro", schemas={1: json.dumps(schema)}), fields_for(schema))
    decoded = codec.decode(ByteSpans.from_list([struct.pack(">bI", 0, 1) + number(count) + number(5) + b"\2\2"]))
    assert decoded.verdict.tolist() == [Verdict.UNDECODABLE]


def test_huge_length_of_a_string_ends_the_record() -> None:
    schema = "string"
    codec = open_codec(CodecSpec(name="avro", schemas={1: json.dumps(schema)}), fields_for(schema))
    for length in (2**62, 2**63 - 1, -1, 4):
        decoded = codec.decode(ByteSpans.from_list([struct.pack(">bI", 0, 1) + number(length) + b"abc"]))
        assert decoded.verdict.tolist() == [Verdict.UNDECODABLE]
    assert codec.decode(ByteSpans.from_list([struct.pack(">bI", 0, 1) + text("abc")])).verdict.tolist() == [0]


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ('{"type":"array","items":' * 200 + '"int"' + "}" * 200, "deeper"),
        ("[" * 5000, "nested too deeply|not JSON"),
        (
            json.dumps(
                {
                    "type": "record",
                    "name": "R0",
                    "fields": [
                        {
                            "name": "f",
                            "type": {
                                "type": "record",
                                "name": "R1",
                                "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}],
                            },
                        }
                    ]
                    + [
                        {
                            "name": f"g{level}",
                            "type": {
                                "type": "record",
                                "name": f"R{level}",
                                "fields": [{"name": n, "type": f"R{level - 1}"} for n in "ab"],
                            },
                        }
                        for level in range(2, 30)
                    ],
                }
            ),
            "unfolds",
        ),
    ],
)
def test_schema_that_would_unfold_without_bound_is_invalid(schema: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        propose_fields("avro", schema, ())
