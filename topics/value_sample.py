"""The first values of a partition: what a topic's format is found from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.formats.format_guess import SAMPLE_VALUES
from engine.records.records import Records

SAMPLE_BLOCK_BYTES = 1 << 20
"""Of records that are read for a sample at a time."""

_MOST_RECORDS = 10_000
"""Records looked at: so many tombstones in a row say that a topic has nothing else."""

_MOST_BLOCKS = 16
"""What a sample costs at most, where values are large: 16 MiB are read within a few milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSample:
    """``values`` that are neither null nor empty. ``is_full``: a bound was met, more would not be looked at."""

    values: tuple[bytes, ...]
    is_full: bool


def sample_values(blocks: Iterable[Records]) -> ValueSample:
    """The first values of ``blocks``, of which no more are asked for than that takes. Raises what reading them does."""
    values: list[bytes] = []
    record_count = 0
    for block_count, records in enumerate(blocks, start=1):
        record_count += len(records)
        values += filter(None, records.value.to_list())
        if len(values) >= SAMPLE_VALUES or record_count >= _MOST_RECORDS or block_count >= _MOST_BLOCKS:
            return ValueSample(values=tuple(values[:SAMPLE_VALUES]), is_full=True)
    return ValueSample(values=tuple(values), is_full=False)
