"""Drops a topic's table for good: its name in the catalog first, then every file in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.catalog import Catalog

from engine.broker import Broker
from engine.errors import Invalid, Unavailable
from engine.table.catalog import access as catalogs
from engine.table.catalog.access import Identifier
from engine.table.companion_folder import folders_of_no_use_without_it
from engine.table.topic_table import TopicTable
from engine.warehouse.warehouse import FILES_A_BATCH, StoredFile, Warehouse

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
    own = {table.identifier, catalogs.latest_identifier(table.identifier)}
    locations = _locations(catalog, table.identifier[:-1])
    to_drop = {identifier: location for identifier, location in locations.items() if identifier in own}
    for identifier, location in locations.items():
        if identifier not in own and any(_overlap(location, other) for other in to_drop.values()):
            raise Invalid(
                f"Another table lies in its folder: {'.'.join(identifier)}",
                topic=table.topic,
                file=location,
                next_step="see with floeberg fsck whose files these are",
            )
    for identifier in to_drop:
        catalogs.drop(catalog, identifier)
    return tuple(
        AbandonedFolder(warehouse=table.warehouse, location=folder)
        for location in to_drop.values()
        for folder in (location, *folders_of_no_use_without_it(location))
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


def _locations(catalog: Catalog, namespace: Identifier) -> dict[Identifier, str]:
    with catalogs.translated_errors("the catalog does not list its tables", table=namespace):
        identifiers = [tuple(one) for one in catalog.list_tables(namespace)]
    loaded = {identifier: catalogs.load(catalog, identifier) for identifier in identifiers}
    return {
        identifier: table.metadata.location.rstrip("/") for identifier, table in loaded.items() if table is not None
    }


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
