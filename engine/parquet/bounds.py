"""Bounds of a column as Iceberg stores them: single-value serialization (spec, Appendix D) of Parquet's statistics."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

TRUNCATED_LENGTH = 16
"""Characters of a string, bytes of a binary, that a bound keeps: Iceberg's default metrics mode ``truncate(16)``."""

_HIGHEST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Serialized lower and upper bound; None where there is none to give."""

    lower: bytes | None
    upper: bytes | None


NO_BOUNDS = Bounds(lower=None, upper=None)


def bounds_of(kind: pa.DataType, least: Any, greatest: Any) -> Bounds:
    """Bounds from the least and greatest value of a leaf, as Parquet's statistics give them raw.

    UUIDs get none: readers disagree on whether they compare as signed or unsigned numbers, and a bound read the other
    way would prune rows that match.
    """
    if kind == pa.uuid():
        return NO_BOUNDS
    if pa.types.is_string(kind):
        return Bounds(lower=_lower_text(least), upper=_upper_text(greatest))
    if pa.types.is_binary(kind) or (pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind)):
        return Bounds(lower=bytes(least[:TRUNCATED_LENGTH]), upper=_upper_bytes(greatest))
    return Bounds(lower=_serialize(kind, least), upper=_serialize(kind, greatest))


def comparable(kind: pa.DataType, raw: Any) -> Any:
    """Parquet's raw statistic as a value that orders as the column does (decimals in byte arrays are big-endian)."""
    if pa.types.is_decimal(kind) and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    if pa.types.is_string(kind) and isinstance(raw, str):
        return raw.encode()
    return raw


def _serialize(kind: pa.DataType, value: Any) -> bytes:
    if pa.types.is_boolean(kind):
        return b"\x01" if value else b"\x00"
    if pa.types.is_decimal(kind):
        # Two's complement, big-endian, as few bytes as hold the sign.
        return int(value).to_bytes((int(value) + (int(value) < 0)).bit_length() // 8 + 1, "big", signed=True)
    if pa.types.is_float32(kind):
        return struct.pack("<f", value)
    if pa.types.is_float64(kind):
        return struct.pack("<d", value)
    if pa.types.is_int32(kind) or pa.types.is_date32(kind):
        return struct.pack("<i", value)
    return struct.pack("<q", value)


def _lower_text(value: bytes) -> bytes:
    return value.decode()[:TRUNCATED_LENGTH].encode()


def _upper_text(value: bytes) -> bytes | None:
    text = value.decode()
    if len(text) <= TRUNCATED_LENGTH:
        return value
    for length in range(TRUNCATED_LENGTH, 0, -1):
        following = ord(text[length - 1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _HIGHEST_CHARACTER:
            return (text[: length - 1] + chr(following)).encode()
    return None


def _upper_bytes(value: bytes) -> bytes | None:
    if len(value) <= TRUNCATED_LENGTH:
        return bytes(value)
    for length in range(TRUNCATED_LENGTH, 0, -1):
        if value[length - 1] < 0xFF:
            return bytes(value[: length - 1]) + bytes([value[length - 1] + 1])
    return None
