"""Realistic records for the value formats: a shop's orders, sensors' readings, a web site's clicks.

Each kind has one seeded stream of Python values (``Decimal``, ``datetime``, ``UUID`` among them) and its schema in
every format. The encoders are the ecosystem's own; nothing here knows how bytes are laid out.
"""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

_EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_CENTS = Decimal("0.01")
_NAMES = ("Anna", "Björn", "Chloé", "Dmitri", "Zoë", "José", "Łukasz", "Mary", "Wei", "Yuki", "O'Neil", "Nguyễn")
_CITIES = ("Berlin", "São Paulo", "東京", "New York", "Kraków", "Zürich", "London", "Αθήνα", "Paris", "Springfield")
_STATUSES = ("NEW", "PAID", "PACKED", "SHIPPED", "CANCELLED")
_WORDS = ("red", "cotton", "large", "steel", "für Kinder", "wireless", "café", "organic", '1/4"', "A&B", "mini")
_SEARCHES = (
    "running shoes",
    "lösung für büro",
    "夏 ドレス",
    "кофе в зёрнах",
    "<b>sale</b>",
    "café crème",
    "50% off",
    "😀 gift",
)
_AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 Version/18.1 Mobile Safari/604.1",
    "okhttp/4.12.0",
)

Record = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordKind:
    """``make`` gives record number n; ``proto`` is the text of a .proto file whose message is ``message``."""

    name: str
    make: Callable[[random.Random, int], Record]
    avro: Mapping[str, Any]
    proto: str
    message: str
    json_schema: Mapping[str, Any]

    def records(self, count: int, *, seed: int = 1) -> list[Record]:
        """The same arguments give the same records."""
        chance = random.Random(f"{self.name} {seed}")
        return [self.make(chance, number) for number in range(count)]


def as_json(value: Any) -> Any:
    """What a service would write as JSON: decimals as numbers, times in ISO 8601, nulls as they are."""
    if isinstance(value, Decimal):
        return float(value)
    return _as_text(value, as_json)


