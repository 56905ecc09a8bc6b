"""Whether what the manifest says of a file's columns is true of its values: bounds, counts, nulls, NaNs.

Recomputed from the values themselves, not from Parquet's statistics, which the manifest was made from. Bounds may be
wider than the values (strings are cut to 16 characters); one that excludes a value is false, and an engine that
trusts it returns too few rows. Source: Iceberg spec, "Manifests" and Appendix D (single-value serialization).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.table.proof.leaf_facts import Leaf, LeafFacts


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
