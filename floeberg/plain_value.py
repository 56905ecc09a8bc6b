"""Values of SQL engines and codecs as JSON has them."""

from __future__ import annotations

import base64
import datetime
import uuid
from decimal import Decimal
from typing import Any


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes in base64, dates and times in ISO 8601, decimals and UUIDs as text."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (Decimal, uuid.UUID, datetime.timedelta)):
        return str(value)
    return value
