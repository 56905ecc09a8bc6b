"""The states of a table in its folder: a metadata file each, numbered; the catalog names the current one.

A commit writes the next number's file before the catalog names it, so there may be files of commits that never were.
A file that another one has in its history was the catalog's once; where the current state's history lacks it, the
catalog went back.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass

from engine.errors import Corrupt
from engine.table.catalog.metadata_errors import UNDECODABLE
from engine.table.properties import KIND_PROPERTY, LATEST_KIND
from engine.table.seal import seal_of
from engine.table.topic_table import TopicTable
from engine.warehouse.warehouse import Warehouse

_NAME = re.compile(r"(\d+)-[0-9a-f-]+\.(gz\.)?metadata\.json")
_GZIPPED = ".gz.metadata"
_NO_SNAPSHOT = -1
"""As the reference implementation writes it."""

_NEWEST_LOOKED_AT = 10
"""Metadata files read besides the current one: most of those that are in no history are of commits that never were."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TableState:
    """A metadata file by its number."""

    number: int
    path: str


def states_in(warehouse: Warehouse, location: str) -> list[TableState]:
    """The metadata files of a table's folder, rising. Raises Unavailable."""
    folder = f"{location.rstrip('/')}/metadata"
    found = ((_NAME.fullmatch(name), name) for name in warehouse.entries(folder))
    return sorted(TableState(number=int(match[1]), path=f"{folder}/{name}") for match, name in found if match)


def newer_state(table: TopicTable) -> TableState | None:
    """The latest state that the catalog once had beside the loaded one's history; None where there is none. Raises
    Unavailable."""
    current = _number(table.metadata_location)
    history = _history(table.warehouse, table.metadata_location)
    if current is None or history is None:
        return None
    oldest = min((number for path in history if (number := _number(path)) is not None), default=current)
    ours = {table.metadata_location, *history}
    others = [state for state in states_in(table.warehouse, table.location) if state.path not in ours]
    for state in reversed(others[-_NEWEST_LOOKED_AT:]):
        before = _history(table.warehouse, state.path)
        parent = before[-1] if before else None
        if parent is not None and parent not in ours and (_number(parent) or 0) >= oldest:
            return state
    return None


def check_newest(table: TopicTable) -> None:
    """Raises Corrupt where the catalog points to an earlier state of the table, Unavailable.

    Asked before offsets are recorded as skipped: what Kafka deleted may be in the state that was lost sight of.
    """
    newer = newer_state(table)
    if newer is not None:
        raise Corrupt(
            f"the catalog points to an earlier state of the table than {newer.path}, which may hold the offsets "
            "that would be recorded as skipped",
            topic=table.topic,
            file=table.metadata_location,
            next_step=f"stop Floeberg, register that file, start it, then floeberg fsck {table.topic}; where the "
            "earlier state is the one that is wanted, remove the later metadata files",
        )


def is_own_state(warehouse: Warehouse, path: str, table_uuid: str, *, or_empty: bool = False) -> bool:
    """Whether a metadata file is of a commit that Floeberg made, or meant to make, to this table: its newest snapshot
    is the sealed one; ``or_empty``: or it has no snapshot, as the one that a table begins with. Of one that can't be
    decoded nobody knows. Raises Unavailable."""
    try:
        content = warehouse.read_bytes(path)
        metadata = json.loads(gzip.decompress(content) if _GZIPPED in path else content)
        seal = seal_of(metadata["properties"])
        snapshot_id = metadata.get("current-snapshot-id")
        if metadata["table-uuid"] != table_uuid:
            return False
        if or_empty and not metadata.get("snapshots"):
            return True
        newest = None if snapshot_id == _NO_SNAPSHOT else snapshot_id
        return seal is not None and seal.table_uuid == table_uuid and seal.snapshot_id == newest
    except (Corrupt, *UNDECODABLE):
        return False


def is_of_latest(warehouse: Warehouse, path: str) -> bool:
    """Whether a metadata file is of a ``__latest`` table, which is made again where it is lost. Raises Unavailable."""
    try:
        content = warehouse.read_bytes(path)
        metadata = json.loads(gzip.decompress(content) if _GZIPPED in path else content)
        return bool(metadata["properties"].get(KIND_PROPERTY) == LATEST_KIND)
    except (Corrupt, *UNDECODABLE):
        return False


def _number(path: str) -> int | None:
    match = _NAME.fullmatch(path.rpartition("/")[2])
    return None if match is None else int(match[1])


def _history(warehouse: Warehouse, path: str) -> list[str] | None:
    """The metadata files that came before one, oldest first; None of a file that can't be read."""
    try:
        metadata = json.loads(warehouse.read_bytes(path))
        return [str(entry["metadata-file"]) for entry in metadata.get("metadata-log", ())]
    except (Corrupt, ValueError, KeyError, TypeError, AttributeError):
        return None
