"""Debezium's envelope unwrapped: the conformance suite, and what its columns must not get wrong."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import Invalid
from engine.formats.codec import CodecSpec, KnownSchema, Verdict, open_codec, propose_fields
from engine.records.records import ByteSpans
from tests.engine.formats.conformance import ValueCodecConformance, rebuilt
from tests.engine.formats.envelopes.debezium_examples import (
    CUSTOMER_FIELDS,
    CUSTOMERS,
    as_avro,
    changes,
    customer,
    envelope,
    event,
)

UNWRAP = {"unwrap": "debezium"}
EVENTS = tuple(as_avro(value) for _, value in changes(12) if value is not None)


class TestUnwrappedAvro(ValueCodecConformance):
    spec = CodecSpec(name="avro", options=UNWRAP, schemas={7: json.dumps(CUSTOMERS)}, unresolved={9: "gone"})
    schema_text = json.dumps(CUSTOMERS)
    exact_values = EVENTS
    inexact_values = (b"", b"\1" + EVENTS[0][1:], b"\0\0\0\0\x09", EVENTS[1] + b"\0", EVENTS[2][:-1])

    def test_columns_are_the_row_then_the_envelope(self) -> None:
        assert [field.name for field in self.fields()] == [
            *("id", "name", "email", "balance", "tier"),
            *("debezium_before", "debezium_source", "debezium_op"),
            *("debezium_ts_ms", "debezium_ts_us", "debezium_ts_ns", "debezium_transaction"),
        ]

    def test_delete_has_nulls_for_the_row_and_the_row_before(self) -> None:
        codec = self.open()
        decoded = codec.decode(ByteSpans.from_list([as_avro(event("d", customer(3), None)), None]))
        deleted, tombstone = decoded.columns.to_pylist()
        assert [deleted[name] for name in ("id", "name", "tier")] == [None] * 3
        assert (deleted["debezium_op"], deleted["debezium_before"]["id"]) == ("d", 3)
        assert set(tombstone.values()) == {None}
        assert decoded.verdict.tolist() == [Verdict.EXACT] * 2


def fields_for(*schemas: Any) -> tuple[pa.Field, ...]:
    fields: tuple[pa.Field, ...] = ()
    for schema in schemas:
        fields = propose_fields("avro", json.dumps(schema), fields, options=UNWRAP).fields
    return fields


def decoded_by(schemas: dict[int, Any], values: list[bytes | None]) -> tuple[Any, Any]:
    spec = CodecSpec(name="avro", options=UNWRAP, schemas={key: json.dumps(text) for key, text in schemas.items()})
    codec = open_codec(spec, fields_for(*schemas.values()))
    return codec, codec.decode(ByteSpans.from_list(values))


NULLABLE = envelope([{"name": "note", "type": ["null", "string"]}, {"name": "amount", "type": ["null", "long"]}])
NOTHING = {"note": None, "amount": None}


@pytest.mark.parametrize(
    ("op", "after", "exact"),
    [
        ("c", NOTHING, True),
        ("u", NOTHING, True),
        ("r", NOTHING, True),
        ("d", None, True),
        ("t", None, True),
        ("m", None, True),
        ("d", NOTHING, False),
        ("", NOTHING, False),
        ("c", None, False),
        ("u", None, False),
        ("d", {"note": "x", "amount": None}, True),
        ("x", {"note": None, "amount": 0}, True),
    ],
)
def test_row_of_nothing_but_nulls_is_told_from_none_or_keeps_its_bytes(
    op: str, after: dict[str, Any] | None, exact: bool
) -> None:
    sure = as_avro(event("u", None, {"note": "sure", "amount": 1}), NULLABLE)
    value = as_avro(event(op, None, after), NULLABLE)
    codec, decoded = decoded_by({7: NULLABLE}, [sure, value, None])
    assert (decoded.verdict[1] == Verdict.EXACT) == exact
    assert ("does not tell" in (decoded.reason_of(1) or "")) == (not exact)
    wanted = np.array([True, exact, False])
    assert codec.encode(decoded.columns, decoded.schema_id, wanted).to_list() == [sure, value if exact else None, None]


def test_fields_that_look_like_other_columns_get_columns_of_their_own() -> None:
    names = ("debezium_op", "after_debezium_op", "Debezium_source", "json_form", "kafka_offset", "op", "before")
    schema = envelope([{"name": name, "type": "string"} for name in names])
    row = {name: f"the row's {name}" for name in names}
    codec, decoded = decoded_by({7: schema}, [as_avro(event("c", None, row), schema)])
    shown = decoded.columns.to_pylist()[0]
    assert {name: value for name, value in shown.items() if not name.startswith("debezium_")} == {
        "after_debezium_op": "the row's debezium_op",
        "after_after_debezium_op": "the row's after_debezium_op",
        "after_Debezium_source": "the row's Debezium_source",
        "after_json_form": "the row's json_form",
        "after_kafka_offset": "the row's kafka_offset",
        "op": "the row's op",
        "before": "the row's before",
    }
    assert shown["debezium_op"] == "c"
    assert rebuilt(codec, decoded) == [as_avro(event("c", None, row), schema)]


def test_changed_table_adds_columns_and_old_and_new_events_come_back() -> None:
    wider = envelope([CUSTOMER_FIELDS[0], {"name": "phone", "type": ["null", "string"], "default": None}])
    first = as_avro(event("c", None, customer(1)))
    second = as_avro(event("u", {"id": 1, "phone": None}, {"id": 1, "phone": "0815"}), wider, 8)
    codec, decoded = decoded_by({7: CUSTOMERS, 8: wider}, [first, second, first])
    assert decoded.columns.field("phone").to_pylist() == [None, "0815", None]
    assert decoded.columns.field("id").to_pylist() == [1, 1, 1]
    assert decoded.columns.field("debezium_before").to_pylist()[1]["id"] == 1
    assert rebuilt(codec, decoded) == [first, second, first]
    assert [field.name for field in codec.fields][-1] == "phone"


def test_values_without_an_envelope_stand_in_columns_of_the_envelope() -> None:
    heartbeat = {
        "type": "record",
        "name": "Heartbeat",
        "namespace": "io.debezium.connector.common",
        "fields": [{"name": "ts_ms", "type": "long"}],
    }
    flat = {"type": "record", "name": "Flat", "fields": CUSTOMER_FIELDS[:2]}
    values = [
        as_avro(event("c", None, customer(1))),
        as_avro({"ts_ms": 5}, heartbeat, 8),
        as_avro({"id": 6, "name": "flattened"}, flat, 9),
    ]
    codec, decoded = decoded_by({7: CUSTOMERS, 8: heartbeat, 9: flat}, values)
    assert (decoded.verdict == Verdict.EXACT).sum() == 3
    assert decoded.columns.field("debezium_ts_ms").to_pylist()[1] == 5
    assert decoded.columns.field("debezium_id").to_pylist() == [None, None, 6]
    assert decoded.columns.field("id").to_pylist() == [1, None, None]
    assert rebuilt(codec, decoded) == values


def test_image_that_is_a_text_is_a_column_of_the_envelope() -> None:
    """MongoDB's connector writes documents as JSON texts."""
    schema = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", "string"]},
            {"name": "after", "type": ["null", "string"]},
            {"name": "op", "type": "string"},
        ],
    }
    values = [
        as_avro({"before": None, "after": '{"_id": 1}', "op": "c"}, schema),
        as_avro({"before": None, "after": None, "op": "u"}, schema),
    ]
    codec, decoded = decoded_by({7: schema}, values)
    assert decoded.columns.field("debezium_after").to_pylist() == ['{"_id": 1}', None]
    assert rebuilt(codec, decoded) == values


