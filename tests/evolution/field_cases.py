"""Fields that come, go, move, are renamed or become optional, in Avro schemas."""

from __future__ import annotations

from tests.evolution.case import INT, LONG, ONE, TEXT, TWO, a, array, case, map_of, optional, record, v

ADDED = (
    case("add", "a field", {"a": INT, "b": TEXT}, v(record(ONE), {"a": 1}), v(record(ONE, TWO), {"a": 2, "b": "x"})),
    case(
        "add",
        "a field with a default: older rows have null",
        {"a": INT, "b": TEXT},
        v(record(ONE), {"a": 1}),
        v(record(a("b", "string", default="d"), ONE), {"a": 2, "b": "x"}),
    ),
    case(
        "add",
        "in a struct",
        {"s": "struct<a: int32, b: string>"},
        v(record(a("s", record(ONE, name="S"))), {"s": {"a": 1}}, {"s": {"a": 1, "b": None}}),
        v(record(a("s", record(ONE, TWO, name="S"))), {"s": {"a": 2, "b": "x"}}),
    ),
    case(
        "add",
        "in the structs of a list",
        {"l": "list<element: struct<a: int32, b: string>>"},
        v(
            record(a("l", array(record(ONE, name="S")))),
            {"l": [{"a": 1}, {"a": 2}]},
            {"l": [{"a": 1, "b": None}, {"a": 2, "b": None}]},
        ),
        v(record(a("l", array(record(TWO, ONE, name="S")))), {"l": [{"a": 3, "b": "x"}]}),
    ),
    case(
        "add",
        "in the structs of a map",
        {"m": "map<string, struct<a: int32, b: string>>"},
        v(record(a("m", map_of(record(ONE, name="S")))), {"m": {"k": {"a": 1}}}, {"m": [("k", {"a": 1, "b": None})]}),
        v(
            record(a("m", map_of(record(ONE, TWO, name="S")))),
            {"m": {"k": {"a": 1, "b": "x"}}},
            {"m": [("k", {"a": 1, "b": "x"})]},
        ),
    ),
    case(
        "add",
        "a list, a map and a struct at once",
        {"a": INT, "l": "list<element: int32>", "m": "map<string, string>", "s": "struct<b: string>"},
        v(record(ONE), {"a": 1}),
        v(
            record(ONE, a("l", array("int")), a("m", map_of("string")), a("s", record(TWO, name="S"))),
            {"a": 2, "l": [1, 2], "m": {"k": "v"}, "s": {"b": "x"}},
            {"a": 2, "l": [1, 2], "m": [("k", "v")], "s": {"b": "x"}},
        ),
    ),
)

REMOVED = (
    case("remove", "a field", {"a": INT, "b": TEXT}, v(record(ONE, TWO), {"a": 1, "b": "x"}), v(record(ONE), {"a": 2})),
    case(
        "remove",
        "and added again",
        {"a": INT, "b": TEXT},
        v(record(ONE, TWO), {"a": 1, "b": "x"}),
        v(record(ONE), {"a": 2}),
        v(record(TWO, ONE), {"a": 3, "b": "y"}),
    ),
    case(
        "remove",
        "from the structs of a list",
        {"l": "list<element: struct<a: int32, b: string>>"},
        v(record(a("l", array(record(ONE, TWO, name="S")))), {"l": [{"a": 1, "b": "x"}]}),
        v(record(a("l", array(record(TWO, name="S")))), {"l": [{"b": "y"}]}, {"l": [{"a": None, "b": "y"}]}),
    ),
    case(
        "remove",
        "a whole struct",
        {"a": INT, "s": "struct<b: string>"},
        v(record(ONE, a("s", record(TWO, name="S"))), {"a": 1, "s": {"b": "x"}}),
        v(record(ONE), {"a": 2}),
    ),
)

REORDERED = (
    case(
        "reorder",
        "fields",
        {"a": INT, "b": TEXT},
        v(record(ONE, TWO), {"a": 1, "b": "x"}),
        v(record(TWO, ONE), {"a": 2, "b": "y"}),
    ),
    case(
        "reorder",
        "in the structs of a map",
        {"m": "map<string, struct<a: int32, b: string>>"},
        v(
            record(a("m", map_of(record(ONE, TWO, name="S")))),
            {"m": {"k": {"a": 1, "b": "x"}}},
            {"m": [("k", {"a": 1, "b": "x"})]},
        ),
        v(
            record(a("m", map_of(record(TWO, ONE, name="S")))),
            {"m": {"k": {"a": 2, "b": "y"}}},
            {"m": [("k", {"a": 2, "b": "y"})]},
        ),
    ),
    case(
        "reorder",
        "branches of a union with null",
        {"a": INT},
        v(record(a("a", ["null", "int"])), {"a": 1}),
        v(record(a("a", ["int", "null"])), {"a": 2}),
    ),
)

