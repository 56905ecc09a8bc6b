"""Whether a table that somebody else changed still holds every record that was stored: the proof, or what is wrong.

Pure: files as manifests list them, digests of our own files, and evidence of what others wrote. A partition is whole
when the digest of everything its files hold, in offset order, is the ledger's. See docs/commit_protocol.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.offset_range import OffsetRange
from engine.records.digest import RangeDigest
from engine.records.digest_runs import DigestRuns
from engine.table.adopted_range import AdoptedRange, ForeignFile
from engine.table.foreign.evidence import ForeignEvidence
from engine.table.ledger import LedgerEntry
from engine.table.manifests import TableFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What keeps a partition from being whole; ``range`` the offsets it is about, where they are known."""

    partition: int
    problem: str
    range: OffsetRange | None = None
    file: str | None = None

    def __str__(self) -> str:
        where = f" offsets {self.range}" if self.range is not None else ""
        return f"partition {self.partition}{where}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFound:
    """One partition as it was found.

    ``own`` our files with their digests; ``evidence`` of the others' files; ``known_empty`` ranges without a record,
    skipped ones included; ``before`` ranges as they were stored, with their digests, of files that are gone (those of
    them that are still known): they tell where something is missing.
    """

    partition: int
    ledger: LedgerEntry | None
    own: tuple[tuple[TableFile, RangeDigest], ...]
    evidence: tuple[ForeignEvidence, ...]
    known_empty: tuple[OffsetRange, ...]
    before: tuple[tuple[OffsetRange, RangeDigest], ...] = ()


def judge_partition(found: PartitionFound) -> tuple[AdoptedRange, ...] | Difference:
    """The ranges that others' files hold, where the partition is whole; else the first thing that is wrong."""
    entry = found.ledger
    if entry is None:
        held = sum(file.record_count for file, _ in found.own) + sum(e.file.record_count for e in found.evidence)
        return Difference(partition=found.partition, problem=f"{held} rows are there and no ledger line counts them")
    foreign = DigestRuns.joined(evidence.runs for evidence in found.evidence)
    own = [(file.range, digest) for file, digest in found.own]
    if entry.gone is not None:
        own.append((_gone_range(entry), entry.gone.digest))
    whole = DigestRuns.joined([*(DigestRuns.of_digest(offsets, digest) for offsets, digest in own), foreign])
    difference = _difference(found, entry, whole)
    return _adopted(found, entry) if difference is None else difference


def _gone_range(entry: LedgerEntry) -> OffsetRange:
    return OffsetRange(start=entry.start, end=entry.held.start)


def _difference(found: PartitionFound, entry: LedgerEntry, whole: DigestRuns) -> Difference | None:
    partition = found.partition
    repeated = whole.first_repeated
    if repeated is not None:
        span = OffsetRange(start=repeated, end=repeated + 1)
        return Difference(partition=partition, problem="rows were added: this offset is there twice", range=span)
    if len(whole):
        first, last = int(whole.first[0]), int(whole.last[-1])
        if first < entry.start or last >= entry.end:
            span = OffsetRange(start=min(first, entry.end), end=last + 1)
            return Difference(partition=partition, problem=f"rows were added outside of {entry.range}", range=span)
    if whole.digest == entry.digest:
        return None
    for expected, digest in found.before:
        problem = _changed(whole.inside(expected), expected, digest)
        if problem is not None:
            return Difference(partition=partition, problem=problem, range=expected)
    missing = entry.digest.record_count - whole.digest.record_count
    if missing > 0:
        holes = [hole for hole in _holes(entry.held, whole, found.known_empty) if hole.offset_count <= missing]
        problem = f"{missing} records of {entry.digest.record_count} are missing"
        return Difference(partition=partition, problem=problem, range=max(holes, default=None, key=_length))
    if missing < 0:
        problem = f"there are {-missing} rows more than the {entry.digest.record_count} records that were stored"
        return Difference(partition=partition, problem=problem, range=entry.range)
    return Difference(partition=partition, problem="records were changed", range=entry.range)


