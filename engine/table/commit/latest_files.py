"""What a ``__latest`` table names, and the columns it shows them with: its changes (docs/latest_by_key.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyiceberg.manifest import DataFile

from engine.table.commit.change import Change, Decision, SchemaUpdate, SnapshotUpdate
from engine.table.latest_line import LATEST_PREFIX, NO_LINE, LatestLine
from engine.table.ledger import Outcome
from engine.table.properties import COLUMNS_PROPERTY, ERASED_PREFIX, STREAM_SWEPT_PROPERTY
from engine.table.sealed_snapshot import AppendFiles, DeltaFiles
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
    """Each partition stands or falls alone: COMMITTED, or GONE where its line is not the one that it was planned on.

    All are GONE where the table is another one than was planned for, or a sweep of the topic's may have removed what
    the state of it listed that they were planned by.
    """

    producer = DeltaFiles

    def __init__(self, planned: Mapping[int, PartitionNaming], *, planned_on: TopicTable, stream: TopicTable) -> None:
        """``stream``: the state of the topic's table that lists the data files."""
        self._planned = dict(sorted(planned.items()))
        self._planned_on = planned_on
        self._stream = stream
        self.partitions = frozenset(planned)

    def decide(self, table: TopicTable) -> Decision:
        is_same_change = table.metadata_location == self._planned_on.metadata_location
        # A line says nothing of files that another program changed: what was planned for that very state is.
        believed = table.lines if table.foreign is None else {}
        may_stand = table.foreign is None or is_same_change
        may_stand &= table.uuid == self._planned_on.uuid
        may_stand &= table.stream_swept <= self._stream.sequence_number
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
    properties |= _lost_lines(table, accepted)
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


def _lost_lines(table: TopicTable, made: Collection[int] = ()) -> Mapping[str, str]:
    """What a commit upon another program's change says of the partitions that it does not make anew."""
    lost = () if table.foreign is None else (partition for partition in table.lines if partition not in made)
    return {f"{LATEST_PREFIX}{partition}": NO_LINE for partition in lost}


class FenceStream(Change):
    """No data file is named any more by a plan of a state of the topic's table from before this one. The fence never
    moves back (sweep_fence.py says why there are fences)."""

    producer = AppendFiles

    def __init__(self, stream: TopicTable) -> None:
        self._from = stream.sequence_number

    def decide(self, table: TopicTable) -> Decision:
        if table.stream_swept >= self._from:
            return Decision()
        return Decision(
            update=SnapshotUpdate(properties={STREAM_SWEPT_PROPERTY: str(self._from), **_lost_lines(table)})
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
