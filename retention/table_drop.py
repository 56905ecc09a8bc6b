"""The tables of one incarnation of a topic leave the catalog; their files stay where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from engine.errors import Invalid, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.table.catalog import access as catalogs
from engine.table.catalog.access import Identifier
from engine.table.properties import CLUSTER_ID_PROPERTY, KIND_PROPERTY, LATEST_KIND, TOPIC_ID_PROPERTY


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedTable:
    """A table that was dropped, or is about to be: its name, and where its files lie. ``metadata_location``: with what
    it can be registered again, as long as they do."""

    topic: str
    topic_id: str
    cluster_id: str
    table: str
    location: str
    table_uuid: str
    metadata_location: str
    is_latest: bool = False

    @property
    def key(self) -> str:
        """No other table's, for ever."""
        return self.table_uuid


def tables_of(catalog: Catalog, namespace: str, topic: str, topic_id: str) -> list[Table]:
    """All that the catalog has of one incarnation: ``__latest`` and the topic's own, under the topic's name or the one
    that they were given, with the id or without. Raises Unavailable, Corrupt."""
    own = catalogs.table_identifier(namespace, topic)
    given = catalogs.given_identifier(catalog, namespace, topic)
    plain = [own] if given is None else [own, given]
    names = [
        name
        for one in (*map(catalogs.latest_identifier, plain), *plain)
        for name in (one, catalogs.retired_identifier(one, topic_id))
    ]
    loaded = (catalogs.load(catalog, name) for name in names)
    return [table for table in loaded if table is not None and _topic_id(table) == topic_id]


def retire(catalog: Catalog, table: Table, topic_id: str) -> None:
    """Give a table of a topic that is gone the name with the id, which no other topic's table ever has: only then is it
    dropped by its name. Raises Unavailable where the plain name was another's in the meantime."""
    name = tuple(table.name())
    if catalogs.is_retired(name, topic_id):
        return
    retired = catalogs.retired_identifier(name, topic_id)
    catalogs.rename(catalog, name, retired)
    found = catalogs.load(catalog, retired)
    if found is not None and _topic_id(found) != topic_id:
        catalogs.rename(catalog, retired, name)
        raise Unavailable("another topic's table had the name by now; it has it again", file=".".join(name))
    reach(FaultPoint.GONE_TABLE_RENAMED)


def to_drop(catalog: Catalog, topic: str, topic_id: str, tables: Sequence[Table]) -> tuple[DroppedTable, ...]:
    """What is left of ``tables`` once they are dropped. Raises Invalid where another table lies in the folder of one,
    Unavailable, Corrupt (a table that can't be loaded may lie anywhere)."""
    found = tuple(
        DroppedTable(
            topic=topic,
            topic_id=topic_id,
            cluster_id=str(table.metadata.properties.get(CLUSTER_ID_PROPERTY)),
            table=".".join(table.name()),
            location=table.location().rstrip("/"),
            table_uuid=str(table.metadata.table_uuid),
            metadata_location=table.metadata_location,
            is_latest=table.metadata.properties.get(KIND_PROPERTY) == LATEST_KIND,
        )
        for table in tables
    )
    own = {one.table for one in found}
    for name, location in _locations(catalog, tuple(tables[0].name())[:-1]).items() if tables else ():
        if ".".join(name) not in own and any(overlap(location, one.location) for one in found):
            raise Invalid(
                f"Another table lies in its folder: {'.'.join(name)}",
                topic=topic,
                file=location,
                next_step="see with floeberg fsck whose files these are",
            )
    return found


def drop(catalog: Catalog, tables: Sequence[DroppedTable]) -> None:
    """Take their names out of the catalog. Raises Unavailable."""
    for one in tables:
        catalogs.drop(catalog, tuple(one.table.split(".")))
        reach(FaultPoint.GONE_TABLE_DROPPED)


def lies_there(catalog: Catalog, dropped: DroppedTable) -> str | None:
    """The name of a table that lies where a dropped one did, or around it; None for none. Raises as ``to_drop``."""
    found = _locations(catalog, tuple(dropped.table.split("."))[:-1])
    return next((".".join(name) for name, place in found.items() if overlap(place, dropped.location)), None)


def overlap(one: str, other: str) -> bool:
    """Whether one folder is the other, or in it."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _locations(catalog: Catalog, namespace: Identifier) -> Mapping[Identifier, str]:
    loaded = {name: catalogs.load(catalog, name) for name in catalogs.table_names(catalog, namespace)}
    return {name: table.location().rstrip("/") for name, table in loaded.items() if table is not None}


def _topic_id(table: Table) -> str | None:
    topic_id: str | None = table.metadata.properties.get(TOPIC_ID_PROPERTY)
    return topic_id
