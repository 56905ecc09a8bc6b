"""Fields whose type changes, or whose name is taken, in Avro schemas."""

from __future__ import annotations

import datetime
from decimal import Decimal

from tests.evolution.case import INT, LONG, ONE, TEXT, TWO, a, array, case, decimal, enum, map_of, optional, record, v

RAW = {"on_conflict": "raw"}
MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
AT = datetime.datetime(2024, 5, 6, 7, 8, 9, 10, datetime.UTC)

PROMOTED = (
    case(
        "promote", "int to long", {"a": LONG}, v(record(ONE), {"a": -(2**31)}), v(record(a("a", "long")), {"a": 2**62})
    ),
    case(
        "promote",
        "long first, then int",
        {"a": LONG},
        v(record(a("a", "long")), {"a": 2**62}),
        v(record(ONE), {"a": 2**31 - 1}),
    ),
    case(
        "promote",
        "float to double",
        {"a": "double"},
        v(record(a("a", "float")), {"a": 0.5}),
        v(record(a("a", "double")), {"a": 0.1}),
    ),
    case(
        "promote",
        "double first, then float",
        {"a": "double"},
        v(record(a("a", "double")), {"a": 0.1}),
        v(record(a("a", "float")), {"a": -0.0}),
    ),
    case(
        "promote",
        "a decimal to more digits",
        {"a": "decimal128(12, 2)"},
        v(record(a("a", decimal(5))), {"a": Decimal("-999.99")}),
        v(record(a("a", decimal(12))), {"a": Decimal("9999999999.99")}),
    ),
    case(
        "promote",
        "a decimal past 18 digits, which Parquet keeps otherwise",
        {"a": "decimal128(30, 2)"},
        v(record(a("a", decimal(10))), {"a": Decimal("12345678.90")}),
        v(record(a("a", decimal(30))), {"a": Decimal("1234567890123456789012345678.90")}),
    ),
    case(
        "promote",
        "a decimal of more digits first, then one of fewer",
        {"a": "decimal128(30, 2)"},
        v(record(a("a", decimal(30))), {"a": Decimal("1.00")}),
        v(record(a("a", decimal(4))), {"a": Decimal("-12.34")}),
    ),
    case(
        "promote",
        "optional int to long",
        {"a": LONG},
        v(record(a("a", optional("int"))), {"a": None}, {}),
        v(record(a("a", optional("long"))), {"a": 2**40}),
    ),
    case(
        "promote",
        "in a struct",
        {"s": "struct<a: int64, f: double>"},
        v(record(a("s", record(ONE, a("f", "float"), name="S"))), {"s": {"a": 1, "f": 1.5}}),
        v(record(a("s", record(a("a", "long"), a("f", "double"), name="S"))), {"s": {"a": 2**40, "f": 0.1}}),
    ),
    case(
        "promote",
        "the elements of a list",
        {"l": "list<element: int64>"},
        v(record(a("l", array("int"))), {"l": [1, 2]}),
        v(record(a("l", array("long"))), {"l": [2**40]}),
    ),
    case(
        "promote",
        "the values of a map",
        {"m": "map<string, double>"},
        v(record(a("m", map_of("float"))), {"m": {"k": 0.25}}, {"m": [("k", 0.25)]}),
        v(record(a("m", map_of("double"))), {"m": {"k": 0.1}}, {"m": [("k", 0.1)]}),
    ),
    case(
        "promote",
        "in the structs of lists in a map",
        {"m": "map<string, list<element: struct<a: int64, b: string>>>"},
        v(
            record(a("m", map_of(array(record(ONE, TWO, name="S"))))),
            {"m": {"k": [{"a": 1, "b": "x"}], "e": []}},
            {"m": [("k", [{"a": 1, "b": "x"}]), ("e", [])]},
        ),
        v(
            record(a("m", map_of(array(record(a("a", optional("long")), TWO, name="S"))))),
            {"m": {"k": [{"a": None, "b": "x"}]}},
            {"m": [("k", [{"a": None, "b": "x"}])]},
        ),
    ),
    case(
        "promote",
        "twice, the second time by another field's schema",
        {"a": LONG, "b": LONG},
        v(record(ONE, a("b", "int")), {"a": 1, "b": 2}),
        v(record(a("a", "long"), a("b", "int")), {"a": 2**40, "b": 2}),
        v(record(ONE, a("b", "long")), {"a": 3, "b": 2**40}),
    ),
)

ENUMS = (
    case(
        "enum",
        "symbols added",
        {"e": TEXT},
        v(record(a("e", enum("A", "B"))), {"e": "B"}),
        v(record(a("e", enum("A", "B", "C"))), {"e": "C"}),
    ),
    case(
        "enum",
        "symbols removed",
        {"e": TEXT},
        v(record(a("e", enum("A", "B", "C"))), {"e": "C"}),
        v(record(a("e", enum("B"))), {"e": "B"}),
    ),
    case(
        "enum",
        "symbols in another order",
        {"e": TEXT},
        v(record(a("e", enum("A", "B"))), {"e": "B"}),
        v(record(a("e", enum("B", "A"))), {"e": "B"}),
    ),
    case(
        "enum",
        "to a string",
        {"e": TEXT},
        v(record(a("e", enum("A"))), {"e": "A"}),
        v(record(a("e", "string")), {"e": "anything"}),
    ),
)

