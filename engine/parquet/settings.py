"""How each column of a topic is encoded: chosen once from a sample of its first block and remembered with the table.

The measurements behind the fixed part (row groups, pages, codec) are in docs/row_format.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.errors import Invalid
from engine.parquet.leaves import leaves
from engine.parquet.row_counts import ROW_GROUP_ROWS

PAGE_ROWS = 4096
"""Rows of a page, the same in every column, so that a reader can decode rows out of the middle of a row group."""

SAMPLE_ROWS = 32 * 1024
"""Rows an encoding is chosen from: half a row group shows how often values repeat."""

_COMPRESSION = "zstd"
_COMPRESSION_LEVEL = 1
# Far above what a row group can hold: pages are cut by rows alone, and dictionaries never fall back in the middle of a
# column, which would shift its pages against the others'.
_UNREACHED_BYTES = 1 << 30

DICTIONARY = "DICTIONARY"
PLAIN = "PLAIN"
DELTA_BINARY_PACKED = "DELTA_BINARY_PACKED"
DELTA_LENGTH_BYTE_ARRAY = "DELTA_LENGTH_BYTE_ARRAY"
DELTA_BYTE_ARRAY = "DELTA_BYTE_ARRAY"
ENCODINGS = frozenset({DICTIONARY, PLAIN, DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY})

ENCODINGS_PROPERTY = "floeberg.parquet_settings"
UNCOMPRESSED_PROPERTY = "floeberg.uncompressed_columns"
"""Apart from the encodings, which earlier versions read too."""

_DICTIONARY_REPEATS = 0.5
"""A dictionary is tried where at most this share of the values is distinct: beyond it, it costs and saves nothing."""

_WORTH_COMPRESSING = 0.95
"""Compression that leaves more than this share of a sample is left out; every reader saves its time too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSettings:
    """The encoding of each leaf column by its path in the file (``items.list.element.sku``), and which columns' pages
    are not compressed."""

    encodings: Mapping[str, str] = field(default_factory=dict)
    uncompressed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for path, encoding in self.encodings.items():
            if encoding not in ENCODINGS:
                raise Invalid(f"the column {path} is to be encoded as {encoding}, which no writer here does")

    def to_properties(self) -> dict[str, str]:
        """As a table remembers them."""
        return {
            ENCODINGS_PROPERTY: json.dumps(dict(self.encodings), sort_keys=True),
            UNCOMPRESSED_PROPERTY: json.dumps(sorted(self.uncompressed)),
        }

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self | None:
        """None where a table remembers none. Raises Invalid when they are not what ``to_properties`` makes."""
        if ENCODINGS_PROPERTY not in properties:
            return None
        try:
            return cls(
                encodings=dict(json.loads(properties[ENCODINGS_PROPERTY])),
                # Tables of earlier versions say nothing: all is compressed.
                uncompressed=frozenset(json.loads(properties.get(UNCOMPRESSED_PROPERTY, "[]"))),
            )
        except (ValueError, TypeError) as error:
            raise Invalid(f"Parquet settings are not the JSON that this program writes: {error!r}") from error

    def or_else(self, others: Self) -> Self:
        """These, and those of ``others`` for columns that have none here."""
        added = others.encodings.keys() - self.encodings.keys()
        return replace(
            self,
            encodings={**others.encodings, **self.encodings},
            uncompressed=self.uncompressed | (others.uncompressed & added),
        )

    def covers(self, schema: pa.Schema) -> bool:
        """Whether every leaf of a schema has its encoding chosen; a table that grew a column has one without, and one
        that was promoted may not be able to keep its own."""
        return all(_can_encode(self.encodings.get(path), leaf.type) for path, leaf in leaves(schema))

    def encoding_of(self, path: str, kind: pa.DataType) -> str:
        """How a leaf is encoded; one that no sample was seen of, in the way that is never bad."""
        encoding = self.encodings.get(path)
        return encoding if encoding is not None and _can_encode(encoding, kind) else _without_sample(kind)

    def writer_options(self, schema: pa.Schema) -> dict[str, Any]:
        """The keyword arguments for ``pyarrow.parquet.ParquetWriter``."""
        encodings = {path: self.encoding_of(path, leaf.type) for path, leaf in leaves(schema)}
        compressed = [path for path in encodings if path not in self.uncompressed]
        return {
            "compression": {path: _COMPRESSION if path in compressed else "none" for path in encodings},
            "compression_level": dict.fromkeys(compressed, _COMPRESSION_LEVEL),
            "use_dictionary": [path for path, encoding in encodings.items() if encoding == DICTIONARY],
            "column_encoding": {path: encoding for path, encoding in encodings.items() if encoding != DICTIONARY},
            "data_page_size": _UNREACHED_BYTES,
            "dictionary_pagesize_limit": _UNREACHED_BYTES,
            "max_rows_per_page": PAGE_ROWS,
            "write_batch_size": PAGE_ROWS,
            "write_page_index": True,
            # zstd frames carry no checksum here: without one, a flipped byte may decode to a wrong value.
            "write_page_checksum": True,
            "store_schema": False,
            "store_decimal_as_integer": True,
        }


