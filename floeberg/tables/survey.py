"""What ``fsck`` looks at: every table of the catalog, those that can't be loaded, and those that the catalog lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg.catalog import Catalog

from engine.errors import Corrupt, Invalid
from engine.fsck.catalog import (
    damaged_table,
    exchanged_names,
    is_retired,
    report_of_findings,
    unregistered_tables,
)
from engine.fsck.check import fsck_table
from engine.fsck.report import Damage, Finding, FsckReport
from engine.table.catalog.access import Identifier, check_database, namespace_folder, table_identifier, warehouse_of
from engine.table.topic_table import TopicTable
from floeberg.tables.topic_tables import TopicTables
from retention.table_drop import DroppedTable
from serving.log.auxiliary_store import AuxiliaryStore


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSurvey:
    """``reports`` of tables that can't be looked into any further; ``tables`` to check; ``misnamed`` by their names
    those that stand under another's."""

    reports: tuple[FsckReport, ...]
    tables: tuple[TopicTable, ...]
    misnamed: Mapping[Identifier, Finding]

    def check(self, table: TopicTable, **options: Any) -> FsckReport:
        """The whole report of one of ``tables``; ``options`` as ``fsck_table`` takes them. Raises Unavailable."""
        report = fsck_table(table, **options)
        misnamed = self.misnamed.get(table.identifier)
        findings = [] if misnamed is None else [misnamed]
        return replace(report, findings=(*findings, *report.findings, *_auxiliary_findings(table)))


def survey_tables(
    open_it: Callable[[], Catalog], namespace: str, *, topic: str | None = None, dropped: Collection[DroppedTable] = ()
) -> TableSurvey:
    """What there is to check of a namespace, or of one topic. ``dropped`` on purpose: nobody lost those. Raises
    Unavailable, Invalid (the topic has no table)."""
    try:
        catalog = open_it()
        tables = TopicTables(catalog, namespace)
        check_database(catalog)
        listed = tables.listed()
    except Corrupt as error:
        finding = Finding(
            damage=Damage.DAMAGED_METADATA,
            message=error.problem,
            next_step=error.next_step
            or "restore the catalog's database (catalog.db), or register the tables again "
            "(docs/runbook.md, Backup and restore)",
            topic=topic or "every topic",
            file=error.file,
        )
        report = report_of_findings("catalog", finding.topic, "", [finding])
        return TableSurvey(reports=(report,), tables=(), misnamed={})
    found = [one.table for one in listed if one.table is not None]
    lost = unregistered_tables(
        warehouse_of(catalog),
        namespace_folder(catalog, namespace),
        locations=[*(table.location for table in found), *(one.location for one in dropped)],
        damaged=[one.identifier for one in listed if one.error is not None],
    )
    reports = [damaged_table(one.identifier, one.error) for one in listed if one.error is not None]
    reports += lost
    misnamed = exchanged_names(found)
    if topic is not None:
        name = table_identifier(namespace, topic)[-1]
        reports = [report for report in reports if name in {report.table.rpartition(".")[2], report.topic}]
        found = [table for table in found if table.topic == topic and not is_retired(table)]
        if not found and not reports:
            found = [tables.named(topic)]
    return TableSurvey(reports=tuple(reports), tables=tuple(found), misnamed=misnamed)


def _auxiliary_findings(table: TopicTable) -> Sequence[Finding]:
    """What is kept for followers beside the table."""
    store = AuxiliaryStore()
    findings = []
    for partition in sorted(table.ledger):
        for offsets in sorted(store.ranges(table, partition)):
            try:
                store.get(table, partition, offsets)
            except (Corrupt, Invalid) as error:
                findings.append(
                    Finding(
                        damage=Damage.DAMAGED_FILE,
                        message=f"what followers need of a segment is damaged: {error.problem}",
                        next_step="restore the file from a copy of the warehouse, or remove it: reads go on without it",
                        topic=table.topic,
                        partition=partition,
                        range=offsets,
                        file=error.file,
                    )
                )
    return findings
