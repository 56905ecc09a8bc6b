"""Wrong ways to show each key's newest record: what docs/latest_by_key.md forbids."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from engine.table.commit import latest_files
from engine.table.commit.latest_files import NameFiles
from engine.table.latest_line import LatestLine
from engine.topic_partition import TopicIdPartition
from latest import key_index, partition_work
from latest.key_fold import Fold
from latest.partition_work import PartitionWork, Prepared
from latest.planner import PartitionPlan, PartitionState, plan_partition
from latest.topic_latest import TopicLatest
from retention.swept_table import SweptTable


def erasure_not_noticed() -> AbstractContextManager[Any]:
    """Line and index say nothing of what was erased."""
    return mock.patch.object(PartitionWork, "_erased", return_value=0)


def index_taken_for_the_table() -> AbstractContextManager[Any]:
    """The index is told first, and what it has counts as committed."""
    right = TopicLatest._committed

    def committed(self: TopicLatest, latest: Any, prepared: dict[int, Prepared], work: Any, turn: Any) -> Any:
        for partition, one in prepared.items():
            if one.fold is not None:
                work.note(partition, one.fold)
        return right(self, latest, prepared, work, turn)

    def plan(state: PartitionState, **named: Any) -> PartitionPlan:
        if state.line_end is not None and state.folded is not None and state.line_end < state.folded:
            state = replace(state, line_end=state.folded)
        return plan_partition(state, **named)

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(TopicLatest, "_committed", committed))
    stack.enter_context(mock.patch.object(partition_work, "plan_partition", plan))
    return stack


def keys_of_all_partitions_together() -> AbstractContextManager[Any]:
    """A key of one partition supersedes the same key of another."""
    right = key_index.KeyIndex.newest
    write = key_index.KeyIndex.write

    def newest(self: Any, partition: TopicIdPartition, keys: Any) -> NDArray[np.int64]:
        return np.maximum(right(self, partition, keys), right(self, replace(partition, partition=99), keys))

    def written(self: Any, partition: TopicIdPartition, **named: Any) -> None:
        write(self, partition, **named)
        write(self, replace(partition, partition=99), **named)

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(key_index.KeyIndex, "newest", newest))
    stack.enter_context(mock.patch.object(key_index.KeyIndex, "write", written))
    return stack


def sweep_does_not_ask_it() -> AbstractContextManager[Any]:
    """Files that it alone names still are swept."""
    return mock.patch.object(SweptTable, "_related", return_value=())


def file_named_again() -> AbstractContextManager[Any]:
    """A file whose visible rows change is listed once more."""
    right = PartitionWork._name

    def name(self: PartitionWork, made: Any, file: Any, named: Any, is_gone: Any, before: Any) -> None:
        right(self, made, file, named, is_gone, before)
        if file.path in named.data and not is_gone.all():
            made.named[file.path] = file.manifest

    return mock.patch.object(PartitionWork, "_name", name)


def batch_taken_in_twice() -> AbstractContextManager[Any]:
    """The line stays where it was, so that a commit's records are new ones again in the next."""
    right = PartitionWork._line

    def line(self: PartitionWork, partition: int, plan: PartitionPlan) -> LatestLine:
        found = right(self, partition, plan)
        return replace(found, end=max(plan.fold.start, 1))

    return mock.patch.object(PartitionWork, "_line", line)


def tombstones_shown() -> AbstractContextManager[Any]:
    return mock.patch.object(Fold, "shown", property(lambda self: np.sort(self.offsets)))


def plan_of_before_committed() -> AbstractContextManager[Any]:
    """What was planned on another line is committed all the same."""
    right = NameFiles.decide

    def decide(self: NameFiles, table: Any) -> Any:
        planned = self._planned
        self._planned = {number: replace(one, planned_on=table.lines.get(number)) for number, one in planned.items()}
        try:
            return right(self, table)
        finally:
            self._planned = planned

    return mock.patch.object(latest_files.NameFiles, "decide", decide)
