"""Whether a value is JSON, to a reader of the standard library."""

from __future__ import annotations

import json


def is_object(value: bytes) -> bool:
    """Whether a value is the text of a JSON object."""
    if not value.lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(value), dict)
    except (ValueError, RecursionError):
        return False
