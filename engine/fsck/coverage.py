"""Whether a partition's files cover what its ledger says, each offset once: pure, on ranges and digests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.fsck.report import Damage, Finding
from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST, RangeDigest
from engine.table.ledger import LedgerEntry

_RESTORE = "restore the file of these offsets (a copy of the warehouse, or the topic's log while the broker has it)"
_LEDGER = "compare the ledger's table property with an earlier metadata file of the table before any new commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCoverage:
    """What one file stands for in its partition.

    ``record_count`` as the manifest has it; ``digest`` that of the file's rows, None where they can't be read;
    ``is_streams``: the stream's branch lists it, and the table does not.
    """

    path: str
    range: OffsetRange
    record_count: int
    digest: RangeDigest | None
    is_streams: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCoverage:
    """All that one partition's coverage is judged by.

    ``skipped`` offsets Kafka deleted before they could be stored, ``empty`` ranges that hold no record: both are
    covered without a file.
    """

    topic: str
    partition: int
    ledger: LedgerEntry | None
    skipped: tuple[OffsetRange, ...]
    empty: tuple[OffsetRange, ...]
    files: tuple[FileCoverage, ...]

    def finding(
        self,
        damage: Damage,
        message: str,
        next_step: str,
        *,
        offsets: OffsetRange,
        file: str | None = None,
    ) -> Finding:
        return Finding(
            damage=damage,
            message=message,
            next_step=next_step,
            topic=self.topic,
            partition=self.partition,
            range=offsets,
            file=file,
        )


def combined_digest(files: Iterable[FileCoverage]) -> RangeDigest | None:
    """The digest of all rows in offset order, or None when a file's own is not known."""
    digest = EMPTY_DIGEST
    for file in sorted(files, key=lambda file: file.range):
        if file.digest is None:
            return None
        digest = digest.then(file.digest)
    return digest


def check_coverage(coverage: PartitionCoverage) -> list[Finding]:
    """Findings of overlap, of gaps, and of a ledger that disagrees with the files."""
    ledger = coverage.ledger
    if ledger is None:
        message = "a file of a partition that has no ledger"
        return [
            coverage.finding(Damage.LEDGER_MISMATCH, message, _LEDGER, offsets=file.range, file=file.path)
            for file in coverage.files
        ]
    findings = [*_overlaps(coverage), *_beyond_ledger(coverage, ledger), *_across_horizon(coverage, ledger)]
    once = _each_offset_once(coverage.files)
    held = combined_digest(once)
    digest = None if held is None else ledger.gone_digest.then(held)
    counted = ledger.gone_digest.record_count + sum(file.record_count for file in once)
    counted = counted if digest is None else digest.record_count
    differs = counted != ledger.digest.record_count or digest not in {None, ledger.digest}
    holes = _holes(ledger.held, [*(file.range for file in coverage.files), *coverage.skipped, *coverage.empty])
    if holes and differs:
        missing = ledger.digest.record_count - counted
        message = f"no file holds offsets that the ledger counts; the partition misses {missing} records in all"
        findings += [coverage.finding(Damage.LOST_RANGE, message, _RESTORE, offsets=hole) for hole in holes]
    elif holes:
        message = "offsets are in no file and recorded neither as empty nor as skipped, though no record is missing"
        findings += [coverage.finding(Damage.LEDGER_MISMATCH, message, _LEDGER, offsets=hole) for hole in holes]
    elif differs and not findings:
        found = f"the digest {digest.to_text()}" if digest is not None else f"{counted} records"
        also = "" if ledger.gone is None else f", with what is gone below {ledger.gone.end}"
        message = f"the files hold {found}{also}, the ledger says {ledger.digest.to_text()}"
        findings.append(coverage.finding(Damage.LEDGER_MISMATCH, message, _LEDGER, offsets=ledger.range))
    return findings


def _overlaps(coverage: PartitionCoverage) -> list[Finding]:
    findings = []
    reached: FileCoverage | None = None
    for file in sorted(coverage.files, key=lambda file: (file.range, file.path)):
        if reached is not None and (both := reached.range.intersection(file.range)):
            message = f"the files {reached.path} and {file.path} hold the same offsets"
            step = "remove the one that a crashed or foreign writer added, in one Iceberg commit"
            findings.append(coverage.finding(Damage.DUPLICATED_RANGE, message, step, offsets=both, file=file.path))
        if reached is None or file.range.end > reached.range.end:
            reached = file
        for fileless in (*coverage.skipped, *coverage.empty):
            # The range of a file that was made of several covers what lay between them.
            is_between = file.range.start < fileless.start and fileless.end < file.range.end
            if not is_between and (both := fileless.intersection(file.range)):
                message = "offsets are recorded as skipped or empty and a file holds them"
                findings.append(
                    coverage.finding(Damage.LEDGER_MISMATCH, message, _LEDGER, offsets=both, file=file.path)
                )
    return findings


def _each_offset_once(files: Sequence[FileCoverage]) -> list[FileCoverage]:
    """The files without those that begin inside an earlier one, so that a duplicate does not look like a loss too."""
    kept: list[FileCoverage] = []
    for file in sorted(files, key=lambda file: (file.range, file.path)):
        if not kept or file.range.start >= kept[-1].range.end:
            kept.append(file)
    return kept


def _beyond_ledger(coverage: PartitionCoverage, ledger: LedgerEntry) -> list[Finding]:
    message = f"a file holds offsets that the ledger {ledger.held} does not count"
    return [
        coverage.finding(Damage.LEDGER_MISMATCH, message, _LEDGER, offsets=file.range, file=file.path)
        for file in sorted(coverage.files, key=lambda file: file.range)
        if not ledger.held.covers(file.range)
    ]


def _across_horizon(coverage: PartitionCoverage, ledger: LedgerEntry) -> list[Finding]:
    """Files on the wrong side of the table's horizon: SQL engines see too much, or too little."""
    findings = []
    for file in sorted(coverage.files, key=lambda file: file.range):
        is_below = file.range.start < ledger.table_start
        if is_below == file.is_streams or not ledger.held.covers(file.range):
            continue
        where = "only the stream's branch lists it" if file.is_streams else "the table still lists it"
        side = "below" if is_below else "above"
        message = f"a file lies {side} the table's horizon {ledger.table_start}, and {where}"
        findings.append(coverage.finding(Damage.LEDGER_MISMATCH, message, _LEDGER, offsets=file.range, file=file.path))
    return findings


def _holes(within: OffsetRange, covered: Sequence[OffsetRange]) -> list[OffsetRange]:
    holes, at = [], within.start
    for item in sorted(covered):
        if item.start > at:
            holes.append(OffsetRange(start=at, end=min(item.start, within.end)))
        at = max(at, item.end)
        if at >= within.end:
            return holes
    if at < within.end:
        holes.append(OffsetRange(start=at, end=within.end))
    return holes
