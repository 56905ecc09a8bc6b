"""What an auditor gets of an erasure: kept beside the table's folder, without the keys that were erased.

A key stands here as HMAC-SHA-256 (RFC 2104) under a salt of the erasure's own: who has a key can find it again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from engine.errors import Corrupt, Invalid
from engine.offset_range import OffsetRange
from engine.table.companion_folder import erasure_folder
from engine.table.erased import ranges_of
from engine.table.ledger import ranges_from_json, ranges_to_json
from engine.table.proof.verifier import VerifiedErasure
from engine.table.topic_table import TopicTable
from engine.warehouse.warehouse import Warehouse

MOST_RANGES = 100_000
"""Of erased offsets in a report, about 2 MB: a condition that hits more is asked again where it is to be checked."""

_ENDING = ".json"


@dataclass(slots=True, kw_only=True)
class PartitionErased:
    """``offsets`` rising, None where they are too many; ``up_to`` the ledger's end, below which no match was left;
    ``before`` and ``after`` the ledger's digests, as text; ``files`` that were replaced, with their size in bytes."""

    up_to: int
    records: int = 0
    extent: OffsetRange | None = None
    offsets: tuple[OffsetRange, ...] | None = ()
    before: str = ""
    after: str = ""
    files: dict[str, int] = field(default_factory=dict)

    def add(self, erasures: Sequence[VerifiedErasure]) -> None:
        for one in erasures:
            ranges = ranges_of(one.offsets)
            self.records += len(one.offsets)
            self.files[one.old.path] = one.old.size_bytes
            found = OffsetRange(start=ranges[0].start, end=ranges[-1].end)
            known = self.extent or found
            self.extent = OffsetRange(start=min(known.start, found.start), end=max(known.end, found.end))
            if self.offsets is not None:
                joined = (*self.offsets, *ranges)
                self.offsets = joined if len(joined) <= MOST_RANGES else None

    def to_value(self) -> dict[str, Any]:
        return {
            "up_to": self.up_to,
            "records": self.records,
            "extent": None if self.extent is None else [self.extent.start, self.extent.end],
            "offsets": None if self.offsets is None else json.loads(ranges_to_json(self.offsets)),
            "digest_before": self.before,
            "digest_after": self.after,
            "files": self.files,
        }

    @classmethod
    def from_value(cls, value: dict[str, Any]) -> Self:
        extent, offsets = value["extent"], value["offsets"]
        return cls(
            up_to=int(value["up_to"]),
            records=int(value["records"]),
            extent=None if extent is None else OffsetRange(start=extent[0], end=extent[1]),
            offsets=None if offsets is None else ranges_from_json(json.dumps(offsets)),
            before=value["digest_before"],
            after=value["digest_after"],
            files=dict(value["files"]),
        )


