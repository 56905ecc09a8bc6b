"""Decoded rows kept and made ahead of the readers that go through a partition in order.

A broker reads about a megabyte and hangs up; the consumer's next fetch begins where that ended. The block a fetch
stopped in is kept for the next one, and the block behind it is decoded meanwhile.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeAlias

from engine.bounded_cache import BoundedCache
from engine.reading.row_block import RowBlock

BlockKey: TypeAlias = tuple[str, int, int]
"""(path, row group, row): a block that holds that row."""

POSITIONS_KEPT = 4096
"""Ends of blocks by which a reader is known again: one a partition being read, with room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAheadLimits:
    """Bounds on memory and on work done at once."""

    decoded_bytes: int = 192 << 20
    """Decoded blocks kept: a sequential reader holds two, of up to a row group each."""
    decodes: int = 4
    """Blocks decoded at the same time, over all readers; a block of large records takes up to 128 MiB."""
    prefetch_threads: int = 2
    prefetches: int = 8
    """Blocks waiting for, or under, prefetch; a further one is left to the reader itself."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Decoding:
    """A block that a thread decodes now, up to ``end_row``."""

    end_row: int
    block: Future[RowBlock] = field(default_factory=Future)


class ReadAhead:
    """Blocks by the rows they hold, kept for however many readers ask. Safe to use from several threads."""

    def __init__(self, limits: ReadAheadLimits) -> None:
        self._limits = limits
        self._blocks: OrderedDict[BlockKey, RowBlock] = OrderedDict()
        self._held_bytes = 0
        self._pending: dict[BlockKey, Future[RowBlock]] = {}
        self._decoding: dict[BlockKey, _Decoding] = {}
        self._closed = False
        self._lock = threading.Lock()
        self._decodes = threading.BoundedSemaphore(limits.decodes)
        self._pool = ThreadPoolExecutor(limits.prefetch_threads, thread_name_prefix="read-ahead")
        self._ends: BoundedCache[tuple[str, int, int], bool] = BoundedCache(
            capacity=POSITIONS_KEPT, cost_of=lambda _: 1
        )

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    @property
    def limit_bytes(self) -> int:
        return self._limits.decoded_bytes

    @property
    def share_bytes(self) -> int:
        """Memory for one block when every file with a block here, and one more, is to keep two."""
        with self._lock:
            files = len({path for path, _, _ in self._blocks})
        return self._limits.decoded_bytes // (2 * (files + 1))

    def reader_stopped_at(self, location: str, partition: int, offset: int) -> bool:
        """Whether a block that was read ends at this offset: whoever begins here goes through in order."""
        return self._ends.get((location, partition, offset)) is not None

    def note_end(self, location: str, partition: int, offset: int) -> None:
        self._ends.put((location, partition, offset), True)

    def find(self, key: BlockKey) -> RowBlock | None:
        """The block that holds a row, when it is here or about to be; waits for one under way."""
        with self._lock:
            pending = self._pending.get(key)
            if pending is None:
                return self._held(key)
        # Outside the lock: cancelling settles it in this thread, and that takes the lock.
        if pending.cancel():
            return None  # it had not begun: this thread is quicker
        return pending.result()

    def decode(self, key: BlockKey, end_row: int, decode: Callable[[], RowBlock]) -> RowBlock:
        """The block of the rows from ``key``'s to ``end_row``: decoded and kept. While another thread decodes one that
        holds ``key``'s row, its is waited for; what that raises is raised here too."""
        with self._lock:
            held = self._held(key)
            if held is not None:
                return held
            others = self._under_way(key)
            if others is None:
                own = self._decoding[key] = _Decoding(end_row=end_row)
        if others is not None:
            return others.block.result()
        try:
            with self._decodes:
                block = decode()
            self._keep(key, block)
        except BaseException as error:
            own.block.set_exception(error)
            raise
        else:
            own.block.set_result(block)
            return block
        finally:
            with self._lock:
                del self._decoding[key]

    def prefetch(self, key: BlockKey, end_row: int, decode: Callable[[], RowBlock]) -> None:
        """Have a block decoded by another thread, unless it is here, under way, or too many are."""
        with self._lock:
            if self._closed or len(self._pending) >= self._limits.prefetches or key in self._pending:
                return
            if self._held(key) is not None or self._under_way(key) is not None:
                return
            future = self._pool.submit(self.decode, key, end_row, decode)
            self._pending[key] = future
        future.add_done_callback(lambda done: self._settle(key, done))

    def clear(self) -> None:
        with self._lock:
            self._blocks.clear()
            self._held_bytes = 0

    def close(self) -> None:
        """Stop prefetching; what is under way is waited for."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.clear()

    def _held(self, key: BlockKey) -> RowBlock | None:
        """The kept block that holds ``key``'s row. With the lock."""
        path, group, row = key
        for held_key in reversed(self._blocks):
            block = self._blocks[held_key]
            if held_key[:2] == (path, group) and block.first_row <= row < block.end_row:
                self._blocks.move_to_end(held_key)
                return block
        return None

    def _under_way(self, key: BlockKey) -> _Decoding | None:
        """The decoding of a block that will hold ``key``'s row. With the lock."""
        path, group, row = key
        for (other_path, other_group, first_row), decoding in self._decoding.items():
            if (other_path, other_group) == (path, group) and first_row <= row < decoding.end_row:
                return decoding
        return None

    def _settle(self, key: BlockKey, done: Future[RowBlock]) -> None:
        # An error of a prefetch is no one's yet: the reader that needs the block meets it by itself.
        with self._lock:
            if self._pending.get(key) is done:
                del self._pending[key]

    def _keep(self, key: BlockKey, block: RowBlock) -> None:
        with self._lock:
            before = self._blocks.pop(key, None)
            self._held_bytes += block.size_bytes - (0 if before is None else before.size_bytes)
            self._blocks[key] = block
            while self._held_bytes > self._limits.decoded_bytes and self._blocks:
                _, dropped = self._blocks.popitem(last=False)
                self._held_bytes -= dropped.size_bytes
