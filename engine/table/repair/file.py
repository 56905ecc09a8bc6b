"""Decodes the records of one data file again, and writes them to another where some get columns that had none.

A pure function of files, for any worker: the table is not changed. Whoever commits the new file has it verified first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Corrupt, FloebergError
from engine.formats.format_facts import facts_of
from engine.parquet.footer import ParquetFooter
from engine.parquet.page_reader import read_rows, whole_group
from engine.parquet.ranged_file import RangedFile, ReadCount, row_group_cache
from engine.parquet.settings import ParquetSettings
from engine.records.digest import RangeDigest
from engine.table.columns import TableLayout
from engine.table.data_file import FileDescription, FileFooter, FileName, check_footer
from engine.table.manifests import TableFile
from engine.table.repair.plan import Missing
from engine.table.rows.record_file import RecordFile
from engine.table.rows.rows import RowCodecs, records_from_rows
from engine.table.topic_table import TableFacts

MOST_REASONS = 100
"""Different reasons counted: there may be one for each record."""

OTHER_REASONS = "other reasons"

_NOTHING_KEPT = 1
"""Bytes of the cache of row groups: each is read once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairTask:
    """Decode ``file`` again by ``table``'s schemas and columns; ``attempt`` makes the new file's name its own."""

    table: TableFacts
    file: TableFile
    attempt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Redecoded:
    """``new`` is None where no record gained anything, or one lost something: nothing was written then.

    ``digest`` of the old file's records, which are the new one's; ``gained`` records with more columns than before, or
    no longer with bytes beside them; ``lost`` the opposite; ``missing`` what the records go without now;
    ``reasons`` counts the rows that keep their bytes, by reason.
    """

    new: FileDescription | None
    digest: RangeDigest
    settings: ParquetSettings | None
    gained: int
    lost: int
    missing: Missing
    reasons: Mapping[str, int]


def repair_file(task: RepairTask) -> Redecoded:
    """Read, decode and, where it gains something, write one file. Memory: one row group, as rows before and after.

    Raises Corrupt, Unavailable, Invalid; nothing was written then.
    """
    try:
        repair = _Repair(task)
        try:
            return repair.run()
        finally:
            repair.close()
    except Corrupt as error:
        raise Corrupt(
            f"a data file can't be repaired: {error.problem}",
            topic=task.table.topic,
            partition=task.file.partition,
            offset=task.file.range.start,
            file=task.file.path,
            next_step="it is left as it is; run floeberg fsck on the topic",
        ) from error
    except FloebergError as error:
        raise error.located(task.table.topic, task.file.partition) from error


def stored_rows(table: TableFacts, file: TableFile) -> Iterator[pa.Table]:
    """A file's rows, a row group at a time. Raises Corrupt, Unavailable."""
    source, parsed = _opened(table, file)
    for index in range(len(parsed.group_at)):
        group = parsed.row_group(index)
        yield read_rows(source, parsed, group, None, whole_group(group, None), is_sequential=True)


def reasons_in(table: TableFacts, file: TableFile) -> Counter[str]:
    """Count of a file's rows that keep their bytes, by reason. Raises as ``stored_rows``."""
    others = frozenset(field.name for field in table.schema if field.name != table.layout.error)
    reasons: Counter[str] = Counter()
    source, parsed = _opened(table, file)
    for index in range(len(parsed.group_at)):
        group = parsed.row_group(index)
        # A column that is null in all rows is not among those that can be read.
        if any(chunk.column.top == table.layout.error for _, chunk in group.readable()):
            rows = read_rows(source, parsed, group, None, whole_group(group, None), unread=others)
            add_reasons(reasons, rows.column(table.layout.error))
    return reasons


def stored_footer(table: TableFacts, file: TableFile) -> FileFooter:
    """What a file of the table says of itself. Raises as ``stored_rows``."""
    _, parsed = _opened(table, file)
    footer = FileFooter.from_key_values(parsed.key_values, file=file.path)
    said = (footer.topic_id, footer.partition, footer.range, footer.record_count)
    if said != (table.topic_id, file.partition, file.range, file.record_count):
        raise Corrupt(f"its footer says offsets {footer.range} of {footer.partition}, {footer.record_count} records")
    return footer


