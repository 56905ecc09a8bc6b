"""JSON Schemas in one document: every reference leads to where it led before, as a validator finds that follows both"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

from engine.errors import Invalid
from engine.formats.json.references import MAX_DEPTH, bundle_references, external_references

ADDRESS = {
    "$id": "http://shop/address.json",
    "type": "object",
    "properties": {"street": {"type": "string"}, "country": {"$ref": "#/definitions/country"}},
    "required": ["street"],
    "definitions": {"country": {"type": "string", "maxLength": 2}, "a/b~c%25": {"type": "integer"}},
}
PERSON = {
    "type": "object",
    "properties": {"home": {"$ref": "address.json"}, "friend": {"$ref": "#"}, "boss": {"$ref": "order.json#/$defs/p"}},
}


def bundled(schema: Any, references: dict[str, Any]) -> Any:
    texts = {name: json.dumps(text) for name, text in references.items()}
    return json.loads(bundle_references(json.dumps(schema), texts))


def accepts(schema: Any, value: Any, references: dict[str, Any] | None = None) -> bool:
    """What a validator says; with nothing but the schema where there are no references."""
    resources = [(name, Resource.from_contents(text, DRAFT7)) for name, text in (references or {}).items()]
    registry: Registry[Any] = Registry().with_resources(resources)
    return jsonschema.Draft7Validator(schema, registry=registry).is_valid(value)


@pytest.mark.parametrize(
    "reference",
    [
        "address.json",
        "http://shop/address.json",
        "address.json#/definitions/country",
        "http://shop/address.json#/definitions/country",
        "address.json#/definitions/a~1b~0c%2525",
        "#/definitions/own",
        "order.json#/definitions/own",
        "http://shop/order.json#/definitions/own",
    ],
)
def test_bundle_accepts_what_the_documents_accepted(reference: str) -> None:
    order = {
        "$id": "http://shop/order.json",
        "properties": {"x": {"$ref": reference}},
        "definitions": {"own": {"type": "boolean"}},
    }
    references = {"http://shop/address.json": ADDRESS}
    whole = bundled(order, {"address.json": ADDRESS})
    # An absolute identity would make the validator look for its own pointers elsewhere.
    alone = {key: value for key, value in whole.items() if key != "$id"}
    assert alone["properties"]["x"]["$ref"].startswith("#/")
    values = [
        {"street": "s"},
        {"street": "s", "country": "ABC"},
        {"street": "s", "country": "AB"},
        "AB",
        "ABC",
        3,
        True,
    ]
    expected = [accepts(order, {"x": value}, references) for value in values]
    assert [accepts(alone, {"x": value}) for value in values] == expected
    assert len(set(expected)) == 2


def test_references_of_references_and_circles_lead_into_the_bundle() -> None:
    order = {"properties": {"buyer": {"$ref": "./person.json"}}, "$defs": {"p": {"$ref": "person.json"}}}
    whole = bundled(order, {"address.json": ADDRESS, "person.json": PERSON})
    home = {"buyer": {"home": {"street": "s"}, "friend": {"friend": {"home": {"street": "s"}}}}}
    assert accepts(whole, home)
    assert not accepts(whole, {"buyer": {"friend": {"friend": {"home": {"street": 1}}}}})
    assert whole["$defs"]["person.json"]["properties"]["friend"] == {"$ref": "#/$defs/person.json"}


def test_anchors_and_either_name_of_the_definitions_are_found() -> None:
    other = {"definitions": {"a": {"$id": "#named", "type": "string"}, "b": {"$anchor": "modern", "type": "integer"}}}
    order = {"properties": {key: {"$ref": f"o.json#{key}"} for key in ("named", "modern", "/$defs/a")}}
    properties = bundled(order, {"o.json": other})["properties"]
    places = [properties[key]["$ref"] for key in ("named", "modern", "/$defs/a")]
    prefix = "#/$defs/o.json/definitions/"
    assert places == [f"{prefix}a", f"{prefix}b", f"{prefix}a"]


def test_what_only_looks_like_a_reference_is_left_alone() -> None:
    order = {
        "properties": {
            "$ref": {"type": "string"},
            "default": {"$ref": "a.json"},
            "x": {"const": {"$ref": "a.json"}, "enum": [{"$ref": "a.json"}], "default": {"$ref": "a.json"}},
            "gone": {"$ref": "http://elsewhere/b.json"},
            "no_such_place": {"$ref": "a.json#/definitions/none"},
        }
    }
    whole = bundled(order, {"a.json": {"type": "string"}})
    expected = json.loads(json.dumps(order))
    expected["properties"]["default"] = {"$ref": "#/$defs/a.json"}
    assert whole["properties"] == expected["properties"]
    assert external_references(json.dumps(order)) == {"a.json", "http://elsewhere/b.json"}


def test_names_that_are_taken_or_no_plain_words_get_their_own_place() -> None:
    order = {
        "$defs": {"a.json": True},
        "properties": {key: {"$ref": key} for key in ("a.json", "a b.json", "a_b.json")},
    }
    references = {"a.json": {"type": "string"}, "a b.json": {"type": "integer"}, "a_b.json": {"type": "boolean"}}
    whole = bundled(order, references)
    assert accepts(whole, {"a.json": "", "a b.json": 1, "a_b.json": True})
    assert set(whole["$defs"]) == {"a.json", "a.json_2", "a_b.json", "a_b.json_2"}


def test_schema_without_references_keeps_its_text() -> None:
    for text in ('{ "type":"object" }', "true"):
        assert bundle_references(text, {}) == text
    assert bundle_references("true", {"a.json": "{}"}) == "true"


@pytest.mark.parametrize(
    "text", ["{", '{"$defs": 7}', "[" * 5000, '{"not":' * (MAX_DEPTH + 2) + "true" + "}" * (MAX_DEPTH + 2)]
)
def test_text_that_is_no_schema_is_invalid(text: str) -> None:
    with pytest.raises(Invalid):
        bundle_references(text, {"a.json": "{}"})
