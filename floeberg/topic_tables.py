"""The topics' tables of a catalog, found by name or by topic id, without a writer."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from pyiceberg.catalog import Catalog

from engine.errors import Invalid
from engine.table import catalog as catalogs
from engine.table.catalog import Identifier, table_identifier
from engine.table.table_loading import TableLoader
from engine.table.topic_table import TOPIC_ID_PROPERTY, TopicTable
from tiering.topic_rule import TopicRule, rule_of


class TopicTables:
    """Reads the tables of one namespace. Safe to use from several threads.

    Every method raises ``Unavailable`` when the catalog does not answer and ``Corrupt`` for a damaged table.
    """

    def __init__(self, catalog: Catalog, namespace: str) -> None:
        self._catalog = catalog
        self._namespace = namespace
        self._loader = TableLoader(lambda: catalogs.warehouse_of(catalog))
        self._known: dict[str, Identifier] = {}
        self._lock = threading.Lock()

    def all(self) -> list[TopicTable]:
        """The tables of all topics, those of earlier incarnations too, by name."""
        found = (self._view(identifier) for identifier in sorted(self._identifiers()))
        return [table for table in found if table is not None]

    def named(self, topic: str) -> TopicTable:
        """The table of a topic's present incarnation. Raises ``Invalid`` naming the topics there are."""
        table = self._view(table_identifier(self._namespace, topic))
        if table is None:
            names = ", ".join(sorted({table.topic for table in self.all()})) or "none yet"
            raise Invalid("There is no table for this topic", topic=topic, next_step=f"topics with a table: {names}")
        return table

    def load(self, topic_id: str) -> TopicTable | None:
        """The table of an incarnation as the catalog has it now; None while it has none."""
        with self._lock:
            known = self._known.get(topic_id)
        table = self._view(known) if known is not None else None
        if table is None or table.topic_id != topic_id:
            # Not known yet, or renamed because the topic was created again.
            table = next((found for found in self.all() if found.topic_id == topic_id), None)
        return table

    def conflicts(self, rules: Sequence[TopicRule]) -> list[Invalid]:
        """Where the settings say something else than what a topic's present table was made for."""
        found = []
        for table in self.all():
            rule = rule_of(table.topic, rules)
            if rule is None or table.identifier != table_identifier(self._namespace, table.topic):
                continue
            try:
                rule.check_table(table)
            except Invalid as error:
                found.append(error)
        return found

    def _identifiers(self) -> list[Identifier]:
        namespace = tuple(self._namespace.split("."))
        with catalogs.translated_errors("the catalog does not list its tables", table=namespace):
            if not self._catalog.namespace_exists(namespace):
                return []
            return [tuple(identifier) for identifier in self._catalog.list_tables(namespace)]

    def _view(self, identifier: Identifier) -> TopicTable | None:
        loaded = catalogs.load(self._catalog, identifier)
        # The namespace may hold tables of others: they are none of ours.
        if loaded is None or TOPIC_ID_PROPERTY not in loaded.metadata.properties:
            return None
        table = self._loader.view(loaded)
        with self._lock:
            self._known[table.topic_id] = identifier
        return table
