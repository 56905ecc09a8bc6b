"""Whether the broker's log, as far as it still has it, holds the same records as the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from engine.errors import Corrupt, Unavailable
from engine.fsck.file import CheckedFile
from engine.fsck.report import Damage, Finding, Severity
from engine.kafka_log.segment import AbortedTransaction, Segment, aborted_in
from engine.kafka_log.segment_reader import read_segment
from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST, RangeDigest, digest_of
from engine.records.records import Records
from engine.table.foreign.adopted_rows import adopted_records
from engine.table.proof.stored_records import file_records
from engine.table.topic_table import TopicTable
from engine.topic_partition import TopicIdPartition

_PARTS = 64
"""A range that differs is cut into this many parts, and again, until the first offset that differs is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """A part of a segment that the table should hold too. ``closed`` False for the active segment."""

    path: Path
    range: OffsetRange
    closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogComparison:
    """``compared`` is None where the two could not be held against each other."""

    compared: OffsetRange | None
    finding: Finding | None


def log_ranges(
    segments: Sequence[Segment], *, stored: OffsetRange, skipped: Sequence[OffsetRange]
) -> tuple[LogRange, ...]:
    """The parts of the segments (rising, the last one active) that lie in ``stored`` and were not ``skipped``."""
    found = []
    ends = [segment.base_offset for segment in segments[1:]]
    for index, segment in enumerate(segments):
        closed = index < len(ends)
        end = ends[index] if closed else max(stored.end, segment.base_offset)
        inside = OffsetRange(start=segment.base_offset, end=end).intersection(stored)
        for part in _without(inside, skipped):
            found.append(LogRange(path=segment.log_path, range=part, closed=closed))
    return tuple(found)


def compare_with_log(
    table: TopicTable,
    part: LogRange,
    *,
    partition: TopicIdPartition,
    files: Sequence[CheckedFile],
    aborted: Iterable[AbortedTransaction],
    may_be_compacted: bool,
) -> LogComparison:
    """Hold one part of the log against the files' rows.

    ``files`` those of the partition; a part that touches an unsound one, or two of the same offsets, is not compared:
    that is named already. What the table remembers as erased the log may still have. With ``may_be_compacted`` a log
    with fewer records than the table is no finding: Kafka removed them after they were stored. What the broker deletes
    meanwhile is not compared.
    """
    nothing = LogComparison(compared=None, finding=None)
    touched = [file for file in files if file.range is not None and file.range.overlaps(part.range)]
    if not all(file.is_sound for file in touched) or _overlap(touched):
        return nothing
    dropped = aborted_in(aborted, part.range)

    def log_records(wanted: OffsetRange) -> Iterator[Records]:
        found = read_segment(
            part.path, partition=partition, offsets=wanted, aborted=dropped, closed=part.closed, is_stable=False
        )
        return _without_erased(found, table, partition.partition, lambda: table_records(part.range))

    def table_records(wanted: OffsetRange) -> Iterator[Records]:
        return _table_records(table, touched, wanted)

    try:
        in_log = _digest(log_records(part.range))
    except Unavailable:
        return nothing
    except Corrupt as error:
        return LogComparison(compared=None, finding=_unreadable(error, partition, part))
    in_table = _table_digest(table, touched, part.range)
    if in_log == in_table:
        return LogComparison(compared=part.range, finding=None)
    if may_be_compacted and in_log.record_count < in_table.record_count:
        return nothing
    try:
        first = _first_difference(part.range, log_records, table_records)
    except Unavailable:
        return nothing
    finding = Finding(
        damage=Damage.LOG_DIFFERS,
        message=(
            f"the log holds {in_log.record_count} records with the digest {in_log.to_text()}, the table "
            f"{in_table.record_count} with {in_table.to_text()}; the first difference is at offset {first}"
        ),
        next_step=f"compare offset {first} in both; if the log was truncated after an unclean election, the table "
        "holds what consumers can no longer read from the log",
        topic=partition.topic,
        partition=partition.partition,
        range=part.range,
        file=str(part.path),
    )
    return LogComparison(compared=part.range, finding=finding)