@dataclass(slots=True, kw_only=True)
class ErasureReport:
    """``ended_ms`` None while it is under way, or where it was broken off; times are since the epoch. ``keys`` and
    ``condition`` are hashes, in hexadecimal digits; ``others_files`` that another program wrote and ours took the place
    of, with their sizes in bytes; ``left`` says what was not erased and why, ``kept_by`` what nothing of ours takes
    away: what branches and tags name, and others' files; ``history_until_ms`` when the last other snapshot that names
    some may go, None where none is left; ``gone_by_ms`` when the files themselves are gone, where a daemon runs.
    """

    erasure_id: str
    topic: str
    topic_id: str
    table: str
    began_ms: int
    salt: str
    keys: tuple[str, ...] = ()
    condition: str | None = None
    ended_ms: int | None = None
    partitions: dict[int, PartitionErased] = field(default_factory=dict)
    others_files: dict[str, int] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    kept_by: tuple[str, ...] = ()
    history_until_ms: int | None = None
    gone_by_ms: int | None = None

    @property
    def record_count(self) -> int:
        return sum(partition.records for partition in self.partitions.values())

    @property
    def files(self) -> frozenset[str]:
        """Paths of all that were replaced."""
        own = (path for partition in self.partitions.values() for path in partition.files)
        return frozenset([*own, *self.others_files])

    def hashed(self, secret: bytes) -> str:
        return hashed(bytes.fromhex(self.salt), secret)

    def note(self, table: TopicTable, erasures: Iterable[VerifiedErasure]) -> None:
        """What one commit did; ``table`` is as it made it."""
        by_partition: dict[int, list[VerifiedErasure]] = {}
        for one in erasures:
            by_partition.setdefault(one.old.partition, []).append(one)
        for partition, theirs in by_partition.items():
            last = table.erased[partition].erasures[-1]
            known = self.partitions.setdefault(partition, PartitionErased(up_to=0, before=last.before.to_text()))
            known.add(theirs)
            known.after = last.after.to_text()

    def to_json(self) -> str:
        return json.dumps(self.to_value(), indent=1)

    def to_value(self) -> dict[str, Any]:
        return {
            "id": self.erasure_id,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "table": self.table,
            "began_ms": self.began_ms,
            "ended_ms": self.ended_ms,
            "salt": self.salt,
            "keys": list(self.keys),
            "condition": self.condition,
            "records": self.record_count,
            "partitions": {str(number): one.to_value() for number, one in sorted(self.partitions.items())},
            "others_files": self.others_files,
            "left": list(self.left),
            "kept_by": list(self.kept_by),
            "history_until_ms": self.history_until_ms,
            "gone_by_ms": self.gone_by_ms,
        }

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Raises ValueError, KeyError, TypeError or Invalid for what ``to_json`` does not write."""
        value = json.loads(text)
        partitions = value["partitions"].items()
        return cls(
            erasure_id=value["id"],
            topic=value["topic"],
            topic_id=value["topic_id"],
            table=value["table"],
            began_ms=int(value["began_ms"]),
            salt=value["salt"],
            keys=tuple(value["keys"]),
            condition=value["condition"],
            ended_ms=value["ended_ms"],
            partitions={int(number): PartitionErased.from_value(one) for number, one in partitions},
            others_files=dict(value["others_files"]),
            left=tuple(value["left"]),
            kept_by=tuple(value["kept_by"]),
            history_until_ms=value["history_until_ms"],
            gone_by_ms=value["gone_by_ms"],
        )


def hashed(salt: bytes, secret: bytes) -> str:
    """HMAC-SHA-256, in hexadecimal digits."""
    return hmac.new(salt, secret, hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReports:
    """Those of one table, in a folder beside its own: no program that removes orphans comes there."""

    warehouse: Warehouse
    location: str
    topic: str

    @property
    def folder(self) -> str:
        return erasure_folder(self.location)

    def path(self, erasure_id: str) -> str:
        return f"{self.folder}/{erasure_id}{_ENDING}"

    def put(self, report: ErasureReport) -> None:
        """Raises Unavailable."""
        self.warehouse.write_bytes(self.path(report.erasure_id), report.to_json().encode())

    def ids(self) -> tuple[str, ...]:
        """Raises Unavailable."""
        names = self.warehouse.entries(self.folder)
        return tuple(name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING))

    def get(self, erasure_id: str) -> ErasureReport:
        """By its id or the beginning of it. Raises Invalid (there is none, or several), Corrupt, Unavailable."""
        found = [known for known in self.ids() if known.startswith(erasure_id)]
        if len(found) != 1:
            known = ", ".join(self.ids()) or "none"
            raise Invalid(
                f"{len(found)} reports have an id that begins with {erasure_id!r}",
                topic=self.topic,
                next_step=f"reports there are: {known}",
            )
        path = self.path(found[0])
        try:
            return ErasureReport.from_json(self.warehouse.read_bytes(path))
        except (ValueError, KeyError, TypeError, Invalid) as error:
            raise Corrupt(f"the report of an erasure can't be read: {error!r}", topic=self.topic, file=path) from error