def _changed(inside: DigestRuns, expected: OffsetRange, digest: RangeDigest) -> str | None:
    found = inside.digest
    if found == digest:
        return None
    if found.record_count == digest.record_count:
        return "records were changed: they are not those that were stored"
    if found.record_count > digest.record_count:
        return f"there are {found.record_count - digest.record_count} rows more than were stored"
    hole = next(_holes(expected, inside, ()), None)
    first = "" if hole is None else f", the first of them at or after offset {hole.start}"
    return f"{digest.record_count - found.record_count} of {digest.record_count} records are missing{first}"


def _holes(within: OffsetRange, runs: DigestRuns, empty: Sequence[OffsetRange]) -> Iterator[OffsetRange]:
    """Offsets that no run reaches, rising."""
    starts = np.concatenate([runs.first, np.array([part.start for part in empty], np.int64), [within.end]])
    ends = np.concatenate([runs.last + 1, np.array([part.end for part in empty], np.int64), [within.end]])
    order = np.argsort(starts, kind="stable")
    reached = np.maximum(np.maximum.accumulate(np.concatenate([[within.start], ends[order]]))[:-1], within.start)
    for at in np.flatnonzero(starts[order] > reached).tolist():
        yield OffsetRange(start=int(reached[at]), end=int(starts[order][at]))


def _length(offsets: OffsetRange) -> int:
    return offsets.offset_count


def _adopted(found: PartitionFound, entry: LedgerEntry) -> tuple[AdoptedRange, ...]:
    """The ranges between our own files that others' files fill, each as small as the files' rows allow.

    That the partition is whole proves that no record is at the offsets between: a range reaches up to the next.
    """
    gone = [] if entry.gone is None else [_gone_range(entry)]
    covered = sorted([*gone, *(file.range for file, _ in found.own), *found.known_empty])
    spans = _spans(found.evidence, covered)
    known = sorted([*covered, *(offsets for offsets, _ in spans)])
    adopted = []
    for offsets, files in spans:
        at = known.index(offsets)
        before = known[at - 1].end if at else entry.start
        following = known[at + 1].start if at + 1 < len(known) else entry.end
        start = offsets.start
        if at == 0 or known[at - 1] in covered:
            start = before
        runs = DigestRuns.joined(evidence.runs.inside(offsets) for evidence in files)
        adopted.append(
            AdoptedRange(
                partition=found.partition,
                range=OffsetRange(start=start, end=following),
                digest=runs.digest,
                files=tuple(sorted(evidence.file for evidence in files)),
            )
        )
    return tuple(adopted)


def _spans(
    evidence: Sequence[ForeignEvidence], covered: Sequence[OffsetRange]
) -> list[tuple[OffsetRange, list[ForeignEvidence]]]:
    """Offsets that belong together: stretches of files between our own ones, those that overlap made one."""
    edges = np.array([part.start for part in covered], np.int64)
    stretches: list[tuple[int, int, ForeignEvidence]] = []
    for one in evidence:
        between = np.searchsorted(edges, one.runs.first, "right")
        for gap in np.unique(between).tolist():
            runs = one.runs.select(between == gap)
            stretches.append((int(runs.first[0]), int(runs.last[-1]) + 1, one))
    spans: list[tuple[OffsetRange, list[ForeignEvidence]]] = []
    for start, end, one in sorted(stretches, key=lambda stretch: stretch[:2]):
        if spans and start < spans[-1][0].end:
            offsets, files = spans[-1]
            spans[-1] = (OffsetRange(start=offsets.start, end=max(offsets.end, end)), [*files, one])
        else:
            spans.append((OffsetRange(start=start, end=end), [one]))
    return spans


def files_by_partition(files: Mapping[ForeignFile, int]) -> dict[int, list[ForeignFile]]:
    """Foreign files, grouped and sorted."""
    grouped: dict[int, list[ForeignFile]] = {}
    for file in sorted(files):
        grouped.setdefault(file.partition, []).append(file)
    return grouped
