"""Schemas and values for the Avro tests: hand-made rich ones, and generated ones with what a reader should see."""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
import uuid
from decimal import Decimal
from typing import Any

import fastavro
from hypothesis import strategies as st

MICROS_9999 = 253402300799_999_999
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "paid", "type": "boolean"},
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID", "SHIPPED"]}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "weight", "type": ["float", "null"]},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "created_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "trace", "type": {"type": "string", "logicalType": "uuid"}},
        {
            "name": "address",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Address",
                    "fields": [{"name": "city", "type": "string"}, {"name": "zip", "type": ["null", "string"]}],
                },
            ],
        },
        {
            "name": "items",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Item",
                    "fields": [
                        {"name": "sku", "type": "string"},
                        {"name": "quantity", "type": "int"},
                        {"name": "tags", "type": {"type": "map", "values": ["null", "double"]}},
                    ],
                },
            },
        },
        {"name": "digest", "type": {"type": "fixed", "name": "Md5", "size": 16}},
    ],
}


def order(number: int) -> dict[str, Any]:
    return {
        "order_id": number * 7_000_000_001,
        "paid": number % 2 == 0,
        "status": ("NEW", "PAID", "SHIPPED")[number % 3],
        "note": None if number % 3 else "für später €" * number,
        "weight": None if number % 4 == 0 else number / 3,
        "amount": (number * 1237 - 5000).to_bytes(8, "big", signed=True).lstrip(b"\0") or b"\0",
        "created_at": 1_760_000_000_000 + number,
        "trace": str(uuid.UUID(int=number * 2**90 + 5)),
        "address": None if number % 5 == 0 else {"city": "Sund" * number, "zip": None if number % 2 else "0815"},
        "items": [
            {
                "sku": f"SKU-{item}",
                "quantity": -item,
                "tags": {f"k{tag}": tag / 7 if tag else None for tag in range(item)},
            }
            for item in range(number % 4)
        ],
        "digest": bytes(range(number % 200, number % 200 + 16)),
    }


def framed(schema: Any, value: Any, schema_id: int = 7) -> bytes:
    """The value as fastavro writes it, behind the header. Logical types are off: values are the underlying ones."""
    out = io.BytesIO()
    out.write(struct.pack(">bI", 0, schema_id))
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain(schema)), value)
    return out.getvalue()


def orders(count: int) -> list[bytes]:
    made = []
    for number in range(count):
        value = order(number)
        amount = number * 1237 - 5000
        size = (amount.bit_length() if amount >= 0 else (amount + 1).bit_length()) // 8 + 1
        value["amount"] = amount.to_bytes(size, "big", signed=True)
        made.append(framed(ORDER, value))
    return made


def plain(schema: Any) -> Any:
    """The schema without logical types."""
    if isinstance(schema, list):
        return [plain(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key not in ("logicalType", "precision", "scale")}
    for part in ("items", "values", "type"):
        if part in kept:
            kept[part] = plain(kept[part])
    if "fields" in kept:
        kept["fields"] = [{**field, "type": plain(field["type"])} for field in kept["fields"]]
    return kept


def number(value: int) -> bytes:
    """A minimal zigzag varint: the twin of the kernel's writer."""
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return number(len(raw)) + raw


class Made:
    """A generated type: its schema, a strategy of underlying values, and what the column shows for one."""

    def __init__(self, schema: Any, values: st.SearchStrategy[Any], shown: Any = lambda value: value) -> None:
        self.schema, self.values, self.shown = schema, values, shown


def _logical(kind: str, logical: str, values: st.SearchStrategy[Any], shown: Any, **more: Any) -> Made:
    return Made({"type": kind, "logicalType": logical, **more}, values, shown)


def _time(micros: int) -> dt.time:
    return (EPOCH + dt.timedelta(microseconds=micros)).time()


def _moment(micros: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=micros)


def _decimal_bytes(unscaled: int) -> bytes:
    return unscaled.to_bytes((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True)


def _shown_decimal(raw: bytes, scale: int = 3) -> Decimal:
    """Exact, whatever the precision of decimal's context: made of digits, not computed."""
    unscaled = int.from_bytes(raw, "big", signed=True)
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -scale))


