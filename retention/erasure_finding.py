"""Which records of which files are to be erased: files by the bounds in the manifests, records by their own rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import FloebergError, Unavailable
from engine.offset_range import OffsetRange
from engine.parquet.ranged_file import ReadCount
from engine.table.foreign.rows import open_foreign
from engine.table.manifests import ManifestReader, SnapshotFiles, TableFile, live_ranges
from engine.table.merge.copied_rows import in_schema
from engine.table.merge.stored_file import StoredFile, named
from engine.table.pruned_files import files_without
from engine.table.topic_table import TableFacts, TopicTable
from retention.erasure_condition import Condition

_CANNOT = "be looked through"
_NEXT_STEP = "nothing of it was erased; run floeberg fsck on the topic"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileMatches:
    """``offsets`` int64[n], rising: the records of a file, or of an adopted range, that match."""

    file: TableFile
    offsets: NDArray[np.int64]

    @property
    def extent(self) -> OffsetRange:
        return OffsetRange(start=int(self.offsets[0]), end=int(self.offsets[-1]) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a look at a table found.

    ``matches`` in files of ours, ``adopted`` in ranges that another program wrote;
    ``read`` how many files were read for it and ``pruned`` how many not; ``untyped`` rows without columns in them;
    ``unreadable`` why files could not be read, by their path.
    """

    matches: tuple[FileMatches, ...] = ()
    adopted: tuple[FileMatches, ...] = ()
    read: int = 0
    pruned: int = 0
    untyped: int = 0
    unreadable: dict[str, FloebergError] = field(default_factory=dict)

    @property
    def record_count(self) -> int:
        return sum(len(one.offsets) for one in (*self.matches, *self.adopted))


@dataclass(slots=True, kw_only=True)
class Finder:
    """``seen`` files without a match: a file never changes, so no later look reads it again."""

    condition: Condition
    on_file: Callable[[], object] = lambda: None
    _manifests: ManifestReader = field(default_factory=ManifestReader)
    _seen: set[str] = field(default_factory=set)

    def files(self, table: TopicTable) -> SnapshotFiles:
        """As the table's manifests list them. Raises Corrupt, Unavailable."""
        return self._manifests.files(table)

    def look(self, table: TopicTable) -> Found:
        """Read what may hold a match. Raises Corrupt (a manifest), Unavailable, Invalid (the condition)."""
        files = live_ranges(table, self.files(table))
        expression = self.condition.expression
        without = frozenset[str]() if expression is None else files_without(table, expression)
        wanted = [file for file in files if file.parts or file.path not in without]
        matches, adopted, unreadable = [], [], {}
        for file in wanted:
            if file.path in self._seen:
                continue
            try:
                with named(table.facts, file, cannot=_CANNOT, next_step=_NEXT_STEP):
                    offsets = self._offsets(table.facts, file)
            except Unavailable:
                raise
            except FloebergError as error:
                if not error.file:
                    raise  # the condition's own
                unreadable[file.path] = error
                continue
            self.on_file()
            if not len(offsets):
                self._seen.add(file.path)
            elif file.parts:
                adopted.append(FileMatches(file=file, offsets=offsets))
            else:
                matches.append(FileMatches(file=file, offsets=offsets))
        return Found(
            matches=tuple(matches),
            adopted=tuple(adopted),
            read=len(wanted),
            pruned=len(files) - len(wanted),
            untyped=sum(file.reason_rows or 0 for file in wanted),
            unreadable=unreadable,
        )

    def _offsets(self, table: TableFacts, file: TableFile) -> NDArray[np.int64]:
        schema = pa.schema([known for known in table.schema if known.name not in self.condition.unread])
        found = [self.condition.offsets(in_schema(rows, schema)) for rows in _rows(table, file, self.condition.unread)]
        offsets = np.sort(np.concatenate([*found, np.empty(0, np.int64)]))
        return offsets[(offsets >= file.range.start) & (offsets < file.range.end)]


def _rows(table: TableFacts, file: TableFile, unread: frozenset[str]) -> Iterator[pa.RecordBatch]:
    if not file.parts:
        for group in StoredFile(table=table, file=file, count=ReadCount()).groups(unread=unread):
            yield from group.combine_chunks().to_batches()
        return
    for part in file.parts:
        with open_foreign(table.warehouse, part, table.schema, table.layout) as opened:
            for index in range(opened.group_count):
                yield from opened.batches(index)


def by_partition(matches: Sequence[FileMatches]) -> dict[int, list[FileMatches]]:
    """Sorted, grouped."""
    grouped: dict[int, list[FileMatches]] = {}
    for one in sorted(matches, key=lambda match: match.file):
        grouped.setdefault(one.file.partition, []).append(one)
    return grouped
