"""Writes the records of files that follow each other to one new file; those of one file, decoded again, are a repair.

A pure function of files, for any worker: the table is not changed. Whoever commits the new file has it verified first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import nsmallest

import numpy as np
import pyarrow as pa
import structlog
from numpy.typing import NDArray

from engine.clock import thread_cpu_ms
from engine.errors import Corrupt, Invalid
from engine.formats.codec import EVERY_OTHER_ID, CodecSpec, Decoded
from engine.offset_range import OffsetRange
from engine.parquet.ranged_file import ReadCount
from engine.parquet.settings import ParquetSettings
from engine.records.digest import EMPTY_DIGEST, RangeDigest, digest_of
from engine.table.data_file import FileDescription, FileName
from engine.table.manifests import TableFile
from engine.table.merge.copied_rows import CopiedRows
from engine.table.merge.gain import Gain, Reasons
from engine.table.merge.plan import MOST_IDS_WANTED, Knowledge, Missing, retry_reason
from engine.table.merge.stored_file import StoredFile, named
from engine.table.rows.record_file import RecordFile
from engine.table.rows.rows import RowCodecs, records_from_rows
from engine.table.topic_table import TableFacts
from engine.table.windows import Clustering

LEFT_ALONE = "it is left as it is; run floeberg fsck on the topic"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """Write the records of ``files`` again, by ``table``'s schemas and columns.

    ``files`` of one partition, rising, none of the table's between them; ``attempt`` makes the new file's name its own.
    ``redecode``: all rows become records and columns again, and a file is written only where some gain by it (a
    repair). Else rows are copied, but for those of files that would gain. ``clustering``: what the new file's rows are
    sorted by, as far as the table has such columns; None for stream order. ``without`` int64[n]: offsets whose rows are
    left out (an erasure), None for none. ``read_as``: the table by whose columns and schemas the old files were
    written, None where it is ``table``; with another, all rows are decoded again, whatever they gain.
    """

    table: TableFacts
    files: tuple[TableFile, ...]
    attempt: str
    redecode: bool = False
    clustering: Clustering | None = None
    without: NDArray[np.int64] | None = field(default=None, compare=False)
    read_as: TableFacts | None = None

    def __post_init__(self) -> None:
        """Raises Invalid."""
        pairs = zip(self.files, self.files[1:], strict=False)
        rising = all(one.partition == two.partition and one.range.end <= two.range.start for one, two in pairs)
        if not self.files or not rising or any(file.parts for file in self.files):
            raise Invalid(
                f"{[str(file.range) for file in self.files]} are no files of Floeberg's that can become one",
                topic=self.table.topic,
            )

    @property
    def range(self) -> OffsetRange:
        """From the first file's start to the last one's end, with what lies between them and holds no record."""
        return OffsetRange(start=self.files[0].range.start, end=self.files[-1].range.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """What records read by other columns name that their new codec does not know, of values and of keys; and the
    schemas that it proposes for values that name none."""

    schema_ids: frozenset[int] = frozenset()
    key_schema_ids: frozenset[int] = frozenset()
    proposed: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.schema_ids or self.key_schema_ids or self.proposed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """``new`` is empty where nothing was written: a repair that no record would gain by, or that one would lose by, an
    erasure that leaves none, or records of which something is ``unknown`` that must be found, or given up, first.

    ``digest`` of the old files' records in order, which are the new ones'; ``gained`` records with more columns than
    before, or no longer with bytes beside them; ``lost`` the opposite, which is a bug: a merge then copies that file's
    rows; ``missing`` what the records go without now; ``reasons`` counts the rows that keep their bytes, by reason;
    ``read_bytes`` of the old files, ``cpu_ms`` of the worker's.
    """

    new: tuple[FileDescription, ...]
    digest: RangeDigest
    settings: ParquetSettings | None
    gained: int
    lost: int
    missing: Missing
    reasons: Mapping[str, int]
    read_bytes: int
    unknown: Unknown = Unknown()
    cpu_ms: int = field(compare=False)


def merge_files(task: MergeTask) -> Merged:
    """Read files, one after the other, and write one. Memory: one row group of theirs and one of the new file, or of
    those that are clustered one window twice.

    Raises Corrupt (an old file is not what the table was given, or its rows are not what its footer says), Unavailable,
    Invalid; nothing was written then.
    """
    began_ms, ways = thread_cpu_ms(), _Ways()
    while True:
        merge = _Merge(task, ways)
        try:
            return merge.run(began_ms)
        except _OtherWay as other:
            ways = other.ways
        finally:
            merge.close()


def reasons_in(table: TableFacts, file: TableFile) -> Counter[str]:
    """Count of a file's rows that keep their bytes, by reason. Raises Corrupt, Unavailable."""
    reasons = Reasons()
    others = frozenset(field.name for field in table.schema if field.name != table.layout.error)
    for rows in StoredFile(table=table, file=file, count=ReadCount()).groups(unread=others):
        reasons.add(rows.column(table.layout.error))
    return reasons.counts