_micros = st.integers(-62135596800_000_000, MICROS_9999)
_millis = st.integers(-62135596800_000, MICROS_9999 // 1000)
_days = st.integers(-719162, 2932896)
_texts = st.text(st.characters(codec="utf-8"), max_size=20)
_floats = st.floats(allow_nan=False, width=32)

LEAVES = (
    Made("boolean", st.booleans()),
    Made("int", st.integers(-(2**31), 2**31 - 1)),
    Made("long", st.integers(-(2**63), 2**63 - 1)),
    Made("float", _floats),
    Made("double", st.floats(allow_nan=False)),
    Made("bytes", st.binary(max_size=40)),
    Made("string", _texts),
    _logical("int", "date", _days, lambda days: dt.date(1970, 1, 1) + dt.timedelta(days=days)),
    _logical("int", "time-millis", st.integers(0, 86_399_999), lambda value: _time(value * 1000)),
    _logical("long", "time-micros", st.integers(0, 86_399_999_999), _time),
    _logical("long", "timestamp-millis", _millis, lambda value: _moment(value * 1000)),
    _logical("long", "timestamp-micros", _micros, _moment),
    _logical("long", "timestamp-nanos", st.integers(-(2**63), 2**63 - 1), lambda value: value),
    _logical("long", "local-timestamp-millis", _millis, lambda value: _moment(value * 1000).replace(tzinfo=None)),
    _logical("long", "local-timestamp-micros", _micros, lambda value: _moment(value).replace(tzinfo=None)),
    _logical("string", "uuid", st.uuids().map(str), uuid.UUID),
    _logical(
        "bytes",
        "decimal",
        st.integers(-(10**38) + 1, 10**38 - 1).map(_decimal_bytes),
        _shown_decimal,
        precision=38,
        scale=3,
    ),
    _logical("bytes", "decimal", st.integers(-(2**400), 2**400).map(_decimal_bytes), bytes, precision=50, scale=3),
    _logical("string", "no-such-type", _texts, str),
)


def types(draw: Any, depth: int, names: list[int]) -> Made:
    """A random type; ``names`` counts the named ones, so that no name is used twice."""

    def name() -> str:
        names.append(0)
        return f"T{len(names)}"

    kind = draw(st.integers(0, 11 if depth > 0 else 7))
    if kind <= 4:
        return draw(st.sampled_from(LEAVES))
    if kind == 5:
        symbols = draw(st.lists(st.text("abcXYZ_", min_size=1, max_size=9), min_size=1, max_size=5, unique=True))
        return Made({"type": "enum", "name": name(), "symbols": symbols}, st.sampled_from(symbols))
    if kind == 6:
        size = draw(st.integers(1, 20))
        return Made({"type": "fixed", "name": name(), "size": size}, st.binary(min_size=size, max_size=size))
    if kind == 7:
        size = draw(st.integers(1, 20))
        digits = min(38, len(str(2 ** (8 * size - 1))) - 1)
        bound = 10**digits - 1
        values = st.integers(-bound, bound).map(lambda value: value.to_bytes(size, "big", signed=True))
        schema = {"type": "fixed", "name": name(), "size": size, "logicalType": "decimal"}
        if digits < 3:
            return Made(schema | {"precision": digits}, values, lambda raw: _shown_decimal(raw, 0))
        return Made(schema | {"precision": digits, "scale": 3}, values, _shown_decimal)
    if kind == 8:
        inner = types(draw, depth - 1, names)
        if isinstance(inner.schema, list):  # Avro has no union right inside a union
            return inner
        null_first = draw(st.booleans())
        branches = ["null", inner.schema] if null_first else [inner.schema, "null"]
        shown = inner.shown
        return Made(
            branches, st.none() | inner.values, lambda value, shown=shown: None if value is None else shown(value)
        )
    if kind == 9:
        inner = types(draw, depth - 1, names)
        shown = inner.shown
        values = st.lists(inner.values, max_size=4)
        return Made(
            {"type": "array", "items": inner.schema}, values, lambda value, shown=shown: [shown(one) for one in value]
        )
    if kind == 10:
        inner = types(draw, depth - 1, names)
        shown = inner.shown
        return Made(
            {"type": "map", "values": inner.schema},
            st.dictionaries(_texts, inner.values, max_size=3),
            lambda value, shown=shown: [(key, shown(one)) for key, one in value.items()],
        )
    return records(draw, depth - 1, names)


def records(draw: Any, depth: int, names: list[int]) -> Made:
    names.append(0)
    own_name = f"T{len(names)}"
    inner = {f"f{index}": types(draw, depth, names) for index in range(draw(st.integers(1, 4)))}
    schema = {
        "type": "record",
        "name": own_name,
        "fields": [{"name": key, "type": made.schema} for key, made in inner.items()],
    }
    values = st.fixed_dictionaries({key: made.values for key, made in inner.items()})
    return Made(schema, values, lambda value: {key: made.shown(value[key]) for key, made in inner.items()})


@st.composite
def schemas(draw: Any) -> Made:
    """A record of anything three levels deep, now and then a schema that is no record."""
    return records(draw, 3, []) if draw(st.integers(0, 5)) else types(draw, 2, [])


def dumped(schema: Any) -> str:
    return json.dumps(schema)
