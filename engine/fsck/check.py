"""The proof over a table: every offset the ledger counts is there once, every file is what it says, the log agrees.

Nothing is changed. All CPU goes into reading each file once and turning its rows back into records (about three
seconds a GiB of values), spread over threads; the kernels and Arrow let go of the interpreter's lock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from engine.errors import Corrupt, FloebergError, Unavailable
from engine.fsck.catalog import older_state
from engine.fsck.coverage import FileCoverage, PartitionCoverage, check_coverage, combined_digest
from engine.fsck.file import CheckedFile, ListedFile, check_file
from engine.fsck.foreign import check_adopted, judge_foreign_change
from engine.fsck.log import LogComparison, LogRange, compare_with_log, log_ranges
from engine.fsck.manifest import list_files
from engine.fsck.report import Damage, Finding, FsckReport, PartitionSummary, Severity
from engine.kafka_log.log_directory import PartitionDirectory, scan_log_directories
from engine.kafka_log.segment import AbortedTransaction, Segment, list_segments, read_transaction_index
from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST, RangeDigest
from engine.table.erased import ErasedRecords
from engine.table.manifests import ManifestReader, TableFile, live_ranges
from engine.table.proof.verifier import first_hole
from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckProgress:
    """How far a check is, in bytes of table files and of log segments together."""

    done_bytes: int
    total_bytes: int


OnProgress = Callable[[FsckProgress], None]


def fsck_table(
    table: TopicTable,
    *,
    log_dirs: Sequence[Path] = (),
    may_be_compacted: bool = False,
    held: Mapping[int, Sequence[OffsetRange]] | None = None,
    parallelism: int = 2,
    on_progress: OnProgress | None = None,
) -> FsckReport:
    """Check one table at the snapshot ``table`` was loaded with, and against the log where ``log_dirs`` have some.

    ``may_be_compacted``: the topic's ``cleanup.policy`` holds ``compact``, so that its log may have lost records that
    the table keeps. ``held`` by partition: what is kept for tiering elsewhere than in the log. ``on_progress`` is
    called from several threads, one at a time. Memory: one row group and one block of the log for each of
    ``parallelism`` threads.

    Raises Unavailable when the warehouse does not answer; everything else that is wrong is a finding.
    """
    findings: list[Finding] = []
    try:
        older = older_state(table)
        findings += [] if older is None else [older]
        table, foreign_findings = judge_foreign_change(table)
        findings += foreign_findings
        if table.foreign is not None and table.foreign.rules_edited:
            return _report(table, (), findings)
        manifests = ManifestReader().files(table)  # first: what is sealed is not decoded before it is compared
        listing = list_files(table)
        ranges = [file for file in live_ranges(table, manifests) if file.parts]
    except Corrupt as error:
        return _report(table, (), [*findings, _metadata_finding(table, error)])
    streams = {file.path for file in manifests.stream}
    adopted_paths = {part.path for file in ranges for part in file.parts}
    own = [file for file in listing.files if file.path not in adopted_paths]
    findings += [_untrue_finding(table, path, said) for path, said in listing.untrue]
    findings += [
        Finding(
            damage=Damage.DELETE_FILES,
            message="a SQL engine deleted rows of the table: reads by offset still see them",
            next_step="roll the table back to the snapshot before, with the engine that deleted",
            topic=table.topic,
            file=path,
        )
        for path in listing.delete_paths
    ]
    segments, log_findings = _segments(table, log_dirs)
    findings += [*log_findings, *_between_table_and_log(table, segments, held or {})]
    meter = _Meter(on_progress=on_progress)
    meter.total_bytes = sum(file.size_bytes for file in listing.files) + sum(
        segment.size_bytes for local in segments.values() for segment in local.segments
    )
    with ThreadPoolExecutor(max_workers=max(1, parallelism), thread_name_prefix="fsck") as pool:
        try:
            checked = _check_files(table, _once(own, findings, table), ranges, pool, meter)
            compared = _compare_logs(table, checked, segments, may_be_compacted, pool, meter)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    partitions = sorted({*table.ledger, *checked})
    summaries = []
    for partition in partitions:
        coverage = _coverage(table, partition, checked[partition], streams)
        found = _partition_findings(coverage, checked[partition], compared[partition])
        findings += found
        summaries.append(_summary(table, coverage, checked[partition], compared[partition], len(found)))
    return _report(table, summaries, findings)


@dataclass(slots=True, kw_only=True)
class _Meter:
    on_progress: OnProgress | None
    total_bytes: int = 0
    done_bytes: int = 0
    lock: Lock = field(default_factory=Lock)

    def add(self, size_bytes: int) -> None:
        with self.lock:
            self.done_bytes += size_bytes
            if self.on_progress is not None:
                # A file of another size than its manifest says must not end beyond the total.
                done_bytes = min(self.done_bytes, self.total_bytes)
                self.on_progress(FsckProgress(done_bytes=done_bytes, total_bytes=self.total_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LocalLog:
    """What one partition's directory has. ``aborted`` of all its indexes: a marker may lie in a later segment."""

    directory: PartitionDirectory
    segments: tuple[Segment, ...]
    aborted: tuple[AbortedTransaction, ...]


