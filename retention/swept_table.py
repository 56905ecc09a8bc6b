"""A topic's table as a sweep needs it: as the catalog has it at one moment, with the tables that name its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from engine.errors import Invalid
from engine.table.catalog import access as catalogs
from engine.table.catalog.access import Identifier
from engine.table.loading import TableLoader
from engine.table.properties import KIND_PROPERTY, LATEST_KIND, STREAM_SWEPT_PROPERTY, TOPIC_ID_PROPERTY
from engine.table.reachability import NamedFiles, ReachableFiles
from engine.table.states import newer_state
from engine.table.topic_table import NEVER_SWEPT, TopicTable

_GARBAGE_COLLECTED = "gc.enabled"
"""Iceberg's own table property: false where others, another catalog's branches say, may need what the table does not
name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptState:
    """``related``: tables that may name the same files, as ``<table>__latest`` does."""

    view: TopicTable
    metadata: TableMetadata
    related: tuple[Table, ...]

    @property
    def latest_name(self) -> str | None:
        """The name of the ``__latest`` table of a topic's own."""
        return next((".".join(table.name()) for table in self.related if _is_latest(table)), None)

    @property
    def latest_swept(self) -> int | None:
        """Up to where the topic's ``__latest`` table takes no file any more (``TopicTable.stream_swept``); None where
        there is none."""
        told = (table.metadata.properties.get(STREAM_SWEPT_PROPERTY, "") for table in self.related if _is_latest(table))
        return min((int(text) if text.isdecimal() else NEVER_SWEPT for text in told), default=None)


class SweptTable:
    """Loads one topic's table, or its ``__latest`` one, and reads what it names. For one thread."""

    def __init__(self, catalog: Catalog, namespace: str, topic: str, topic_id: str, *, is_latest: bool) -> None:
        self._catalog = catalog
        self._namespace = namespace
        self._is_latest = is_latest
        self._topic = topic
        self._topic_id = topic_id
        self._loader = TableLoader(lambda: catalogs.warehouse_of(catalog))
        self._reachable: dict[str, ReachableFiles] = {}

    def load(self) -> SweptState:
        """The table of this incarnation. Raises Invalid (there is none), Unavailable, Corrupt."""
        tables = (catalogs.load(self._catalog, name) for name in self._names())
        ours = next((table for table in tables if table is not None and self._is_ours(table)), None)
        if ours is None:
            raise Invalid("the topic's table is gone from the catalog", topic=self._topic)
        return SweptState(view=self._loader.view(ours), metadata=ours.metadata, related=tuple(self._related(ours)))

    def _names(self) -> Iterator[Identifier]:
        """Where the table may be; the catalog is asked for the name it was given only when it is nowhere else."""
        plain = catalogs.table_identifier(self._namespace, self._topic)
        yield from self._names_of(plain)
        given = catalogs.given_identifier(self._catalog, self._namespace, self._topic)
        if given is not None:
            yield from self._names_of(given)

    def _names_of(self, plain: Identifier) -> tuple[Identifier, Identifier]:
        name = catalogs.latest_identifier(plain) if self._is_latest else plain
        return name, catalogs.retired_identifier(name, self._topic_id)

    def named(self, state: SweptState) -> NamedFiles:
        """What any of the tables names. Raises Corrupt, Unavailable."""
        found = self._reader(state.view.location).of(state.view, state.metadata)
        for table in state.related:
            # Where it is and what it is, for reading its metadata: the topic's table has nothing else to say of it.
            place = replace(
                state.view, location=table.location(), metadata_location=table.metadata_location, adopted={}
            )
            found = found.joined(self._reader(table.location()).of(place, table.metadata))
        self._reachable = {
            location: self._reachable[location]
            for location in (state.view.location, *(table.location() for table in state.related))
        }
        return found

    def _is_ours(self, table: Table) -> bool:
        properties = table.metadata.properties
        return properties.get(TOPIC_ID_PROPERTY) == self._topic_id and _is_latest(table) == self._is_latest

    def _related(self, ours: Table) -> Iterable[Table]:
        """Those whose names begin with one that the table has or had, but for other incarnations'. Raises as ``load``:
        a table that can't be had may name anything."""
        own = tuple(ours.name())
        begins = tuple(f"{name[-1]}__" for name in dict.fromkeys((own, *self._names())))
        for identifier in catalogs.table_names(self._catalog, own[:-1]):
            if identifier == own or not identifier[-1].startswith(begins):
                continue
            table = catalogs.load(self._catalog, identifier)
            if table is not None and table.metadata.properties.get(TOPIC_ID_PROPERTY) in {None, self._topic_id}:
                yield table

    def _reader(self, location: str) -> ReachableFiles:
        return self._reachable.setdefault(location, ReachableFiles())


def _is_latest(table: Table) -> bool:
    return bool(table.metadata.properties.get(KIND_PROPERTY) == LATEST_KIND)


def held_because(state: SweptState) -> str | None:
    """Why nothing of a table may be looked at to be removed; None where a sweep may go on. Raises Unavailable."""
    if state.view.snapshot_id is None and state.view.foreign is None:
        return "the table has no commit yet"
    return kept_because(state)


def kept_because(state: SweptState) -> str | None:
    """Why a table's state may not be built upon by whoever ends something of it. Raises Unavailable."""
    view = state.view
    if view.foreign is not None:
        return "another program changed the table, and nobody has judged that yet"
    properties = state.metadata.properties
    # Of a __latest table it is false so that no engine removes the topic's files with it; those are not in its folder.
    if str(properties.get(_GARBAGE_COLLECTED, "true")).lower() == "false" and KIND_PROPERTY not in properties:
        return f"its property {_GARBAGE_COLLECTED} is false"
    newer = newer_state(view)
    if newer is not None:
        return f"the catalog points to an earlier state of the table than {newer.path}, which may be wanted again"
    return None
