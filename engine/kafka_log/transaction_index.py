"""The index of aborted transactions beside a segment (``*.txnindex``).

Each entry is 34 bytes, big-endian: version int16 (0), producer id int64, first offset int64, last offset int64 (the
abort marker's), last stable offset int64. The entry of a transaction stands beside the segment that holds its marker,
which may be later than the segments of its records. Source: Kafka's ``AbortedTxn`` and ``TransactionIndex``.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.errors import Corrupt, Unavailable
from engine.offset_range import OffsetRange

_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AbortedTransaction:
    """Records of ``producer_id`` in transactional batches from ``first_offset`` to ``last_offset`` were aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def read_transaction_index(path: Path) -> tuple[AbortedTransaction, ...]:
    """All entries of one index file; empty when the file does not exist, as Kafka makes it at the first abort.

    A cut last entry is being written and is left out. Errors: Corrupt for an unknown version or impossible offsets,
    Unavailable when the file can't be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise Unavailable(f"A transaction index can't be read: {error.strerror}", file=str(path)) from error
    whole = len(data) - len(data) % _ENTRY.size
    entries = []
    for version, producer_id, first_offset, last_offset, last_stable_offset in _ENTRY.iter_unpack(data[:whole]):
        if version != _VERSION:
            raise Corrupt(f"A transaction index has an entry of version {version}, not {_VERSION}", file=str(path))
        if not 0 <= first_offset <= last_offset:
            problem = f"A transaction index has an aborted transaction from {first_offset} to {last_offset}"
            raise Corrupt(problem, file=str(path), next_step="let the broker rebuild it: delete the file and restart")
        entries.append(
            AbortedTransaction(
                producer_id=producer_id,
                first_offset=first_offset,
                last_offset=last_offset,
                last_stable_offset=last_stable_offset,
            )
        )
    return tuple(entries)


def format_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """The bytes of an index file, the inverse of ``read_transaction_index``."""
    return b"".join(
        _ENTRY.pack(_VERSION, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)
        for entry in entries
    )


def aborted_in(
    entries: Iterable[AbortedTransaction],
    range: OffsetRange,  # noqa: A002 - the field's word for it
) -> tuple[AbortedTransaction, ...]:
    """Those of ``entries`` (of any number of indexes) with an offset in ``range``, each once, in order of their end."""
    inside = {entry for entry in entries if entry.first_offset < range.end and entry.last_offset >= range.start}
    return tuple(sorted(inside, key=lambda entry: (entry.last_offset, entry.producer_id)))


class AbortedBatches:
    """Answers whether a transactional batch belongs to an aborted transaction."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        for entry in aborted:
            self._ranges.setdefault(entry.producer_id, []).append((entry.first_offset, entry.last_offset))
        for ranges in self._ranges.values():
            ranges.sort()

    def holds(self, producer_id: int, base_offset: int) -> bool:
        """True when the batch at ``base_offset`` lies inside an aborted transaction of its producer.

        A producer's transactions never overlap, so the last one that starts at or before the batch decides.
        """
        ranges = self._ranges.get(producer_id)
        if ranges is None:
            return False
        index = bisect.bisect_right(ranges, base_offset, key=lambda pair: pair[0]) - 1
        return index >= 0 and base_offset <= ranges[index][1]
