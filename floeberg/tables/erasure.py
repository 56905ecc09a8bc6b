"""An erasure from its begin to its report, over one catalog."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from engine.clock import Clock
from engine.errors import Invalid
from engine.table.catalog import access as catalogs
from engine.table.commit.writer import TableWriter
from engine.table.history import MAY_BE_UNANSWERED_MS, from_before_erasures
from engine.table.proof.verifier import VerifiedErasure, Verifier
from engine.table.topic_table import TopicTable
from retention.erasure import EraseOrder, TableErasure
from retention.erasure_condition import Condition
from retention.erasure_finding import Finder
from retention.erasure_holders import names_old_files, refs_that_keep
from retention.erasure_report import ErasureReport, ErasureReports, PartitionErased, hashed
from retention.sweep_limits import SweepLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Eraser:
    """``sweep`` as the daemon sweeps; ``on_file`` is called for each file that was looked through."""

    catalog: Catalog
    writer: TableWriter
    clock: Clock
    sweep: SweepLimits = field(default_factory=SweepLimits)
    on_file: Callable[[], object] = lambda: None

    def erase(
        self, table: TopicTable, condition: Condition, *, keys: Collection[bytes] = (), where: str | None = None
    ) -> ErasureReport:
        """``keys`` or ``where`` are what ``condition`` was made of. Raises Unavailable, Corrupt, CommitUnknown,
        Invalid; what was committed before it stays, and is in the report."""
        reports = ErasureReports(warehouse=table.warehouse, location=table.location, topic=table.topic)
        report = self._new_report(table, keys, where)
        reports.put(report)

        def on_committed(now: TopicTable, done: Sequence[VerifiedErasure]) -> None:
            report.note(now, done)
            reports.put(report)

        work = TableErasure(
            table=table,
            order=EraseOrder(erasure_id=report.erasure_id, at_ms=report.began_ms),
            finder=Finder(condition=condition, on_file=self.on_file),
            writer=self.writer,
            verifier=Verifier(),
            clock=self.clock,
            on_committed=on_committed,
        )
        found = work.run()
        for number, entry in work.table.ledger.items():
            digest = entry.digest.to_text()
            one = report.partitions.setdefault(number, PartitionErased(up_to=0, before=digest, after=digest))
            one.up_to = entry.end
        report.left = (*map(str, found.unreadable.values()), *map(str, work.failed.values()))
        report.others_files = dict(work.taken)
        self._end_history(work.table, report)
        report.ended_ms = self.clock.now_ms()
        reports.put(report)
        return report

    def _new_report(self, table: TopicTable, keys: Collection[bytes], where: str | None) -> ErasureReport:
        salt = self.clock.new_id()
        return ErasureReport(
            erasure_id=self.clock.new_id(),
            topic=table.topic,
            topic_id=table.topic_id,
            table=".".join(table.identifier),
            began_ms=self.clock.now_ms(),
            salt=salt,
            keys=tuple(sorted(hashed(bytes.fromhex(salt), key) for key in keys)),
            condition=None if where is None else hashed(bytes.fromhex(salt), where.encode()),
        )

    def _end_history(self, table: TopicTable, report: ErasureReport) -> None:
        self.writer.expire(table)
        metadata = _metadata(self.catalog, table)
        kept_by = list(refs_that_keep(table, metadata, report.files))
        if report.others_files:
            kept_by.append(
                f"{len(report.others_files)} files of another program, which no sweep of ours removes, had some of the "
                "records: remove them with it (Spark: CALL system.remove_orphan_files) once the history is cut"
            )
        report.kept_by = tuple(kept_by)
        old = [snapshot.timestamp_ms for snapshot in from_before_erasures(metadata.snapshots, metadata.refs)]
        if old:
            report.history_until_ms = max(old) + MAY_BE_UNANSWERED_MS
        report.gone_by_ms = self.gone_by_ms(report.history_until_ms or self.clock.now_ms())

    def gone_by_ms(self, history_until_ms: int) -> int:
        """When the files are gone that no snapshot names from ``history_until_ms`` on, where a daemon sweeps: the first
        sweep after it cuts the history and sees them unnamed, one after the grace removes them."""
        return history_until_ms + self.sweep.interval_ms + self.sweep.grace_ms + self.sweep.interval_ms

    @staticmethod
    def still_named(catalog: Catalog, table: TopicTable, report: ErasureReport) -> list[str]:
        """What names an old file now, in words. Raises Unavailable, Corrupt."""
        metadata = _metadata(catalog, table)
        named = list(refs_that_keep(table, metadata, report.files))
        if names_old_files(table, metadata, report.files):
            named.append("the table's history names old files")
        latest = catalogs.latest_identifier(table.identifier)
        beside = catalogs.load(catalog, latest)
        if beside is not None and names_old_files(_placed(table, beside), beside.metadata, report.files):
            named.append(f"the table {'.'.join(latest)} names old files")
        return named


def _placed(table: TopicTable, beside: Table) -> TopicTable:
    """Where another table is, for reading its metadata."""
    return replace(table, location=beside.location(), metadata_location=beside.metadata_location, adopted={})


def _metadata(catalog: Catalog, table: TopicTable) -> TableMetadata:
    loaded = catalogs.load(catalog, table.identifier)
    if loaded is None:
        raise Invalid("the topic's table is gone from the catalog", topic=table.topic)
    return loaded.metadata
