"""One file of the warehouse read by byte ranges, with as few requests as pays."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.bounded_cache import BoundedCache
from engine.errors import Corrupt, Unavailable
from engine.parquet.footer import MAGIC, TRAILER_BYTES, ByteRange, ParquetFooter
from engine.warehouse.warehouse import Warehouse

REMOTE_HOLE_BYTES = 256 << 10
"""On an object store a request costs as much time as this many bytes: ranges closer than that are read as one."""

REMOTE_TAIL_BYTES = 128 << 10
"""Read from a remote file's end on first sight: most footers are inside, and the second request is saved."""

PROOF_BYTES = 8 << 20
"""Read at once where all of a file is compared with its checksums."""

RowGroupCache: TypeAlias = BoundedCache[tuple[str, int], memoryview]
"""Compressed row groups of remote files by (path, position). Local ones are kept by the operating system already."""


InputCache: TypeAlias = BoundedCache[str, pa.NativeFile]
"""Open files by path. One that has to make room is closed when the last read that uses it is over."""


def row_group_cache(capacity_bytes: int) -> RowGroupCache:
    return BoundedCache(capacity=capacity_bytes, cost_of=len)


def input_cache(handles: int) -> InputCache:
    return BoundedCache(capacity=handles)


@dataclass(slots=True)
class ReadCount:
    """What was asked of the warehouse since the process began: for metrics and benchmarks."""

    requests: int = 0
    read_bytes: int = 0


