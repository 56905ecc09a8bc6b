"""Change events as Debezium's Avro converter registers and writes them: the MySQL connector's envelope of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.engine.formats.avro.avro_values import framed

SCHEMA_ID = 7

_SNAPSHOT = {
    "type": "string",
    "connect.version": 1,
    "connect.parameters": {"allowed": "true,last,false,incremental"},
    "connect.default": "false",
    "connect.name": "io.debezium.data.Enum",
}
_SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.mysql",
    "fields": [
        {"name": "version", "type": "string"},
        {"name": "connector", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": [_SNAPSHOT, "null"], "default": "false"},
        {"name": "db", "type": "string"},
        {"name": "sequence", "type": ["null", "string"], "default": None},
        {"name": "ts_us", "type": ["null", "long"], "default": None},
        {"name": "ts_ns", "type": ["null", "long"], "default": None},
        {"name": "table", "type": ["null", "string"], "default": None},
        {"name": "server_id", "type": "long"},
        {"name": "gtid", "type": ["null", "string"], "default": None},
        {"name": "file", "type": "string"},
        {"name": "pos", "type": "long"},
        {"name": "row", "type": "int"},
        {"name": "thread", "type": ["null", "long"], "default": None},
        {"name": "query", "type": ["null", "string"], "default": None},
    ],
    "connect.name": "io.debezium.connector.mysql.Source",
}
_TRANSACTION = {
    "type": "record",
    "name": "block",
    "namespace": "event",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "total_order", "type": "long"},
        {"name": "data_collection_order", "type": "long"},
    ],
    "connect.version": 1,
    "connect.name": "event.block",
}
CUSTOMER_FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "int"},
    {"name": "name", "type": "string"},
    {"name": "email", "type": ["null", "string"], "default": None},
    {"name": "balance", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
    {
        "name": "tier",
        "type": ["null", {"type": "record", "name": "Tier", "fields": [{"name": "level", "type": "int"}]}],
    },
]


def envelope(row_fields: list[dict[str, Any]]) -> dict[str, Any]:
    """The schema of a table's change events: the row's record defined in ``before`` and named in ``after``."""
    row = {"type": "record", "name": "Value", "fields": row_fields, "connect.name": "shop.inventory.customers.Value"}
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.inventory.customers",
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": _SOURCE},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
            {"name": "ts_us", "type": ["null", "long"], "default": None},
            {"name": "ts_ns", "type": ["null", "long"], "default": None},
            {"name": "transaction", "type": ["null", _TRANSACTION], "default": None},
        ],
        "connect.version": 2,
        "connect.name": "shop.inventory.customers.Envelope",
    }


CUSTOMERS = envelope(CUSTOMER_FIELDS)


def customer(number: int, **changed: Any) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"Kundin {number} €",
        "email": f"{number}@example.org" if number % 2 else None,
        "balance": (number * 1237).to_bytes(4, "big").lstrip(b"\0") or b"\0",
        "tier": {"level": number} if number % 3 == 0 else None,
    } | changed


def source(number: int, snapshot: str = "false") -> dict[str, Any]:
    return {
        "version": "3.3.1.Final",
        "connector": "mysql",
        "name": "shop",
        "ts_ms": 1_760_000_000_000 + number,
        "snapshot": snapshot,
        "db": "inventory",
        "sequence": None,
        "ts_us": 1_760_000_000_000_000 + number,
        "ts_ns": 1_760_000_000_000_000_000 + number,
        "table": "customers",
        "server_id": 223344,
        "gtid": None,
        "file": "mysql-bin.000003",
        "pos": 154 + number,
        "row": 0,
        "thread": 7,
        "query": None,
    }


def event(
    op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, number: int = 0, **more: Any
) -> dict[str, Any]:
    return {
        "before": before,
        "after": after,
        "source": source(number, "true" if op == "r" else "false"),
        "transaction": {"id": f"tx{number}", "total_order": 1, "data_collection_order": 1} if number % 2 else None,
        "op": op,
        "ts_ms": 1_760_000_000_500 + number,
        "ts_us": 1_760_000_000_500_000 + number,
        "ts_ns": None,
    } | more


def changes(count: int) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """(customer, event) of a table's life: read by a snapshot, created, updated, deleted with a tombstone behind it."""
    for number in range(count):
        row = customer(number)
        yield number, event("r" if number % 4 == 0 else "c", None, row, number)
        if number % 2 == 0:
            yield number, event("u", row, customer(number, name=f"renamed {number}"), number)
        if number % 5 == 0:
            yield number, event("d", row, None, number)
            yield number, None


def as_avro(value: dict[str, Any] | None, schema: dict[str, Any] = CUSTOMERS, schema_id: int = SCHEMA_ID) -> Any:
    return None if value is None else framed(schema, value, schema_id)
