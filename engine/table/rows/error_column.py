"""Why a row has no columns, or kept its bytes: the reasons of its value and of its key in one text."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from engine.formats.codec import NO_REASON, Decoded

KEY_REASON = "key: "


def error_column(value: Decoded, key: Decoded | None) -> pa.Array:
    """The value's reason, the key's behind it as ``key: …``; null where neither has one."""
    of_value = _reasons(value, "")
    if key is None or bool((key.reason == NO_REASON).all()):
        return of_value
    of_key = _reasons(key, KEY_REASON)
    if of_value.null_count == len(of_value):
        return of_key
    return pc.coalesce(pc.binary_join_element_wise(of_value, of_key, "; "), of_value, of_key)


def _reasons(decoded: Decoded, prefix: str) -> pa.Array:
    if not decoded.reasons or bool((decoded.reason == NO_REASON).all()):
        return pa.nulls(len(decoded), pa.string())
    texts = pa.array([f"{prefix}{reason}" for reason in decoded.reasons], pa.string())
    return texts.take(pa.array(decoded.reason, mask=decoded.reason == NO_REASON))