class RangedFile:
    """Reads ranges of one immutable file. Safe to use from several threads.

    ``is_remote``: requests are dear, so ranges are merged across holes and whole row groups are kept in ``cache``.
    A local file is mapped: its ranges are read one by one, and the operating system's cache is the cache.
    ``inputs`` bounds how many files are open: one that had to make room is opened again by the next read.
    """

    def __init__(
        self,
        *,
        warehouse: Warehouse,
        file: str,
        size_bytes: int,
        cache: RowGroupCache,
        inputs: InputCache | None = None,
        count: ReadCount,
        is_remote: bool | None = None,
    ) -> None:
        """Raises Corrupt when the file is missing or has another size than the table says, Unavailable else."""
        self.file = file
        self.size_bytes = size_bytes
        self._warehouse = warehouse
        self._inputs = input_cache(1) if inputs is None else inputs
        self._cache = cache
        self._count = count
        self._count_lock = threading.Lock()
        # The parts of the file that have a checksum, as edges: none until a footer says what is to be expected.
        self._edges: NDArray[np.int64] = np.zeros(1, np.int64)
        self._checksums: NDArray[np.uint32] = np.empty(0, np.uint32)
        self._is_proven: NDArray[np.bool_] = np.empty(0, np.bool_)
        opened = self._input()
        self.is_remote = not isinstance(opened, pa.MemoryMappedFile) if is_remote is None else is_remote
        actual = self._size(opened)
        if actual != size_bytes:
            raise Corrupt(f"the file has {actual} bytes, the table says {size_bytes}", file=file)

    def expect(self, footer: ParquetFooter) -> None:
        """From now on what is read is checked against the checksums that the footer, which is checked, has of it."""
        if footer.checksums is not None:
            end = self.size_bytes - TRAILER_BYTES - len(footer.encoded)
            self._edges = footer.checksums.edges(footer_start=end, file=self.file)
            self._checksums = np.concatenate([footer.checksums.data, footer.checksums.page_index])
            self._is_proven = np.zeros(len(self._checksums), np.bool_)

    def read(self, parts: Sequence[ByteRange]) -> list[memoryview]:
        """The bytes of each range, in the order asked for. Raises Corrupt outside the file, or where the bytes are not
        those that were written; Unavailable."""
        for part in parts:
            if part.start < 0 or part.size < 0 or part.end > self.size_bytes:
                raise Corrupt(
                    f"the file says it has bytes {part.start} to {part.end} of {self.size_bytes}", file=self.file
                )
        merged = _merge([self._provable(part) for part in parts], REMOTE_HOLE_BYTES if self.is_remote else 0)
        content = {around: self._proven(around) for around in set(merged)}
        return [
            content[around][part.start - around.start : part.end - around.start]
            for part, around in zip(parts, merged, strict=True)
        ]

    def read_kept(self, whole: ByteRange, parts: Sequence[ByteRange]) -> list[memoryview]:
        """Ranges out of ``whole``, which is read by one request and kept in the cache."""
        held = self._cache.get_or_make((self.file, whole.start), lambda: self.read([whole])[0])
        if len(held) != whole.size:
            raise Corrupt(f"two row groups of different size begin at byte {whole.start}", file=self.file)
        return [held[part.start - whole.start : part.end - whole.start] for part in parts]

    def is_kept(self, whole: ByteRange) -> bool:
        """Whether ``whole`` can be had without a request."""
        return self._cache.get((self.file, whole.start)) is not None

    def read_footer(self) -> bytes:
        """The encoded footer, without its length and magic. Raises Corrupt where the file doesn't end like Parquet."""
        size = self.size_bytes
        if size < len(MAGIC) + TRAILER_BYTES:
            raise Corrupt(f"a file of {size} bytes is no Parquet file", file=self.file)
        guess = min(size, REMOTE_TAIL_BYTES if self.is_remote else TRAILER_BYTES)
        tail = self._get(ByteRange(start=size - guess, size=guess))
        length = int.from_bytes(tail[-TRAILER_BYTES:-4], "little")
        if tail[-4:] != MAGIC or not 0 < length <= size - TRAILER_BYTES - len(MAGIC):
            raise Corrupt("the file doesn't end as Parquet does", file=self.file)
        if length + TRAILER_BYTES <= guess:
            return bytes(tail[guess - TRAILER_BYTES - length : guess - TRAILER_BYTES])
        return bytes(self._get(ByteRange(start=size - TRAILER_BYTES - length, size=length)))

    def footer(self) -> ParquetFooter:
        """The footer, parsed; what is read after it is checked against it. Raises Corrupt, Unavailable."""
        footer = ParquetFooter.parse(self.read_footer(), file=self.file)
        self.expect(footer)
        return footer

    def prove(self) -> None:
        """Compare every byte of the file with the checksums its footer has. Raises Corrupt, Unavailable."""
        end = int(self._edges[-1])
        for start in range(0, end, PROOF_BYTES):
            self.read([ByteRange(start=start, size=min(PROOF_BYTES, end - start))])

    def _parts_of(self, wanted: ByteRange) -> slice:
        """Which of the parts with a checksum a range touches."""
        first = int(np.searchsorted(self._edges, wanted.start, "right")) - 1
        end = int(np.searchsorted(self._edges, wanted.end, "left"))
        return slice(first, min(end, len(self._is_proven)))

    def _provable(self, wanted: ByteRange) -> ByteRange:
        """A range, with the rest of the parts it touches where one of them was not compared yet."""
        touched = self._parts_of(wanted)
        if self._is_proven[touched].all():
            return wanted
        start = int(self._edges[touched.start])
        return ByteRange(start=start, size=max(wanted.end, int(self._edges[touched.stop])) - start)

    def _proven(self, wanted: ByteRange) -> memoryview:
        """The bytes of a range; parts inside it are compared with their checksums, the first time only: from then on
        the checksums of the pages watch over them. Raises Corrupt, Unavailable."""
        content = self._get(wanted)
        touched = self._parts_of(wanted)
        for at in (np.flatnonzero(~self._is_proven[touched]) + touched.start).tolist():
            start, end = self._edges[at : at + 2].tolist()
            if start < wanted.start or wanted.end < end:
                continue
            if crc32c.crc32c(content[start - wanted.start : end - wanted.start]) != self._checksums[at]:
                raise Corrupt(
                    f"bytes {start} to {end} are not those that were written",
                    file=self.file,
                    next_step="run floeberg fsck; restore the file from a copy of the warehouse",
                )
            self._is_proven[at] = True
        return content

    def _get(self, part: ByteRange) -> memoryview:
        try:
            content = memoryview(self._input().read_at(part.size, part.start))
        except OSError as error:
            raise Unavailable(f"the warehouse does not answer: {error}", file=self.file) from error
        if len(content) != part.size:
            raise Corrupt(f"the file ends before byte {part.end}", file=self.file)
        with self._count_lock:
            self._count.requests += 1
            self._count.read_bytes += part.size
        return content

    def _input(self) -> pa.NativeFile:
        try:
            return self._inputs.get_or_make(self.file, partial(self._warehouse.open_input, self.file))
        except Unavailable:
            # The process may have run out of handles: those that nobody reads by just now are the first to go.
            if len(self._inputs) == 0:
                raise
            self._inputs.clear()
            return self._inputs.get_or_make(self.file, partial(self._warehouse.open_input, self.file))

    def _size(self, opened: pa.NativeFile) -> int:
        try:
            return int(opened.size())
        except OSError as error:
            raise Unavailable(f"the warehouse does not answer: {error}", file=self.file) from error


def _merge(parts: Sequence[ByteRange], hole_bytes: int) -> list[ByteRange]:
    """For each range the merged one it lies in; ranges merge when no more than ``hole_bytes`` lie between them."""
    order = sorted(range(len(parts)), key=lambda at: parts[at].start)
    around: list[ByteRange] = list(parts)
    run: list[int] = []
    start = end = -1
    for at in order:
        part = parts[at]
        if run and part.start <= end + hole_bytes:
            end = max(end, part.end)
        else:
            _close_run(around, run, start, end)
            run, start, end = [], part.start, part.end
        run.append(at)
    _close_run(around, run, start, end)
    return around


def _close_run(around: list[ByteRange], run: list[int], start: int, end: int) -> None:
    merged = ByteRange(start=start, size=end - start) if run else None
    for at in run:
        assert merged is not None, "a run that is closed has members"
        around[at] = merged
