"""Wrong ways to remove files: what docs/retention.md forbids."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from pyiceberg.table.metadata import TableMetadata

from engine.table.commit import session
from engine.table.reachability import ReachableFiles
from engine.table.topic_table import TopicTable
from retention import table_sweep, unreferenced
from retention.sweep_planner import Due
from retention.unreferenced import TableMoment, reasons_to_keep


def fence_not_looked_at() -> AbstractContextManager[Any]:
    """A process that stood still commits a file from before the fence."""
    return mock.patch.object(session, "check_begun_since_swept")


def no_fence() -> AbstractContextManager[Any]:
    """What was unnamed for the whole grace goes, whoever may be about to name it."""

    def kept(due: Due, at: TableMoment) -> Iterator[str]:
        return (reason for reason in reasons_to_keep(due, at) if reason != "a commit may take it still")

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(table_sweep, "_fence_for", return_value=None))
    stack.enter_context(mock.patch.object(unreferenced, "reasons_to_keep", kept))
    return stack


def sweep_knows_main_alone() -> AbstractContextManager[Any]:
    """What branches and older snapshots name counts for nothing."""
    right = ReachableFiles.of

    def of(self: ReachableFiles, view: TopicTable, metadata: TableMetadata) -> Any:
        newest = [one for one in metadata.snapshots if one.snapshot_id == metadata.current_snapshot_id]
        return right(self, view, metadata.model_copy(update={"snapshots": newest}))

    return mock.patch.object(ReachableFiles, "of", of)
