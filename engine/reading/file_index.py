"""Which file, row group and page of a table hold an offset: kept in memory, rebuilt from the table alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from engine.bounded_cache import BoundedCache
from engine.errors import Corrupt, Unavailable
from engine.handle_share import handle_share
from engine.offset_range import OffsetRange
from engine.parquet.footer import ParquetFooter, RowGroup, RowGroupSummaries
from engine.parquet.page_index import PageLayout, read_page_layout
from engine.parquet.ranged_file import RangedFile, ReadCount, input_cache, row_group_cache
from engine.reading.footer_cache import FooterCache
from engine.table.data_file import FileFooter, check_footer
from engine.table.live_files import LiveFiles, PartitionFiles
from engine.table.manifests import TableFile
from engine.table.topic_table import SOMEBODY_ELSE, TopicTable

_OPEN_FILE_BYTES = 6 << 10
"""Of the objects around a footer: its strings, arrays, lock, and the file's own values."""
_OPEN_GROUP_BYTES = 1 << 10
_CHUNK_BYTES = 640
"""Of a column chunk's description, its numbers and encoded head with it (measured with tracemalloc)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndexLimits:
    """Bounds on what the index keeps in memory."""

    tables: int = 256
    """Tables whose list of files is kept; 10,000 files take about 4 MB."""
    snapshots: int = 512
    """File lists kept, over all tables: readers of a snapshot that was just replaced go on without reading it again."""
    open_footer_bytes: int = 64 << 20
    """Footers of files read lately, parsed: 15 KB for a dozen columns in one row group, 130 KB for 200."""
    page_layout_bytes: int = 32 << 20
    """Row groups whose pages are known: 15 KB for a dozen columns, 180 KB for 200."""
    open_inputs: int = field(default_factory=lambda: handle_share(4, most=4096))
    """Files that are open. The other handles are for connections, for tiering and its Spark, and for the catalog."""
    row_group_bytes: int = 128 << 20
    """Compressed row groups of remote files."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenFile:
    """A data file ready to be read: its bytes, its footer, and where its windows begin.

    A window is what holds all records of its offsets: a row group of a file in stream order, several of a clustered
    one. ``windows`` has an entry for each, ``starts`` the first row group of each, and the end.
    """

    file: TableFile
    source: RangedFile
    footer: ParquetFooter
    facts: FileFooter
    windows: RowGroupSummaries
    starts: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """What it takes in memory, its open file aside."""
        return _OPEN_FILE_BYTES + self.footer.size_bytes + 5 * self.windows.row_count.nbytes

    @property
    def record_bytes(self) -> int:
        """Mean bytes of a record in its canonical form: near enough to what it takes in a batch. At least 1."""
        return max(1, self.facts.digest.length_bytes // max(1, self.file.record_count))

    def window_of_offset(self, offset: int) -> int:
        """The window that holds ``offset``, or the one after it where it is in a gap; the count after the last."""
        return int(np.searchsorted(self.windows.last_offset, offset, "left"))

    def window_range(self, window: int) -> OffsetRange:
        """The offsets a window answers for: from its first record (or the file's start) to the next one's."""
        first = self.windows.first_offset
        start = self.file.range.start if window == 0 else int(first[window])
        end = self.file.range.end if window == len(first) - 1 else int(first[window + 1])
        return OffsetRange(start=start, end=end)

    def groups_of(self, window: int) -> range:
        """The row groups of a window."""
        return range(self.starts[window], self.starts[window + 1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenGroup:
    """A row group ready to be read; ``layout`` is None where it can only be read whole."""

    group: RowGroup
    layout: PageLayout | None

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        pages = 0 if self.layout is None else self.layout.size_bytes
        return _OPEN_GROUP_BYTES + _CHUNK_BYTES * len(self.group.chunks) + pages


class FileIndex:
    """The way from (table, partition, offset) to bytes. One per process; safe to use from several threads.

    Lists of files come from manifests, each read once; footers from the files, kept in memory up to a bound and, when
    ``cache_directory`` is given, on disk between starts. Nothing here is precious.
    """

    def __init__(
        self,
        *,
        cache_directory: Path | None = None,
        limits: FileIndexLimits | None = None,
        live: LiveFiles | None = None,
    ) -> None:
        """``live``: lists of files that it shares with others."""
        limits = limits or FileIndexLimits()
        self.count = ReadCount()
        self._footers = FooterCache(cache_directory) if cache_directory is not None else None
        self._live = live or LiveFiles(tables=limits.tables, snapshots=limits.snapshots)
        self._open: BoundedCache[str, OpenFile] = BoundedCache(
            capacity=limits.open_footer_bytes, cost_of=lambda opened: opened.size_bytes
        )
        self._groups: BoundedCache[tuple[str, int], OpenGroup] = BoundedCache(
            capacity=limits.page_layout_bytes, cost_of=lambda group: group.size_bytes
        )
        self._row_groups = row_group_cache(limits.row_group_bytes)
        self._inputs = input_cache(limits.open_inputs)

    def memory_use(self) -> dict[str, tuple[int, int]]:
        """Bytes in each cache, and its bound."""
        return {
            "open_footer_bytes": (self._open.cost, self._open.capacity),
            "page_layout_bytes": (self._groups.cost, self._groups.capacity),
            "row_group_bytes": (self._row_groups.cost, self._row_groups.capacity),
        }

    def files(self, table: TopicTable, partition: int) -> PartitionFiles:
        """What holds a partition's records in the table's snapshot: our files that are whole, and adopted ranges.

        Raises Corrupt, Unavailable.
        """
        return self._live.of(table, partition)

    def covering(self, table: TopicTable, partition: int, offsets: OffsetRange) -> tuple[TableFile, ...]:
        """The files that hold the records of ``offsets``, in order; none where no record was stored.

        Raises Unavailable when the ledger doesn't cover the range yet, Corrupt when it does and a part of the range is
        in no file, nor known to be empty, nor skipped: records are missing. Below the log start files may be gone.
        """
        entry = table.ledger.get(partition)
        if entry is None or not entry.range.covers(offsets):
            raise Unavailable(
                f"offsets {offsets} are not in the table yet" + ("" if entry is None else f", it has {entry.range}"),
                topic=table.topic,
                partition=partition,
                offset=offsets.start,
            )
        table.check_readable(partition, offsets.start)
        found = self._live.of(table, partition).overlapping(offsets)
        if table.is_believed:
            covered = [file.range for file in found]
            covered += [*table.empty.get(partition, ()), *table.skipped.get(partition, ())]
        else:
            covered = [file.range for file in found if not file.parts]
        at = max(offsets.start, table.horizon(partition))
        for part in sorted(covered):
            if part.start > at:
                break
            at = max(at, part.end)
        if at < offsets.end:
            whose = "" if table.foreign is None else f"{SOMEBODY_ELSE}: {table.foreign}: "
            raise Corrupt(
                f"{whose}the ledger says these offsets are in the table, and no file that is proven covers them",
                topic=table.topic,
                partition=partition,
                offset=at,
                next_step="run floeberg fsck on the topic",
            )
        return found

    def open(self, table: TopicTable, file: TableFile) -> OpenFile:
        """Raises Corrupt (missing, another size, no Parquet, another file than its name says), Unavailable."""
        return self._open.get_or_make(file.path, partial(self._opened, table, file))

    def open_group(self, table: TopicTable, opened: OpenFile, index: int) -> OpenGroup:
        """A row group's description and pages. Raises Corrupt, Unavailable."""

        def described() -> OpenGroup:
            group = opened.footer.row_group(index)
            layout = read_page_layout(opened.source, group, offset_column=table.layout.offset)
            return OpenGroup(group=group, layout=layout)

        return self._groups.get_or_make((opened.file.path, index), described)

    def forget(self, path: str) -> None:
        """Drop what is kept of a file that is no longer there, or that turned out damaged."""
        self._open.remove(path)
        self._inputs.remove(path)
        if self._footers is not None:
            self._footers.remove(path)
        # What the rest of a damaged file said: of other files these are read again in a moment.
        self._groups.clear()
        self._row_groups.clear()

    def close(self) -> None:
        """Let go of files and of the disk cache."""
        for cache in (self._open, self._groups, self._row_groups, self._inputs):
            cache.clear()
        if self._footers is not None:
            self._footers.close()

    def _opened(self, table: TopicTable, file: TableFile) -> OpenFile:
        source = RangedFile(
            warehouse=table.warehouse,
            file=file.path,
            size_bytes=file.size_bytes,
            cache=self._row_groups,
            inputs=self._inputs,
            count=self.count,
        )
        footer = self._footer(source)
        check_footer(footer, file.footer_checksum)
        source.expect(footer)
        facts = FileFooter.from_key_values(footer.key_values, file=file.path)
        _check_facts(table, file, facts)
        starts = tuple(facts.window_starts(len(footer.group_at), file=file.path))
        windows = footer.summaries(table.layout.offset).joined(starts)
        _check_windows(file, windows)
        return OpenFile(file=file, source=source, footer=footer, facts=facts, windows=windows, starts=starts)

    def _footer(self, source: RangedFile) -> ParquetFooter:
        kept = self._footers.get(source.file) if self._footers is not None else None
        if kept is not None:
            try:
                return ParquetFooter.parse(kept, file=source.file)
            except Corrupt:
                self.forget(source.file)  # the cache is damaged, not the file, as the next lines find out
        encoded = source.read_footer()
        footer = ParquetFooter.parse(encoded, file=source.file)
        if self._footers is not None:
            self._footers.put(source.file, encoded)
        return footer


def _check_facts(table: TopicTable, file: TableFile, facts: FileFooter) -> None:
    expected = (table.topic_id, file.partition, file.range, file.record_count)
    actual = (facts.topic_id, facts.partition, facts.range, facts.record_count)
    if expected != actual:
        raise Corrupt(
            f"the file's footer says topic {facts.topic_id} partition {facts.partition} offsets {facts.range} with "
            f"{facts.record_count} records; the table says topic {table.topic_id} partition {file.partition} offsets "
            f"{file.range} with {file.record_count}",
            topic=table.topic,
            partition=file.partition,
            file=file.path,
        )


def _check_windows(file: TableFile, windows: RowGroupSummaries) -> None:
    inside = (
        len(windows) > 0
        and windows.is_rising
        and int(windows.first_offset[0]) >= file.range.start
        and int(windows.last_offset[-1]) < file.range.end
        and int(windows.row_count.sum()) == file.record_count
    )
    if not inside:
        raise Corrupt(
            f"the file's rows are not those of offsets {file.range}, {file.record_count} records",
            partition=file.partition,
            file=file.path,
        )