SIBLINGS = (
    case(
        "sibling",
        "int to string",
        {"a": INT, "a__string": TEXT},
        v(record(ONE), {"a": 1}),
        v(record(a("a", "string")), {"a": "x"}, {"a__string": "x"}),
        conflicts=1,
    ),
    case(
        "sibling",
        "found again by the next schema, and the first column by the one after",
        {"a": INT, "b": TEXT, "a__string": TEXT},
        v(record(ONE), {"a": 1}),
        v(record(a("a", "string"), TWO), {"a": "x", "b": "y"}, {"a__string": "x", "b": "y"}),
        v(record(a("a", optional("string"))), {"a": "z"}, {"a__string": "z"}),
        v(record(ONE, TWO), {"a": 4, "b": "w"}),
        conflicts=1,
    ),
    case(
        "sibling",
        "record to string",
        {"s": "struct<a: int32>", "s__string": TEXT},
        v(record(a("s", record(ONE, name="S"))), {"s": {"a": 1}}),
        v(record(a("s", "string")), {"s": "x"}, {"s__string": "x"}),
        conflicts=1,
    ),
    case(
        "sibling",
        "string to record",
        {"s": TEXT, "s__struct": "struct<a: int32>"},
        v(record(a("s", "string")), {"s": "x"}),
        v(record(a("s", record(ONE, name="S"))), {"s": {"a": 1}}, {"s__struct": {"a": 1}}),
        conflicts=1,
    ),
    case(
        "sibling",
        "long to timestamp",
        {"t": LONG, "t__timestamptz": "timestamp[us, tz=UTC]"},
        v(record(a("t", "long")), {"t": 5}),
        v(record(a("t", MOMENT)), {"t": AT}, {"t__timestamptz": AT}),
        conflicts=1,
    ),
    case(
        "sibling",
        "a decimal of another scale, and one with more digits of that",
        {"d": "decimal128(10, 2)", "d__decimal_10_4": "decimal128(14, 4)"},
        v(record(a("d", decimal(10))), {"d": Decimal("1.23")}),
        v(record(a("d", decimal(10, 4))), {"d": Decimal("1.2345")}, {"d__decimal_10_4": Decimal("1.2345")}),
        v(record(a("d", decimal(14, 4))), {"d": Decimal("9.8765")}, {"d__decimal_10_4": Decimal("9.8765")}),
        conflicts=1,
    ),
    case(
        "sibling",
        "a list in place of its element",
        {"a": INT, "a__list": "list<element: int32>"},
        v(record(ONE), {"a": 1}),
        v(record(a("a", array("int"))), {"a": [1, 2]}, {"a__list": [1, 2]}),
        conflicts=1,
    ),
    case(
        "sibling",
        "a list of other elements",
        {"l": "list<element: int32>", "l__list": "list<element: string>"},
        v(record(a("l", array("int"))), {"l": [1]}),
        v(record(a("l", array("string"))), {"l": ["x"]}, {"l__list": ["x"]}),
        conflicts=1,
    ),
    case(
        "sibling",
        "a map of other values",
        {"m": "map<string, int32>", "m__map": "map<string, string>"},
        v(record(a("m", map_of("int"))), {"m": {"k": 1}}, {"m": [("k", 1)]}),
        v(record(a("m", map_of("string"))), {"m": {"k": "x"}}, {"m__map": [("k", "x")]}),
        conflicts=1,
    ),
    case(
        "sibling",
        "a third kind of list",
        {"l": "list<element: int32>", "l__list": "list<element: string>", "l__list__2": "list<element: bool>"},
        v(record(a("l", array("int"))), {"l": [1]}),
        v(record(a("l", array("string"))), {"l": ["x"]}, {"l__list": ["x"]}),
        v(record(a("l", array("boolean"))), {"l": [True]}, {"l__list__2": [True]}),
        conflicts=2,
    ),
    case(
        "sibling",
        "in a struct",
        {"s": "struct<a: int32, a__string: string>"},
        v(record(a("s", record(ONE, name="S"))), {"s": {"a": 1}}, {"s": {"a": 1, "a__string": None}}),
        v(record(a("s", record(a("a", "string"), name="S"))), {"s": {"a": "x"}}, {"s": {"a": None, "a__string": "x"}}),
        conflicts=1,
    ),
    case(
        "sibling",
        "in the structs of a list",
        {"l": "list<element: struct<a: int32, a__string: string>>"},
        v(record(a("l", array(record(ONE, name="S")))), {"l": [{"a": 1}]}, {"l": [{"a": 1, "a__string": None}]}),
        v(
            record(a("l", array(record(a("a", "string"), name="S")))),
            {"l": [{"a": "x"}]},
            {"l": [{"a": None, "a__string": "x"}]},
        ),
        conflicts=1,
    ),
    case(
        "sibling",
        "in the structs of a map",
        {"m": "map<string, struct<a: int32, a__string: string>>"},
        v(
            record(a("m", map_of(record(ONE, name="S")))),
            {"m": {"k": {"a": 1}}},
            {"m": [("k", {"a": 1, "a__string": None})]},
        ),
        v(
            record(a("m", map_of(record(a("a", "string"), name="S")))),
            {"m": {"k": {"a": "x"}}},
            {"m": [("k", {"a": None, "a__string": "x"})]},
        ),
        conflicts=1,
    ),
    case(
        "sibling",
        "of a renamed field: the column's first name",
        {"a": INT, "a__string": TEXT},
        v(record(ONE), {"a": 1}),
        v(record(a("b", "int", aliases=["a"])), {"b": 2}, {"a": 2}),
        v(record(a("b", "string")), {"b": "x"}, {"a__string": "x"}),
        conflicts=1,
    ),
    case(
        "sibling",
        "whose name a field has already",
        {"a": INT, "a__string": INT, "a__string__2": TEXT},
        v(record(ONE, a("a__string", "int")), {"a": 1, "a__string": 2}),
        v(
            record(a("a", "string"), a("a__string", "int")),
            {"a": "x", "a__string": 3},
            {"a__string__2": "x", "a__string": 3},
        ),
        conflicts=1,
    ),
    case(
        "sibling",
        "whose name a later field has",
        {"a": INT, "a__string": TEXT, "a__string__2": TEXT},
        v(record(ONE), {"a": 1}),
        v(record(a("a", "string")), {"a": "x"}, {"a__string": "x"}),
        v(record(a("a__string", "string")), {"a__string": "y"}, {"a__string__2": "y"}),
        conflicts=2,
    ),
    case(
        "sibling",
        "fixed of another size",
        {"f": "fixed_size_binary[2]", "f__fixed_4": "fixed_size_binary[4]"},
        v(record(a("f", {"type": "fixed", "name": "F", "size": 2})), {"f": b"ab"}),
        v(record(a("f", {"type": "fixed", "name": "F", "size": 4})), {"f": b"abcd"}, {"f__fixed_4": b"abcd"}),
        conflicts=1,
    ),
)

