"""The seal: with each commit, what Floeberg left behind, so that anything another program changed shows at a glance.

Table properties. ``floeberg.seal`` names the table, the snapshot, a checksum of the properties that say what the table
holds and one of its manifests; it is written in the same commit as that snapshot. ``floeberg.seal_schema`` names the
schema that Floeberg made last, and the partitioning, with a checksum of both. ``floeberg.guard.<name>`` is the checksum
of one property that changes without a snapshot: commits of two daemons may lie over each other, so each of those has
its own. Other daemons write them too: their commits break nothing. Tables sealed by an earlier version lack some of
these parts, and get them with their next commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Self

import crc32c
from pyiceberg.table.metadata import TableMetadata

from engine.errors import Invalid
from engine.table.latest_line import LATEST_PREFIX
from engine.table.ledger import LEDGER_PREFIX, LINES_KEPT
from engine.table.manifest_seal import SUM_BYTES, ManifestSeal, sum_of
from engine.table.properties import (
    ADOPTED_PREFIX,
    CLUSTER_ID_PROPERTY,
    COLUMNS_PROPERTY,
    EMPTY_PREFIX,
    ERASED_PREFIX,
    FORMAT_VERSION_PROPERTY,
    KEY_PROPERTIES,
    LAYOUT_PROPERTY,
    SKIPPED_PREFIX,
    SWEPT_PROPERTY,
    TOPIC_ID_PROPERTY,
    TOPIC_PROPERTY,
    VALUE_PROPERTIES,
)
from engine.table.stream_branch import StreamSeal

SEAL_PROPERTY = "floeberg.seal"
SCHEMA_SEAL_PROPERTY = "floeberg.seal_schema"

GUARD_PREFIX = "floeberg.guard."

_FIRST_SCHEMA_ID = _FIRST_SPEC_ID = 0
_SCHEMA_SEAL_PARTS = 3
"""Schema id, partition spec id, checksum of both."""

_SEALS_KEPT = 256
"""Parsed seals: a commit looks at one table's four times."""

# What only a commit with a snapshot changes.
_SEALED_PREFIXES = (
    LEDGER_PREFIX,
    EMPTY_PREFIX,
    SKIPPED_PREFIX,
    ADOPTED_PREFIX,
    ERASED_PREFIX,
    LATEST_PREFIX,
    SWEPT_PROPERTY,
)
_CODECS = (VALUE_PROPERTIES, KEY_PROPERTIES)
_SEALED_NAMES = frozenset(
    {
        FORMAT_VERSION_PROPERTY,
        CLUSTER_ID_PROPERTY,
        TOPIC_PROPERTY,
        TOPIC_ID_PROPERTY,
        LAYOUT_PROPERTY,
        *(names.codec for names in _CODECS),
    }
)

