"""Values of SQL engines and codecs as JSON has them, and as a person reads them."""

from __future__ import annotations

import base64
import datetime
import json
import math
import uuid
from decimal import Decimal
from typing import Any


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes in base64, dates and times in ISO 8601, decimals and UUIDs as text.

    JSON has no NaN and no infinity: they are the strings that PostgreSQL's and Spark's ``to_json`` write, so that none
    of them reads as NULL. Integers keep all their digits.
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (uuid.UUID, datetime.timedelta)):
        return str(value)
    return value


def shown(value: Any) -> str:
    """A value in a cell of a table: numbers with all their digits, what is nested as JSON.

    Bytes are shown as DuckDB shows them: ASCII as it is, other bytes as ``\\xFF``.
    """
    if value is None:
        return "NULL"
    if isinstance(value, (bool, dict, list, tuple)):
        return json.dumps(plain(value), ensure_ascii=False)
    if isinstance(value, (bytes, bytearray)):
        return "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\x{byte:02X}" for byte in value)
    # An escape character in a record could do anything to the terminal; lines are lines of the cell.
    return "".join(
        letter if letter.isprintable() or letter == "\n" else letter.encode("unicode_escape").decode()
        for letter in str(plain(value))
    )


def as_written(value: Any) -> Any:
    """Floats of 32 bits, which Python widens, by the fewest digits that tell them apart: 0.1, not 0.10000000149."""
    if isinstance(value, float):
        import numpy as np

        return float(str(np.float32(value)))
    if isinstance(value, dict):
        return {key: as_written(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_written(item) for item in value]
    return value
