"""A value as Spark's sessions hand it over."""

from __future__ import annotations

from typing import Any


def plain(value: Any) -> Any:
    """The same in Python's own types: rows are dictionaries."""
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, bytearray):
        return bytes(value)
    return [plain(inner) for inner in value] if isinstance(value, list) else value
