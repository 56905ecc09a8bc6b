"""What a ``__latest`` table names, and the columns it shows them with: its changes (docs/latest_by_key.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.manifest import DataFile

from engine.table.commit.change import Change, Decision, SchemaUpdate, SnapshotUpdate
from engine.table.latest_line import LATEST_PREFIX, NO_LINE, LatestLine
from engine.table.ledger import Outcome
from engine.table.properties import COLUMNS_PROPERTY, ERASED_PREFIX
from engine.table.sealed_snapshot import DeltaFiles
from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionNaming:
    """How one partition is to be named: data files and delete files that come, and those that go, each with the
    manifest that lists it, in the state whose line was ``planned_on`` (None: it had none)."""

    planned_on: LatestLine | None
    line: LatestLine
    coming: tuple[DataFile, ...] = ()
    going: tuple[tuple[DataFile, str], ...] = ()


class NameFiles(Change):
    """Each partition stands or falls alone: COMMITTED, or GONE where its line is not the one that it was planned on."""

    producer = DeltaFiles

    def __init__(self, planned: Mapping[int, PartitionNaming], *, planned_on: TopicTable) -> None:
        self._planned = dict(sorted(planned.items()))
        self._planned_on = planned_on
        self.partitions = frozenset(planned)

    def decide(self, table: TopicTable) -> Decision:
        is_same_change = table.metadata_location == self._planned_on.metadata_location
        # A line says nothing of files that another program changed: what was planned for that very state is.
        believed = table.lines if table.foreign is None else {}
        may_stand = table.foreign is None or is_same_change
        accepted = {
            partition: files
            for partition, files in self._planned.items()
            if may_stand and believed.get(partition) == files.planned_on
        }
        there = {partition for partition, files in self._planned.items() if believed.get(partition) == files.line}
        outcomes = tuple(
            Outcome.COMMITTED if partition in accepted or partition in there else Outcome.GONE
            for partition in self._planned
        )
        if not accepted:
            return Decision(outcomes_if_committed=outcomes, is_refused=Outcome.GONE in outcomes)
        return Decision(
            outcomes_if_committed=outcomes,
            update=_update(table, accepted, begun_at=self._planned_on.sequence_number),
            is_refused=Outcome.GONE in outcomes,
        )


def _update(table: TopicTable, accepted: Mapping[int, PartitionNaming], *, begun_at: int) -> SnapshotUpdate:
    properties = {f"{LATEST_PREFIX}{partition}": files.line.to_json() for partition, files in accepted.items()}
    if table.foreign is not None:
        lost = (partition for partition in table.lines if partition not in accepted)
        properties |= {f"{LATEST_PREFIX}{partition}": NO_LINE for partition in lost}
    ends = {f"{LATEST_PREFIX}{partition}": str(files.line.end) for partition, files in accepted.items()}
    # No snapshot from before an erasure is kept: the old files, which it names, are to go.
    erased = {
        f"{ERASED_PREFIX}{partition}": str(files.line.erased)
        for partition, files in accepted.items()
        if files.line.erased != (0 if files.planned_on is None else files.planned_on.erased)
    }
    return SnapshotUpdate(
        summary={**ends, **erased},
        properties=properties,
        entries=tuple(entry for files in accepted.values() for entry in files.coming),
        begun_at=begun_at,
        entries_gone=tuple(gone for files in accepted.values() for gone in files.going),
    )


@dataclass(frozen=True, kw_only=True)
class FollowColumns(Change):
    """The columns of the topic's table, under their ids, before a file is named that has them."""

    stream: TopicTable

    def decide(self, table: TopicTable) -> Decision:
        wanted, own = self.stream.shown_schema, self.stream.iceberg_schema
        is_same = (
            table.shown_schema.as_struct() == wanted.as_struct()
            and table.iceberg_schema.as_struct() == own.as_struct()
            and not (table.foreign is not None and table.foreign.schema_changed)
        )
        if is_same:
            return Decision()
        return Decision(update=SchemaUpdate(schema=wanted, properties={COLUMNS_PROPERTY: own.model_dump_json()}))