def _opened(table: TableFacts, file: TableFile) -> tuple[RangedFile, ParquetFooter]:
    source = RangedFile(
        warehouse=table.warehouse,
        file=file.path,
        size_bytes=file.size_bytes,
        cache=row_group_cache(_NOTHING_KEPT),
        count=ReadCount(),
    )
    footer = source.footer()
    check_footer(footer, file.footer_checksum)
    return source, footer


@dataclass(slots=True)
class _Tally:
    gained: int = 0
    lost: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, before: pa.Table, after: pa.RecordBatch, table: TableFacts) -> None:
        filled = _filled(after, table) - _filled(before, table)
        kept = _kept(after, table.layout) - _kept(before, table.layout)
        self.gained += int(np.count_nonzero((filled > 0) | (kept < 0)))
        self.lost += int(np.count_nonzero((filled < 0) | (kept > 0)))
        add_reasons(self.reasons, after.column(table.layout.error))


def add_reasons(reasons: Counter[str], column: pa.Array | pa.ChunkedArray) -> None:
    """Count the texts of an error column."""
    for found in column.drop_null().value_counts().to_pylist():
        reasons[found["values"]] += found["counts"]
    bound_reasons(reasons)


def bound_reasons(reasons: Counter[str]) -> None:
    """Those of the fewest rows become one when there are too many."""
    for reason, rows in reasons.most_common()[MOST_REASONS:]:
        del reasons[reason]
        reasons[OTHER_REASONS] += rows


class _Repair:
    def __init__(self, task: RepairTask) -> None:
        self._task = task
        table, file = task.table, task.file
        # What encodes the old rows must not write over what is being decoded: each has scratch memory of its own.
        self._reading, self._codecs = RowCodecs.of(table), RowCodecs.of(table)
        name = FileName(
            partition=file.partition, range=file.range, leader_epoch=file.leader_epoch, attempt=task.attempt
        )
        self._new = RecordFile(table, name, self._codecs)
        self._tally = _Tally()

    def run(self) -> Redecoded:
        table, file = self._task.table, self._task.file
        footer = stored_footer(table, file)
        for before in stored_rows(table, file):
            records = records_from_rows(table.layout, before, self._reading)
            # A schema that is still missing leaves its records as they are, and the new footer names it again.
            self._tally.add(before, self._new.add(records, *self._codecs.decode(records)), table)
        digest, tally = self._new.digest, self._tally
        if digest != footer.digest:
            raise Corrupt(f"its rows have the digest {digest.to_text()}, its footer says {footer.digest.to_text()}")
        is_better = tally.gained > 0 and tally.lost == 0
        return Redecoded(
            new=self._new.finish() if is_better else None,
            digest=digest,
            settings=self._new.settings if is_better else None,
            gained=tally.gained,
            lost=tally.lost,
            missing=Missing(
                codec_version=self._codecs.value.version,
                unresolved=dict(self._new.unresolved),
                key_codec_version=None if self._codecs.key is None else self._codecs.key.version,
                unresolved_keys=dict(self._new.unresolved_keys),
            ),
            reasons=dict(tally.reasons),
        )

    def close(self) -> None:
        self._new.close()


def _filled(rows: pa.Table | pa.RecordBatch, table: TableFacts) -> NDArray[np.int32]:
    """How many of a row's typed columns hold something; how a value was spelled is nothing that anybody gains."""
    own = {name for name in rows.schema.names if table.layout.is_metadata(name) and name != table.layout.key_column}
    own.update(facts_of(table.codec.name).spelling_columns)
    return _valid(rows, [name for name in rows.schema.names if name not in own])


def _kept(rows: pa.Table | pa.RecordBatch, layout: TableLayout) -> NDArray[np.int32]:
    """How many of a row's parts keep their bytes."""
    return _valid(rows, [name for name in (layout.value_raw, layout.key_raw) if name in rows.schema.names])


def _valid(rows: pa.Table | pa.RecordBatch, names: list[str]) -> NDArray[np.int32]:
    valid = np.zeros(rows.num_rows, np.int32)
    for name in names:
        column = rows.column(name)
        if column.null_count:
            valid += column.is_valid().to_numpy(zero_copy_only=False)
        else:
            valid += 1
    return valid