def as_proto_json(value: Any) -> Any:
    """Protobuf's own JSON mapping: decimals as text, what is null left out."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return {key: as_proto_json(inner) for key, inner in value.items() if inner is not None}
    return _as_text(value, as_proto_json)


def as_csv(value: Any) -> Any:
    """One field of a line: booleans in lower case, times in ISO 8601, null for the csv module to leave out."""
    if isinstance(value, bool):
        return str(value).lower()
    return _as_text(value, as_csv)


def _as_text(value: Any, inner: Callable[[Any], Any]) -> Any:
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dict):
        return {key: inner(one) for key, one in value.items()}
    if isinstance(value, list):
        return [inner(one) for one in value]
    return value


def _moment(chance: random.Random, number: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(milliseconds=number * 40 + chance.randrange(40))


def _price(chance: random.Random) -> Decimal:
    return Decimal(round(chance.lognormvariate(3.2, 0.9), 2)).quantize(_CENTS)


def _order(chance: random.Random, number: int) -> Record:
    created = _moment(chance, number)
    items: list[Record] = [
        {
            "sku": f"SKU-{chance.randrange(90_000):06d}",
            "title": " ".join(chance.choices(_WORDS, k=chance.randint(2, 4))),
            "quantity": chance.randint(1, 5),
            "price": _price(chance),
            "attributes": {key: chance.choice(_WORDS) for key in ("colour", "size") if chance.random() < 0.5},
        }
        for _ in range(chance.choices((1, 2, 3, 6), (50, 30, 15, 5))[0])
    ]
    name = f"{chance.choice(_NAMES)} {chance.choice(_NAMES)}"
    return {
        "order_id": 700_000_000 + number,
        "status": chance.choices(_STATUSES, (40, 25, 15, 15, 5))[0],
        "customer": {
            "id": chance.randrange(2_000_000),
            "name": name,
            "email": f"{name.split(maxsplit=1)[0].lower()}{chance.randrange(9999)}@example.org"
            if chance.random() < 0.9
            else None,
            "city": chance.choice(_CITIES),
        },
        "items": items,
        "total": sum((item["price"] * item["quantity"] for item in items), Decimal(0)).quantize(_CENTS),
        "discount": round(chance.random() * 10, 2) if chance.random() < 0.2 else None,
        "currency": chance.choices(("EUR", "USD", "JPY"), (6, 3, 1))[0],
        "created_at": created,
        "shipped_at": created + dt.timedelta(hours=chance.randint(4, 90)) if chance.random() < 0.4 else None,
        "tags": chance.sample(("gift", "express", "b2b", "first-order", "vip"), chance.choice((0, 0, 0, 1, 2))),
        "note": f"bitte {chance.choice(_WORDS)}\nund klingeln" if chance.random() < 0.15 else None,
        "paid": chance.random() < 0.9,
    }


def _reading(chance: random.Random, number: int) -> Record:
    return {
        "device": f"sensor-{chance.randrange(4_000):05d}",
        "taken_at": _moment(chance, number),
        "sequence": number * 3 + chance.randrange(3),
        "temperature": round(chance.gauss(21.5, 4.0), 2),
        "humidity": chance.random() * 100,
        "pressure": chance.gauss(101_325.0, 600.0),
        "voltage": round(chance.uniform(3.1, 4.2), 3),
        "signal": -chance.randint(40, 110),
        "vibration": [chance.gauss(0.0, 1e-3) for _ in range(6)],
        "healthy": chance.random() < 0.995,
        "firmware": chance.choice(("1.4.2", "1.4.3", "2.0.0-rc1")),
        "position": {"latitude": chance.uniform(47, 55), "longitude": chance.uniform(6, 15)}
        if chance.random() < 0.3
        else None,
    }


def _click(chance: random.Random, number: int) -> Record:
    return {
        "event_id": uuid.UUID(int=chance.getrandbits(128), version=4),
        "happened_at": _moment(chance, number),
        "user_id": chance.randrange(10**10) if chance.random() < 0.6 else None,
        "session": f"{chance.getrandbits(64):016x}",
        "kind": chance.choices(("VIEW", "CLICK", "SEARCH", "PURCHASE"), (60, 30, 9, 1))[0],
        "url": f"https://shop.example.org/p/{chance.randrange(90_000)}?ref=mail&utm_campaign=spring",
        "referrer": f"https://search.example/?q={chance.randrange(999)}" if chance.random() < 0.5 else None,
        "agent": chance.choices(_AGENTS, (6, 3, 1))[0],
        "search": chance.choice(_SEARCHES) if chance.random() < 0.2 else None,
        "city": chance.choice(_CITIES),
        "x": chance.randrange(1920),
        "y": chance.randrange(9000),
        "experiments": {f"exp-{one}": chance.choice("AB") for one in chance.sample(range(20), chance.randrange(4))},
        "duration_ms": chance.randrange(60_000) if chance.random() < 0.7 else None,
    }


def _optional(kind: Any) -> list[Any]:
    return ["null", kind]


def _fields(**types: Any) -> list[dict[str, Any]]:
    return [
        {"name": name, "type": kind, "default": None} if isinstance(kind, list) else {"name": name, "type": kind}
        for name, kind in types.items()
    ]


def _record(name: str, /, **types: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": _fields(**types)}


_MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
_MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}

_ORDER_AVRO = _record(
    "Order",
    order_id="long",
    status={"type": "enum", "name": "Status", "symbols": list(_STATUSES)},
    customer=_record("Customer", id="long", name="string", email=_optional("string"), city="string"),
    items={
        "type": "array",
        "items": _record(
            "Item",
            sku="string",
            title="string",
            quantity="int",
            price=_MONEY,
            attributes={"type": "map", "values": "string"},
        ),
    },
    total=_MONEY,
    discount=_optional("double"),
    currency="string",
    created_at=_MILLIS,
    shipped_at=_optional(_MILLIS),
    tags={"type": "array", "items": "string"},
    note=_optional("string"),
    paid="boolean",
) | {"namespace": "shop"}
_READING_AVRO = _record(
    "Reading",
    device="string",
    taken_at=_MILLIS,
    sequence="long",
    temperature="double",
    humidity="double",
    pressure="double",
    voltage="float",
    signal="int",
    vibration={"type": "array", "items": "double"},
    healthy="boolean",
    firmware="string",
    position=_optional(_record("Position", latitude="double", longitude="double")),
) | {"namespace": "shop"}
_CLICK_AVRO = _record(
    "Click",
    event_id={"type": "string", "logicalType": "uuid"},
    happened_at=_MILLIS,
    user_id=_optional("long"),
    session="string",
    kind={"type": "enum", "name": "Kind", "symbols": ["VIEW", "CLICK", "SEARCH", "PURCHASE"]},
    url="string",
    referrer=_optional("string"),
    agent="string",
    search=_optional("string"),
    city="string",
    x="int",
    y="int",
    experiments={"type": "map", "values": "string"},
    duration_ms=_optional("int"),
) | {"namespace": "shop"}

_PROTO_HEAD = 'syntax = "proto3";\npackage shop;\nimport "google/protobuf/timestamp.proto";\n'
_ORDER_PROTO = (
    _PROTO_HEAD
    + """
