"""The format of a topic whose rule leaves it open: from what its schema source knows, and from its first values."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import Invalid
from engine.formats.format_facts import formats_with_schemas
from engine.formats.format_guess import FormatGuess, guess_format, schema_ids
from engine.schemas.source import Role, SchemaSource
from topics.topic_rule import TopicRule


def find_format(rule: TopicRule, topic: str, values: Sequence[bytes], *, is_all: bool = False) -> FormatGuess | None:
    """The format; None while nothing tells. ``values`` and ``is_all`` as ``guess_format``.

    Raises Unavailable while the source of schemas does not answer.
    """
    source = rule.schema_source
    if source is None:
        return guess_format(values, {}, is_all=is_all)
    if rule.use_latest and not values:
        known = _format_of_subjects(source, topic)
        if known is not None:
            return FormatGuess(name=known, why="its subject's newest schema is of it", names_schemas=True)
    found = {one: _format_of(source, one) for one in schema_ids(values)}
    known_ids = {one: name for one, name in found.items() if name is not None}
    return guess_format(values, known_ids, is_all=is_all)


def _format_of(source: SchemaSource, schema_id: int) -> str | None:
    for name in formats_with_schemas():
        try:
            source.get(schema_id, name)
        except Invalid:
            continue
        return name
    return None


def _format_of_subjects(source: SchemaSource, topic: str) -> str | None:
    for name in formats_with_schemas():
        try:
            if source.newest(topic, Role.VALUE, name):
                return name
        except Invalid:
            continue
    return None
