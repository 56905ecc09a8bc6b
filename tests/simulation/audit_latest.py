"""A ``__latest`` table against what the topic's table held in the snapshot that it says it is of: each key's newest
record, as ``row_number() over (partition by key order by offset desc) = 1`` finds it (docs/latest_by_key.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.table.metadata import TableMetadata

from tests.simulation.table_reading import StoredFile, TableReading

PREFIX = "floeberg.latest."


def is_latest(metadata: TableMetadata) -> bool:
    return metadata.properties.get("floeberg.kind") == "latest"


def lines_of(metadata: TableMetadata) -> dict[int, dict[str, Any]]:
    """By partition; without those that say nothing."""
    found = {
        int(name.removeprefix(PREFIX)): json.loads(text)
        for name, text in metadata.properties.items()
        if name.startswith(PREFIX)
    }
    return {partition: line for partition, line in found.items() if line}


@dataclass(slots=True)
class LatestAudit:
    """``held``: what the topic's tables held in each of their snapshots. ``taken_away``: files that somebody else
    removed, who did not ask this table."""

    reading: TableReading
    held: dict[int, tuple[StoredFile, ...]] = field(default_factory=dict)
    taken_away: set[str] = field(default_factory=set)
    rows_compared: int = 0

    def note(self, stream: TableMetadata) -> None:
        """A commit of a topic's table."""
        if stream.current_snapshot_id is not None:
            self.held[stream.current_snapshot_id] = self.reading.files(stream)

    def wrong(self, metadata: TableMetadata) -> Iterator[str]:
        """What is not as it should be in a state of a ``__latest`` table."""
        files = self.reading.files(metadata)
        out = self.reading.taken_out(metadata)
        lines = lines_of(metadata)
        for file in files:
            if file.partition not in lines:
                yield f"{_name(file)} is of partition {file.partition}, which has no line"
            if file.rows is None and file.path not in self.taken_away:
                yield f"it names {_name(file)}, which is missing or not readable"
        for partition, line in sorted(lines.items()):
            named = [file for file in files if file.partition == partition]
            if any(file.rows is None for file in named):
                continue
            shown = sorted(_shown(named, out))
            newest = sorted(newest_in(self.held.get(line["stream_snapshot"], ()), partition, line["end"]))
            self.rows_compared += len(shown)
            if shown != newest:
                yield f"partition {partition} shows the offsets {shown} at {line}, the newest are {newest}"


def newest_in(files: Iterable[StoredFile], partition: int, end: int) -> set[int]:
    """The offsets of each key's newest record among those below ``end``, but for tombstones."""
    newest: dict[bytes, tuple[int, bool]] = {}
    for file in files:
        for row in file.rows or () if file.partition == partition else ():
            if row.key is not None and row.offset < end:
                newest[row.key] = max(newest.get(row.key, (-1, False)), (row.offset, row.value is not None))
    return {offset for offset, is_value in newest.values() if is_value}


def _shown(files: Iterable[StoredFile], out: dict[str, list[int]]) -> Iterator[int]:
    for file in files:
        gone = set(out.get(file.path, ()))
        for place, row in enumerate(file.rows or ()):
            if place not in gone:
                yield row.offset


def _name(file: StoredFile) -> str:
    return file.path.rpartition("/")[2]
