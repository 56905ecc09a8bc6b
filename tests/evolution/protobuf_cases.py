"""Changes of a Protobuf message, whose fields are known by their numbers."""

from __future__ import annotations

from functools import partial

from tests.evolution.case import INT, LONG, TEXT, case, v

_case = partial(case, codec="protobuf")

ITEM = "message Item {{ {} }} repeated Item l = 1;"

PROTOBUF_CASES = (
    _case(
        "number", "a field is added", {"a": INT, "b": TEXT},
        v("int32 a = 1;", {"a": 1}, {"a": 1}), v("int32 a = 1; string b = 2;", {"a": 2, "b": "x"}),
    ),
    _case(
        "number", "a field is removed and its number reserved", {"a": INT, "b": TEXT},
        v("int32 a = 1; string b = 2;", {"a": 1, "b": "x"}), v("reserved 2; int32 a = 1;", {"a": 2}),
    ),
    _case(
        "number", "fields in another order", {"a": INT, "b": TEXT},
        v("int32 a = 1; string b = 2;", {"a": 1, "b": "x"}), v("string b = 2; int32 a = 1;", {"a": 2, "b": "y"}),
    ),
    _case(
        "number", "a field is renamed", {"a": INT},
        v("int32 a = 1;", {"a": 1}), v("int32 total = 1;", {"total": 2}, {"a": 2}),
    ),
    _case(
        "number", "two names change places", {"a": INT, "b": INT},
        v("int32 a = 1; int32 b = 2;", {"a": 1, "b": 2}),
        v("int32 b = 1; int32 a = 2;", {"b": 3, "a": 4}, {"a": 3, "b": 4}),
    ),
    _case(
        "number", "a name under another number", {"a": INT, "a__field_9": INT},
        v("int32 a = 1;", {"a": 1}), v("int32 a = 9;", {"a": 2}, {"a__field_9": 2}),
        v("int32 was = 1; int32 a = 9;", {"was": 3, "a": 4}, {"a": 3, "a__field_9": 4}), conflicts=1,
    ),
    _case(
        "number", "renamed in a repeated message", {"l": "list<element: struct<x: int32, y: string>>"},
        v(ITEM.format("int32 x = 1; string y = 2;"), {"l": [{"x": 1, "y": "p"}]}),
        v(ITEM.format("int32 y = 1; string x = 2;"), {"l": [{"y": 2, "x": "q"}]}, {"l": [{"x": 2, "y": "q"}]}),
    ),
    _case(
        "number", "of another type", {"a": INT, "a__string": TEXT},
        v("int32 a = 1;", {"a": 1}), v("string b = 1;", {"b": "x"}, {"a__string": "x"}),
        v("string c = 1;", {"c": "y"}, {"a__string": "y"}), conflicts=1,
    ),
    _case(
        "number", "of another type in a map's messages", {"m": "map<string, struct<x: int32, x__string: string>>"},
        v("message Item { int32 x = 1; } map<string, Item> m = 1;", {"m": {"k": {"x": 1}}},
          {"m": [("k", {"x": 1, "x__string": None})]}),
        v("message Item { string x = 1; } map<string, Item> m = 1;", {"m": {"k": {"x": "p"}}},
          {"m": [("k", {"x": None, "x__string": "p"})]}), conflicts=1,
    ),
    _case(
        "number", "int32 to int64, and back", {"a": LONG},
        v("int32 a = 1;", {"a": -1}), v("int64 a = 1;", {"a": 2**40}), v("sint32 a = 1;", {"a": -(2**31)}),
    ),
    _case(
        "number", "float to double in a repeated field", {"a": "list<element: double>"},
        v("repeated float a = 1;", {"a": [0.5, -0.25]}), v("repeated double a = 1;", {"a": [0.1]}),
    ),
    _case(
        "number", "int32 to int64 as a map's values", {"m": "map<string, int64>"},
        v("map<string, int32> m = 1;", {"m": {"k": 1}}, {"m": [("k", 1)]}),
        v("map<string, int64> m = 1;", {"m": {"k": 2**40}}, {"m": [("k", 2**40)]}),
    ),
    _case(
        "number", "a single field becomes repeated", {"a": INT, "a__list": "list<element: int32>"},
        v("int32 a = 1;", {"a": 1}), v("repeated int32 a = 1;", {"a": [1, 2]}, {"a__list": [1, 2]}), conflicts=1,
    ),
    _case(
        "number", "a field moves into a oneof, and becomes optional", {"a": INT, "b": TEXT},
        v("optional int32 a = 1;", {"a": 1}), v("oneof one { int32 a = 1; string b = 2; }", {"b": "x"}, {"b": "x"}),
    ),
    _case(
        "number", "an enum's symbols are added and renamed", {"e": TEXT},
        v("enum E { NONE = 0; A = 1; } optional E e = 1;", {"e": "A"}),
        v("enum E { NONE = 0; B = 1; C = 2; } optional E e = 1;", {"e": "B"}),
    ),
    _case(
        "number", "kept raw by the setting", {"a": INT},
        v("int32 a = 1;", {"a": 1}), v("string a = 1;", {"a": "x"}, {}, is_raw=True),
        options={"on_conflict": "raw"}, conflicts=1,
    ),
)  # fmt: skip
