"""Drops a topic's table for good: its name in the catalog first, then every file in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.catalog import Catalog

from engine.broker import Broker
from engine.errors import Invalid, Unavailable
from engine.table.companion_folder import folders_of_no_use_without_it
from engine.table.topic_table import TopicTable
from engine.warehouse.warehouse import FILES_A_BATCH, StoredFile, Warehouse
from retention.table_drop import drop, tables_of, to_drop

_REMOTE_STORAGE = "remote.storage.enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonedFolder:
    """A folder that no table of the catalog lies in any more. Only ``take_from_catalog`` makes one."""

    warehouse: Warehouse
    location: str

    def files(self) -> list[StoredFile]:
        """All that lie in it. Raises Unavailable."""
        return list(self.warehouse.list(self.location))


def require_no_only_copy(broker: Broker, topic: str) -> None:
    """That Kafka does not read the topic's history from the table. Raises Invalid; Unavailable where nobody can say."""
    config = broker.topic_configs([topic]).get(topic)
    if config is not None and config.get(_REMOTE_STORAGE) == "true":
        raise Invalid(
            "The table's files are the topic's tiered storage: what the broker has dropped is nowhere else",
            topic=topic,
            next_step="delete the topic in Kafka first",
        )


def take_from_catalog(catalog: Catalog, table: TopicTable) -> tuple[AbandonedFolder, ...]:
    """Drop the names of the table and of the one that shows its newest records: their folders, in none of which
    another table lies. Raises Unavailable, Invalid where one does, and then nothing is dropped."""
    tables = tables_of(catalog, ".".join(table.identifier[:-1]), table.topic, table.topic_id)
    dropped = to_drop(catalog, table.topic, table.topic_id, tables)
    drop(catalog, dropped)
    return tuple(
        AbandonedFolder(warehouse=table.warehouse, location=folder)
        for one in dropped
        for folder in (one.location, *folders_of_no_use_without_it(one.location))
    )


def remove_files(folders: Sequence[AbandonedFolder]) -> int:
    """Every file; how many there were. Raises Unavailable for those that stay."""
    removed = 0
    for folder in folders:
        paths = [file.path for file in folder.files()]
        for first in range(0, len(paths), FILES_A_BATCH):
            hindered = folder.warehouse.delete_batch(paths[first : first + FILES_A_BATCH])
            if hindered:
                path, why = next(iter(hindered.items()))
                raise Unavailable(
                    f"The table is dropped, and {len(hindered)} of its files stay: {why}",
                    file=path,
                    next_step=f"remove the folder {folder.location} before Floeberg starts again",
                )
        removed += len(paths)
    return removed
