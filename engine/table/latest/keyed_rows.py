"""The rows of a topic's data files as keys, offsets and tombstones, each with its position in the file.

A position counts the rows of a file as they lie in it (Iceberg's ``pos``): in a clustered file, and in another
program's, they don't lie in offset order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Corrupt, Unavailable
from engine.formats.codec import open_codec
from engine.offset_range import OffsetRange
from engine.parquet.ranged_file import ReadCount
from engine.table.adopted_range import ForeignFile
from engine.table.columns import TableLayout
from engine.table.foreign.rows import open_foreign
from engine.table.manifests import SnapshotFiles, TableFile
from engine.table.merge.stored_file import StoredFile
from engine.table.rows.metadata_columns import keys_from_columns
from engine.table.topic_table import SOMEBODY_ELSE, TableFacts, TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFile:
    """A data file of the topic's table; ``range`` holds all its offsets, but of ``own`` files it may reach further."""

    partition: int
    range: OffsetRange
    path: str
    record_count: int
    own: TableFile | None = None
    foreign: ForeignFile | None = None

    @property
    def manifest(self) -> str | None:
        """What lists it, where that is known."""
        return None if self.own is None else self.own.manifest

    @property
    def is_dense(self) -> bool:
        """Whether the row at position n has the n-th offset of the range."""
        own = self.own
        return own is not None and own.clustering_checksum is None and own.record_count == own.range.offset_count


def stream_files(table: TopicTable, files: SnapshotFiles) -> Mapping[int, tuple[StreamFile, ...]]:
    """The data files of a state by partition, rising. Raises Unavailable where rows were deleted from some, or files
    are there that nobody has proven: the state is judged first."""
    adopted: dict[str, list[tuple[ForeignFile, OffsetRange]]] = {}
    for part in (part for parts in table.adopted.values() for part in parts):
        for file in part.files:
            adopted.setdefault(file.path, []).append((file, part.range))
    if len(files.whole_own()) < len(files.own) or not {file.path for file in files.foreign} <= adopted.keys():
        raise Unavailable(f"{SOMEBODY_ELSE}, and what it is now has not been proven", topic=table.topic)
    found = [
        StreamFile(partition=file.partition, range=file.range, path=file.path, record_count=file.record_count, own=file)
        for file in files.own
    ]
    for foreign in files.foreign:
        ranges = [covered for _, covered in adopted[foreign.path]]
        hull = OffsetRange(start=min(one.start for one in ranges), end=max(one.end for one in ranges))
        # The property's description has the checksum of the bytes that were proven.
        known = adopted[foreign.path][0][0]
        found.append(
            StreamFile(
                partition=known.partition, range=hull, path=known.path, record_count=known.record_count, foreign=known
            )
        )
    by_partition: dict[int, list[StreamFile]] = {}
    for one in sorted(found, key=lambda file: (file.partition, file.range, file.path)):
        by_partition.setdefault(one.partition, []).append(one)
    return {partition: tuple(held) for partition, held in by_partition.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyedRows:
    """``n`` rows that lie side by side in a file: ``offset`` int64[n], ``key`` binary[n], null where a record has none,
    ``is_tombstone`` bool[n]."""

    offset: NDArray[np.int64]
    key: pa.Array
    is_tombstone: NDArray[np.bool_]


class KeyedFiles:
    """Reads the files of one state of a topic's table. For one thread: codecs are not shared."""

    def __init__(self, table: TopicTable) -> None:
        self._facts = table.facts
        self._codec = None if table.key_codec is None else open_codec(table.key_codec, table.key_fields)

    def rows(self, file: StreamFile) -> Iterator[KeyedRows]:
        """In the order of their positions, a row group or less at a time. Raises Corrupt, Unavailable."""
        layout = self._facts.layout
        names = {layout.offset, layout.key_column, layout.key_raw, layout.key_schema_id, layout.is_null}
        for batch in _columns(self._facts, file, frozenset(names)):
            count = batch.num_rows
            columns = {name: _one_array(batch, name) for name in batch.schema.names}
            keys = keys_from_columns(layout, columns, self._codec, count)
            yield KeyedRows(
                offset=_required(columns, layout.offset, file).to_numpy(),
                key=keys.to_arrow(),
                is_tombstone=_required(columns, layout.is_null, file).to_numpy(zero_copy_only=False),
            )

    def offsets(self, file: StreamFile) -> NDArray[np.int64]:
        """The offset at each position. Raises Corrupt, Unavailable."""
        if file.is_dense:
            return np.arange(file.range.start, file.range.end)
        name = self._facts.layout.offset
        parts = [
            _required({name: _one_array(batch, name)}, name, file).to_numpy()
            for batch in _columns(self._facts, file, frozenset({name}))
        ]
        offsets: NDArray[np.int64] = np.concatenate([np.empty(0, np.int64), *parts])
        if len(offsets) != file.record_count:
            raise _corrupt(self._facts, file, f"it has {len(offsets)} rows, not {file.record_count}")
        return offsets


def _columns(facts: TableFacts, file: StreamFile, wanted: frozenset[str]) -> Iterator[pa.Table]:
    if file.own is not None:
        unread = frozenset(field.name for field in facts.schema) - wanted
        yield from StoredFile(table=facts, file=file.own, count=ReadCount()).groups(unread=unread)
        return
    assert file.foreign is not None, "a file is ours or somebody else's"
    needed = wanted | _always(facts.layout)
    schema = pa.schema([field for field in facts.schema if field.name in needed])
    with open_foreign(facts.warehouse, file.foreign, schema, facts.layout) as opened:
        for group in range(opened.group_count):
            for batch in opened.batches(group):
                yield pa.Table.from_batches([batch])


def _always(layout: TableLayout) -> set[str]:
    """What a file of another program is refused without."""
    return {layout.partition, layout.offset, layout.timestamp}


def _one_array(batch: pa.Table, name: str) -> pa.Array:
    column = batch.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _required(columns: Mapping[str, pa.Array], name: str, file: StreamFile) -> pa.Array:
    column = columns.get(name)
    if column is None or column.null_count:
        raise Corrupt(f"a row has no {name}", partition=file.partition, file=file.path)
    return column


def _corrupt(facts: TableFacts, file: StreamFile, problem: str) -> Corrupt:
    return Corrupt(problem, topic=facts.topic, partition=file.partition, file=file.path)


def newest_of(parts: Sequence[tuple[pa.Array, NDArray[np.int64]]]) -> tuple[pa.Array, NDArray[np.int64]]:
    """(each key once, the greatest offset that it has), of rows with keys, in no order."""
    empty = (pa.array([], pa.large_binary()), np.empty(0, np.int64))
    keys = pa.chunked_array([key.cast(pa.large_binary()) for key, _ in (*parts, empty)])
    offsets = pa.chunked_array([pa.array(offset) for _, offset in (*parts, empty)])
    newest = (
        pa.table({"key": keys, "offset": offsets}).group_by("key", use_threads=False).aggregate([("offset", "max")])
    )
    return newest.column("key").combine_chunks(), newest.column("offset_max").to_numpy()