def _once(files: Iterable[ListedFile], findings: list[Finding], table: TopicTable) -> list[ListedFile]:
    """Each path once; one that the manifests name twice is a finding, and reading it twice would tell nothing."""
    seen: dict[str, ListedFile] = {}
    for file in files:
        if file.path in seen:
            findings.append(
                Finding(
                    damage=Damage.DUPLICATED_RANGE,
                    message="the manifests name the same file more than once: SQL engines see its rows twice",
                    next_step="remove one of the entries in one Iceberg commit",
                    topic=table.topic,
                    partition=file.partition,
                    file=file.path,
                )
            )
        seen[file.path] = file
    return list(seen.values())


def _check_files(
    table: TopicTable, files: Iterable[ListedFile], ranges: Iterable[TableFile], pool: ThreadPoolExecutor, meter: _Meter
) -> defaultdict[int, list[CheckedFile]]:
    facts = table.facts
    running = [pool.submit(check_file, facts, file) for file in files]
    running += [pool.submit(check_adopted, table, file) for file in ranges]
    checked: defaultdict[int, list[CheckedFile]] = defaultdict(list)
    for future in as_completed(running):
        file = future.result()
        checked[file.listed.partition].append(file)
        meter.add(file.listed.size_bytes)
    return checked


def _segments(table: TopicTable, log_dirs: Sequence[Path]) -> tuple[dict[int, _LocalLog], list[Finding]]:
    """The local logs of this incarnation of the topic; what can't be read of them is a warning."""
    local: dict[int, _LocalLog] = {}
    findings: list[Finding] = []
    for directory in scan_log_directories(log_dirs).live:
        partition = directory.partition
        if partition.topic_id != table.topic_id:
            continue
        try:
            segments = list_segments(directory.path)
            indexes = [read_transaction_index(segment.transaction_index_path) for segment in segments]
        except Unavailable:
            continue  # deleted or moved meanwhile
        except FloebergError as error:
            findings.append(
                Finding(
                    damage=Damage.LOG_UNREADABLE,
                    severity=Severity.WARNING,
                    message=error.problem,
                    next_step=error.next_step or "the table is not affected; compare with another replica",
                    topic=table.topic,
                    partition=partition.partition,
                    file=error.file or str(directory.path),
                )
            )
            continue
        aborted = tuple(entry for index in indexes for entry in index)
        local[partition.partition] = _LocalLog(directory=directory, segments=segments, aborted=aborted)
    return local, findings


def _compare_logs(
    table: TopicTable,
    checked: defaultdict[int, list[CheckedFile]],
    local: dict[int, _LocalLog],
    may_be_compacted: bool,
    pool: ThreadPoolExecutor,
    meter: _Meter,
) -> defaultdict[int, list[LogComparison]]:
    running: dict[Future[LogComparison], tuple[int, LogRange]] = {}
    for partition, log in local.items():
        ledger = table.ledger.get(partition)
        if ledger is None:
            continue
        for part in log_ranges(log.segments, stored=ledger.held, skipped=table.skipped.get(partition, ())):
            future = pool.submit(
                compare_with_log,
                table,
                part,
                partition=log.directory.partition,
                files=tuple(checked[partition]),
                aborted=log.aborted,
                may_be_compacted=may_be_compacted,
            )
            running[future] = (partition, part)
    sizes = {segment.log_path: segment.size_bytes for log in local.values() for segment in log.segments}
    compared: defaultdict[int, list[LogComparison]] = defaultdict(list)
    for future in as_completed(running):
        partition, part = running[future]
        compared[partition].append(future.result())
        meter.add(sizes.pop(part.path, 0))
    meter.add(sum(sizes.values()))
    return compared


