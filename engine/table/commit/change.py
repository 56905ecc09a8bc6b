"""A change of a table: what it asks for, decided on one state of the table, and what it would make of that state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema

from engine.table.data_file import FileDescription
from engine.table.history_limits import HistoryLimits
from engine.table.ledger import Outcome
from engine.table.manifests import TableFile
from engine.table.sealed_snapshot import SealedProducer
from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotUpdate:
    """What a change adds to one snapshot and its summary, takes out, and sets of the table's properties with it.

    ``entries`` and ``entries_gone`` (each with the manifest that lists it): files that are described as another table
    describes them, and delete files.
    ``begun_at`` of the ``entries``, as a ``FileDescription`` has it.
    ``kept`` are those of the ``removed`` that the stream's branch gets, ``came`` new files of that branch alone,
    ``left`` those that leave it. ``schema``: the columns that the table has from this snapshot on, ids included; None
    for those that it has. ``properties_gone``: those that it has no more.
    """

    summary: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    added: tuple[FileDescription, ...] = ()
    removed: tuple[TableFile, ...] = ()
    entries: tuple[DataFile, ...] = ()
    begun_at: int = 0
    entries_gone: tuple[tuple[DataFile, str], ...] = ()
    kept: tuple[TableFile, ...] = ()
    came: tuple[FileDescription, ...] = ()
    left: tuple[TableFile, ...] = ()
    schema: Schema | None = None
    properties_gone: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsUpdate:
    """The columns of value and key that a table gets, and properties; without a snapshot."""

    value_fields: tuple[pa.Field, ...]
    key_fields: tuple[pa.Field, ...]
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryUpdate:
    """Snapshots go, and nothing else changes; ``limits`` None: those of every commit."""

    limits: HistoryLimits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaUpdate:
    """The columns that a table gets in the place of those that it has, ids included, and properties; no snapshot."""

    schema: Schema
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of a change on one state of a table.

    ``outcomes_if_committed`` one for each thing that was asked for; ``update`` None where nothing is to be committed;
    ``is_refused``: something is not done for a reason that a newer state could lift.
    """

    outcomes_if_committed: tuple[Outcome, ...] = ()
    update: SnapshotUpdate | ColumnsUpdate | SchemaUpdate | HistoryUpdate | None = None
    is_refused: bool = False


class Change(ABC):
    """Something that is asked of one table."""

    producer: type[SealedProducer] | None = None
    """Of the snapshot that the change needs; None: it changes columns or the history, without a snapshot."""
    partitions: frozenset[int] = frozenset()
    """Those whose files or ledger lines it changes."""

    def joins(self, other: Change) -> bool:
        """Whether one snapshot can hold both.

        Changes of different partitions have nothing in common but the snapshot, so each is decided as if it were alone.
        """
        same = self.producer is not None and self.producer is other.producer
        return same and self.partitions.isdisjoint(other.partitions)

    @abstractmethod
    def decide(self, table: TopicTable) -> Decision:
        """What the change comes to on a loaded state: asked again for every state that a commit is tried on.

        Raises FloebergError: the change alone fails.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """``outcomes`` as the change asked for them; ``table`` as it is after the commit; ``conflicts`` how often somebody
    else's commit came first, and it was decided again; ``expired`` how many snapshots its commit let go."""

    table: TopicTable
    outcomes: tuple[Outcome, ...]
    conflicts: int = 0
    expired: int = 0


OnCommit: TypeAlias = Callable[[str, int], None]
"""Told of each commit what it changes (append_ranges, replace_data_files, …), and how many milliseconds it took from
the first look at the table until the catalog had it, conflicts included. Called by the thread that commits."""


class ExpireSnapshots(Change):
    """Old snapshots go, as they do with every commit; ``limits`` instead of those of every commit."""

    def __init__(self, limits: HistoryLimits | None = None) -> None:
        self._limits = limits

    def decide(self, table: TopicTable) -> Decision:  # noqa: ARG002 - which ones go is told from all the metadata
        return Decision(update=HistoryUpdate(limits=self._limits))
