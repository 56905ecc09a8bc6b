"""Which format a topic's values have, told from a sample of them: a guess, until a table is made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name

from engine.formats.confluent_framing import HEADER_BYTES
from engine.formats.format_facts import FORMATS

SAMPLE_VALUES = 1000
"""Values of a sample, at most."""

FITTING_SHARE = 0.9
"""Of the values: so many have the format. The others are kept raw, with the reason, as they are later."""

ENOUGH_VALUES = 10
"""A topic's first values may be somebody's "hello": so many must be text, or bytes, before it is taken for that. An
object of JSON, or the id of a schema that there is, comes about by no chance."""

MOST_IDS = 8
"""Schemas that a sample asks for, the commonest first."""

_FALLBACK = "raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatGuess:
    """``name`` of a format; ``why`` in words, as counted. ``names_schemas``: the values name theirs by id;
    ``has_unknown_schemas``: they look so, but nobody knows these."""

    name: str
    why: str
    names_schemas: bool = False
    has_unknown_schemas: bool = False


def schema_ids(values: Sequence[bytes]) -> tuple[int, ...]:
    """The ids that values framed as Confluent's serializers do would name, the commonest first."""
    found = Counter(schema_id for schema_id in map(_schema_id, values) if schema_id is not None)
    return tuple(schema_id for schema_id, _ in found.most_common(MOST_IDS))


def guess_format(
    values: Sequence[bytes], formats_of_ids: Mapping[int, str], *, is_all: bool = False
) -> FormatGuess | None:
    """The format of ``values``, none of which is empty; None while they don't tell.

    ``formats_of_ids``: of the ``schema_ids`` that the topic's source knows. ``is_all``: no more values are waited for,
    and what there is must do.
    """
    if not values:
        return FormatGuess(name=_FALLBACK, why="no record has a value") if is_all else None
    ids = tuple(map(_schema_id, values))
    named = Counter(formats_of_ids[one] for one in ids if one is not None and one in formats_of_ids)
    for name, count in named.most_common(1):
        if _fits(count, values):
            return FormatGuess(name=name, why=_counted(count, values, "name its schemas"), names_schemas=True)
    for facts in FORMATS.values():
        if facts.recognition is None:
            continue
        count = sum(map(resolve_name(facts.recognition.test), values))
        if _fits(count, values):
            if not (is_all or facts.recognition.is_certain or len(values) >= ENOUGH_VALUES):
                return None
            return FormatGuess(name=facts.name, why=_counted(count, values, f"are {facts.recognition.words}"))
    if not is_all and len(values) < ENOUGH_VALUES:
        return None
    # Registries count from 1, and numbers' bytes begin with zeros.
    framed = sum(map(bool, ids))
    if _fits(framed, values):
        why = _counted(framed, values, "may name schemas that no source knows")
        return FormatGuess(name=_FALLBACK, why=why, has_unknown_schemas=True)
    return FormatGuess(name=_FALLBACK, why="they are of no one format")


def _schema_id(value: bytes) -> int | None:
    if len(value) < HEADER_BYTES or value[0] != 0 or value[1] >= 0x80:
        return None
    return int.from_bytes(value[1:HEADER_BYTES], "big")


def _fits(count: int, values: Sequence[bytes]) -> bool:
    return count >= FITTING_SHARE * len(values)


def _counted(count: int, values: Sequence[bytes], words: str) -> str:
    return f"{count:,} of the first {len(values):,} values {words}"
