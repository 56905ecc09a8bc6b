"""The topics' tables of a catalog, found by name or by topic id, without a writer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.catalog import Catalog

from engine.errors import Corrupt, FloebergError, Invalid, Unavailable
from engine.table.catalog import access as catalogs
from engine.table.catalog.access import (
    Identifier,
    given_identifier,
    is_retired,
    retired_identifier,
    table_identifier,
)
from engine.table.loading import TableLoader
from engine.table.properties import KIND_PROPERTY, TOPIC_ID_PROPERTY
from engine.table.topic_table import TopicTable
from topics.topic_rule import TopicRule, rule_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTable:
    """A table that the catalog names: ``table`` as it was loaded, or ``error``, why it could not be."""

    identifier: Identifier
    table: TopicTable | None = None
    error: FloebergError | None = None


def _unknown(_topic_id: str) -> str | None:
    return None


class TopicTables:
    """Reads the tables of one namespace. Safe to use from several threads.

    ``topic_of`` gives the name of a topic id as the daemon last saw it at the broker; None while it never did. Every
    method raises ``Unavailable`` when the catalog does not answer; a damaged table is an error to nobody who asks for
    another one.
    """

    def __init__(self, catalog: Catalog, namespace: str, *, topic_of: Callable[[str], str | None] = _unknown) -> None:
        self._catalog = catalog
        self._namespace = namespace
        self._topic_of = topic_of
        self._loader = TableLoader(lambda: catalogs.warehouse_of(catalog))
        self._known: dict[str, Identifier] = {}
        self._lock = threading.Lock()

    def listed(self) -> list[ListedTable]:
        """What became of each table of the namespace, by name; those of others are left out."""
        found = []
        for identifier in self._identifiers():
            try:
                table = self._view(identifier)
            except (Corrupt, Invalid, Unavailable) as error:
                found.append(ListedTable(identifier=identifier, error=error))
                continue
            if table is not None:
                found.append(ListedTable(identifier=identifier, table=table))
        return found

    def all(self) -> list[TopicTable]:
        """The tables of all topics that can be read, those of earlier incarnations too, by name."""
        return [one.table for one in self.listed() if one.table is not None]

    def named(self, topic: str) -> TopicTable:
        """The table of a topic's present incarnation. Raises ``Corrupt``; ``Invalid`` naming the topics there are."""
        table = self._present(topic)
        if table is None:
            names = ", ".join(sorted({table.topic for table in self.all()})) or "none yet"
            raise Invalid("There is no table for this topic", topic=topic, next_step=f"topics with a table: {names}")
        return table

    def load(self, topic_id: str) -> TopicTable | None:
        """The table of an incarnation as the catalog has it now; None while it has none. Raises ``Corrupt``."""
        with self._lock:
            known = self._known.get(topic_id)
        topic = self._topic_of(topic_id)
        damaged: FloebergError | None = None
        for name in self._names_of(topic, topic_id, known):
            try:
                table = self._view(name)
            except (Corrupt, Invalid) as error:
                damaged = damaged or error  # maybe another incarnation's: ours may be whole under its other name
                continue
            if table is not None and table.topic_id == topic_id:
                return table
        if damaged is not None:
            raise damaged
        # A topic that the broker's view knows has its table under one of two names; else it is looked for once.
        return None if topic is not None else self._found(topic_id)

    def _present(self, topic: str) -> TopicTable | None:
        for identifier in self._names(topic):
            table = self._view(identifier)
            if table is not None and table.topic == topic:
                return table
        return None

    def _names(self, topic: str) -> Iterator[Identifier]:
        """The topic's own, and the one that its table was given: the catalog is asked when it is not the first."""
        yield table_identifier(self._namespace, topic)
        given = given_identifier(self._catalog, self._namespace, topic)
        if given is not None:
            yield given

    def _names_of(self, topic: str | None, topic_id: str, known: Identifier | None) -> Iterator[Identifier]:
        """Where an incarnation's table may be, the one where it was before first."""
        if known is not None:
            yield known
        for plain in () if topic is None else self._names(topic):
            yield from (one for one in (plain, retired_identifier(plain, topic_id)) if one != known)

    def _found(self, topic_id: str) -> TopicTable | None:
        """Among the tables that were never loaded; damaged ones are passed over."""
        with self._lock:
            known = set(self._known.values())
        for identifier in self._identifiers():
            if identifier in known:
                continue
            try:
                table = self._view(identifier)
            except (Corrupt, Invalid):
                continue
            if table is not None and table.topic_id == topic_id:
                return table
        return None

    def rule_for(self, table: TopicTable, rules: Sequence[TopicRule]) -> TopicRule | None:
        """What the settings say of a topic's present table; None of those of earlier incarnations, and where no rule
        matches."""
        if is_retired(table.identifier, table.topic_id):
            return None
        return rule_of(table.topic, rules)

    def _identifiers(self) -> list[Identifier]:
        return catalogs.table_names(self._catalog, tuple(self._namespace.split(".")))

    def _view(self, identifier: Identifier) -> TopicTable | None:
        loaded = catalogs.load(self._catalog, identifier)
        # The namespace may hold tables of others, which are none of ours, and those over a topic's files.
        properties = {} if loaded is None else loaded.metadata.properties
        if loaded is None or TOPIC_ID_PROPERTY not in properties or KIND_PROPERTY in properties:
            return None
        table = self._loader.view(loaded)
        with self._lock:
            self._known[table.topic_id] = identifier
        return table
