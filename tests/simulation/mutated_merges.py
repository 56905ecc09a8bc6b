"""Wrong ways to merge files and to read where others were: what docs/compaction.md and commit_protocol.md forbid."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId

from compaction import replacing, topic_merge
from compaction.planner import MergeGroup, MergePlan, plan_merges
from engine.table.commit import replacement
from engine.table.commit.replacement import FileReplacement, ReplaceDataFiles
from engine.table.commit.transaction import TableTransaction
from engine.table.ledger import Outcome
from engine.table.live_files import LiveFiles, PartitionFiles
from engine.table.manifests import SnapshotFiles
from engine.table.proof.verification import Verification
from engine.table.topic_table import TopicTable
from tests.simulation.mutated_commits import evidence_as_told, newest_of
from workers.workers import ReadBackTask


def group_with_a_hole() -> AbstractContextManager[Any]:
    """The files in the middle of a group stay behind, and nobody looks for what else is in its range."""

    def plan(*args: Any, **named: Any) -> MergePlan:
        planned = plan_merges(*args, **named)
        groups = (MergeGroup(files=(group.files[0], group.files[-1]), reason=group.reason) for group in planned.groups)
        return replace(planned, groups=tuple(groups))

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(topic_merge, "plan_merges", plan))
    stack.enter_context(_accepted_where(lambda listed, asked: all(old.path in listed for old in asked.old)))
    return stack


def merged_file_not_read_back() -> AbstractContextManager[Any]:
    def read(task: ReadBackTask) -> tuple[Verification, int]:
        return evidence_as_told(task), 0

    return mock.patch.object(replacing, "timed_read_back", read)


def changed_group_replaced_all_the_same() -> AbstractContextManager[Any]:
    """What others made of the old files stays beside the new one."""
    right = ReplaceDataFiles._update

    def update(
        self: ReplaceDataFiles, table: TopicTable, accepted: Sequence[FileReplacement], files: SnapshotFiles
    ) -> Any:
        listed = {file.path for file in files.own}
        others = (old for asked in accepted for old in asked.old if old.path not in listed)
        planned = right(self, table, accepted, replace(files, own=(*files.own, *others)))
        return replace(planned, removed=tuple(old for old in planned.removed if old.path in listed))

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(ReplaceDataFiles, "_update", update))
    stack.enter_context(_accepted_where(lambda *_: True))
    return stack


def append_beside_a_replacement_lost() -> AbstractContextManager[Any]:
    """A replacement lands on whatever is newest, with the manifests of the state that it was decided on."""
    right = TableTransaction.commit_once

    def commit(transaction: TableTransaction) -> None:
        table, newest = transaction._table, newest_of(transaction)
        if newest.metadata.current_snapshot_id == table.metadata.current_snapshot_id or not _replaces(transaction):
            return right(transaction)
        transaction._updates = tuple(_moved(update, newest.metadata) for update in transaction._updates)
        transaction._requirements = tuple(
            one for one in transaction._requirements if not isinstance(one, AssertRefSnapshotId)
        )
        return right(transaction)

    return mock.patch.object(TableTransaction, "commit_once", commit)


def replaced_file_offered_to_new_readers() -> AbstractContextManager[Any]:
    """Files that were listed once are offered for good, with those that came after them."""
    right = LiveFiles.of
    known: dict[tuple[int, str, int], PartitionFiles] = {}

    def of(self: LiveFiles, table: TopicTable, partition: int) -> PartitionFiles:
        found, key = right(self, table, partition), (id(self), table.location, partition)
        before = known.get(key, PartitionFiles()).files
        end = before[-1].range.end if before else 0
        known[key] = PartitionFiles(files=(*before, *(file for file in found.files if file.range.start >= end)))
        return known[key]

    return mock.patch.object(LiveFiles, "of", of)


def _accepted_where(may: Callable[[set[str], FileReplacement], bool]) -> AbstractContextManager[Any]:
    def decide(
        files: SnapshotFiles, replacements: Sequence[FileReplacement], adopted: Mapping[int, Any]
    ) -> tuple[tuple[Outcome, ...], tuple[FileReplacement, ...]]:
        listed = {file.path for file in files.own}
        accepted = tuple(asked for asked in replacements if may(listed, asked))
        outcomes = (Outcome.COMMITTED if asked in accepted else Outcome.GONE for asked in replacements)
        return tuple(outcomes), accepted

    return mock.patch.object(replacement, "decide_replacements", decide)


def _replaces(transaction: TableTransaction) -> bool:
    snapshots = [update.snapshot for update in transaction._updates if isinstance(update, AddSnapshotUpdate)]
    return any(one.summary is not None and one.summary.operation is Operation.REPLACE for one in snapshots)


def _moved(update: Any, newest: Any) -> Any:
    """A snapshot with the number that the catalog takes next."""
    if not isinstance(update, AddSnapshotUpdate):
        return update
    after = {"sequence_number": newest.last_sequence_number + 1, "parent_snapshot_id": newest.current_snapshot_id}
    return update.model_copy(update={"snapshot": update.snapshot.model_copy(update=after)})
