"""Gives a topic's table another name in the catalog; its files, and what they are named by, stay where they are."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyiceberg.catalog import Catalog

from engine.errors import Invalid
from engine.table.catalog import access as catalogs
from engine.table.catalog.access import Identifier
from engine.table.properties import KIND_PROPERTY, TOPIC_ID_PROPERTY, TOPIC_PROPERTY
from engine.table.topic_table import TopicTable

_NAME = re.compile(r"[A-Za-z0-9_-]{1,249}")
_RESERVED = "__"
"""Separates what Floeberg's own tables of a topic are: ``__latest``, and the id of an earlier incarnation."""


def rename_table(catalog: Catalog, table: TopicTable, name: str) -> Identifier:
    """The table and its ``__latest`` one, which may be there or not; where it stands then.

    The name is noted first, so that whoever looks for the table finds it in any state that this may be ended in; the
    next call goes on. Raises Invalid for a name that can't be the table's, Unavailable.
    """
    if not _NAME.fullmatch(name) or _RESERVED in name:
        raise Invalid(f"A table's name is letters, digits, _ (not two) and -, not {name!r}", topic=table.topic)
    if catalogs.is_retired(table.identifier, table.topic_id):
        raise Invalid("The table is of an earlier incarnation of the topic, and named by its id", topic=table.topic)
    wanted = (*table.identifier[:-1], name)
    listed = _listed(catalog, wanted[:-1])
    _require_free(table, wanted, listed)
    catalogs.give_name(catalog, wanted, table.topic)
    own = [
        identifier for identifier, properties in listed.items() if properties.get(TOPIC_ID_PROPERTY) == table.topic_id
    ]
    # What shows its newest records first: whoever finds the topic's table looks for it under that one's name, too.
    for identifier in sorted(own, key=lambda one: KIND_PROPERTY not in listed[one]):
        new = catalogs.latest_identifier(wanted) if KIND_PROPERTY in listed[identifier] else wanted
        if identifier != new:
            catalogs.rename(catalog, identifier, new)
    renamed = catalogs.load(catalog, wanted)
    if renamed is None or renamed.metadata.properties.get(TOPIC_ID_PROPERTY) != table.topic_id:
        raise Invalid(f"Somebody else made a table {'.'.join(wanted)}", topic=table.topic)
    return wanted


def _listed(catalog: Catalog, namespace: Identifier) -> dict[Identifier, Mapping[str, str]]:
    """The tables of the namespace, with their properties."""
    with catalogs.translated_errors("the catalog does not list its tables", table=namespace):
        identifiers = sorted(tuple(one) for one in catalog.list_tables(namespace))
    loaded = {identifier: catalogs.load(catalog, identifier) for identifier in identifiers}
    return {identifier: table.metadata.properties for identifier, table in loaded.items() if table is not None}


def _require_free(table: TopicTable, wanted: Identifier, listed: Mapping[Identifier, Mapping[str, str]]) -> None:
    for identifier, properties in listed.items():
        topic = properties.get(TOPIC_PROPERTY)
        if properties.get(TOPIC_ID_PROPERTY) == table.topic_id:
            continue
        if identifier in {wanted, catalogs.latest_identifier(wanted)}:
            of = "which is no topic's" if topic is None else f"of the topic {topic}"
            raise Invalid(f"There is a table {'.'.join(identifier)} {of}", topic=table.topic)
        is_name = topic is not None and catalogs.table_identifier(".".join(wanted[:-1]), topic) == wanted
        if is_name and topic != table.topic:
            raise Invalid(f"That is the name of the topic {topic}, which has a table of its own", topic=table.topic)
