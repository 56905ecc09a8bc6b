"""A topic's format, found from its first values."""

from __future__ import annotations

import pytest

from engine.formats.format_guess import ENOUGH_VALUES, guess_format, schema_ids

OBJECT, TEXT, NUMBER = b'{"a": 1}', "grüße, 7".encode(), (1234).to_bytes(8, "big")
AVRO, PROTOBUF, STRANGE = b"\0\0\0\0\x07abc", b"\0\0\0\0\x08\0abc", b"\0\0\0\0\x09abc"
KNOWN = {7: "avro", 8: "protobuf"}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        pytest.param([OBJECT], "json", id="one_object"),
        pytest.param([b' \n{"a": {}}'], "json", id="object_after_white_space"),
        pytest.param([OBJECT] * 9 + [b"{broken"], "json", id="nearly_all_objects"),
        pytest.param([OBJECT] * 8 + [TEXT] * 2, "string", id="objects_and_text"),
        pytest.param([b"[1, 2]"] * 10, "string", id="arrays_are_no_objects"),
        pytest.param([TEXT] * 10, "string", id="text"),
        pytest.param([NUMBER] * 10, "raw", id="numbers"),
        pytest.param([b"\0\0\0\7"] * 10, "raw", id="numbers_that_are_utf8"),
        pytest.param([b"caf\xe9"] * 10, "raw", id="text_of_another_encoding"),
        pytest.param([AVRO], "avro", id="one_schema"),
        pytest.param([PROTOBUF] * 9 + [STRANGE], "protobuf", id="nearly_all_schemas_known"),
        pytest.param([AVRO] * 5 + [PROTOBUF] * 5, "raw", id="schemas_of_two_formats"),
        pytest.param([AVRO] * 5 + [OBJECT] * 5, "raw", id="schemas_and_objects"),
        pytest.param([STRANGE] * 10, "raw", id="unknown_schemas"),
    ],
)
def test_format_is_that_of_nearly_all_values(values: list[bytes], found: str) -> None:
    guess = guess_format(values, KNOWN)
    assert guess is not None
    assert (guess.name, guess.names_schemas) == (found, found in KNOWN.values())
    # The table's word is fixed by it: the order of values must not matter.
    again = guess_format(values[::-1], KNOWN)
    assert again == guess


@pytest.mark.parametrize("value", [TEXT, NUMBER, STRANGE])
def test_few_values_without_a_shape_tell_nothing_until_no_more_are_waited_for(value: bytes) -> None:
    few = [value] * (ENOUGH_VALUES - 1)
    assert guess_format(few, KNOWN) is None
    assert guess_format(few, KNOWN, is_all=True) == guess_format([value] * (ENOUGH_VALUES - 1), {}, is_all=True)
    assert guess_format([*few, value], KNOWN) is not None


def test_greeting_before_json_does_not_make_the_topic_text() -> None:
    assert guess_format([b"hello"], {}) is None
    assert guess_format([b"hello", *[OBJECT] * 8], {}) is None
    later = guess_format([b"hello", *[OBJECT] * 9], {})
    assert later is not None
    assert (later.name, later.why) == ("json", "9 of the first 10 values are JSON objects")


def test_no_value_tells_nothing() -> None:
    assert guess_format([], KNOWN) is None
    nothing = guess_format([], KNOWN, is_all=True)
    assert nothing is not None
    assert nothing.name == "raw"


def test_unknown_schemas_are_told() -> None:
    guess = guess_format([STRANGE] * 10, {})
    assert guess is not None
    assert guess.why == "10 of the first 10 values may name schemas that no source knows"


def test_commonest_schemas_are_asked_for_first() -> None:
    assert schema_ids([AVRO, PROTOBUF, PROTOBUF, OBJECT, b"\0\0", b"\0\xff\0\0\0"]) == (8, 7)
    many = [b"\0" + number.to_bytes(4, "big") for number in range(1000)]
    assert len(schema_ids(many)) < 10
