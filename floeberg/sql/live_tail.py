"""What the broker has beyond a topic's table, for a query that sees both as one table, as of now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pyarrow as pa

from engine.errors import Invalid, Unavailable
from engine.table.columns import arrow_schema
from engine.table.topic_table import TopicTable
from floeberg.arrow_stream import opened_stream
from floeberg.settings import Settings
from floeberg.tables.topic_tables import TopicTables
from streams.selection import Selection
from streams.topic_stream import StreamRules


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTail:
    """``snapshot_id`` the one that the tail continues, None where the table has none yet; ``batches`` of ``schema``
    hold each committed record that is not in it, under the names that engines see."""

    snapshot_id: int | None
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class LiveTails:
    """Tails of up to ``limit_bytes``, as Arrow holds them, of the tables that ``settings`` name."""

    def __init__(self, settings: Settings, tables: TopicTables, *, limit_bytes: int) -> None:
        self._settings = settings
        self._tables = tables
        self._limit_bytes = limit_bytes

    @contextmanager
    def of(self, name: str) -> Iterator[LiveTail | None]:
        """The tail of the topic whose table has this name; None where it is no topic's. Raises Unavailable, also
        while the batches are read, and where they pass the limit; Corrupt."""
        table = self._table(name)
        if table is None:
            yield None
            return
        called = {column.field_id: column.name for column in table.shown_schema.fields}
        names = [called.get(column.field_id, column.name) for column in table.iceberg_schema.fields]
        own = arrow_schema(table.iceberg_schema, with_ids=False)
        with ExitStack() as closes:
            yield LiveTail(
                snapshot_id=table.snapshot_id,
                schema=pa.schema([column.with_name(known) for column, known in zip(own, names, strict=True)]),
                batches=self._batches(table, own.names, names, closes),
            )

    def _table(self, name: str) -> TopicTable | None:
        try:
            return self._tables.named(name)
        except Invalid:
            # The name of a topic that catalogs refuse is another one in SQL.
            return next((table for table in self._tables.all() if table.identifier[-1] == name), None)

    def _batches(
        self, table: TopicTable, columns: list[str], names: list[str], closes: ExitStack
    ) -> Iterator[pa.RecordBatch]:
        stream = opened_stream(
            table.topic,
            self._settings,
            closes,
            start={number: entry.end for number, entry in table.ledger.items()},
            selection=Selection(columns=tuple(columns)),
            # A query ends: a record whose schema the table lacks is there as it is kept until then, with the reason.
            rules=StreamRules(is_endless=False, waits_for_schemas=False),
        )
        held_bytes = 0
        for piece in stream.pieces():
            if piece is None:
                continue
            held_bytes += piece.rows.nbytes
            if held_bytes > self._limit_bytes:
                raise Unavailable(
                    f"What the broker has beyond the table passes {self._limit_bytes >> 20} MiB",
                    topic=table.topic,
                    next_step="wait for tiering (floeberg status), give a larger --live-limit, or query without --live",
                )
            yield piece.rows.rename_columns(names)
