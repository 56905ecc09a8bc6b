"""The columns of a topic whose values name no schema: how long new ones are inferred, and how each is stored.

For a bounded time: until the table holds so many offsets, or has had so many schemas. Both are in the table, so that a
restart changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from engine.errors import Invalid
from engine.formats.json_inference import DEFAULT_INFER_RECORDS, INFER_RECORDS, INFERENCE, OPEN, merged_schema
from engine.formats.value_codec import CodecSpec
from engine.table.table_writer import TableWriter
from engine.table.topic_table import TopicTable
from tiering.topic_rule import TopicRule

_FORMAT = "json"
_MOST_FRUITLESS = 4
"""Proposals that add nothing: workers may be a schema behind, but not for ever."""

log = structlog.get_logger(__name__)


class SchemaInference:
    """One topic's. What the table refuses is not proposed again by this process."""

    def __init__(self, rule: TopicRule) -> None:
        self._may_infer = rule.value_format == _FORMAT and rule.schema_source is None
        self._records = int(rule.codec_options.get(INFER_RECORDS, DEFAULT_INFER_RECORDS))
        self._fruitless = 0

    def options(self, table: TopicTable) -> dict[str, str]:
        """What the codec is told: it counts the schemas itself."""
        offsets = sum(entry.end - entry.start for entry in table.ledger.values())
        is_open = offsets < self._records or not _inferred(table.codec)
        return {INFERENCE: OPEN} if self._may_infer and is_open else {}

    def add(self, writer: TableWriter, table: TopicTable, proposed: Iterable[str]) -> TopicTable:
        """Store what workers propose as one more schema; the table as it is then. Raises as the writer does, but for
        Invalid: a schema that the table refuses ends inference, and the records keep their bytes."""
        known = _inferred(table.codec)
        newest = min(known, default=0)
        text = merged_schema(table.codec.schemas.get(newest), proposed)
        if text is None:
            self._fruitless += 1
            self._may_infer &= self._fruitless < _MOST_FRUITLESS
            return table
        try:
            return writer.add_schemas(table, {newest - 1: text})
        except Invalid as error:
            found = writer.open(table.topic, table.topic_id)
            if found is not None and len(_inferred(found.codec)) > len(known):
                return found  # another daemon was faster
            log.warning("schema_inference_ended", topic=table.topic, problem=error.problem)
            self._may_infer = False
            return table


def _inferred(codec: CodecSpec) -> list[int]:
    return [schema_id for schema_id in codec.schemas if schema_id < 0]
