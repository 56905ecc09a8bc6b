"""Decides whether a state of a table may be built upon: Floeberg's own may, another's once it was proven whole."""

from __future__ import annotations

from dataclasses import dataclass

import structlog
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from engine.clock import Clock
from engine.errors import CommitUnknown, Corrupt
from engine.table.catalog import access as catalogs
from engine.table.catalog.access import CommitConflict
from engine.table.commit.plan import stage_adoption
from engine.table.data_file import data_folder
from engine.table.foreign.examination import GatherAll, prove_unbroken
from engine.table.lineage import SOMEBODY_ELSE
from engine.table.loading import TableLoader
from engine.table.states import newer_state
from engine.table.topic_table import TopicTable

JUDGED_AGAIN_MS = 30_000
"""A state that was found broken is looked through again after this long: a file may have been put back."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    metadata_location: str
    error: Corrupt
    judged_ms: int


class TableJudge:
    """One writer's, under the writer's lock."""

    def __init__(self, loader: TableLoader, clock: Clock, gather: GatherAll) -> None:
        self._loader = loader
        self._clock = clock
        self._gather = gather
        self._broken: dict[str, _Verdict] = {}
        self._present: dict[str, str] = {}

    def note_present(self, table: Table, topic_id: str) -> None:
        """This process has seen the topic's table."""
        self._present[topic_id] = table.metadata_location

    def check_newest(self, view: TopicTable) -> None:
        """Raises Corrupt where the catalog points to an earlier state of the table, Unavailable.

        Asked before offsets are recorded as skipped: what Kafka deleted may be in the state that was lost sight of.
        """
        newer = newer_state(view)
        if newer is not None:
            raise Corrupt(
                f"the catalog points to an earlier state of the table than {newer.path}, which may hold the offsets "
                "that would be recorded as skipped",
                topic=view.topic,
                file=view.metadata_location,
                next_step=f"stop Floeberg, register that file, start it, then floeberg fsck {view.topic}; where the "
                "earlier state is the one that is wanted, remove the later metadata files",
            )

    def check_absent(self, catalog: Catalog, topic: str, topic_id: str, *, namespace: str) -> None:
        """Raises Corrupt when a topic without a table had one: it was dropped, and must not begin anew by itself."""
        location = catalogs.default_location(catalog, catalogs.table_identifier(namespace, topic), topic_id)
        seen = self._present.get(topic_id)
        folder = None if location is None else data_folder(location, topic_id)
        left = None
        if seen is None and folder is not None:
            left = next(iter(self._loader.warehouse.list(folder)), None)
        if seen is None and left is None:
            return
        found = seen or f"the newest .metadata.json below {location}"
        raise Corrupt(
            f"{SOMEBODY_ELSE}: it was dropped, or another table has its name, and files of its records are left",
            topic=topic,
            file=location,
            next_step=f"register it again (CALL system.register_table, metadata_file {found}), then floeberg fsck "
            f"{topic}; to begin anew instead, remove the folder and start Floeberg again",
        )

    def settled(self, table: Table) -> Table:
        """The table, sealed again where somebody else had changed it without loss.

        Raises Corrupt, naming what was changed and the next step, Unavailable, CommitConflict (somebody was quicker).
        """
        view = self._loader.view(table)
        change = view.foreign
        if change is None:
            return table
        verdict = self._broken.get(view.topic_id)
        now_ms = self._clock.monotonic_ms()
        is_same = verdict is not None and verdict.metadata_location == table.metadata_location
        if verdict is not None and is_same and now_ms - verdict.judged_ms < JUDGED_AGAIN_MS:
            raise verdict.error
        try:
            properties = prove_unbroken(table, view, change, self._gather)
        except Corrupt as error:
            self._broken[view.topic_id] = _Verdict(
                metadata_location=table.metadata_location, error=error, judged_ms=now_ms
            )
            log.error("foreign_change_breaks_the_stream", topic=view.topic, change=str(change), problem=str(error))
            raise
        transaction, snapshot_id = stage_adoption(table, change, properties)
        try:
            catalogs.commit(table, transaction)
        except CommitUnknown as error:
            raise CommitConflict(f"the adoption was not answered: {error.problem}", topic=view.topic) from error
        self._broken.pop(view.topic_id, None)
        log.warning("foreign_change_adopted", topic=view.topic, change=str(change), sealed_as=snapshot_id)
        return table
