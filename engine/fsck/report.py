"""What a check of a table found: findings with coordinates, and a summary of each partition."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from engine.offset_range import OffsetRange


class Damage(StrEnum):
    """What can be wrong with a table, each kind with its own cure."""

    MISSING_FILE = "missing_file"
    """The table names a file that the warehouse does not have."""
    WRONG_SIZE = "wrong_size"
    """The file's size is not the one in the manifest."""
    DAMAGED_FILE = "damaged_file"
    """The file can't be read, or its rows are not those it was written with."""
    SWAPPED_FILE = "swapped_file"
    """The file is whole but holds the rows of another range, partition or topic than its name says, or is not the file
    that was committed."""
    FOREIGN_FILE = "foreign_file"
    """A file of the table that this program did not write: it says neither in its name nor in its footer what it is."""
    FOREIGN_CHANGE = "foreign_change"
    """Another program changed the table since Floeberg last sealed it."""
    DAMAGED_METADATA = "damaged_metadata"
    """A metadata file, manifest list or manifest of the table can't be read: no reader can list its files."""
    UNREGISTERED_TABLE = "unregistered_table"
    """The warehouse has a topic's table that the catalog does not know."""
    OLDER_STATE = "older_state"
    """The catalog points to an earlier state of the table than the newest one in its folder."""
    EXCHANGED_TABLE = "exchanged_table"
    """The catalog has a topic's table under the name of another's."""
    DELETE_FILES = "delete_files"
    """A SQL engine deleted rows: reads by offset would still see them."""
    WRONG_COUNT = "wrong_count"
    """The manifest or the footer counts other rows than the file has."""
    MISPLACED_ROWS = "misplaced_rows"
    """Rows out of order, outside the file's range, or of another partition."""
    FALSE_BOUNDS = "false_bounds"
    """Bounds or counts that are not true, of a column's values or of a manifest's files: SQL engines skip by them."""
    DUPLICATED_RANGE = "duplicated_range"
    """Offsets that more than one file holds."""
    LOST_RANGE = "lost_range"
    """Offsets that the ledger counts and no file holds."""
    LEDGER_MISMATCH = "ledger_mismatch"
    """The ledger says something else than the files do."""
    LATEST_DIFFERS = "latest_differs"
    """The second table shows other records than the newest of each key."""
    LOG_DIFFERS = "log_differs"
    """The broker's log holds other records in a range than the table."""
    LOG_UNREADABLE = "log_unreadable"
    """The broker's log can't be read in a range, so it was not compared."""


class Severity(StrEnum):
    ERROR = "error"
    """The table is not what it must be."""
    WARNING = "warning"
    """Something near the table is, so that a part of the proof is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong: what, where, and what to do about it. ``range`` in offsets of the partition."""

    damage: Damage
    message: str
    next_step: str
    topic: str
    partition: int | None = None
    range: OffsetRange | None = None
    file: str | None = None
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        named = (("topic", self.topic), ("partition", self.partition), ("offsets", self.range), ("file", self.file))
        where = ", ".join(f"{name} {value}" for name, value in named if value is not None)
        return f"{self.damage}: {self.message} ({where}). Next: {self.next_step}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; a range is ``[start, end]``."""
        plain = asdict(self)
        plain["damage"], plain["severity"] = str(self.damage), str(self.severity)
        plain["range"] = _pair(self.range)
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """One partition as it was found. ``ledger`` is None where files exist but no ledger line does. ``log_start`` is the
    stream's horizon, ``table_start`` the table's.

    ``compared`` are the ranges whose records were compared with the broker's log; ``skipped`` those that Kafka had
    deleted before anybody could store them; ``erased_count`` records that were erased since they were stored.
    """

    partition: int
    ledger: OffsetRange | None
    log_start: int | None
    table_start: int | None
    file_count: int
    record_count: int
    size_bytes: int
    digest: str
    skipped: tuple[OffsetRange, ...]
    compared: tuple[OffsetRange, ...]
    erased_count: int
    finding_count: int

    def to_dict(self) -> dict[str, Any]:
        plain = asdict(self)
        plain["ledger"] = _pair(self.ledger)
        plain["skipped"] = [_pair(skipped) for skipped in self.skipped]
        plain["compared"] = [_pair(compared) for compared in self.compared]
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckReport:
    """The outcome for one table at one snapshot; no finding means that every check passed."""

    table: str
    topic: str
    topic_id: str
    snapshot_id: int | None
    partitions: tuple[PartitionSummary, ...]
    findings: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        return not self.findings

    @property
    def record_count(self) -> int:
        return sum(partition.record_count for partition in self.partitions)

    @property
    def file_count(self) -> int:
        return sum(partition.file_count for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes for partition in self.partitions)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the totals."""
        return {
            "table": self.table,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "snapshot_id": self.snapshot_id,
            "healthy": self.is_healthy,
            "record_count": self.record_count,
            "file_count": self.file_count,
            "size_bytes": self.size_bytes,
            "partitions": [partition.to_dict() for partition in self.partitions],
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)


def _pair(offsets: OffsetRange | None) -> list[int] | None:
    return None if offsets is None else [offsets.start, offsets.end]