message Order {
  int64 order_id = 1;
  Status status = 2;
  Customer customer = 3;
  repeated Item items = 4;
  string total = 5;
  optional double discount = 6;
  string currency = 7;
  google.protobuf.Timestamp created_at = 8;
  google.protobuf.Timestamp shipped_at = 9;
  repeated string tags = 10;
  optional string note = 11;
  bool paid = 12;
  enum Status { NEW = 0; PAID = 1; PACKED = 2; SHIPPED = 3; CANCELLED = 4; }
  message Customer { int64 id = 1; string name = 2; optional string email = 3; string city = 4; }
  message Item {
    string sku = 1;
    string title = 2;
    int32 quantity = 3;
    string price = 4;
    map<string, string> attributes = 5;
  }
}
"""
)
_READING_PROTO = (
    _PROTO_HEAD
    + """
message Reading {
  string device = 1;
  google.protobuf.Timestamp taken_at = 2;
  uint64 sequence = 3;
  double temperature = 4;
  double humidity = 5;
  double pressure = 6;
  float voltage = 7;
  sint32 signal = 8;
  repeated double vibration = 9;
  bool healthy = 10;
  string firmware = 11;
  Position position = 12;
  message Position { double latitude = 1; double longitude = 2; }
}
"""
)
_CLICK_PROTO = (
    _PROTO_HEAD
    + """
message Click {
  string event_id = 1;
  google.protobuf.Timestamp happened_at = 2;
  optional int64 user_id = 3;
  string session = 4;
  Kind kind = 5;
  string url = 6;
  optional string referrer = 7;
  string agent = 8;
  oneof filled { string search = 9; }
  string city = 10;
  int32 x = 11;
  int32 y = 12;
  map<string, string> experiments = 13;
  optional int32 duration_ms = 14;
  enum Kind { VIEW = 0; CLICK = 1; SEARCH = 2; PURCHASE = 3; }
}
"""
)


def _json_schema(avro: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of what ``as_json`` makes of a kind's records, as its Avro schema says."""
    properties = {field["name"]: _json_type(field["type"]) for field in avro["fields"]}
    required = [field["name"] for field in avro["fields"] if not isinstance(field["type"], list)]
    return {"type": "object", "title": avro["name"], "properties": properties, "required": required}


def _json_type(avro: Any) -> dict[str, Any]:
    if isinstance(avro, list):
        inner = _json_type(avro[1])
        return inner | {"type": ["null", inner["type"]]}
    if isinstance(avro, str):
        names = {"long": "integer", "int": "integer", "double": "number", "float": "number", "boolean": "boolean"}
        return {"type": names.get(avro, "string")}
    logical = avro.get("logicalType")
    if logical == "timestamp-millis":
        return {"type": "string", "format": "date-time"}
    if logical == "decimal":
        return {"type": "number"}
    if avro["type"] == "record":
        schema = _json_schema(avro)
        del schema["title"]
        return schema
    if avro["type"] == "array":
        return {"type": "array", "items": _json_type(avro["items"])}
    if avro["type"] == "map":
        return {"type": "object", "additionalProperties": _json_type(avro["values"])}
    return {"type": "string", "enum": avro["symbols"]} if avro["type"] == "enum" else {"type": "string"}


KINDS = tuple(
    RecordKind(name=name, make=make, avro=avro, proto=proto, message=message, json_schema=_json_schema(avro))
    for name, make, avro, proto, message in (
        ("orders", _order, _ORDER_AVRO, _ORDER_PROTO, "shop.Order"),
        ("readings", _reading, _READING_AVRO, _READING_PROTO, "shop.Reading"),
        ("clicks", _click, _CLICK_AVRO, _CLICK_PROTO, "shop.Click"),
    )
)
