"""The columns of a topic whose values, or keys, name no schema: how long new ones are inferred, and how each is stored.

For a bounded time: until the table holds so many offsets, or has had so many schemas. Both are in the table, so that a
restart changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from pkgutil import resolve_name

import structlog

from engine.errors import Invalid
from engine.formats.codec import DEFAULT_INFER_RECORDS, INFER_RECORDS, INFERENCE, OPEN
from engine.formats.format_facts import facts_of
from engine.schemas.source import Role
from engine.table.commit.writer import TableWriter
from engine.table.topic_table import TopicTable
from topics.topic_rule import TopicRule

_MOST_FRUITLESS = 4
"""Proposals that add nothing: workers may be a schema behind, but not for ever."""

log = structlog.get_logger(__name__)


class SchemaInference:
    """That of one topic's values, or of its keys. What the table refuses is not proposed again by this process."""

    def __init__(self, rule: TopicRule, role: Role) -> None:
        of_keys = role is Role.KEY
        schema_format, options = (
            (rule.layout.key, rule.key_options) if of_keys else (rule.value_format, rule.codec_options)
        )
        self._of_keys = of_keys
        self._inference = facts_of(schema_format).inference
        self._may_infer = self._inference is not None and rule.schema_source is None
        self._records = int(options.get(INFER_RECORDS, DEFAULT_INFER_RECORDS))
        self._fruitless = 0

    def options(self, table: TopicTable) -> dict[str, str]:
        """What the codec is told: it counts the schemas itself."""
        offsets = sum(entry.end - entry.start for entry in table.ledger.values())
        is_open = offsets < self._records or not self._inferred(table)
        return {INFERENCE: OPEN} if self._may_infer and is_open else {}

    def add(self, writer: TableWriter, table: TopicTable, proposed: Iterable[str]) -> TopicTable:
        """Store what workers propose as one more schema; the table as it is then. Raises as the writer does, but for
        Invalid: a schema that the table refuses ends inference, and the records keep their bytes."""
        known = self._inferred(table)
        newest = min(known, default=0)
        assert self._inference is not None, "only formats that infer propose schemas"
        text = resolve_name(self._inference)(known.get(newest), proposed)
        if text is None:
            self._fruitless += 1
            self._may_infer &= self._fruitless < _MOST_FRUITLESS
            return table
        try:
            add = writer.add_key_schemas if self._of_keys else writer.add_schemas
            return add(table, {newest - 1: text})
        except Invalid as error:
            found = writer.open(table.topic, table.topic_id)
            if found is not None and len(self._inferred(found)) > len(known):
                return found  # another daemon was faster
            log.warning("schema_inference_ended", topic=table.topic, problem=error.problem)
            self._may_infer = False
            return table

    def _inferred(self, table: TopicTable) -> dict[int, str]:
        codec = table.key_codec if self._of_keys else table.codec
        return {} if codec is None else {number: text for number, text in codec.schemas.items() if number < 0}