def _without_erased(
    in_log: Iterator[Records], table: TopicTable, partition: int, in_table: Callable[[], Iterator[Records]]
) -> Iterator[Records]:
    """The log's records but for those that were erased: an erased range may hold others, which the table has."""
    erased = table.erased.get(partition)
    if erased is None:
        yield from in_log
        return
    kept = [records.offset[erased.at(records.offset)] for records in in_table()]
    there = np.concatenate([*kept, np.empty(0, np.int64)])
    for records in in_log:
        yield from records.where(~erased.at(records.offset) | np.isin(records.offset, there))


def _unreadable(error: Corrupt, partition: TopicIdPartition, part: LogRange) -> Finding:
    return Finding(
        damage=Damage.LOG_UNREADABLE,
        severity=Severity.WARNING,
        message=error.problem,
        next_step=error.next_step or "the table is not affected; compare the segment with another replica's",
        topic=partition.topic,
        partition=partition.partition,
        range=part.range,
        file=str(part.path),
    )


def _without(whole: OffsetRange | None, holes: Sequence[OffsetRange]) -> list[OffsetRange]:
    if whole is None:
        return []
    parts, at = [], whole.start
    for hole in sorted(holes):
        inside = hole.intersection(whole)
        if inside is None:
            continue
        if inside.start > at:
            parts.append(OffsetRange(start=at, end=inside.start))
        at = max(at, inside.end)
    if at < whole.end:
        parts.append(OffsetRange(start=at, end=whole.end))
    return parts


def _overlap(files: Sequence[CheckedFile]) -> bool:
    ranges = sorted(file.range for file in files if file.range is not None)
    return any(one.overlaps(following) for one, following in pairwise(ranges))


def _digest(blocks: Iterable[Records]) -> RangeDigest:
    digest = EMPTY_DIGEST
    for records in blocks:
        digest = digest.then(digest_of(records))
    return digest


def _table_digest(table: TopicTable, files: Sequence[CheckedFile], wanted: OffsetRange) -> RangeDigest:
    """Of the rows in ``wanted``: a whole file's is known from its check, a part's is computed."""
    digest = EMPTY_DIGEST
    for file in _by_offset(files):
        assert file.range is not None, "only files with a range are touched"
        inside = file.range.intersection(wanted)
        if inside is None:
            continue
        if wanted.covers(file.range) and file.digest is not None:
            digest = digest.then(file.digest)
        else:
            digest = digest.then(_digest(_records_of(table, file, inside)))
    return digest


def _table_records(table: TopicTable, files: Sequence[CheckedFile], wanted: OffsetRange) -> Iterator[Records]:
    for file in _by_offset(files):
        assert file.range is not None, "only files with a range are touched"
        inside = file.range.intersection(wanted)
        if inside is not None:
            yield from _records_of(table, file, inside)


def _records_of(table: TopicTable, file: CheckedFile, wanted: OffsetRange) -> Iterator[Records]:
    if file.adopted is None:
        yield from file_records(table.facts, file.listed.path, wanted)
    else:
        yield from adopted_records(table, file.adopted, wanted)


def _by_offset(files: Sequence[CheckedFile]) -> list[CheckedFile]:
    return sorted(files, key=lambda file: (file.range or OffsetRange(start=0, end=0), file.listed.path))


def _first_difference(
    within: OffsetRange,
    log_records: Callable[[OffsetRange], Iterator[Records]],
    table_records: Callable[[OffsetRange], Iterator[Records]],
) -> int:
    """The first offset of ``within``, which differs as a whole, whose record is not the same in both."""
    while within.offset_count > 1:
        cuts = np.unique(np.linspace(within.start, within.end, min(_PARTS, within.offset_count) + 1).astype(np.int64))
        edges = [int(cut) for cut in cuts]
        pairs = zip(_by_cut(log_records(within), edges), _by_cut(table_records(within), edges), strict=True)
        differing = [index for index, (in_log, in_table) in enumerate(pairs) if in_log != in_table]
        if not differing:
            break
        within = OffsetRange(start=edges[differing[0]], end=edges[differing[0] + 1])
    return within.start


def _by_cut(blocks: Iterable[Records], edges: Sequence[int]) -> list[RangeDigest]:
    """The digest of the records between each two neighbouring edges."""
    digests = [EMPTY_DIGEST] * (len(edges) - 1)
    for records in blocks:
        at = np.searchsorted(records.offset, edges).tolist()
        for index, (start, end) in enumerate(pairwise(at)):
            if start < end:
                digests[index] = digests[index].then(digest_of(records.slice(start, end)))
    return digests
