"""What is true of a table file's leaf columns, recomputed from the values: counts, nulls, NaNs, extremes.

Whoever claims something of a file (its footer, its page index, the manifest) is compared with these, the manifest not
with Parquet's statistics, which it was made from. Its bounds may be wider than the values (strings are cut to 16
characters); one that excludes a value is false, and an engine that trusts it returns too few rows. Source: Iceberg
spec, "Manifests" and Appendix D (single-value serialization).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Context
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from engine.parquet.leaves import FIELD_ID_KEY

_EXACT = Context(prec=38)
"""Python's own context rounds to 28 digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafFacts:
    """What is true of one leaf column: entries (an empty or null list counts one), nulls among them, NaNs, extremes.

    ``least`` and ``greatest`` as the column's order compares them: bytes for strings and binaries, numbers else (a
    timestamp is its integer, a decimal its unscaled integer); None where the column has no value.
    """

    value_count: int = 0
    null_count: int = 0
    nan_count: int = 0
    least: Any = None
    greatest: Any = None

    def merged(self, other: Self) -> Self:
        """The facts of two parts of a column together."""
        return type(self)(
            value_count=self.value_count + other.value_count,
            null_count=self.null_count + other.null_count,
            nan_count=self.nan_count + other.nan_count,
            least=_choose(min, self.least, other.least),
            greatest=_choose(max, self.greatest, other.greatest),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A leaf column by its field id, with the path an operator knows it by."""

    field_id: int
    path: str
    kind: pa.DataType


def leaf_facts(batch: pa.RecordBatch | pa.Table) -> dict[Leaf, LeafFacts]:
    """The facts of every leaf column that carries a field id."""
    return {
        leaf: found
        for field, column in zip(batch.schema, batch.columns, strict=True)
        for leaf, found in column_facts(field, column).items()
    }


def column_facts(
    field: pa.Field, column: pa.Array | pa.ChunkedArray, *, extremes: bool = True
) -> dict[Leaf, LeafFacts]:
    """The facts of a top-level column's leaves, in the file's order; without ``extremes`` only what is cheap: counts of
    entries and nulls."""
    facts: dict[Leaf, LeafFacts] = {}
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        for leaf, found in _facts_of(field, chunk, field.name, extremes):
            facts[leaf] = facts[leaf].merged(found) if leaf in facts else found
    return facts


def merge_facts(total: Mapping[Leaf, LeafFacts], more: Mapping[Leaf, LeafFacts]) -> dict[Leaf, LeafFacts]:
    """Facts of two row groups of one file together."""
    return {leaf: total[leaf].merged(found) if leaf in total else found for leaf, found in more.items()}


def _facts_of(field: pa.Field, array: pa.Array, path: str, extremes: bool) -> Iterator[tuple[Leaf, LeafFacts]]:
    """Leaves below one field. ``array`` has the validity of all levels above it already applied."""
    kind = field.type
    if pa.types.is_struct(kind):
        for child, column in zip(kind, array.flatten(), strict=True):
            yield from _facts_of(child, column, f"{path}.{child.name}", extremes)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        yield from _facts_of_elements(kind, array, path, extremes)
    else:
        text = (field.metadata or {}).get(FIELD_ID_KEY)
        if text is not None:
            facts = LeafFacts(value_count=len(array), null_count=array.null_count)
            if extremes:
                values = array.storage if isinstance(array, pa.ExtensionArray) else array
                nans = (pc.sum(pc.is_nan(values)).as_py() or 0) if pa.types.is_floating(values.type) else 0
                least, greatest = _extremes(values)
                facts = replace(facts, nan_count=nans, least=least, greatest=greatest)
            yield Leaf(field_id=int(text), path=path, kind=kind), facts


def _facts_of_elements(
    kind: pa.DataType, array: pa.Array, path: str, extremes: bool
) -> Iterator[tuple[Leaf, LeafFacts]]:
    entries = pc.list_value_length(array if pa.types.is_list(kind) else _as_list(array))
    # Parquet keeps one entry, a null, for each list that is null or empty.
    childless = len(array) - (pc.sum(pc.greater(entries, 0)).as_py() or 0)
    nothing = LeafFacts(value_count=childless, null_count=childless)
    if pa.types.is_list(kind):
        parts = [(kind.value_field, array.flatten(), f"{path}.{kind.value_field.name}")]
    else:
        keys, items = _as_list(array).flatten().flatten()
        parts = [(kind.key_field, keys, f"{path}.key"), (kind.item_field, items, f"{path}.value")]
    for field, column, name in parts:
        for leaf, found in _facts_of(field, column, name, extremes):
            yield leaf, found.merged(nothing)


def _as_list(array: pa.MapArray) -> pa.ListArray:
    """A map seen as the list of structs it is stored as, so that null maps leave no entries behind."""
    kind = array.type
    entry = pa.struct([kind.key_field.with_name("key"), kind.item_field.with_name("value")])
    return array.cast(pa.list_(pa.field("entries", entry, nullable=False)))


def _extremes(values: pa.Array) -> tuple[Any, Any]:
    kind = values.type
    if pa.types.is_null(kind) or values.null_count == len(values):
        return None, None
    if pa.types.is_string(kind):
        values = values.view(pa.binary())
    elif pa.types.is_dictionary(kind):
        return _extremes(values.dictionary_decode())
    elif integers(kind) is not kind:
        values = values.view(integers(kind))
    found = pc.min_max(values).as_py()
    least, greatest = found["min"], found["max"]
    if pa.types.is_decimal(kind) and least is not None:
        return int(least.scaleb(kind.scale, _EXACT)), int(greatest.scaleb(kind.scale, _EXACT))
    if pa.types.is_floating(kind) and least is not None and math.isnan(least):
        return None, None  # nothing but NaNs
    return least, greatest


def integers(kind: pa.DataType) -> pa.DataType:
    """The integers that a time or date is stored as; any other type as it is."""
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(kind) else kind


def _choose(better: Any, one: Any, other: Any) -> Any:
    present = [value for value in (one, other) if value is not None]
    return better(present) if present else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafClaim:
    """What a manifest claims of one leaf column; None where it claims nothing. Bounds in Iceberg's serialization."""

    value_count: int | None
    null_count: int | None
    nan_count: int | None
    lower: bytes | None
    upper: bytes | None


def false_claims(facts: Mapping[Leaf, LeafFacts], claims: Mapping[int, LeafClaim]) -> Iterator[str]:
    """One sentence a claim that is not true. A column that has claims and no facts is not in the file: none is true."""
    known = {leaf.field_id for leaf in facts}
    for field_id in sorted(set(claims) - known):
        yield f"the manifest describes a column with field id {field_id}, which the file does not have"
    for leaf, found in facts.items():
        claim = claims.get(leaf.field_id)
        if claim is not None:
            yield from _false_claims_of(leaf, found, claim)


def _false_claims_of(leaf: Leaf, found: LeafFacts, claim: LeafClaim) -> Iterator[str]:
    counts = (
        ("values", claim.value_count, found.value_count),
        ("nulls", claim.null_count, found.null_count),
        ("NaNs", claim.nan_count, found.nan_count),
    )
    for what, claimed, counted in counts:
        if claimed is not None and claimed != counted:
            yield f"column {leaf.path}: the manifest counts {claimed} {what}, the file has {counted}"
    if found.least is None:
        return
    for what, bound, extreme in (("lower", claim.lower, found.least), ("upper", claim.upper, found.greatest)):
        if bound is None:
            continue
        value = bound_value(leaf.kind, bound)
        if value is None:
            yield f"column {leaf.path}: the manifest's {what} bound {bound.hex()} is no {leaf.kind}"
        elif value > extreme if what == "lower" else value < extreme:
            yield f"column {leaf.path}: the manifest's {what} bound {value!r} excludes the value {extreme!r}"


def bound_value(kind: pa.DataType, bound: bytes) -> Any:
    """A serialized bound as a value that compares as ``LeafFacts`` do; None when it is none of that type."""
    if _is_bytes(kind):
        return bound
    if pa.types.is_floating(kind):
        formats = {4: "<f", 8: "<d"}
        return struct.unpack(formats[len(bound)], bound)[0] if len(bound) in formats else None
    if not bound:
        return None
    if pa.types.is_decimal(kind):
        return int.from_bytes(bound, "big", signed=True)
    return int.from_bytes(bound, "little", signed=True)


def _is_bytes(kind: pa.DataType) -> bool:
    plain = pa.types.is_string(kind) or pa.types.is_binary(kind) or kind == pa.uuid()
    return plain or (pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind))


def claims_of(
    *,
    value_counts: Mapping[int, int] | None,
    null_counts: Mapping[int, int] | None,
    nan_counts: Mapping[int, int] | None,
    lower_bounds: Mapping[int, bytes] | None,
    upper_bounds: Mapping[int, bytes] | None,
) -> dict[int, LeafClaim]:
    """A manifest entry's five maps by field id, as one map of claims."""
    maps: Iterable[Mapping[int, Any] | None] = (value_counts, null_counts, nan_counts, lower_bounds, upper_bounds)
    values, nulls, nans, lower, upper = (dict(part or {}) for part in maps)
    return {
        field_id: LeafClaim(
            value_count=values.get(field_id),
            null_count=nulls.get(field_id),
            nan_count=nans.get(field_id),
            lower=lower.get(field_id),
            upper=upper.get(field_id),
        )
        for field_id in {*values, *nulls, *nans, *lower, *upper}
    }
