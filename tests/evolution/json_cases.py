"""Changes of a JSON Schema, whose members are known by their names."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.evolution.case import LONG, TEXT, case, v

_case = partial(case, codec="json")
_OWN = {"kafka_form": TEXT, "kafka_rest": TEXT}
INTEGER, NUMBER, STRING = ({"type": kind} for kind in ("integer", "number", "string"))


def of(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


JSON_CASES = (
    _case(
        "json", "a member is added", {"a": LONG, "b": TEXT} | _OWN,
        v(of(a=INTEGER), {"a": 1}), v(of(a=INTEGER, b=STRING), {"a": 2, "b": "x"}),
    ),
    _case(
        "json", "a member is removed", {"a": LONG, "b": TEXT} | _OWN,
        v(of(a=INTEGER, b=STRING), {"a": 1, "b": "x"}), v(of(a=INTEGER), {"a": 2}),
    ),
    _case(
        "json", "members in another order", {"a": LONG, "b": TEXT} | _OWN,
        v(of(a=INTEGER, b=STRING), {"a": 1, "b": "x"}), v(of(b=STRING, a=INTEGER), {"b": "y", "a": 2}),
    ),
    _case(
        "json", "added in the objects of an array", {"l": "list<element: struct<a: int64, b: string>>"} | _OWN,
        v(of(l=array(of(a=INTEGER))), {"l": [{"a": 1}]}, {"l": [{"a": 1, "b": None}]}),
        v(of(l=array(of(a=INTEGER, b=STRING))), {"l": [{"a": 2, "b": "x"}]}),
    ),
    _case(
        "json", "a number in place of a text", {"a": TEXT, "a__long": LONG} | _OWN,
        v(of(a=STRING), {"a": "x"}), v(of(a=INTEGER), {"a": 7}, {"a__long": 7}), conflicts=1,
    ),
    _case(
        "json", "an array in place of its element", {"a": LONG, "a__list": "list<element: int64>"} | _OWN,
        v(of(a=INTEGER), {"a": 1}), v(of(a=array(INTEGER)), {"a": [1, 2]}, {"a__list": [1, 2]}), conflicts=1,
    ),
    _case(
        "json", "another type in an object", {"s": "struct<a: int64, a__string: string>"} | _OWN,
        v(of(s=of(a=INTEGER)), {"s": {"a": 1}}, {"s": {"a": 1, "a__string": None}}),
        v(of(s=of(a=STRING)), {"s": {"a": "x"}}, {"s": {"a": None, "a__string": "x"}}), conflicts=1,
    ),
    _case(
        "json", "a null beside the type", {"a": LONG, "b": TEXT} | _OWN,
        v(of(a=INTEGER, b=STRING), {"a": 1, "b": "x"}),
        v(of(a={"type": ["null", "integer"]}, b=STRING), {"a": 2, "b": "y"}),
    ),
    _case(
        "json", "kept raw by the setting", {"a": LONG, "b": TEXT} | _OWN,
        v(of(a=INTEGER, b=STRING), {"a": 1, "b": "x"}),
        v(of(a=STRING, b=STRING), {"a": "q", "b": "y"}, {"b": "y"}, is_raw=True),
        options={"on_conflict": "raw"}, conflicts=1,
    ),
)  # fmt: skip