_ONCE_WRITTEN_PREFIXES = tuple(
    prefix for names in _CODECS for prefix in (names.schema, names.schema_file, names.placement)
)
_GUARDED_NAMES = frozenset({COLUMNS_PROPERTY, *(names.order for names in _CODECS)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """``table_uuid`` and ``snapshot_id`` are None in a new table; ``total`` the sum of the sealed properties' hashes,
    ``rules`` a checksum of those among them that say how rows become records. ``rules`` and ``manifests`` are None in
    seals of before, which may have a ``checksum`` of all sealed properties instead of their ``total``.
    ``stream`` None while no file is in the stream's own branch."""

    table_uuid: str | None
    snapshot_id: int | None
    total: int | None
    checksum: int | None = None
    rules: int | None = None
    manifests: ManifestSeal | None = None
    stream: StreamSeal | None = None

    def to_json(self) -> str:
        value: dict[str, Any] = {
            "table": self.table_uuid,
            "snapshot": self.snapshot_id,
        }
        if self.total is not None:
            value["sum"] = f"{self.total:016x}"
        if self.checksum is not None:
            value["properties"] = f"{self.checksum:08x}"
        if self.rules is not None:
            value["rules"] = f"{self.rules:08x}"
        if self.manifests is not None:
            value["manifests"] = self.manifests.to_json()
        if self.stream is not None:
            value["stream"] = self.stream.to_json()
        return json.dumps(value)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises Invalid when the text is not what ``to_json`` writes."""
        try:
            value = json.loads(text)
            return cls(
                table_uuid=None if value["table"] is None else str(value["table"]),
                snapshot_id=None if value["snapshot"] is None else int(value["snapshot"]),
                total=int(value["sum"], 16) if "sum" in value else None,
                checksum=None if "sum" in value else int(value["properties"], 16),
                rules=int(value["rules"], 16) if "rules" in value else None,
                manifests=ManifestSeal.from_json(value["manifests"]) if "manifests" in value else None,
                stream=StreamSeal.from_json(value["stream"]) if "stream" in value else None,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise Invalid(f"a seal is not the JSON that this program writes: {error!r}") from error

    def is_of(self, properties: Mapping[str, str]) -> bool:
        """Whether the sealed ones among a table's properties are those that were sealed."""
        if self.total is not None:
            return self.total == sealed_total(properties)
        return self.checksum == _checksum({name: text for name, text in properties.items() if is_sealed(name)})


def sealed_total(properties: Mapping[str, str]) -> int:
    """The sum of the hashes of the properties that a seal covers: a commit changes few of thousands, and each text is
    hashed once."""
    return sum_of(_hashed(name, text) for name, text in properties.items() if is_sealed(name))


@lru_cache(maxsize=LINES_KEPT)
def _hashed(name: str, text: str) -> int:
    return int.from_bytes(blake2b(f"{len(name)} {name}{text}".encode(), digest_size=SUM_BYTES).digest())


def rules_checksum(properties: Mapping[str, str]) -> int:
    """CRC-32C of the sealed properties without which no row can be turned back into its record."""
    return _checksum({name: properties[name] for name in _SEALED_NAMES if name in properties})


def is_sealed(name: str) -> bool:
    return name in _SEALED_NAMES or name.startswith(_SEALED_PREFIXES)


def is_guarded(name: str) -> bool:
    """Whether a property has a checksum of its own."""
    return name in _GUARDED_NAMES or name.startswith(_ONCE_WRITTEN_PREFIXES)


def guards_of(properties: Mapping[str, str]) -> dict[str, str]:
    """The guards of those of the ``properties`` that get one, as properties to set with them."""
    return {f"{GUARD_PREFIX}{name}": _guard(name, text) for name, text in properties.items() if is_guarded(name)}


def lacking_guards(properties: Mapping[str, str]) -> dict[str, str]:
    """The guards that a table of an earlier version lacks: of what is written once, or only with the schema, for the
    rest a commit that lies over another's could guard what is not there any more."""
    once = (*_ONCE_WRITTEN_PREFIXES, COLUMNS_PROPERTY)
    guards = guards_of({name: text for name, text in properties.items() if name.startswith(once)})
    return {name: text for name, text in guards.items() if name not in properties}


def broken_guards(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The properties that are not what their guards say, or are gone."""
    return tuple(
        sorted(
            name.removeprefix(GUARD_PREFIX)
            for name, told in properties.items()
            if name.startswith(GUARD_PREFIX) and told != _guarded_text(properties, name.removeprefix(GUARD_PREFIX))
        )
    )


def has_unguarded_columns(properties: Mapping[str, str]) -> bool:
    """Whether somebody put Floeberg's columns there: whoever seals a schema with its checksum guards them."""
    is_checked = properties.get(SCHEMA_SEAL_PROPERTY, "").count("/") == _SCHEMA_SEAL_PARTS - 1
    return is_checked and COLUMNS_PROPERTY in properties and f"{GUARD_PREFIX}{COLUMNS_PROPERTY}" not in properties


def _guarded_text(properties: Mapping[str, str], name: str) -> str | None:
    return None if name not in properties else _guard(name, properties[name])


def _guard(name: str, text: str) -> str:
    return f"{crc32c.crc32c(text.encode(), crc32c.crc32c(name.encode())):08x}"


def _checksum(properties: Mapping[str, str]) -> int:
    return int(crc32c.crc32c(json.dumps(sorted(properties.items())).encode()))


def total_after(properties: Mapping[str, str], changed: Mapping[str, str]) -> int:
    """``sealed_total`` once ``changed`` is set, of sealed ``properties``: by what differs, where the seal has a sum."""
    seal = seal_of(properties)
    if seal is None or seal.total is None:
        return sealed_total({**properties, **changed})
    before = {name: properties[name] for name in changed if name in properties}
    return sum_of((seal.total, sealed_total(changed), -sealed_total(before)))


def seal_property(
    properties: Mapping[str, str],
    *,
    table_uuid: str | None,
    snapshot_id: int | None,
    manifests: ManifestSeal | None = None,
    total: int | None = None,
    stream: StreamSeal | None = None,
) -> dict[str, str]:
    """The seal of a table that has these ``properties`` and this newest snapshot, as a property to set; ``total`` of
    them where it is known."""
    seal = Seal(
        table_uuid=table_uuid,
        snapshot_id=snapshot_id,
        total=sealed_total(properties) if total is None else total,
        rules=rules_checksum(properties),
        manifests=manifests,
        stream=stream,
    )
    return {SEAL_PROPERTY: seal.to_json()}


def new_schema_seal_property() -> dict[str, str]:
    """The seal of the columns that a table is created with, which only the catalog gives their ids."""
    return {SCHEMA_SEAL_PROPERTY: f"{_FIRST_SCHEMA_ID}/{_FIRST_SPEC_ID}"}


def schema_seal_property(metadata: TableMetadata) -> dict[str, str]:
    """Which schema and partition spec are Floeberg's own, and what they are, as a property to set."""
    named = f"{metadata.current_schema_id}/{metadata.default_spec_id}"
    return {SCHEMA_SEAL_PROPERTY: f"{named}/{_schema_checksum(metadata):08x}"}


def _schema_checksum(metadata: TableMetadata) -> int:
    """Of names, ids, types and order of the columns, and of the partitioning: no program changes those under the ids
    they have. ``last_column_id`` too, below which no new column may begin."""
    fields = [str(field) for field in metadata.spec().fields]
    told = json.dumps([str(metadata.schema().as_struct()), fields, metadata.last_column_id])
    return int(crc32c.crc32c(told.encode()))


def is_schema_edited(metadata: TableMetadata) -> bool:
    """Whether the sealed schema or spec is another one under its id."""
    told = metadata.properties.get(SCHEMA_SEAL_PROPERTY, "").split("/")
    is_current = sealed_schema(metadata.properties) == (metadata.current_schema_id, metadata.default_spec_id)
    if len(told) < _SCHEMA_SEAL_PARTS or not is_current:
        return False
    return bool(told[2] != f"{_schema_checksum(metadata):08x}")


def lacking_schema_seal(metadata: TableMetadata) -> dict[str, str]:
    """The schema's seal with its checksum, where an earlier version or a new table has it without."""
    lacks = metadata.properties.get(SCHEMA_SEAL_PROPERTY, "").count("/") == 1
    is_current = sealed_schema(metadata.properties) == (metadata.current_schema_id, metadata.default_spec_id)
    return schema_seal_property(metadata) if lacks and is_current else {}


def seal_of(properties: Mapping[str, str]) -> Seal | None:
    """The seal of a table; None where it has none, or one that this program did not write."""
    text = properties.get(SEAL_PROPERTY)
    return None if text is None else _seal_in(text)


@lru_cache(maxsize=_SEALS_KEPT)
def _seal_in(text: str) -> Seal | None:
    try:
        return Seal.from_json(text)
    except Invalid:
        return None


def current_manifest_seal(metadata: TableMetadata) -> ManifestSeal | None:
    """What is sealed of the current snapshot's manifests; None where another program made the snapshot, or the seal is
    of an earlier version."""
    seal = seal_of(metadata.properties)
    if seal is None or seal.snapshot_id is None or seal.snapshot_id != metadata.current_snapshot_id:
        return None
    return seal.manifests


def sealed_stream(metadata: TableMetadata) -> StreamSeal | None:
    """What is sealed of the stream's branch; None where there is none."""
    seal = seal_of(metadata.properties)
    return None if seal is None else seal.stream


def sealed_schema(properties: Mapping[str, str]) -> tuple[int, int] | None:
    """(schema id, partition spec id), or None where nobody has sealed them."""
    schema_id, _, rest = properties.get(SCHEMA_SEAL_PROPERTY, "").partition("/")
    spec_id = rest.partition("/")[0]
    return (int(schema_id), int(spec_id)) if schema_id.isdecimal() and spec_id.isdecimal() else None
