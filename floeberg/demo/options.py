"""What can be chosen about the demo."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ORDER_COUNT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """``directory`` None: a temporary one, removed at the end unless the demo is kept or fails."""

    keep: bool = False
    order_count: int = ORDER_COUNT
    directory: Path | None = None
    with_spark_sql: bool = True
