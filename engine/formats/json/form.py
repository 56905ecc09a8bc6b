"""A form: how a writer spells JSON, apart from the values. With the columns it gives a record's text back.

As text, in the column ``json_form``, it is self-contained: a JSON object of the traits that the spelling has ("traits",
by name), for each object of the schema whose members are not in the schema's order its members' names ("order"), and
for each object with members that are written as null, not left out, their names ("null", or true for all). Objects go
by their path in the schema, in the names of columns: "" is the whole, ``items[].product`` one inside a list. No text at
all (null) is the standard form: no trait, the schema's order, what is null left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.formats.json import operations as op
from engine.formats.json.program import JsonProgram, ObjectPlace

TRAITS = {
    "space after comma": op.SPACE_AFTER_COMMA,
    "space after colon": op.SPACE_AFTER_COLON,
    "final newline": op.FINAL_NEWLINE,
    "ascii": op.ASCII_ONLY,
    "escaped pairs": op.ESCAPED_PAIRS,
    "escaped delete": op.ESCAPED_DELETE,
    "escaped slash": op.ESCAPED_SLASH,
    "escaped html": op.ESCAPED_HTML,
    "escaped quotes": op.ESCAPED_QUOTES,
    "escaped line separators": op.ESCAPED_LINE_SEPARATORS,
    "long controls": op.LONG_CONTROLS,
    "upper hex": op.UPPER_HEX,
    "1.0": op.POINT_ZERO,
    "1e7": op.EXPONENT_FROM_7,
    "1e16": op.EXPONENT_FROM_16,
    "1e21": op.EXPONENT_FROM_21,
    "1e-4": op.EXPONENT_AT_MINUS_4,
    "1e-5": op.EXPONENT_AT_MINUS_5,
    "1e-6": op.EXPONENT_AT_MINUS_6,
    "1e-7": op.EXPONENT_FROM_MINUS_7,
    "E": op.UPPER_EXPONENT,
    "e+": op.EXPONENT_PLUS,
    "e05": op.EXPONENT_TWO_DIGITS,
    "1.0e": op.EXPONENT_POINT_ZERO,
}
"""The names of the traits in a form's text; these must not change."""

Order: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """``orders`` and ``written`` by an object's number: its members' numbers within the object, in order; those that
    are written even when null. An object that is not there has the schema's order, or none."""

    traits: int = 0
    orders: Mapping[int, Order] = field(default_factory=dict)
    written: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def order_of(self, number: int, place: ObjectPlace) -> Order:
        return self.orders.get(number, tuple(range(len(place.members))))


STANDARD = Form()


def text_of(form: Form, program: JsonProgram) -> str | None:
    """The text that stands for the form in a column; None for the standard form."""
    parts: dict[str, object] = {}
    traits = [name for name, bit in TRAITS.items() if form.traits & bit]
    if traits:
        parts["traits"] = traits
    order, null = {}, {}
    for number, place in enumerate(program.objects):
        names = [member.name for member in place.members]
        members = form.order_of(number, place)
        if members != tuple(range(len(names))):
            order[place.path] = [names[index] for index in members]
        written = form.written.get(number, frozenset())
        if written:
            everything = len(written) == len(names)
            null[place.path] = everything or [names[index] for index in members if index in written]
    parts.update({name: part for name, part in (("order", order), ("null", null)) if part})
    return json.dumps(parts, separators=(",", ":")) if parts else None


def form_of(text: str | None, program: JsonProgram) -> Form:
    """Raises Corrupt for a text that is no form of the schema."""
    if text is None:
        return STANDARD
    try:
        parts = json.loads(text)
        traits = sum(TRAITS[name] for name in set(parts.get("traits", ())))
        orders, written = {}, {}
        for number, place in enumerate(program.objects):
            index_of = {member.name: index for index, member in enumerate(place.members)}
            if place.path in parts.get("order", {}):
                order = tuple(index_of[name] for name in parts["order"][place.path])
                if sorted(order) != list(range(len(index_of))):
                    raise Corrupt(f"the form {text!r} does not name each member of {place.path!r} once")
                orders[number] = order
            null = parts.get("null", {}).get(place.path, ())
            written[number] = frozenset(index_of.values() if null is True else [index_of[name] for name in null])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt(f"{text!r} is no form of its schema: {error!r}") from error
    return Form(traits=traits, orders=orders, written=written)


def words_of(form: Form, program: JsonProgram) -> NDArray[np.int64]:
    """The form as the kernel looks at it (json_form_kernel)."""
    objects = np.zeros(len(program.objects), np.int64)
    members = np.zeros(program.member_count, np.int64)
    for number, place in enumerate(program.objects):
        written = form.written.get(number, frozenset())
        objects[number] = len(written)
        for rank, index in enumerate(form.order_of(number, place)):
            members[place.first + index] = 2 * rank + (index in written)
    return np.concatenate([np.array([form.traits], np.int64), objects, members])
