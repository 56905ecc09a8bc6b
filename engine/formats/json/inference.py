"""Columns for JSON without a schema: a JSON Schema inferred from the values of a block, and what later ones add to it.

Only a bounded sample is looked at value by value: some of all records, and some of those that don't fit what was
inferred from these. A member's type is that of most of its values; the others are the codec's business.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from engine.formats.codec import CodecSpec, OnConflict, ValueCodec, Verdict
from engine.formats.json.fields import propose_fields
from engine.formats.json.member_order import ordered
from engine.formats.json.schema import parse_schema
from engine.records.records import ByteSpans

MAX_VERSIONS = 16
"""Inferred schemas of one table: each makes its newest segment be read once more."""

SAMPLE_RECORDS = 1000
MAX_SAMPLE_BYTES = 4 << 20
MAX_LEVELS = 32
MAX_COLUMNS = 1000
ROUNDS = 3

# An object with more different names than this, of which one value has but a part, is a map; so is one with fewer whose
# values have one type, and their members no order.
MAP_NAMES = 100
MAP_TIMES = 3
UNORDERED_NAMES = 8
UNORDERED_TIMES = 2

EXACT_INTEGERS = 2**53


@dataclass(slots=True)
class _Seen:
    """What the values at one place were. ``order`` the pairs of members that followed each other."""

    kinds: dict[str, int] = field(default_factory=dict)
    has_large_integer: bool = False
    members: dict[str, _Seen] = field(default_factory=dict)
    member_total: int = 0
    order: set[tuple[str, str]] = field(default_factory=set)
    items: _Seen | None = None

    def add(self, value: Any, level: int = 0) -> None:
        kind = _kind_of(value)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if kind == "integer":
            self.has_large_integer |= abs(value) > EXACT_INTEGERS
        if level >= MAX_LEVELS:
            return
        if kind == "object":
            self.member_total += len(value)
            names = list(value)
            self.order.update(pairwise(names))
            for name, member in value.items():
                self.members.setdefault(name, _Seen()).add(member, level + 1)
        elif kind == "array":
            self.items = self.items or _Seen()
            for item in value:
                self.items.add(item, level + 1)

    @property
    def is_map(self) -> bool:
        names, count = len(self.members), self.kinds.get("object", 0)
        if names > MAP_NAMES:
            return names * count > MAP_TIMES * self.member_total
        if names < UNORDERED_NAMES or names * count < UNORDERED_TIMES * self.member_total:
            return False
        index_of = {name: index for index, name in enumerate(self.members)}
        pairs = {(index_of[first], index_of[second]) for first, second in self.order}
        return len({member.kind() for member in self.members.values()}) == 1 and ordered(names, pairs) is None

    def all_values(self) -> _Seen:
        """The values of all members as if they stood at one place."""
        together = _Seen()
        for member in self.members.values():
            together.take(member)
        return together

    def take(self, other: _Seen) -> None:
        for kind, count in other.kinds.items():
            self.kinds[kind] = self.kinds.get(kind, 0) + count
        self.has_large_integer |= other.has_large_integer
        self.member_total += other.member_total
        self.order |= other.order
        for name, member in other.members.items():
            self.members.setdefault(name, _Seen()).take(member)
        if other.items is not None:
            self.items = self.items or _Seen()
            self.items.take(other.items)

    def kind(self) -> str:
        """The type of most values; "null" where there was none. Integers and other numbers are one type."""
        counts = {kind: count for kind, count in self.kinds.items() if kind != "null"}
        integers, numbers = counts.pop("integer", 0), counts.pop("number", 0)
        if integers or numbers:
            # Integers beyond a double's are not given up for a few numbers that are none.
            is_integer = numbers == 0 or (self.has_large_integer and integers > numbers)
            counts["integer" if is_integer else "number"] = integers + numbers
        return max(sorted(counts), key=lambda kind: counts[kind]) if counts else "null"


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


class Inference:
    """``open_codec`` opens a codec on a trial schema, by which the records that don't fit it are found."""

    def __init__(self, open_codec: Callable[[CodecSpec, Sequence[pa.Field]], ValueCodec]) -> None:
        self._open_codec = open_codec

    def first_schema(self, values: ByteSpans) -> str | None:
        """A schema for values that have none; None where they show no type."""
        seen = _seen_in(values)
        if seen.kind() == "null":
            return None
        text = json.dumps(_Writer().written(seen, None))
        for _ in range(ROUNDS):
            strange = self._strange(text, values)
            if len(strange) == 0:
                break
            seen.take(_additions(_seen_in(strange), seen))
            fuller = json.dumps(_Writer().written(seen, None))
            if fuller == text:
                break
            text = fuller
        return text

    def _strange(self, text: str, values: ByteSpans) -> ByteSpans:
        """The values that are JSON and do not fit a schema."""
        proposal = propose_fields(text, (), (), OnConflict.RAW)
        spec = CodecSpec(name="json", schemas={-1: text}, placements={-1: proposal.placement})
        decoded = self._open_codec(spec, proposal.fields).decode(values)
        return values.select(np.flatnonzero(decoded.verdict == Verdict.KEEP_RAW))

    def next_schema(self, known_text: str, values: ByteSpans, strange: ByteSpans) -> str | None:
        """The known schema with what ``strange`` values add, and with the type that most of ``values`` now have.

        None where that is the known one.
        """
        known = json.loads(known_text)
        flipped = _Writer(may_flip=True).written(_seen_in(values), known)
        made = json.dumps(_Writer().written(_seen_in(strange), flipped))
        return None if parse_schema(made) == parse_schema(known_text) else made