def _partition_findings(
    coverage: PartitionCoverage, files: Sequence[CheckedFile], compared: Sequence[LogComparison]
) -> list[Finding]:
    found = [finding for file in sorted(files, key=lambda file: file.listed.path) for finding in file.findings]
    found += check_coverage(coverage)
    differences = [comparison.finding for comparison in compared if comparison.finding is not None]
    found += sorted(differences, key=lambda finding: finding.range or OffsetRange(start=0, end=0))
    return found


def _coverage(
    table: TopicTable, partition: int, files: Sequence[CheckedFile], streams: Container[str]
) -> PartitionCoverage:
    return PartitionCoverage(
        topic=table.topic,
        partition=partition,
        ledger=table.ledger.get(partition),
        skipped=table.skipped.get(partition, ()),
        empty=table.empty.get(partition, ()),
        files=tuple(
            FileCoverage(
                path=file.listed.path,
                range=file.range,
                record_count=file.listed.record_count,
                digest=file.digest,
                is_streams=file.listed.path in streams,
            )
            for file in files
            if file.range is not None
        ),
    )


def _summary(
    table: TopicTable,
    coverage: PartitionCoverage,
    files: Sequence[CheckedFile],
    compared: Sequence[LogComparison],
    finding_count: int,
) -> PartitionSummary:
    partition, ledger = coverage.partition, coverage.ledger
    digest: RangeDigest | None = combined_digest(coverage.files)
    return PartitionSummary(
        partition=partition,
        ledger=None if ledger is None else ledger.range,
        log_start=None if ledger is None else ledger.log_start,
        table_start=None if ledger is None else max(ledger.start, ledger.table_start),
        file_count=len({path for file in files for path in file.paths}),
        record_count=sum(file.listed.record_count for file in files),
        size_bytes=sum(file.listed.size_bytes for file in files),
        digest=(digest or EMPTY_DIGEST).to_text(),
        skipped=table.skipped.get(partition, ()),
        compared=_joined(comparison.compared for comparison in compared),
        erased_count=table.erased.get(partition, ErasedRecords()).record_count,
        finding_count=finding_count,
    )


def _joined(ranges: Iterable[OffsetRange | None]) -> tuple[OffsetRange, ...]:
    joined: list[OffsetRange] = []
    for item in sorted(item for item in ranges if item is not None):
        if joined and item.start <= joined[-1].end:
            joined[-1] = replace(joined[-1], end=max(joined[-1].end, item.end))
        else:
            joined.append(item)
    return tuple(joined)


def _metadata_finding(table: TopicTable, error: Corrupt) -> Finding:
    return Finding(
        damage=Damage.DAMAGED_METADATA,
        message=error.problem,
        next_step=error.next_step or "restore the metadata file, or point the catalog at an earlier metadata.json",
        topic=table.topic,
        file=error.file,
    )


def _untrue_finding(table: TopicTable, manifest: str, said: str) -> Finding:
    return Finding(
        damage=Damage.FALSE_BOUNDS,
        message=said,
        next_step="rewrite the manifests (CALL system.rewrite_manifests): SQL engines may pass over files until then",
        topic=table.topic,
        file=manifest,
    )


def _between_table_and_log(
    table: TopicTable, logs: Mapping[int, _LocalLog], held: Mapping[int, Sequence[OffsetRange]]
) -> list[Finding]:
    """Offsets beyond the ledger's end that the log does not have any more."""
    findings = []
    for partition, log in sorted(logs.items()):
        entry = table.ledger.get(partition)
        if entry is None or not log.segments or log.segments[0].base_offset <= entry.end:
            continue
        missing = OffsetRange(start=entry.end, end=log.segments[0].base_offset)
        if first_hole(missing, list(held.get(partition, ()))) is None:
            continue
        findings.append(
            Finding(
                damage=Damage.LOST_RANGE,
                message=f"the ledger ends at {missing.start} and the log begins at {missing.end}: neither has the "
                "offsets between",
                next_step="if the catalog was put back, register the table's newest metadata file; where Kafka deleted "
                "them before they could be stored, the next commit records them as skipped",
                topic=table.topic,
                partition=partition,
                range=missing,
                file=str(log.directory.path),
            )
        )
    return findings


def _report(table: TopicTable, partitions: Iterable[PartitionSummary], findings: Iterable[Finding]) -> FsckReport:
    return FsckReport(
        table=".".join(table.identifier),
        topic=table.topic,
        topic_id=table.topic_id,
        snapshot_id=table.snapshot_id,
        partitions=tuple(partitions),
        findings=tuple(findings),
    )
