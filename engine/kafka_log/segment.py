"""Segments: the files of a partition's log, and the transactions that were aborted in them.

A segment is ``<base offset in 20 digits>.log`` with ``.index``, ``.timeindex`` and, once a transaction was aborted,
``.txnindex`` beside it. Other endings of the same name mark files that are no part of the log: ``.deleted`` (removed
after ``file.delete.delay.ms``), ``.cleaned`` and ``.swap`` (the cleaner's work under way).

Each entry of a ``.txnindex`` is 34 bytes, big-endian: version int16 (0), producer id int64, first offset int64, last
offset int64 (the abort marker's), last stable offset int64. The entry of a transaction stands beside the segment that
holds its marker, which may be later than the segments of its records. Source: Kafka's ``LogFileUtils``, ``AbortedTxn``
and ``TransactionIndex``.
"""

from __future__ import annotations

import bisect
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.errors import Corrupt, Unavailable
from engine.offset_range import OffsetRange

# A broker rolls a segment before an offset is so far from its base that an index entry could not hold it.
MAX_RELATIVE_OFFSET: Final = 2**31 - 1
_LOG_NAME: Final = re.compile(r"([0-9]{20})\.log", re.ASCII)
_TRANSACTION_INDEX_NAME: Final = re.compile(r"([0-9]{20})\.txnindex", re.ASCII)
_ABORTED: Final = struct.Struct(">hqqqq")
_ABORTED_VERSION: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Segment:
    """One ``.log`` file as it was when listed. ``modified_ms`` is the file system's, since the Unix epoch."""

    base_offset: int
    log_path: Path
    size_bytes: int
    modified_ms: int

    @property
    def offset_index_path(self) -> Path:
        return self.log_path.with_suffix(".index")

    @property
    def transaction_index_path(self) -> Path:
        return self.log_path.with_suffix(".txnindex")


def segment_file_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def base_offset_in(log_path: Path) -> int | None:
    """The base offset that the file's name states, or None for another kind of name."""
    name = _LOG_NAME.fullmatch(log_path.name)
    return int(name[1]) if name else None


def list_segments(directory: Path) -> tuple[Segment, ...]:
    """The live segments of a partition's directory, by rising base offset; the last one is the active segment.

    A file that vanishes while the directory is read is left out. Errors: Unavailable when the directory is gone or
    can't be read.
    """
    segments = []
    try:
        for path in directory.iterdir():
            name = _LOG_NAME.fullmatch(path.name)
            if name is None:
                continue
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            segments.append(
                Segment(
                    base_offset=int(name[1]),
                    log_path=path,
                    size_bytes=status.st_size,
                    modified_ms=status.st_mtime_ns // 1_000_000,
                )
            )
    except OSError as error:
        problem = f"A partition's directory can't be listed: {error.strerror}"
        raise Unavailable(problem, file=str(directory)) from error
    return tuple(sorted(segments))


def list_transaction_indexes(directory: Path, *, base_offset: int) -> tuple[Path, ...]:
    """The transaction indexes of the segment that begins at ``base_offset`` and of all later ones.

    By their names alone: nothing is asked of a file. Errors: as ``list_segments``.
    """
    try:
        names = sorted(path.name for path in directory.iterdir())
    except OSError as error:
        problem = f"A partition's directory can't be listed: {error.strerror}"
        raise Unavailable(problem, file=str(directory)) from error
    found = (_TRANSACTION_INDEX_NAME.fullmatch(name) for name in names)
    return tuple(directory / name[0] for name in found if name and int(name[1]) >= base_offset)


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
    whole = len(data) - len(data) % _ABORTED.size
    entries = []
    for version, producer_id, first_offset, last_offset, last_stable_offset in _ABORTED.iter_unpack(data[:whole]):
        if version != _ABORTED_VERSION:
            raise Corrupt(
                f"A transaction index has an entry of version {version}, not {_ABORTED_VERSION}", file=str(path)
            )
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
        _ABORTED.pack(
            _ABORTED_VERSION, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset
        )
        for entry in entries
    )


def aborted_in(entries: Iterable[AbortedTransaction], offsets: OffsetRange) -> tuple[AbortedTransaction, ...]:
    """Those of ``entries`` (of any number of indexes) with one of ``offsets``, each once, in order of their end."""
    inside = {entry for entry in entries if entry.first_offset < offsets.end and entry.last_offset >= offsets.start}
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