def _seen_in(values: ByteSpans) -> _Seen:
    """What a sample of the values is, evenly spaced."""
    seen = _Seen()
    for value in _sample(values):
        seen.add(value)
    return seen


def _additions(seen: _Seen, before: _Seen) -> _Seen:
    """Only the members that were not there before, and numbers where only integers were: types are not outvoted by a
    sample of what is strange."""
    added = _Seen(order=seen.order)
    for name, member in seen.members.items():
        added.members[name] = _additions(member, before.members[name]) if name in before.members else member
    added.member_total = seen.member_total
    if seen.items is not None and before.items is not None:
        added.items = _additions(seen.items, before.items)
    elif before.kind() == "array":
        added.items = seen.items
    large = before.has_large_integer or seen.has_large_integer
    if before.kind() == "integer" and not large and "number" in seen.kinds:
        added.kinds["number"] = 1
    elif before.kind() == "null":
        added.kinds, added.items, added.members = seen.kinds, seen.items, seen.members
    return added


def _sample(values: ByteSpans) -> Iterator[Any]:
    count = len(values)
    total = 0
    for row in (
        np.unique(np.linspace(0, count - 1, min(count, SAMPLE_RECORDS)).astype(np.int64)).tolist() if count else ()
    ):
        text = values[row]
        if not text:
            continue
        total += len(text)
        if total > MAX_SAMPLE_BYTES:
            return
        try:
            value = json.loads(text.decode("utf-8"))
        except (ValueError, RecursionError):
            continue
        yield value