KEPT_RAW = (
    case(
        "raw",
        "int to string",
        {"a": INT, "b": TEXT},
        v(record(ONE, TWO), {"a": 1, "b": "x"}),
        v(record(a("a", "string"), TWO), {"a": "q", "b": "y"}, {"b": "y"}, is_raw=True),
        options=RAW,
        conflicts=1,
    ),
    case(
        "raw",
        "in the structs of a list",
        {"l": "list<element: struct<a: int32, b: string>>"},
        v(record(a("l", array(record(ONE, TWO, name="S")))), {"l": [{"a": 1, "b": "x"}]}),
        v(
            record(a("l", array(record(a("a", "string"), TWO, name="S")))),
            {"l": [{"a": "q", "b": "y"}]},
            {"l": [{"a": None, "b": "y"}]},
            is_raw=True,
        ),
        options=RAW,
        conflicts=1,
    ),
    case(
        "raw",
        "promotion goes on all the same",
        {"a": LONG, "b": TEXT},
        v(record(ONE, TWO), {"a": 1, "b": "x"}),
        v(record(a("a", "long"), a("b", "int")), {"a": 2**40, "b": 1}, {"a": 2**40}, is_raw=True),
        options=RAW,
        conflicts=1,
    ),
)

NAMES = (
    case(
        "name",
        "that differs in case alone, in one schema",
        {"id": INT, "ID__2": TEXT},
        v(record(a("id", "int"), a("ID", "string")), {"id": 1, "ID": "x"}, {"id": 1, "ID__2": "x"}),
        conflicts=1,
    ),
    case(
        "name",
        "that differs in case alone, in a later schema",
        {"id": INT, "Id__2": INT},
        v(record(a("id", "int")), {"id": 1}),
        v(record(a("Id", "int")), {"Id": 2}, {"Id__2": 2}),
        conflicts=1,
    ),
    case(
        "name",
        "that begins as Kafka's columns, in a later schema",
        {"a": INT},
        v(record(ONE), {"a": 1}),
        v(record(ONE, a("kafka_offset", "long")), {"a": 2, "kafka_offset": 7}, {"a": 2}, is_raw=True),
        conflicts=1,
    ),
    case(
        "name",
        "that begins as Kafka's columns, in a struct",
        {"s": "struct<kafka_offset: int64>"},
        v(record(a("s", record(a("kafka_offset", "long"), name="S"))), {"s": {"kafka_offset": 7}}),
    ),
)

TYPE_CASES = (*PROMOTED, *ENUMS, *SIBLINGS, *KEPT_RAW, *NAMES)
