"""What the last day was like, a sample each half minute: a file of fixed size that outlives the daemon.

The format stands in docs/status_page.md. A slot that is torn, damaged or too old counts as not there.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

import crc32c
import structlog

STEP_MS = 30_000
SLOTS = 2_880
"""A day."""

MOST_POINTS = 180
"""In one answer: about as many as a chart is wide. Of a longer time several samples become one point."""

_MAGIC: Final = b"FLH1"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One step. What was done in it: ``records`` tiered, the ``log_bytes`` of their batches and the ``file_bytes`` of
    Parquet that these became, ``fetches`` of history answered with ``fetched_bytes``, ``merged_bytes`` written by
    compaction. How it was at its end: records that are not in the table, and of these the ones that should be, how long
    the oldest has waited, and bytes in the broker's log directory."""

    time_ms: int
    records: int = 0
    log_bytes: int = 0
    file_bytes: int = 0
    fetches: int = 0
    fetched_bytes: int = 0
    merged_bytes: int = 0
    lag_records: int = 0
    behind_records: int = 0
    lag_ms: int = 0
    local_log_bytes: int = 0

    def since(self, before: Sample) -> Sample:
        """Of counts that go on from the start, what came after ``before``."""
        return replace(self, **{name: max(0, getattr(self, name) - getattr(before, name)) for name in SUMS})


NAMES: Final = tuple(one.name for one in fields(Sample))
SUMS: Final = frozenset({"records", "log_bytes", "file_bytes", "fetches", "fetched_bytes", "merged_bytes"})
"""Of several samples these are added up; of the others the greatest counts."""

_BODY: Final = struct.Struct(f"<4s{len(NAMES)}q")
SLOT_BYTES: Final = _BODY.size + 4


def encode(sample: Sample) -> bytes:
    """A slot."""
    body: bytes = _BODY.pack(_MAGIC, *(getattr(sample, name) for name in NAMES))
    return body + int(crc32c.crc32c(body)).to_bytes(4, "little")


def decode(slot: bytes) -> Sample | None:
    """None for a slot that holds none, or a damaged one."""
    body = slot[: _BODY.size]
    if len(slot) != SLOT_BYTES or crc32c.crc32c(body) != int.from_bytes(slot[_BODY.size :], "little"):
        return None
    magic, *values = _BODY.unpack(body)
    return Sample(**dict(zip(NAMES, values, strict=True))) if magic == _MAGIC else None


class History:
    """The samples of the last day. ``keep`` is for one thread, the rest for any.

    They are in memory; the file is read once, and written a slot at a time. Where it can't be, that is logged once, and
    the daemon goes on with what is in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._samples: dict[int, Sample] = {}
        self._is_told = False
        if path is not None:
            self._load(path)

    def keep(self, sample: Sample) -> None:
        """Put it in the place of the one that was there a day ago."""
        number = sample.time_ms // STEP_MS
        with self._lock:
            self._samples[number % SLOTS] = sample
        if self._path is not None:
            path = self._path
            self._try(lambda: _write_slot(path, number % SLOTS, encode(sample)))

    def last(self, now_ms: int) -> Sample | None:
        """The newest one of the last two steps: that of the very last may still be on its way."""
        newest = now_ms // STEP_MS
        with self._lock:
            found = [self._samples.get(number % SLOTS) for number in (newest, newest - 1, newest - 2)]
        return next((one for one in found if one is not None and 0 <= now_ms - one.time_ms <= 3 * STEP_MS), None)

    def day(self, now_ms: int) -> Mapping[str, int]:
        """What was done in the last day, by the names of ``SUMS``."""
        with self._lock:
            samples = [one for one in self._samples.values() if 0 <= now_ms - one.time_ms <= SLOTS * STEP_MS]
        return {name: sum(getattr(one, name) for one in samples) for name in sorted(SUMS)}

    def points(self, *, now_ms: int, length_ms: int) -> Mapping[str, Sequence[int | None]]:
        """The last ``length_ms`` as columns, at most ``MOST_POINTS`` of them: ``time_ms`` where each begins, None where
        the daemon did not run, and the others named as in ``Sample``."""
        steps = max(1, min(SLOTS, length_ms // STEP_MS))
        width = -(-steps // MOST_POINTS)
        # The step of now has no sample yet. Points begin at multiples of their width: they stay what they are.
        end = (now_ms // STEP_MS - 1) // width * width + width
        begins = range(end - steps // width * width, end, width)
        with self._lock:
            samples = [[self._sample_at(number + step) for step in range(width)] for number in begins]
        columns: dict[str, Sequence[int | None]] = {"time_ms": [number * STEP_MS for number in begins]}
        for name in NAMES[1:]:
            together: Callable[[list[int]], int] = sum if name in SUMS else max
            found = ([getattr(one, name) for one in point if one is not None] for point in samples)
            columns[name] = [together(values) if values else None for values in found]
        return columns

    def _sample_at(self, number: int) -> Sample | None:
        """Of this step, not of the one a day before or, where the clock went back, after it."""
        found = self._samples.get(number % SLOTS)
        return found if found is not None and found.time_ms // STEP_MS == number else None

    def _load(self, path: Path) -> None:
        def load() -> None:
            content = path.read_bytes()[: SLOTS * SLOT_BYTES] if path.exists() else b""
            for place in range(len(content) // SLOT_BYTES):
                sample = decode(content[place * SLOT_BYTES : (place + 1) * SLOT_BYTES])
                if sample is not None and sample.time_ms // STEP_MS % SLOTS == place:
                    self._samples[place] = sample

        self._try(load)

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
            self._is_told = False
        except OSError as error:
            if not self._is_told:
                _log.warning("history_not_kept", file=str(self._path), problem=str(error))
            self._is_told = True


def _write_slot(path: Path, place: int, slot: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, slot, place * SLOT_BYTES)
    finally:
        os.close(descriptor)
