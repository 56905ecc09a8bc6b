"""The seal: with each commit, what Floeberg left behind, so that anything another program changed shows at a glance.

Two table properties. ``floeberg.seal`` names the table, the snapshot and a checksum of the properties that say what
the table holds; it is written in the same commit as that snapshot. ``floeberg.seal_schema`` names the schema that
Floeberg made last, and the partitioning. Other daemons write them too: their commits break nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import crc32c

from engine.errors import Invalid
from engine.table.ledger import LEDGER_PREFIX
from engine.table.topic_table import (
    ADOPTED_PREFIX,
    CLUSTER_ID_PROPERTY,
    CODEC_PROPERTY,
    EMPTY_PREFIX,
    FORMAT_VERSION_PROPERTY,
    KEY_CODEC_PROPERTY,
    LAYOUT_PROPERTY,
    SKIPPED_PREFIX,
    TOPIC_ID_PROPERTY,
    TOPIC_PROPERTY,
)

SEAL_PROPERTY = "floeberg.seal"
SCHEMA_SEAL_PROPERTY = "floeberg.seal_schema"

# What only a commit with a snapshot changes. Schemas, columns and remembered encodings also change without one, and
# guard themselves: a table without them is read wrong by no one.
_SEALED_PREFIXES = (LEDGER_PREFIX, EMPTY_PREFIX, SKIPPED_PREFIX, ADOPTED_PREFIX)
_SEALED_NAMES = frozenset(
    {
        FORMAT_VERSION_PROPERTY,
        CLUSTER_ID_PROPERTY,
        TOPIC_PROPERTY,
        TOPIC_ID_PROPERTY,
        LAYOUT_PROPERTY,
        CODEC_PROPERTY,
        KEY_CODEC_PROPERTY,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """``table_uuid`` and ``snapshot_id`` are None in a new table; ``checksum`` of the sealed properties."""

    table_uuid: str | None
    snapshot_id: int | None
    checksum: int

    def to_json(self) -> str:
        return json.dumps(
            {"table": self.table_uuid, "snapshot": self.snapshot_id, "properties": f"{self.checksum:08x}"}
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises Invalid when the text is not what ``to_json`` writes."""
        try:
            value = json.loads(text)
            return cls(
                table_uuid=None if value["table"] is None else str(value["table"]),
                snapshot_id=None if value["snapshot"] is None else int(value["snapshot"]),
                checksum=int(value["properties"], 16),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise Invalid(f"a seal is not the JSON that this program writes: {error!r}") from error


def sealed_checksum(properties: Mapping[str, str]) -> int:
    """CRC-32C of the properties that a seal covers, by name."""
    named = sorted((name, text) for name, text in properties.items() if is_sealed(name))
    return int(crc32c.crc32c(json.dumps(named).encode()))


def is_sealed(name: str) -> bool:
    return name in _SEALED_NAMES or name.startswith(_SEALED_PREFIXES)


def seal_property(properties: Mapping[str, str], *, table_uuid: str | None, snapshot_id: int | None) -> dict[str, str]:
    """The seal of a table that has these ``properties`` and this newest snapshot, as a property to set."""
    seal = Seal(table_uuid=table_uuid, snapshot_id=snapshot_id, checksum=sealed_checksum(properties))
    return {SEAL_PROPERTY: seal.to_json()}


def schema_seal_property(schema_id: int, spec_id: int) -> dict[str, str]:
    """Which schema and partition spec are Floeberg's own, as a property to set."""
    return {SCHEMA_SEAL_PROPERTY: f"{schema_id}/{spec_id}"}


def seal_of(properties: Mapping[str, str]) -> Seal | None:
    """The seal of a table; None where it has none, or one that this program did not write."""
    text = properties.get(SEAL_PROPERTY)
    try:
        return None if text is None else Seal.from_json(text)
    except Invalid:
        return None


def sealed_schema(properties: Mapping[str, str]) -> tuple[int, int] | None:
    """(schema id, partition spec id), or None where nobody has sealed them."""
    schema_id, _, spec_id = properties.get(SCHEMA_SEAL_PROPERTY, "").partition("/")
    return (int(schema_id), int(spec_id)) if schema_id.isdecimal() and spec_id.isdecimal() else None
