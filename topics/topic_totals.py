"""What tiering has committed of one topic since the process started: the plain values that metrics count."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class TopicTotals:
    """``log_bytes`` of the batches in the segments that were tiered, ``parquet_bytes`` of the files that hold them.

    Rows by how their value is kept: ``typed`` in columns alone, ``raw`` with their bytes beside the columns,
    ``undecodable`` with bytes and a reason. ``skipped_offsets`` Kafka deleted before they were tiered;
    ``refused_ranges`` another daemon had committed first.
    """

    log_bytes: int = 0
    parquet_bytes: int = 0
    typed_rows: int = 0
    raw_rows: int = 0
    undecodable_rows: int = 0
    skipped_offsets: int = 0
    refused_ranges: int = 0