def choose_settings(sample: pa.Table, remembered: ParquetSettings | None = None) -> ParquetSettings:
    """The encodings for rows like the ``sample``'s (its first SAMPLE_ROWS are looked at).

    What is ``remembered`` stays; only columns it does not know, or not for their type, are looked at. Each candidate
    is tried on the sample and the smallest wins.
    """
    encodings = dict(remembered.encodings) if remembered else {}
    uncompressed = set(remembered.uncompressed) if remembered else set()
    unknown = {path for path, leaf in leaves(sample.schema) if not _can_encode(encodings.get(path), leaf.type)}
    if unknown:
        rows = sample.slice(0, SAMPLE_ROWS).combine_chunks()
        for column in sample.schema:
            for path, values in _leaf_arrays(_single(rows.column(column.name)), column.name):
                if path in unknown:
                    encodings[path] = _choose(values)
                    uncompressed.discard(path)
                    if not _is_worth_compressing(values, encodings[path]):
                        uncompressed.add(path)
    return ParquetSettings(encodings=encodings, uncompressed=frozenset(uncompressed))


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _leaf_arrays(array: pa.Array, path: str) -> list[tuple[str, pa.Array]]:
    kind = array.type
    if pa.types.is_struct(kind):
        named = zip(kind, array.flatten(), strict=True)
        return [leaf for child, values in named for leaf in _leaf_arrays(values, f"{path}.{child.name}")]
    if pa.types.is_list(kind):
        return _leaf_arrays(array.flatten(), f"{path}.list.element")
    if pa.types.is_map(kind):
        keys = _leaf_arrays(array.keys, f"{path}.key_value.key")
        return keys + _leaf_arrays(array.items, f"{path}.key_value.value")
    return [(path, array)]


def _choose(values: pa.Array) -> str:
    values = _plain(values).drop_null()
    candidates = _candidates(values.type)
    if len(values) == 0 or len(candidates) == 1:
        return _without_sample(values.type)
    distinct = len(pc.unique(values))
    if distinct > _DICTIONARY_REPEATS * len(values):
        candidates = tuple(encoding for encoding in candidates if encoding != DICTIONARY)
    return candidates[0] if len(candidates) == 1 else min(candidates, key=lambda encoding: _size(values, encoding))


def _is_worth_compressing(values: pa.Array, encoding: str) -> bool:
    """Text always is: later values may repeat what the sample's did not. What packs bits seldom is."""
    values = _plain(values)
    if encoding in {DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY} or values.null_count == len(values):
        return True
    return _size(values, encoding) <= _WORTH_COMPRESSING * _size(values, encoding, uncompressed=True)


def _plain(values: pa.Array) -> pa.Array:
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def _candidates(kind: pa.DataType) -> tuple[str, ...]:
    if pa.types.is_boolean(kind):
        return (PLAIN,)
    if _is_stored_as_integer(kind):
        return (DELTA_BINARY_PACKED, DICTIONARY)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return (DICTIONARY, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY)
    return (DICTIONARY, PLAIN)


def _can_encode(encoding: str | None, kind: pa.DataType) -> bool:
    """Whether values of a type can be written in an encoding; decimals of many digits are no integers any more."""
    return encoding == PLAIN or encoding in _candidates(kind)


def _is_stored_as_integer(kind: pa.DataType) -> bool:
    if pa.types.is_decimal128(kind):
        return bool(kind.precision <= 18)
    return pa.types.is_integer(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def _without_sample(kind: pa.DataType) -> str:
    """The encoding that is never bad, for a column nothing is known of."""
    return next(encoding for encoding in reversed(_candidates(kind)) if encoding not in {DICTIONARY, DELTA_BYTE_ARRAY})


def _size(values: pa.Array, encoding: str, *, uncompressed: bool = False) -> int:
    """Bytes of a column chunk of these values."""
    schema = pa.schema([pa.field("x", values.type)])
    settings = ParquetSettings(encodings={"x": encoding}, uncompressed=frozenset({"x"} if uncompressed else ()))
    written: list[pq.FileMetaData] = []
    with pq.ParquetWriter(
        pa.BufferOutputStream(), schema, metadata_collector=written, **settings.writer_options(schema)
    ) as writer:
        writer.write_table(pa.table([values], schema=schema), row_group_size=ROW_GROUP_ROWS)
    return int(written[0].row_group(0).column(0).total_compressed_size)
