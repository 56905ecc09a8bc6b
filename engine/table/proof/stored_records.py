"""The records of a stored file as the proof reads them: by pyarrow, every byte against its checksum."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from engine.offset_range import OffsetRange
from engine.parquet.footer import RowGroup
from engine.records.merged_records import merged_pieces
from engine.records.records import Records
from engine.table.data_file import FileFooter
from engine.table.proof.verification import open_rows, opened
from engine.table.rows.rows import RowCodecs, records_from_rows
from engine.table.topic_table import TableFacts


def file_records(table: TableFacts, path: str, wanted: OffsetRange) -> Iterator[Records]:
    """The records of a file that lie in ``wanted``, in blocks. Raises Corrupt (unreadable), Unavailable."""
    codecs = RowCodecs.of(table)
    source = opened(table.warehouse, path)
    parsed = source.footer()
    footer = FileFooter.from_key_values(parsed.key_values, file=path)
    starts = footer.window_starts(len(parsed.group_at), file=path)
    with open_rows(table.warehouse, path, parsed) as file:
        for first_group, end_group in pairwise(starts):
            runs = []
            for index in range(first_group, end_group):
                group = parsed.row_group(index)
                if not _may_hold(group, table.layout.offset, wanted):
                    continue
                source.read([group.data])
                records = records_from_rows(table.layout, file.read_row_group(index, use_threads=False), codecs)
                first, last = np.searchsorted(records.offset, [wanted.start, wanted.end])
                if first < last:
                    runs.append(records.slice(int(first), int(last)))
            if runs:
                yield from merged_pieces(runs)


def _may_hold(group: RowGroup, offset_column: str, wanted: OffsetRange) -> bool:
    """Whether a row group's statistics leave room for a wanted offset."""
    chunk = group.chunk_of(offset_column)
    if chunk is None or chunk.int_bounds is None:
        return True
    first, last = chunk.int_bounds
    return first < wanted.end and last >= wanted.start
