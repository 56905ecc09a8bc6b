"""Wrong ways to end history: what docs/retention.md forbids of horizons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from engine.table.commit.change import SnapshotUpdate
from engine.table.commit.horizon_move import MoveHorizons
from engine.table.ledger import LEDGER_PREFIX, LedgerEntry
from engine.table.topic_table import TopicTable


def branch_forgotten() -> AbstractContextManager[Any]:
    """What leaves the table is listed nowhere, whether consumers have it or not."""
    return _moving(lambda update, _: replace(update, kept=()))


def gone_before_consumers_are_told() -> AbstractContextManager[Any]:
    """Files leave the stream's branch by a log start that the ledger does not get."""
    return _with_lines(lambda line, before: replace(line, log_start=before.log_start))


def horizon_of_the_table_not_recorded() -> AbstractContextManager[Any]:
    """Files leave the table, and its line says that it has them."""
    return _with_lines(lambda line, before: replace(line, table_start=before.table_start))


def _with_lines(change: Callable[[LedgerEntry, LedgerEntry], LedgerEntry]) -> AbstractContextManager[Any]:
    def changed(update: SnapshotUpdate, table: TopicTable) -> SnapshotUpdate:
        properties = dict(update.properties)
        for name, text in update.properties.items():
            if name.startswith(LEDGER_PREFIX):
                before = table.ledger[int(name.removeprefix(LEDGER_PREFIX))]
                properties[name] = change(LedgerEntry.from_json(text), before).to_json()
        return replace(update, properties=properties)

    return _moving(changed)


def _moving(change: Callable[[SnapshotUpdate, TopicTable], SnapshotUpdate]) -> AbstractContextManager[Any]:
    right = MoveHorizons._update

    def update(self: MoveHorizons, table: TopicTable, moves: Mapping[int, Any], files: Any) -> SnapshotUpdate:
        return change(right(self, table, moves, files), table)

    return mock.patch.object(MoveHorizons, "_update", update)
