"""Which files have records that would get columns, or more of them, if they were decoded again: pure.

A file's footer says what it was written with; what is known now makes the difference (docs/repair.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from engine.table.data_file import FileFooter
from engine.table.manifests import TableFile
from engine.table.rows.rows import RowCodecs
from engine.table.topic_table import TableFacts

MOST_IDS_WANTED = 1024
"""Schemas that are asked for, those of the most records: bytes that name no schema at all may look like any number."""


class RetryReason(StrEnum):
    """Why a file is worth another try."""

    NEW_SCHEMA = "a schema that was missing is known"
    NEW_CODEC = "this version decodes better"
    UNSAID = "the file does not say what it lacked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What decoding goes by now: the codecs' versions and the schemas stored with the table."""

    codec_version: int
    schema_ids: frozenset[int] = frozenset()
    key_codec_version: int | None = None
    key_schema_ids: frozenset[int] = frozenset()

    @classmethod
    def of(cls, facts: TableFacts, codecs: RowCodecs) -> Knowledge:
        """For a table; ``codecs`` any that were opened for it, for their versions."""
        key_codec = facts.key_codec
        return cls(
            codec_version=codecs.value.version,
            schema_ids=frozenset(facts.codec.schemas),
            key_codec_version=None if codecs.key is None else codecs.key.version,
            key_schema_ids=frozenset() if key_codec is None else frozenset(key_codec.schemas),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What a file's footer says that its records went without; as in FileFooter."""

    codec_version: int
    unresolved: Mapping[int, int] | None
    key_codec_version: int | None
    unresolved_keys: Mapping[int, int] | None

    @classmethod
    def of(cls, footer: FileFooter) -> Missing:
        return cls(
            codec_version=footer.codec_version,
            unresolved=footer.unresolved,
            key_codec_version=footer.key_codec_version,
            unresolved_keys=footer.unresolved_keys,
        )

    @property
    def rows_without_schema(self) -> int:
        """A row that misses one for its value and one for its key counts twice."""
        return sum((self.unresolved or {}).values()) + sum((self.unresolved_keys or {}).values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file of the table with rows that say why they keep their bytes."""

    file: TableFile
    missing: Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSchemas:
    """Ids that records name and the table has no schema for, by how many records do."""

    value: Mapping[int, int] = field(default_factory=dict)
    key: Mapping[int, int] = field(default_factory=dict)

    def most(self, limit: int = MOST_IDS_WANTED) -> tuple[list[int], list[int]]:
        """The ids (of values, of keys) that most records wait for, in that order."""
        return _most(self.value, limit), _most(self.key, limit)

    def __bool__(self) -> bool:
        return bool(self.value or self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """``chosen`` in the order to work on them, with the reason; ``left`` how many more there are for a next turn."""

    chosen: tuple[tuple[Candidate, RetryReason], ...]
    left: int


def wanted_schemas(candidates: Sequence[Candidate], known: Knowledge) -> WantedSchemas:
    """What a source of schemas should be asked for before anything is planned."""
    value: Counter[int] = Counter()
    key: Counter[int] = Counter()
    for candidate in candidates:
        value.update(candidate.missing.unresolved or {})
        key.update(candidate.missing.unresolved_keys or {})
    return WantedSchemas(
        value={one: rows for one, rows in value.items() if one not in known.schema_ids},
        key={one: rows for one, rows in key.items() if one not in known.key_schema_ids},
    )


def retry_reason(missing: Missing, known: Knowledge) -> RetryReason | None:
    """Why decoding again could give a file's records more columns; None where it could not."""
    values, keys = missing.unresolved or {}, missing.unresolved_keys or {}
    if known.schema_ids & values.keys() or known.key_schema_ids & keys.keys():
        return RetryReason.NEW_SCHEMA
    if missing.codec_version < known.codec_version or (missing.key_codec_version or 0) < (known.key_codec_version or 0):
        return RetryReason.NEW_CODEC
    if missing.unresolved is None:
        return RetryReason.UNSAID
    return None


def rows_helped(missing: Missing, known: Knowledge) -> int:
    """Records that went without columns for want of a schema that is known now."""
    value = sum(rows for schema_id, rows in (missing.unresolved or {}).items() if schema_id in known.schema_ids)
    return value + sum(rows for one, rows in (missing.unresolved_keys or {}).items() if one in known.key_schema_ids)


def plan_repair(
    candidates: Sequence[Candidate],
    known: Knowledge,
    *,
    max_files: int,
    max_bytes: int,
) -> RepairPlan:
    """Files worth a try, in the order of partitions and offsets, as many as the bounds let: one at least."""
    in_order = sorted(candidates, key=lambda candidate: candidate.file)
    reasons = ((candidate, retry_reason(candidate.missing, known)) for candidate in in_order)
    worthwhile = [(candidate, reason) for candidate, reason in reasons if reason is not None]
    chosen, size_bytes = 0, 0
    for candidate, _ in worthwhile[:max_files]:
        size_bytes += candidate.file.size_bytes
        if chosen and size_bytes > max_bytes:
            break
        chosen += 1
    return RepairPlan(chosen=tuple(worthwhile[:chosen]), left=len(worthwhile) - chosen)


def _most(rows: Mapping[int, int], limit: int) -> list[int]:
    return [schema_id for schema_id, _ in Counter(rows).most_common(limit)]
