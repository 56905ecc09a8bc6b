"""What the catalog and the warehouse say of each other: tables that the catalog lost, exchanged or put back."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from engine.errors import FloebergError
from engine.fsck.report import Damage, Finding, FsckReport
from engine.table.catalog import access
from engine.table.catalog.access import Identifier, retired_identifier, table_identifier
from engine.table.states import is_of_latest, newer_state, states_in
from engine.table.topic_table import TopicTable
from engine.warehouse.warehouse import Warehouse

_FOLDER = re.compile(r"(.+)-([A-Za-z0-9_-]{22})")
_RETIRED = re.compile(r"(.+)__([A-Za-z0-9_-]{22})")


def damaged_table(identifier: Identifier, error: FloebergError) -> FsckReport:
    """The report of a table that could not be loaded."""
    topic = error.topic or identifier[-1]
    finding = Finding(
        damage=Damage.DAMAGED_METADATA,
        message=error.problem,
        next_step=error.next_step or "restore the metadata file, or register an earlier one of the table",
        topic=topic,
        file=error.file,
    )
    return report_of_findings(".".join(identifier), topic, "", [finding])


def report_of_findings(table: str, topic: str, topic_id: str, findings: Sequence[Finding]) -> FsckReport:
    """The report of a table of which nothing else was checked."""
    return FsckReport(
        table=table, topic=topic, topic_id=topic_id, snapshot_id=None, partitions=(), findings=tuple(findings)
    )


def unregistered_tables(
    warehouse: Warehouse, folder: str | None, *, locations: Collection[str], damaged: Collection[Identifier]
) -> Iterator[FsckReport]:
    """Tables in the namespace's ``folder`` (None: not known) that are at none of the ``locations`` of tables that
    were loaded, nor may be one of the ``damaged`` ones. Raises Unavailable."""
    if folder is None:
        return
    taken = {_path(location) for location in locations}
    for name in warehouse.entries(folder):
        match, location = _FOLDER.fullmatch(name), f"{folder}/{name}"
        if match is None or _path(location) in taken:
            continue
        names = {match[1], f"{match[1]}__{match[2]}"}
        states = states_in(warehouse, location)
        if not states or any(identifier[-1] in names for identifier in damaged):
            continue
        if is_of_latest(warehouse, states[-1].path):
            continue
        finding = Finding(
            damage=Damage.UNREGISTERED_TABLE,
            message=f"the warehouse has a table that the catalog does not know, with {len(states)} metadata files",
            next_step=f"register it again with {states[-1].path} (docs/runbook.md, Backup and restore); to be rid of "
            "its records, remove the folder",
            topic=match[1],
            file=location,
        )
        yield report_of_findings(match[1], match[1], match[2], [finding])


def exchanged_names(tables: Sequence[TopicTable]) -> dict[Identifier, Finding]:
    """Tables that stand under another topic's name, or another incarnation's, by the names they stand under."""
    of_topics = {_name_of(table): table for table in tables}
    found = {}
    for table in tables:
        owner = of_topics.get(table.identifier)
        retired = _RETIRED.fullmatch(table.identifier[-1])
        is_others = owner is not None and owner.topic != table.topic
        is_other_incarnations = (
            retired is not None
            and retired[2] != table.topic_id
            and retired_identifier(_name_of(table), retired[2]) == table.identifier
        )
        if is_others or is_other_incarnations:
            found[table.identifier] = Finding(
                damage=Damage.EXCHANGED_TABLE,
                message=f"the catalog has the table of the topic {table.topic} ({table.topic_id}) under the name "
                f"{'.'.join(table.identifier)}, which is another's",
                next_step=f"rename it to {'.'.join(_name_of(table))} in the catalog, the other one first to a name "
                "that is free",
                topic=table.topic,
                file=table.metadata_location,
            )
    return found


def is_retired(table: TopicTable) -> bool:
    """Whether a table is that of an earlier incarnation of its topic, by its name."""
    return access.is_retired(table.identifier, table.topic_id)


def older_state(table: TopicTable) -> Finding | None:
    """The finding of a catalog that points to an earlier state than it once did. Raises Unavailable."""
    newer = newer_state(table)
    if newer is None:
        return None
    return Finding(
        damage=Damage.OLDER_STATE,
        message=f"the catalog points to an earlier state of the table: its folder has {newer.path}, which came after",
        next_step="register that file instead (docs/runbook.md, Backup and restore); where the earlier state is the "
        "one that is wanted, remove the later metadata files",
        topic=table.topic,
        file=table.metadata_location,
    )


def _name_of(table: TopicTable) -> Identifier:
    return table_identifier(".".join(table.identifier[:-1]), table.topic)


def _path(location: str) -> str:
    return location.removeprefix("file://").rstrip("/")
