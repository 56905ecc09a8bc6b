"""Decoded rows kept and made ahead of the readers that go through a partition in order.

A broker reads about a megabyte and hangs up; the consumer's next fetch begins where that ended. The block a fetch
stopped in is kept for the next one, and the block after it is decoded meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TypeAlias

from engine.bounded_cache import BoundedCache
from engine.offset_range import OffsetRange
from engine.reading.block_source import BlockKey, BlockPlace, BlockSource, RowBlock
from engine.table.manifests import TableFile

FIRST_READ_BYTES = 1 << 20
"""Decoded for a reader that begins somewhere new: a consumer's default fetch (max.partition.fetch.bytes)."""

_ALL_ROWS = 1 << 62
"""Wanted by a reader that goes on: as many as its share of memory holds."""

FEWEST_SEQUENTIAL_ROWS = 4 * 1024
"""A page: what a sequential reader decodes at once when so many go on side by side that there is no room for more."""

RECORD_OVERHEAD_BYTES = 64
"""Memory of a decoded record beside its key, value and headers: positions, lengths, offset, timestamp."""

POSITIONS_KEPT = 4096
"""Ends of blocks by which a reader is known again: one a partition being read, with room."""

OpenSource: TypeAlias = Callable[[TableFile], BlockSource]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAheadLimits:
    """Bounds on memory and on work done at once."""

    decoded_bytes: int = 192 << 20
    """Decoded blocks kept: a sequential reader holds two, of up to a row group or a window each."""
    decodes: int = 4
    """Blocks decoded at the same time, over all readers; a block of large records takes up to 128 MiB."""
    prefetch_threads: int = 2
    prefetches: int = 8
    """Blocks waiting for, or under, prefetch; a further one is left to the reader itself."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Decoding:
    """A block that a thread decodes now."""

    place: BlockPlace
    block: Future[RowBlock] = field(default_factory=Future)


class ReadAhead:
    """Blocks by the offsets they hold, kept for however many readers ask. Safe to use from several threads."""

    def __init__(self, limits: ReadAheadLimits) -> None:
        self._limits = limits
        self._blocks: BoundedCache[BlockKey, RowBlock] = BoundedCache(
            capacity=limits.decoded_bytes, cost_of=lambda block: block.size_bytes
        )
        self._pending: dict[BlockKey, Future[RowBlock]] = {}
        self._decoding: list[_Decoding] = []
        self._closed = False
        self._lock = threading.Lock()
        self._decodes = threading.BoundedSemaphore(limits.decodes)
        self._pool = ThreadPoolExecutor(limits.prefetch_threads, thread_name_prefix="read-ahead")
        self._ends: BoundedCache[tuple[str, int, int], bool] = BoundedCache(capacity=POSITIONS_KEPT)

    @property
    def memory_use(self) -> tuple[int, int]:
        """Bytes of the blocks kept, and their bound."""
        return self._blocks.cost, self._blocks.capacity

    def share_bytes(self, path: str) -> int:
        """Memory for one block of the file at ``path`` when it, and every file with a block here, is to keep two."""
        files = len({path, *(held for held, _ in self._blocks.held_keys())})
        return self._limits.decoded_bytes // (2 * files)

    def blocks(
        self,
        files: Sequence[TableFile],
        open_source: OpenSource,
        wanted: OffsetRange,
        *,
        partition: tuple[str, int],
        first_bytes: int = FIRST_READ_BYTES,
    ) -> Iterator[tuple[BlockSource, RowBlock]]:
        """The blocks that hold records of ``wanted``, in order, each with its source.

        ``partition`` is a table's location and a partition's number. Whoever begins where a block ended goes through in
        order, and has the next block decoded ahead from the start; others first get about ``first_bytes``, then more.
        """
        is_sequential = self._ends.get((*partition, wanted.start)) is not None
        rows = _ALL_ROWS if is_sequential else 0
        for at, file in enumerate(files):
            source = open_source(file)
            # A record is a little smaller in a batch than in its canonical form.
            rows = rows or min(first_bytes, FIRST_READ_BYTES) * 5 // 4 // source.record_bytes + 1
            offset, most_rows = wanted.start, self._most_rows(source)
            while (place := source.place_at(offset, min(rows, most_rows))) and place.offsets.start < wanted.end:
                is_sequential = is_sequential or rows >= most_rows
                block = self.find(place.key)
                if block is None:
                    block = self.decode(place, partial(source.read, place, is_sequential=is_sequential))
                    rows = max(rows, place.row_count) * 4
                else:
                    rows, is_sequential = _ALL_ROWS, True
                offset, most_rows = block.place.offsets.end, self._most_rows(source)
                self._ends.put((*partition, offset), True)
                if is_sequential:
                    self._prefetch_from(chain((source,), map(open_source, files[at + 1 : at + 2])), offset)
                yield source, block

    def find(self, key: BlockKey) -> RowBlock | None:
        """The block that holds an offset, when it is here or about to be; waits for one under way."""
        with self._lock:
            pending = self._pending.get(key)
        if pending is None:
            return self._held(key)
        # Outside the lock: cancelling settles it in this thread, and that takes the lock.
        if pending.cancel():
            return None  # it had not begun: this thread is quicker
        return pending.result()

    def decode(self, place: BlockPlace, decode: Callable[[], RowBlock]) -> RowBlock:
        """The block of ``place``: decoded and kept. While another thread decodes one that holds the place's first
        offset, its is waited for; what that raises is raised here too."""
        with self._lock:
            held = self._held(place.key)
            if held is not None:
                return held
            others = self._under_way(place.key)
            if others is None:
                own = _Decoding(place=place)
                self._decoding.append(own)
        if others is not None:
            return others.block.result()
        try:
            with self._decodes:
                block = decode()
            self._blocks.put(place.key, block)
        except BaseException as error:
            own.block.set_exception(error)
            raise
        else:
            own.block.set_result(block)
            return block
        finally:
            with self._lock:
                self._decoding.remove(own)

    def prefetch(self, place: BlockPlace, decode: Callable[[], RowBlock]) -> None:
        """Have a block decoded by another thread, unless it is here, under way, or too many are."""
        key = place.key
        with self._lock:
            if self._closed or len(self._pending) >= self._limits.prefetches or key in self._pending:
                return
            if self._held(key) is not None or self._under_way(key) is not None:
                return
            future = self._pool.submit(self.decode, place, decode)
            self._pending[key] = future
        future.add_done_callback(lambda done: self._settle(key, done))

    def close(self) -> None:
        """Stop prefetching; what is under way is waited for."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._blocks.clear()

    def _prefetch_from(self, sources: Iterator[BlockSource], offset: int) -> None:
        """Prefetch the first block at or after ``offset`` of the first source that has one."""
        for source in sources:
            place = source.place_at(offset, self._most_rows(source))
            if place is not None:
                self.prefetch(place, partial(source.read, place, is_sequential=True))
                return

    def _most_rows(self, source: BlockSource) -> int:
        """Rows a block may have, so that the blocks of all readers that go on side by side fit the memory for them."""
        rows = min(
            self.share_bytes(source.path) // (source.record_bytes + RECORD_OVERHEAD_BYTES), source.sequential_rows
        )
        return max(rows, min(FEWEST_SEQUENTIAL_ROWS, FIRST_READ_BYTES // source.record_bytes + 1))

    def _held(self, key: BlockKey) -> RowBlock | None:
        """The kept block that holds what ``key`` names."""
        return self._blocks.find(lambda block: block.place.holds(key))

    def _under_way(self, key: BlockKey) -> _Decoding | None:
        """The decoding of a block that will hold what ``key`` names. With the lock."""
        return next((decoding for decoding in self._decoding if decoding.place.holds(key)), None)

    def _settle(self, key: BlockKey, done: Future[RowBlock]) -> None:
        # An error of a prefetch is no one's yet: the reader that needs the block meets it by itself.
        with self._lock:
            if self._pending.get(key) is done:
                del self._pending[key]