class _Writer:
    """Writes what was seen as a JSON Schema, over a known one whose members and types stay.

    ``may_flip``: a known type gives way to another that most values have.
    """

    def __init__(self, *, may_flip: bool = False) -> None:
        self._may_flip = may_flip
        self._columns = 0

    def written(self, seen: _Seen, known: dict[str, Any] | None, level: int = 0) -> dict[str, Any]:
        kind = seen.kind()
        if known is not None:
            kept = _type_of(known)
            flips = self._may_flip and kind not in (kept, "null") and {kind, kept} != {"integer", "number"}
            flips = flips or (self._may_flip and kind == "number" and kept == "integer" and _mostly_numbers(seen))
            if kept != "null" and not flips:
                return self._extended(seen, known, kept, level)
        return self._new(seen, kind, level)

    def _new(self, seen: _Seen, kind: str, level: int) -> dict[str, Any]:
        self._columns += 1
        made: dict[str, Any] = {"type": [kind, "null"] if "null" in seen.kinds and kind != "null" else kind}
        if kind == "object" and level < MAX_LEVELS:
            if seen.is_map:
                made["additionalProperties"] = self.written(seen.all_values(), None, level + 1)
            elif seen.members:
                made["properties"] = self._members(seen, {}, level)
            else:
                # Nothing is known of what may come: an empty map takes no column away from it.
                made["additionalProperties"] = {"type": "string"}
        elif kind == "array" and level < MAX_LEVELS:
            items = seen.items or _Seen()
            made["items"] = {"type": "string"} if items.kind() == "null" else self.written(items, None, level + 1)
        return made

    def _extended(self, seen: _Seen, known: dict[str, Any], kept: str, level: int) -> dict[str, Any]:
        self._columns += 1
        made = dict(known)
        if kept == "object" and "properties" in known and not seen.is_map:
            made["properties"] = self._members(seen, known["properties"], level)
        elif kept == "object" and "additionalProperties" in known and seen.members:
            made["additionalProperties"] = self.written(seen.all_values(), known["additionalProperties"], level + 1)
        elif kept == "array" and seen.items is not None:
            made["items"] = self.written(seen.items, known.get("items"), level + 1)
        return made

    def _members(self, seen: _Seen, known: dict[str, Any], level: int) -> dict[str, Any]:
        names = [*known, *(name for name in seen.members if name not in known)]
        index_of = {name: index for index, name in enumerate(names)}
        pairs = {(index_of[first], index_of[second]) for first, second in seen.order if {first, second} <= set(names)}
        pairs.update((index_of[first], index_of[second]) for first, second in pairwise(known))
        order = ordered(len(names), pairs) or range(len(names))
        made = {}
        for index in order:
            name = names[index]
            if name in known:
                nothing = _Seen()
                made[name] = self.written(seen.members.get(name, nothing), known[name], level + 1)
            elif self._columns < MAX_COLUMNS:
                made[name] = self.written(seen.members[name], None, level + 1)
        return made


def _type_of(schema: dict[str, Any]) -> str:
    kinds = schema.get("type", "null")
    named = [kind for kind in kinds if kind != "null"] if isinstance(kinds, list) else [kinds]
    return str(named[0]) if named else "null"


def _mostly_numbers(seen: _Seen) -> bool:
    return seen.kinds.get("number", 0) > seen.kinds.get("integer", 0)


def merged_schema(known_text: str | None, proposed: Iterable[str]) -> str | None:
    """What several workers propose at once, as one schema over the known one; None where it is the known one."""
    known = None if known_text is None else json.loads(known_text)
    made = known
    for text in sorted(proposed):
        made = json.loads(text) if made is None else _merged(made, json.loads(text), known)
    text = json.dumps(made)
    return None if known_text is not None and parse_schema(text) == parse_schema(known_text) else text


def _merged(made: dict[str, Any], other: dict[str, Any], known: dict[str, Any] | None) -> dict[str, Any]:
    kind, new = _type_of(made), _type_of(other)
    if kind != new:
        is_free = kind == "null" or (known is not None and kind == _type_of(known))
        is_wider = known is None and (kind, new) == ("integer", "number")
        return other if new != "null" and (is_free or is_wider) else made
    merged = dict(made)
    for part in ("items", "additionalProperties"):
        if part in made and part in other:
            merged[part] = _merged(made[part], other[part], None if known is None else known.get(part))
    if "properties" in made and "properties" in other:
        before = {} if known is None else known.get("properties", {})
        merged["properties"] = dict(made["properties"])
        for name, member in other["properties"].items():
            here = made["properties"].get(name)
            merged["properties"][name] = member if here is None else _merged(here, member, before.get(name))
    return merged
