"""Debezium's events in Protobuf, nested as Connect's converter nests them: the conformance suite."""

from __future__ import annotations

import struct
from typing import Any

from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from engine.formats.codec import CodecSpec
from engine.formats.protobuf.descriptors import compile_proto, load_file
from engine.records.records import ByteSpans
from tests.engine.formats.conformance import ValueCodecConformance
from tests.engine.formats.envelopes.debezium_examples import changes

SCHEMA = compile_proto(
    """
    syntax = "proto3";
    package shop.inventory.customers;
    message Envelope {
      Value before = 1;
      Value after = 2;
      Source source = 3;
      string op = 4;
      optional int64 ts_ms = 5;
      message Value { int32 id = 1; string name = 2; optional string email = 3; }
      message Source { string db = 1; int64 pos = 2; }
    }
    """,
    {},
)
ENVELOPE = GetMessageClass(load_file(SCHEMA).message_types_by_name["Envelope"])


def as_protobuf(value: dict[str, Any]) -> bytes:
    def row(name: str) -> dict[str, Any] | None:
        return value[name] and {key: value[name][key] for key in ("id", "name", "email")}

    source = {key: value["source"][key] for key in ("db", "pos")}
    event = {"before": row("before"), "after": row("after"), "source": source, "op": value["op"], "ts_ms": 7}
    # The message's index, behind the schema's id: a zero means the file's first.
    return struct.pack(">bIb", 0, 7, 0) + ParseDict(event, ENVELOPE()).SerializeToString()


EVENTS = tuple(as_protobuf(value) for _, value in changes(9) if value is not None)


class TestUnwrappedProtobuf(ValueCodecConformance):
    spec = CodecSpec(name="protobuf", options={"unwrap": "debezium"}, schemas={7: SCHEMA})
    schema_text = SCHEMA
    exact_values = EVENTS
    inexact_values = (b"", EVENTS[0][:-1], EVENTS[1] + b"\x9a\x06\x00", b"\0\0\0\0\x07\0\x22\x01d\x12\x00")

    def test_row_is_laid_flat_and_gone_with_a_delete(self) -> None:
        shown = self.open().decode(ByteSpans.from_list(EVENTS)).columns.to_pylist()
        assert (shown[0]["id"], shown[0]["name"], shown[0]["debezium_op"]) == (0, "Kundin 0 €", "r")
        deleted = next(row for row in shown if row["debezium_op"] == "d")
        assert (deleted["name"], deleted["debezium_before"]["name"]) == (None, "Kundin 0 €")