RENAMED = (
    case(
        "rename",
        "by an alias",
        {"a": INT},
        v(record(ONE), {"a": 1}),
        v(record(a("b", "int", aliases=["a"])), {"b": 2}, {"a": 2}),
    ),
    case(
        "rename",
        "of a rename",
        {"a": INT},
        v(record(ONE), {"a": 1}),
        v(record(a("b", "int", aliases=["a"])), {"b": 2}, {"a": 2}),
        v(record(a("c", "int", aliases=["b"])), {"c": 3}, {"a": 3}),
    ),
    case(
        "rename",
        "and the new name without its alias",
        {"a": INT},
        v(record(ONE), {"a": 1}),
        v(record(a("b", "int", aliases=["a"])), {"b": 2}, {"a": 2}),
        v(record(a("b", "int")), {"b": 3}, {"a": 3}),
    ),
    case(
        "rename",
        "beside the old name: two columns",
        {"a": INT, "b": INT},
        v(record(ONE), {"a": 1}),
        v(record(ONE, a("b", "int", aliases=["a"])), {"a": 2, "b": 3}),
    ),
    case(
        "rename",
        "and another field takes the old name",
        {"a": INT, "a__2": INT},
        v(record(ONE), {"a": 1}),
        v(record(a("b", "int", aliases=["a"])), {"b": 2}, {"a": 2}),
        v(record(a("b", "int"), ONE), {"a": 3, "b": 4}, {"a": 4, "a__2": 3}),
        conflicts=1,
    ),
    case(
        "rename",
        "in the structs of a list",
        {"l": "list<element: struct<a: int32>>"},
        v(record(a("l", array(record(ONE, name="S")))), {"l": [{"a": 1}]}),
        v(record(a("l", array(record(a("b", "int", aliases=["a"]), name="S")))), {"l": [{"b": 2}]}, {"l": [{"a": 2}]}),
    ),
    case(
        "rename",
        "of a list, and in it",
        {"l": "list<element: struct<a: int32>>"},
        v(record(a("l", array(record(ONE, name="S")))), {"l": [{"a": 1}]}),
        v(
            record(a("k", array(record(a("b", "int", aliases=["a"]), name="S")), aliases=["l"])),
            {"k": [{"b": 2}]},
            {"l": [{"a": 2}]},
        ),
    ),
    case(
        "rename", "of the record's type", {"a": INT}, v(record(ONE), {"a": 1}), v(record(ONE, name="Other"), {"a": 2})
    ),
    case(
        "rename",
        "and promoted at once",
        {"a": LONG},
        v(record(ONE), {"a": 1}),
        v(record(a("b", "long", aliases=["x", "a"])), {"b": 2**40}, {"a": 2**40}),
    ),
)

OPTIONAL = (
    case(
        "optional",
        "a required field becomes optional",
        {"a": INT, "b": TEXT},
        v(record(ONE, TWO), {"a": 1, "b": "x"}),
        v(record(a("a", optional("int")), TWO), {"a": None, "b": "y"}, {"b": "y"}),
    ),
    case(
        "optional",
        "an optional field becomes required",
        {"a": INT},
        v(record(a("a", optional("int"))), {"a": None}, {}),
        v(record(ONE), {"a": 2}),
    ),
    case(
        "optional",
        "the elements of a list",
        {"l": "list<element: int32>"},
        v(record(a("l", array("int"))), {"l": [1]}),
        v(record(a("l", array(optional("int")))), {"l": [1, None]}),
    ),
    case(
        "optional",
        "a struct",
        {"s": "struct<a: int32>", "z": INT},
        v(record(a("s", record(ONE, name="S")), a("z", "int")), {"s": {"a": 1}, "z": 1}),
        v(record(a("s", optional(record(ONE, name="S"))), a("z", "int")), {"s": None, "z": 2}, {"z": 2}),
    ),
    case(
        "default",
        "a changed default",
        {"a": INT},
        v(record(a("a", "int", default=1)), {"a": 5}),
        v(record(a("a", "int", default=2)), {"a": 6}),
    ),
    case(
        "union",
        "of several types in place of one",
        {"a": INT, "b": TEXT},
        v(record(ONE, TWO), {"a": 1, "b": "x"}),
        v(record(a("a", ["int", "string"]), TWO), {"a": "one", "b": "y"}, {"b": "y"}, is_raw=True),
        v(record(a("a", optional("int")), TWO), {"a": 3, "b": "z"}),
    ),
)

FIELD_CASES = (*ADDED, *REMOVED, *REORDERED, *RENAMED, *OPTIONAL)
