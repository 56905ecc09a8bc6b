"""Which columns a JSON Schema has, and which schema is inferred where there is none."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import Invalid
from engine.formats.codec import INFERENCE, OPEN, CodecSpec, Decoded, Verdict, open_codec, propose_fields
from engine.formats.json.codec import JsonCodec
from engine.formats.json.inference import MAX_VERSIONS, Inference, merged_schema
from engine.formats.json.schema import MAX_DEPTH, ListNode, MapNode, ObjectNode, Opaque, Scalar, parse_schema
from engine.records.records import ByteSpans

ITEMS_NOT_SAID = Opaque(why="the type of its items is not said, or each has its own")
POINT = {"type": "object", "properties": {"x": {"type": "number"}}}


@pytest.mark.parametrize(
    ("schema", "node"),
    [
        ({"type": "string", "format": "date-time"}, Scalar.STRING),
        ({"type": ["null", "integer"]}, Scalar.LONG),
        ({"type": ["integer", "number"]}, Scalar.DOUBLE),
        ({"enum": ["a", "b", None]}, Scalar.STRING),
        ({"const": 5}, Scalar.LONG),
        ({"oneOf": [{"type": "null", "title": "Not included"}, {"type": "boolean"}]}, Scalar.BOOLEAN),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, Scalar.DOUBLE),
        ({"type": "array", "items": {"type": "string"}}, ListNode(items=Scalar.STRING)),
        ({"additionalProperties": {"type": "integer"}}, MapNode(values=Scalar.LONG)),
        ({"properties": {"x": {"type": "string"}}}, ObjectNode(members=(("x", Scalar.STRING),))),
        ({"$ref": "#/definitions/p", "definitions": {"p": POINT}}, ObjectNode(members=(("x", Scalar.DOUBLE),))),
        ({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "string"}}}, Scalar.STRING),
        ({"$ref": "#here", "$defs": {"p": {"$anchor": "here", "type": "string"}}}, Scalar.STRING),
        ({"$ref": "urn:p", "$defs": {"p": {"$id": "urn:p", "type": "integer"}}}, Scalar.LONG),
        (
            {"allOf": [POINT, {"properties": {"y": {"type": "number"}}}]},
            ObjectNode(members=(("x", Scalar.DOUBLE), ("y", Scalar.DOUBLE))),
        ),
        (
            {"properties": {"y": {"type": "number"}}, "allOf": [{"$ref": "#/$defs/p"}], "$defs": {"p": POINT}},
            ObjectNode(members=(("x", Scalar.DOUBLE), ("y", Scalar.DOUBLE))),
        ),
        ({"type": ["string", "integer"]}, Opaque(why="it is of several types")),
        ({"type": "array"}, ITEMS_NOT_SAID),
        ({"type": "array", "items": [{"type": "string"}]}, ITEMS_NOT_SAID),
        ({"type": "object"}, Opaque(why="its members are not said")),
        ({"$ref": "#/$defs/gone"}, Opaque(why="what #/$defs/gone refers to is not there")),
        ({"$ref": "#"}, Opaque(why="its references lead in a circle")),
        ({"type": "null"}, Opaque(why="it is always null")),
        ({"type": "strange"}, Opaque(why="its type is not said")),
        (True, Opaque(why="its type is not said")),
    ],
    ids=lambda item: json.dumps(item)[:50] if isinstance(item, dict | bool) else "",
)  # fmt: skip
def test_schema_says_the_type(schema: Any, node: Any) -> None:
    assert parse_schema(json.dumps(schema)) == node


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "[" * 100_000])
def test_text_that_is_no_schema_is_invalid(text: str) -> None:
    with pytest.raises(Invalid):
        parse_schema(text)


def test_type_that_contains_itself_ends_at_its_second_appearance() -> None:
    tree = {"type": "object", "properties": {"name": {"type": "string"}, "inner": {"$ref": "#"}}}
    assert propose_fields("json", json.dumps(tree), ()).unmapped == ("inner: its type contains itself",)
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(2 * MAX_DEPTH):
        deep = {"properties": {"a": deep}}
    assert any("deeper" in line for line in propose_fields("json", json.dumps(deep), ()).unmapped)


def test_schema_that_unfolds_without_end_is_invalid() -> None:
    definitions = {f"d{n}": {"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}, "b": {"$ref": f"#/$defs/d{n + 1}"}}} for n in range(30)}  # fmt: skip  # noqa: E501
    with pytest.raises(Invalid, match="unfolds"):
        parse_schema(json.dumps({"$ref": "#/$defs/d0", "$defs": {**definitions, "d30": {"type": "string"}}}))


def test_columns_of_a_later_schema_stand_behind_or_beside() -> None:
    first = json.dumps({"properties": {"a": {"type": "integer"}}})
    fields = propose_fields("json", first, ()).fields
    assert [field.name for field in fields] == ["a", "kafka_form", "kafka_rest"]
    later = propose_fields("json", json.dumps({"properties": {"a": {"type": "string"}, "b": POINT}}), fields)
    assert [field.name for field in later.fields] == ["a", "kafka_form", "kafka_rest", "a__string", "b"]
    assert later.placement == {"a": "a__string"}


def inferred(values: list[Any]) -> Any:
    text = Inference(JsonCodec).first_schema(ByteSpans.from_list([json.dumps(value).encode() for value in values]))
    return None if text is None else json.loads(text)


def columns_of(values: list[Any]) -> dict[str, pa.DataType]:
    fields = propose_fields("json", json.dumps(inferred(values)), ()).fields
    return {field.name: field.type for field in fields if field.name not in ("kafka_form", "kafka_rest")}


def test_types_are_those_of_most_values() -> None:
    assert columns_of([{"a": 1}, {"a": "x"}, {"a": 2}]) == {"a": pa.int64()}
    assert columns_of([{"a": 1}, {"a": 2.5}, {"a": None}]) == {"a": pa.float64()}
    assert columns_of([{"a": 2**60}, {"a": 2**60}, {"a": 0.5}]) == {"a": pa.int64()}
    assert columns_of([{"a": []}, {"b": {}}]) == {
        "a": pa.list_(pa.field("element", pa.string())),
        "b": pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())),
    }
    assert columns_of([{"a": None, "b": True}]) == {"b": pa.bool_()}
    assert columns_of([1, 2, "x"]) == {"value": pa.int64()}
    assert inferred([None, None]) is None
    assert inferred([]) is None


def test_member_seen_in_no_sample_still_has_its_column() -> None:
    values: list[Any] = [{"a": 1} for _ in range(5000)]
    values[1234] = {"a": 2, "rare": {"x": [1]}}
    values[1235] = {"a": 2.5}
    assert columns_of(values) == {
        "a": pa.float64(),
        "rare": pa.struct([pa.field("x", pa.list_(pa.field("element", pa.int64())))]),
    }


def test_order_of_members_is_that_of_the_records() -> None:
    assert list(columns_of([{"a": 1, "c": 1}, {"b": 1, "c": 1}, {"a": 1, "b": 1}])) == ["a", "b", "c"]


def test_object_with_ever_other_names_is_a_map() -> None:
    values = [{"id": n, "by_user": {f"user-{n}": n, f"user-{n + 1}": n}} for n in range(200)]
    assert pa.types.is_map(columns_of(values)["by_user"])
    few = [{"experiments": {f"exp-{n * n % 17}": "A", f"exp-{n * 5 % 11}": "B"}} for n in range(50)]
    assert pa.types.is_map(columns_of(few)["experiments"])
    wide = [{f"f{n}": n for n in range(150)} for _ in range(3)]
    assert len(columns_of(wide)) == 150


def decoded_open(values: list[Any], schemas: dict[int, str]) -> Decoded:
    fields: tuple[pa.Field, ...] = propose_fields("json", "", ()).fields
    placements = {}
    for number, text in sorted(schemas.items(), reverse=True):
        proposal = propose_fields("json", text, fields)
        fields, placements[number] = proposal.fields, proposal.placement
    spec = CodecSpec(name="json", schemas=schemas, placements=placements, options={INFERENCE: OPEN})
    return open_codec(spec, fields).decode(ByteSpans.from_list([json.dumps(value).encode() for value in values]))


def test_codec_proposes_until_it_has_had_enough_schemas() -> None:
    first = decoded_open([{"a": 1}], {})
    assert first.verdict.tolist() == [Verdict.UNDECODABLE]
    assert first.missing_schema_ids == frozenset()
    assert first.proposed_schema is not None
    schemas = {-1: first.proposed_schema}
    assert decoded_open([{"a": 2}], schemas).proposed_schema is None
    for number in range(2, MAX_VERSIONS + 1):
        proposed = decoded_open([{f"m{number}": 1}, {"a": 1}], schemas).proposed_schema
        assert proposed is not None
        schemas[-number] = proposed
    last = decoded_open([{"a": 1}, {"one_more": 1}], schemas)
    assert (last.proposed_schema, last.verdict.tolist()) == (None, [Verdict.EXACT, Verdict.KEEP_RAW])
    assert last.schema_id.to_pylist() == [-MAX_VERSIONS] * 2


def test_strange_values_propose_nothing_until_they_are_most() -> None:
    known = {-1: json.dumps(inferred([{"a": 1, "o": {"x": "s"}}]))}
    strange = {"a": "text", "o": {"x": 5}}
    assert decoded_open([{"a": 1, "o": {"x": "s"}}] * 3 + [strange], known).proposed_schema is None
    proposed = decoded_open([{"a": 1, "o": {"x": "s"}}] + [strange] * 3, known).proposed_schema
    assert proposed is not None
    assert parse_schema(proposed) == ObjectNode(
        members=(("a", Scalar.STRING), ("o", ObjectNode(members=(("x", Scalar.LONG),))))
    )


def test_proposals_of_several_workers_become_one() -> None:
    known = json.dumps(inferred([{"a": 1}]))
    one, other = (
        json.dumps(inferred([{"a": 1, **more}])) for more in ({"b": 1, "o": {"x": 1}}, {"c": "s", "o": {"y": 1}})
    )
    merged = merged_schema(known, {one, other})
    assert merged is not None
    found = parse_schema(merged)
    assert isinstance(found, ObjectNode)
    assert dict(found.members) == {
        "a": Scalar.LONG,
        "b": Scalar.LONG,
        "c": Scalar.STRING,
        "o": ObjectNode(members=(("x", Scalar.LONG), ("y", Scalar.LONG))),
    }
    assert merged_schema(known, {known}) is None
    assert merged_schema(None, {known}) is not None
