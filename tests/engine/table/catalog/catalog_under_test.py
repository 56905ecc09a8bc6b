"""A namespace of a catalog, for its suites."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from engine.clock import Clock
from engine.table.catalog.access import open_catalog
from engine.table.commit.writer import TableWriter
from engine.table.history_limits import HistoryLimits
from engine.table.topic_table import TopicTable
from tests.engine.table.table_examples import (
    TOPIC,
    TOPIC_ID,
    StillClock,
)

OTHER_ID = "BBBBBBBBBBBBBBBBBBBBBQ"
_namespaces = itertools.count()


class CatalogUnderTest:
    """One namespace of a catalog; every ``writer()`` and ``catalog()`` is as of a process of its own."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = dict(properties)
        self.namespace = f"kafka{next(_namespaces)}"

    def catalog(self) -> Catalog:
        return open_catalog(self.properties)

    def writer(self, *, clock: Clock | None = None, history: HistoryLimits | None = None) -> TableWriter:
        return TableWriter(self.catalog(), clock or StillClock(), namespace=self.namespace, history=history)

    def loaded(self, table: TopicTable) -> Table:
        return self.catalog().load_table(table.identifier)

    def reopened(self, topic_id: str = TOPIC_ID) -> TopicTable:
        table = self.writer().open(TOPIC, topic_id)
        assert table is not None, "the table is gone"
        return table

    def offsets(self, table: TopicTable, partition: int = 0) -> list[int]:
        """Offsets of a partition as a library reads them that knows nothing of us, duplicates included."""
        rows = self.loaded(table).scan(f"kafka_partition = {partition}").to_arrow()
        return sorted(rows["kafka_offset"].to_pylist())
