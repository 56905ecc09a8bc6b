"""Decides whether a state of a table may be built upon: Floeberg's own may, another's once it was proven whole."""

from __future__ import annotations

from dataclasses import dataclass

import structlog
from pyiceberg.table import Table

from engine.clock import Clock
from engine.errors import CommitUnknown, Corrupt
from engine.table.commit.change import SnapshotUpdate
from engine.table.commit.transaction import CommitConflict, TableTransaction
from engine.table.data_file import data_folder
from engine.table.foreign.examination import GatherAll, prove_unbroken
from engine.table.lineage import SOMEBODY_ELSE, ForeignChange
from engine.table.loading import TableLoader
from engine.table.seal import schema_seal_property
from engine.table.sealed_snapshot import AppendFiles
from engine.table.topic_table import TopicTable

JUDGED_AGAIN_MS = 30_000
"""A state that was found broken is looked through again after this long: a file may have been put back."""

ADOPTED_SUMMARY = "floeberg.adopted"
"""In a snapshot's summary: whose change it seals."""

_SNAPSHOTS_TOLD = 8

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    metadata_location: str
    error: Corrupt
    judged_ms: int


class TableJudge:
    """Of one table. For one thread at a time."""

    def __init__(self, loader: TableLoader, clock: Clock, gather: GatherAll) -> None:
        self._loader = loader
        self._clock = clock
        self._gather = gather
        self._broken: _Verdict | None = None
        self._seen: str | None = None

    def note_present(self, table: Table) -> None:
        """This process has seen the topic's table."""
        self._seen = table.metadata_location

    def check_absent(self, topic: str, topic_id: str, location: str | None) -> None:
        """Raises Corrupt when a topic without a table had one: it was dropped, and must not begin again by itself.

        ``location`` where its table would lie, None where the catalog alone knows.
        """
        folder = None if location is None else data_folder(location, topic_id)
        if self._seen is None and (folder is None or next(iter(self._loader.warehouse.list(folder)), None) is None):
            return
        found = self._seen or f"the newest .metadata.json below {location}"
        raise Corrupt(
            f"{SOMEBODY_ELSE}: it was dropped, or another table has its name, and files of its records are left",
            topic=topic,
            file=location,
            next_step=f"register it again (CALL system.register_table, metadata_file {found}), then floeberg fsck "
            f"{topic}; to begin from nothing instead, remove the folder and start Floeberg again",
        )

    def adopt_if_intact(self, table: Table) -> TopicTable:
        """The table's view; a state that somebody else changed without loss is sealed again first, by a commit.

        Raises Corrupt, naming what was changed and the next step, Unavailable, CommitConflict (somebody was quicker).
        """
        view = self._loader.view(table)
        if view.foreign is None:
            return view
        verdict, now_ms = self._broken, self._clock.monotonic_ms()
        is_known = verdict is not None and verdict.metadata_location == table.metadata_location
        if verdict is not None and is_known and now_ms - verdict.judged_ms < JUDGED_AGAIN_MS:
            raise verdict.error
        try:
            properties = prove_unbroken(table, view, view.foreign, self._gather)
        except Corrupt as error:
            self._broken = _Verdict(metadata_location=table.metadata_location, error=error, judged_ms=now_ms)
            log.error(
                "foreign_change_breaks_the_stream", topic=view.topic, change=str(view.foreign), problem=str(error)
            )
            raise
        transaction = TableTransaction(table)
        sealed_as = transaction.stage_snapshot(AppendFiles, [_adoption(table, view.foreign, properties)])
        try:
            transaction.commit_once()
        except CommitUnknown as error:
            raise CommitConflict(f"the adoption was not answered: {error.problem}", topic=view.topic) from error
        self._broken = None
        log.warning("foreign_change_adopted", topic=view.topic, change=str(view.foreign), sealed_as=sealed_as)
        return self._loader.view(table)


def _adoption(table: Table, change: ForeignChange, properties: dict[str, str]) -> SnapshotUpdate:
    """An empty snapshot, whose summary names theirs. ``properties`` what was found out of the files and the columns."""
    told = ", ".join(map(str, change.snapshots[-_SNAPSHOTS_TOLD:]))
    return SnapshotUpdate(
        summary={ADOPTED_SUMMARY: told or "columns"},
        properties={**properties, **schema_seal_property(table.metadata)},
    )
