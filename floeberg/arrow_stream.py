"""``floeberg.stream``: a topic's history and what comes, as Arrow record batches, for programs in Python."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import datetime
from pathlib import Path
from typing import Literal, Self

import pyarrow as pa

from engine.clock import SystemClock
from engine.errors import Invalid
from engine.table.catalog.access import open_catalog
from floeberg.kernels import compile_kernels, tell_log
from floeberg.settings import Settings
from floeberg.settings.file import find_settings_file, load_settings
from floeberg.tables.topic_tables import TopicTables
from streams.live_topic import LiveTopic
from streams.position import StreamPosition
from streams.selection import Selection
from streams.start import BEGINNING, Start
from streams.stored_columns import StreamPiece
from streams.topic_stream import StreamRules, TopicStream

Until = Literal["forever", "now", "table"]
OnMissing = Literal["error", "skip"]


def stream(
    topic: str,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    start: Literal["beginning", "end"] | datetime | Mapping[int, int] = "beginning",
    after_snapshot: int | None = None,
    position: str | None = None,
    until: Until = "forever",
    on_missing: OnMissing = "error",
    config: Path | str | None = None,
) -> ArrowStream:
    """A topic's records as Arrow record batches: out of the table's files, then on from the broker.

    ``columns`` of the table, in this order (None: all; Kafka's own are ``kafka_offset``, …); ``where`` a condition on
    columns in the grammar of Iceberg's expressions. It begins at ``start`` (a time with its zone, or offsets by
    partition), after what a snapshot of the table held, or where another stream's ``position`` was. It ends ``until``
    never, at what there is when it begins, or where the table ends. ``on_missing``: records that were deleted before
    they were read are an ``error`` or a ``skip``. ``config``: the settings file, by default the one of the command.

    Nothing is asked before the first batch is. Raises Invalid for arguments that can't be; the stream raises Invalid,
    Unavailable (its ``position`` is good for another try) and Corrupt.
    """
    begun: Start = start
    given = [start != BEGINNING, after_snapshot is not None, position is not None]
    if sum(given) > 1:
        raise Invalid("The stream has two starts", next_step="give one of start, after_snapshot and position")
    if after_snapshot is not None:
        begun = after_snapshot
    elif position is not None:
        begun = StreamPosition.from_text(position)
    if until not in {"forever", "now", "table"} or on_missing not in {"error", "skip"}:
        raise Invalid(
            f"A stream is not until {until!r} with on_missing {on_missing!r}",
            next_step="until is forever, now or table, on_missing is error or skip",
        )
    settings_file = None if config is None else Path(config)
    selection = Selection(columns=None if columns is None else tuple(columns), where=where)
    rules = StreamRules(is_endless=until == "forever", skips_missing=on_missing == "skip")
    return ArrowStream(
        lambda closes: opened_stream(
            topic,
            load_settings(find_settings_file(settings_file)),
            closes,
            start=begun,
            selection=selection,
            rules=rules,
            is_live=until != "table",
        )
    )


def opened_stream(
    topic: str,
    settings: Settings,
    closes: ExitStack,
    *,
    start: Start,
    selection: Selection,
    rules: StreamRules,
    is_live: bool = True,
) -> TopicStream:
    """A stream over what the settings name; ``closes`` ends it with all it has opened. Raises Invalid, Unavailable."""
    compile_kernels(settings.formats, tell=tell_log)
    tables = TopicTables(open_catalog(settings.catalog_properties), settings.namespace)
    live = None
    if is_live:
        live = LiveTopic(topic, bootstrap=settings.broker.bootstrap, security=settings.broker.security)
        closes.enter_context(closing(live))
    found = TopicStream(
        lambda: tables.named(topic), live, start=start, clock=SystemClock(), selection=selection, rules=rules
    )
    return closes.enter_context(closing(found))


class ArrowStream:
    """Batches of one partition each, in the order of its offsets, none of them empty. An asynchronous iterator and
    context manager.

    A batch's columns are those of the table when it was read: where all are wanted, later batches may have more. A
    thread of its own does the work, so nothing else of the event loop waits for it.
    """

    def __init__(self, opened: Callable[[ExitStack], TopicStream]) -> None:
        self._opened = opened
        self._closes = ExitStack()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="floeberg-stream")
        self._stream: TopicStream | None = None
        self._pieces: Iterator[StreamPiece | None] = iter(())
        self._coming: Future[tuple[pa.RecordBatch | None, StreamPosition] | None] | None = None
        self._position: StreamPosition | None = None
        self._is_closed = False

    @property
    def position(self) -> str:
        """Where another stream goes on that is to have what comes after the batches this one gave. A consumer that
        stores it together with what it made of them has every row exactly once. Raises Invalid before the first."""
        if self._position is None:
            raise Invalid("The stream has no position before its first batch")
        return self._position.to_text()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        while not self._is_closed:
            # A batch on its way to somebody who was cancelled is the next one's.
            self._coming = self._coming or self._thread.submit(self._next)
            try:
                found = await asyncio.shield(asyncio.wrap_future(self._coming))
            except Exception:
                await self.aclose()
                raise
            self._coming = None
            if found is None:
                break
            batch, self._position = found
            if batch is not None and batch.num_rows:
                return batch
        await self.aclose()
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the stream: within half a second where it waits for the broker. Its position stays."""
        if not self._is_closed:
            self._is_closed = True
            await asyncio.wrap_future(self._thread.submit(self._closes.close))
            self._thread.shutdown()

    def _next(self) -> tuple[pa.RecordBatch | None, StreamPosition] | None:
        """What comes next, maybe nothing for a while, and the position after it; None at the end."""
        if self._stream is None:
            self._stream = self._opened(self._closes)
            self._pieces = self._stream.pieces()
        try:
            piece = next(self._pieces)
        except StopIteration:
            return None
        rows = None if piece is None else piece.rows
        return rows, self._stream.position