def test_proposals_show_the_inner_format_its_own_fields_whatever_the_order_of_columns() -> None:
    known = [KnownSchema(text=json.dumps(CUSTOMERS), placement={})]
    columns = fields_for(CUSTOMERS)
    mixed = tuple(reversed(columns))
    proposal = propose_fields("avro", json.dumps(CUSTOMERS), mixed, known=known, options=UNWRAP)
    assert proposal.fields == mixed
    assert proposal.conflicts == ()


def test_other_envelope_is_invalid() -> None:
    with pytest.raises(Invalid, match="there is debezium"):
        propose_fields("avro", json.dumps(CUSTOMERS), (), options={"unwrap": "maxwell"})


def test_renamed_and_retyped_columns_of_the_changed_table_stand_where_their_schemas_say() -> None:
    renamed = envelope(
        [
            {"name": "id", "type": "long"},
            {"name": "full_name", "type": "string", "aliases": ["name"]},
            {"name": "email", "type": ["null", "long"], "default": None},
        ]
    )
    texts = {7: json.dumps(CUSTOMERS), 8: json.dumps(renamed)}
    first = propose_fields("avro", texts[7], (), options=UNWRAP)
    known = [KnownSchema(text=texts[7], placement=first.placement)]
    second = propose_fields("avro", texts[8], first.fields, known=known, options=UNWRAP)
    placements = {7: first.placement, 8: second.placement}
    codec = open_codec(CodecSpec(name="avro", options=UNWRAP, schemas=texts, placements=placements), second.fields)
    values = [
        as_avro(event("c", None, customer(1))),
        as_avro(event("u", None, {"id": 2**40, "full_name": "Zoë", "email": 5}), renamed, 8),
    ]
    decoded = codec.decode(ByteSpans.from_list(values))
    shown = {name: decoded.columns.field(name).to_pylist() for name in ("id", "name", "email", "email__long")}
    assert shown == {
        "id": [1, 2**40],
        "name": ["Kundin 1 €", "Zoë"],
        "email": ["1@example.org", None],
        "email__long": [None, 5],
    }
    assert rebuilt(codec, decoded) == values
