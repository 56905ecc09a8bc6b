"""The port that every value format implements: bytes to columns with a verdict a record, and columns back to bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import partial
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Invalid
from engine.formats.format_facts import ENVELOPES, facts_of
from engine.records.records import ByteSpans

NO_REASON = -1

INFERENCE, OPEN = "inference", "open"
"""The option, and its value, by which a codec may propose a schema for values that name none."""

INFER_RECORDS, DEFAULT_INFER_RECORDS = "infer_records", 100_000
"""A table that holds this many offsets has the columns it keeps."""

PLAIN_SCHEMA_ID = -1
"""The schema of values that name none: the newest of the topic, which no registry gives this id."""

EVERY_OTHER_ID = -(1 << 31)
"""In ``CodecSpec.unresolved``: so many ids can't be resolved that no more are asked for. No schema has this id."""

Placement: TypeAlias = Mapping[str, str]
"""Where a schema's fields stand that are not in the column of their own name: the field's path in the schema
(``items[].sku``, ``tags{}.x``) to the column's name within its parent, "" for a field without a column."""

Columns: TypeAlias = pa.StructArray | Mapping[str, pa.Array | pa.ChunkedArray]


class Verdict(IntEnum):
    """Whether a record's typed columns alone give its bytes back."""

    EXACT = 0
    """The typed columns are enough."""
    KEEP_RAW = 1
    """Typed columns exist (single fields may be null where they can't hold the value); the bytes must be kept too."""
    UNDECODABLE = 2
    """No typed columns: the bytes must be kept, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecSpec:
    """Everything a worker needs to open a codec: no network, no registry, picklable.

    ``name`` is the format's; ``schemas`` maps a writer schema's id to its
    text with all references resolved; ``unresolved`` maps an id that nobody can resolve to the reason;
    ``placements`` says for a schema's id which of its fields do not stand in the column of their own name.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    schemas: Mapping[int, str] = field(default_factory=dict)
    unresolved: Mapping[int, str] = field(default_factory=dict)
    placements: Mapping[int, Placement] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(
            {
                "name": self.name,
                "options": dict(self.options),
                "schemas": {str(schema_id): text for schema_id, text in self.schemas.items()},
                "unresolved": {str(schema_id): reason for schema_id, reason in self.unresolved.items()},
                "placements": {str(schema_id): dict(placement) for schema_id, placement in self.placements.items()},
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises Invalid when the text is not what ``to_json`` writes."""
        try:
            value = json.loads(text)
            return cls(
                name=value["name"],
                options=dict(value["options"]),
                schemas={int(schema_id): schema for schema_id, schema in value["schemas"].items()},
                unresolved={int(schema_id): reason for schema_id, reason in value["unresolved"].items()},
                placements={int(schema_id): dict(one) for schema_id, one in value.get("placements", {}).items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Invalid(f"a codec specification is not the JSON that this program writes: {error!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoded:
    """What became of ``n`` values.

    ``columns`` struct array of n rows, never null itself, one child a value field in the codec's order;
    ``schema_id`` int32[n], null where the value names none; ``verdict`` uint8[n] of Verdict;
    ``reason`` int32[n], index into ``reasons`` or -1; ``missing_schema_ids``: ids the specification neither knows nor
    lists as unresolved (their rows are UNDECODABLE here, and are worth another try with a fuller specification);
    ``proposed_schema`` the text of a schema inferred from values that name none, by which more of them would fit.

    Valid until the next ``decode`` of the same codec, which may write over the same memory.
    """

    columns: pa.StructArray
    schema_id: pa.Array
    verdict: NDArray[np.uint8]
    reason: NDArray[np.int32]
    reasons: tuple[str, ...]
    missing_schema_ids: frozenset[int]
    proposed_schema: str | None = None

    def __len__(self) -> int:
        return len(self.verdict)

    def reason_of(self, row: int) -> str | None:
        index = int(self.reason[row])
        return None if index == NO_REASON else self.reasons[index]


class ValueCodec(Protocol):
    """One format with the schemas of one topic. Not to be shared between threads: a codec owns its scratch memory."""

    name: str
    version: int
    fields: tuple[pa.Field, ...]

    def decode(self, values: ByteSpans) -> Decoded:
        """Typed columns in the order of ``fields``. A null value is a row of nulls with the verdict EXACT."""

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        """The bytes of the rows that are ``wanted`` (bool[n]), null for the others: the inverse of ``decode``.

        ``columns`` as any Parquet reader returns them: slices, chunks and dictionary-encoded strings included; a
        column that is missing counts as null. Raises Corrupt where a wanted row can't be what ``decode`` wrote.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSchema:
    """A writer schema that the table has columns for already: its text, and where its fields stand."""

    text: str
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProposal:
    """The value columns a table needs once a writer schema is added to it.

    ``fields`` the existing ones in their order, types widened where the schema needs it, with what is new appended at
    every level; ``placement`` to be kept with the schema, for it decides how its records are written and read back;
    ``conflicts`` names each field whose type its column can't take, both types, and what becomes of it; ``unmapped``
    describes the fields of the schema that no column can hold (their records keep their bytes).
    """

    fields: tuple[pa.Field, ...]
    placement: Placement = field(default_factory=dict)
    conflicts: tuple[str, ...] = ()
    unmapped: tuple[str, ...] = ()


class OnConflict(StrEnum):
    """What becomes of a field whose type its column can't take (a topic's ``on_conflict``)."""

    SIBLING = "sibling"
    """It gets a column of its own beside, ``<name>__<type>``."""
    RAW = "raw"
    """It gets none: the records that have it keep their bytes."""


def open_codec(spec: CodecSpec, fields: Sequence[pa.Field]) -> ValueCodec:
    """The codec of a topic, its output conforming to ``fields``, the table's value columns.

    Raises Invalid for a format that does not exist or columns that the format can't fill.
    """
    # A worker imports only the format it runs: Avro's kernels take longer to load than a raw topic takes to rewrite.
    opened = partial(resolve_name(facts_of(spec.name).codec).open_codec, spec)
    envelope = _envelope(spec.options)
    if envelope is not None:
        opened = partial(envelope.open_codec, spec.name, opened)
    codec: ValueCodec = opened(tuple(fields))
    return codec


def propose_fields(
    spec_name: str,
    schema_text: str,
    existing: Sequence[pa.Field],
    *,
    known: Sequence[KnownSchema] = (),
    on_conflict: OnConflict = OnConflict.SIBLING,
    options: Mapping[str, str] = MappingProxyType({}),
) -> FieldProposal:
    """The columns for a writer schema beside the ``existing`` ones; formats without schemas ignore the text.

    ``known`` the schemas the columns come from, oldest first: by them a renamed field is known again. ``options`` the
    codec's. Raises Invalid for a format that does not exist or a text that is no schema.
    """
    of_format = resolve_name(facts_of(spec_name).codec).propose_fields
    proposed = partial(of_format, schema_text, known=tuple(known), on_conflict=OnConflict(on_conflict))
    envelope = _envelope(options)
    if envelope is not None:
        proposed = partial(envelope.propose_fields, spec_name, proposed)
    proposal: FieldProposal = proposed(tuple(existing))
    return proposal


def _envelope(options: Mapping[str, str]) -> Any | None:
    """The module that lays an envelope's content flat, where the option ``unwrap`` names one."""
    name = options.get("unwrap")
    if name is None:
        return None
    if name not in ENVELOPES:
        raise Invalid(f"there is no envelope {name!r}; there is {', '.join(sorted(ENVELOPES))}")
    return resolve_name(ENVELOPES[name])
