"""The states of a table in its folder: a metadata file each, numbered; the catalog names the current one.

A commit writes the next number's file before the catalog names it, so a number one above the current one may be of a
commit that never was. Two above, in a file whose history has the current one, prove that the catalog went back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from engine.errors import Corrupt
from engine.table.topic_table import TopicTable
from engine.table.warehouse import Warehouse

_NAME = re.compile(r"(\d+)-[0-9a-f-]+\.(gz\.)?metadata\.json")
_UNNAMED_COMMITS = 1
_NEWEST_LOOKED_AT = 3
"""Metadata files read to find a descendant: more than one where daemons raced, or where a file is damaged."""


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
    """A later state of the table that the catalog once had; None where the loaded one is the last. Raises
    Unavailable."""
    match = _NAME.fullmatch(table.metadata_location.rpartition("/")[2])
    if match is None:
        return None
    number = int(match[1])
    states = [state for state in states_in(table.warehouse, table.location) if state.number > number + _UNNAMED_COMMITS]
    return next((state for state in _newest(states) if _descends(table, number, state)), None)


def _newest(states: list[TableState]) -> Iterator[TableState]:
    return reversed(states[-_NEWEST_LOOKED_AT:])


def _descends(table: TopicTable, number: int, state: TableState) -> bool:
    try:
        metadata = json.loads(table.warehouse.read_bytes(state.path))
        history = [entry["metadata-file"] for entry in metadata.get("metadata-log", ())]
    except (Corrupt, ValueError, KeyError, TypeError, AttributeError):
        return False
    return table.metadata_location in history or state.number - number > len(history)
