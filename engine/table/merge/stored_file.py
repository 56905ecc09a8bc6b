"""A file of the table as it is read to be written again: its footer checked, its rows in offset order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from engine.errors import Corrupt, FloebergError
from engine.parquet.footer import ByteRange, ParquetFooter
from engine.parquet.page_reader import decoded_groups, read_rows, whole_group
from engine.parquet.ranged_file import RangedFile, ReadCount, row_group_cache
from engine.table.data_file import FileFooter, check_footer
from engine.table.manifests import TableFile
from engine.table.rows.window_rows import in_offset_order
from engine.table.topic_table import TableFacts

WHOLE_FILE_BYTES = 4 << 20
"""A file of up to this size is read by one request, and by the library alone: of a file of a few rows, taking row
groups apart costs more than decoding them."""

_NOTHING_KEPT = 1
"""Bytes of the cache of row groups: each is read once."""


@contextmanager
def named(table: TableFacts, file: TableFile, *, cannot: str, next_step: str) -> Iterator[None]:
    """What goes wrong with a file within the block names it; ``cannot`` says what damage keeps it from."""
    try:
        yield
    except Corrupt as error:
        raise Corrupt(
            f"a data file can't {cannot}: {error.problem}",
            topic=table.topic,
            partition=file.partition,
            offset=file.range.start,
            file=file.path,
            next_step=next_step,
        ) from error
    except FloebergError as error:
        raise error.located(table.topic, file.partition) from error


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """Every byte that is read is checked against the file's own checksums, and those against the manifest's; ``count``
    of what was read."""

    table: TableFacts
    file: TableFile
    count: ReadCount

    @cached_property
    def _source(self) -> RangedFile:
        return RangedFile(
            warehouse=self.table.warehouse,
            file=self.file.path,
            size_bytes=self.file.size_bytes,
            cache=row_group_cache(_NOTHING_KEPT),
            count=self.count,
        )

    @cached_property
    def _parsed(self) -> ParquetFooter:
        footer = self._source.footer()
        check_footer(footer, self.file.footer_checksum)
        return footer

    @cached_property
    def footer(self) -> FileFooter:
        """What the file says of itself. Raises Corrupt, Unavailable."""
        file = self.file
        footer = FileFooter.from_key_values(self._parsed.key_values, file=file.path)
        said = (footer.topic_id, footer.partition, footer.range, footer.record_count)
        if said != (self.table.topic_id, file.partition, file.range, file.record_count):
            raise Corrupt(
                f"its footer says offsets {footer.range} of {footer.partition}, {footer.record_count} records"
            )
        return footer

    def rows(self) -> Iterator[pa.Table]:
        """In offset order, up to a row group at a time, in plain columns; those that are null in all of these may be
        left out. Raises Corrupt, Unavailable.
        """
        starts = self.footer.window_starts(len(self._parsed.group_at), file=self.file.path)
        return in_offset_order(self.groups(), starts, self.table.layout.offset)

    def groups(self, *, unread: frozenset[str] = frozenset()) -> Iterator[pa.Table]:
        """A row group at a time, in the file's order; columns that are null in all of its rows, and those ``unread``,
        are left out. Raises Corrupt, Unavailable."""
        source, parsed = self._source, self._parsed
        if self.file.size_bytes <= WHOLE_FILE_BYTES and not unread:
            (content,) = source.read([ByteRange(start=0, size=self.file.size_bytes)])
            yield from decoded_groups(content, self.file.path)
            return
        for index in range(len(parsed.group_at)):
            group = parsed.row_group(index)
            if any(chunk.column.top not in unread for _, chunk in group.readable()):
                run = whole_group(group, None)
                yield read_rows(source, parsed, group, None, run, is_sequential=True, unread=unread, is_plain=True)