@dataclass(frozen=True, slots=True)
class _Ways:
    """Files, by path, that don't go the way that was tried first; ``lost`` records in those ``copied`` after all."""

    decoded: frozenset[str] = frozenset()
    copied: frozenset[str] = frozenset()
    lost: int = 0


class _Stopped(Exception):
    """Something is unknown: the file is no good."""

    def __init__(self, unknown: Unknown) -> None:
        super().__init__()
        self.unknown = unknown


class _OtherWay(Exception):
    """What was written is no good: the merge begins again."""

    def __init__(self, ways: _Ways) -> None:
        super().__init__()
        self.ways = ways


class _Merge:
    def __init__(self, task: MergeTask, ways: _Ways) -> None:
        self._task = task
        self._ways = ways
        self._codecs = RowCodecs.of(task.table)
        self._known = Knowledge.of(task.table, self._codecs)
        self._count = ReadCount()
        self._gain = Gain()
        self._reasons = Reasons()
        self._copies = CopiedRows(task.table.schema)
        epoch = max(file.leader_epoch for file in task.files)
        name = FileName(partition=task.files[0].partition, range=task.range, leader_epoch=epoch, attempt=task.attempt)
        clustering = None if task.clustering is None else task.clustering.within(task.table.schema)
        self._new = RecordFile(task.table, name, self._codecs, clustering=clustering)

    def run(self, began_ms: int) -> Merged:
        try:
            self._add_all()
        except _Stopped as stopped:
            return self._merged(None, began_ms, unknown=stopped.unknown)
        gain = self._gain
        is_repair = self._task.redecode and self._task.read_as is None
        is_better = not is_repair or (gain.gained > 0 and gain.lost == 0)
        return self._merged(self._new.finish() if is_better else None, began_ms)

    def _add_all(self) -> None:
        old = self._task.read_as or self._task.table
        for file in self._task.files:
            with named(self._task.table, file, cannot="be written again", next_step=LEFT_ALONE):
                self._add(StoredFile(table=old, file=file, count=self._count))
        self._write_copies()

    def _merged(self, description: FileDescription | None, began_ms: int, *, unknown: Unknown = Unknown()) -> Merged:
        new, gain = self._new, self._gain
        return Merged(
            new=() if description is None else (description,),
            digest=new.digest,
            settings=None if description is None else new.settings,
            gained=gain.gained,
            lost=gain.lost + self._ways.lost,
            missing=Missing.of(new.footer),
            reasons=dict(self._reasons.counts),
            read_bytes=self._count.read_bytes,
            unknown=unknown,
            cpu_ms=thread_cpu_ms() - began_ms,
        )

    def _add(self, stored: StoredFile) -> None:
        path = stored.file.path
        is_other = self._task.read_as is not None
        decodes = is_other or self._task.redecode or path in self._ways.decoded or self._would_gain(stored)
        if decodes and path not in self._ways.copied:
            self._write_copies()
            self._decode(stored)
        else:
            self._copy(stored)

    def _would_gain(self, stored: StoredFile) -> bool:
        return stored.file.reason_rows != 0 and retry_reason(Missing.of(stored.footer), self._known) is not None

    def _copy(self, stored: StoredFile) -> None:
        """Rows as they are, in the columns of now. Their digest is the footer's: the proof of the new file compares."""
        error, reasons = self._task.table.layout.error, 0
        digest = stored.footer.digest if self._task.without is None else EMPTY_DIGEST
        for rows in map(self._kept, stored.rows()):
            if not rows.num_rows:
                continue
            if self._task.without is not None:
                digest = digest.then(digest_of(records_from_rows(self._task.table.layout, rows, self._reading)))
            if error in rows.schema.names:
                why = rows.column(error)
                self._reasons.add(why)
                reasons += len(why) - why.null_count
            if not self._copies.fits(rows):
                self._write_copies()
            self._copies.add(stored.file.path, rows)
        self._new.note_copied(stored.footer, digest=digest, has_reasons=reasons > 0)

    def _kept(self, rows: pa.Table) -> pa.Table:
        """The rows that the new file gets."""
        if self._task.without is None:
            return rows
        goes = np.isin(rows.column(self._task.table.layout.offset).to_numpy(), self._task.without)
        return rows.filter(pa.array(~goes)).combine_chunks() if bool(goes.any()) else rows

    def _write_copies(self) -> None:
        copied = frozenset(self._copies.files)
        try:
            for rows in self._copies.take():
                self._new.copy(rows)
        except Invalid as error:
            _log.warning("rows_not_copied", topic=self._task.table.topic, files=sorted(copied), problem=error.problem)
            raise _OtherWay(replace(self._ways, decoded=self._ways.decoded | copied)) from error

    def _decode(self, stored: StoredFile) -> None:
        """Rows to records as consumers get them, and to rows by what is known now."""
        table, digest, gain = self._task.table, EMPTY_DIGEST, Gain()
        for rows in stored.rows():
            records = records_from_rows(table.layout, rows, self._reading)
            digest = digest.then(digest_of(records))
            before = self._kept(rows)
            if before is not rows:
                records = records_from_rows(table.layout, before, self._reading)
            if not before.num_rows:
                continue
            # A schema that is still missing leaves its records as they are, and the new footer names it again.
            value, key = self._codecs.decode(records)
            if self._task.read_as is not None and (unknown := _unknown(value, key, table)):
                raise _Stopped(unknown)
            after = self._new.add(records, value, key)
            if self._task.read_as is None:
                gain.add(before, after, table)
            self._reasons.add(after.column(table.layout.error))
        said = stored.footer.digest
        if digest != said:
            raise Corrupt(f"its rows have the digest {digest.to_text()}, its footer says {said.to_text()}")
        if gain.lost and not self._task.redecode and stored.file.path not in self._ways.decoded:
            ways = self._ways
            raise _OtherWay(replace(ways, copied=ways.copied | {stored.file.path}, lost=ways.lost + gain.lost))
        self._gain.gained += gain.gained
        self._gain.lost += gain.lost

    @cached_property
    def _reading(self) -> RowCodecs:
        """What encodes the old rows must not write over what is being decoded: it has scratch memory of its own."""
        return RowCodecs.of(self._task.read_as or self._task.table)

    def close(self) -> None:
        self._new.close()


def _unknown(value: Decoded, key: Decoded | None, table: TableFacts) -> Unknown:
    return Unknown(
        schema_ids=_missing(value, table.codec),
        key_schema_ids=frozenset() if key is None else _missing(key, table.key_codec),
        proposed=frozenset() if value.proposed_schema is None else frozenset({value.proposed_schema}),
    )


def _missing(decoded: Decoded, spec: CodecSpec | None) -> frozenset[int]:
    if spec is None or EVERY_OTHER_ID in spec.unresolved:
        return frozenset()
    return frozenset(nsmallest(MOST_IDS_WANTED, decoded.missing_schema_ids))
