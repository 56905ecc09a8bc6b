"""The newest offset of each key, in RocksDB: made from the topics' tables, and made again whenever it is lost."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray
from rocksdict import AccessType, BlockBasedIndexType, BlockBasedOptions, Cache, Options, Rdict, WriteBatch

from engine.errors import Unavailable
from engine.topic_partition import TopicIdPartition

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")

WRITE_BUFFER_BYTES = 16 << 20
LARGEST_WAL_BYTES = 64 << 20
BLOCK_CACHE_BYTES = 64 << 20
"""Of all topics together: keys that are looked up often. Filters and indexes of the files lie in it too."""
LARGEST_OPEN_FILES = 64
"""Of the database itself: the handles are for the files of the tables."""
FILTER_BITS = 10
"""A key of its own: one read in a hundred is in vain for a key that is new."""

PRUNED_AT_ONCE = 10_000
"""Keys in one batch, which is in memory."""

_FOLDED, _KEY = b"\x00", b"\x01"
_OFFSET = struct.Struct(">q")
_FOLD = struct.Struct(">qqq")
NOT_THERE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """Below ``end`` all records of a partition are known that were there when ``erased`` had been erased from it; of
    keys whose newest record lies below ``pruned`` nothing is known."""

    end: int
    erased: int
    pruned: int = 0


class KeyIndex:
    """(topic id, partition, key) -> newest offset; and for each partition, below which offset all records are in it.

    Keys stand there whole: two never meet. For one thread; one process a directory. What can't be opened is removed
    and begun again. Memory: the named bounds; disk: a key's own bytes, or less, and some 10 more.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._database: Rdict | None = None

    def folded(self, partition: TopicIdPartition) -> Folded | None:
        """How much is known of a partition; None: nothing. Raises Unavailable."""
        found = self._do(lambda database: database.get(_FOLDED + _prefix(partition)))
        if found is None:
            return None
        end, erased, pruned = _FOLD.unpack(found)
        return Folded(end=end, erased=erased, pruned=pruned)

    def newest(self, partition: TopicIdPartition, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """The offset of each key, ``NOT_THERE`` for those that have none. Raises Unavailable."""
        prefix = _KEY + _prefix(partition)
        found = self._do(lambda database: database.get([prefix + key for key in keys]))
        absent = _OFFSET.pack(NOT_THERE)
        joined = b"".join(absent if one is None else one for one in found)
        return np.frombuffer(joined, ">i8").astype(np.int64)

    def write(
        self,
        partition: TopicIdPartition,
        *,
        folded: Folded,
        keys: Sequence[bytes],
        offsets: NDArray[np.int64],
        is_shown: NDArray[np.bool_],
    ) -> None:
        """All at once: the keys' newest offsets, no entry for those that are not shown, and how far that is."""
        prefix = _KEY + _prefix(partition)
        batch = WriteBatch(raw_mode=True)
        encoded = offsets.astype(">i8").tobytes()
        for at, (key, shown) in enumerate(zip(keys, is_shown.tolist(), strict=True)):
            if shown:
                batch.put(prefix + key, encoded[8 * at : 8 * at + 8])
            else:
                batch.delete(prefix + key)
        batch.put(_FOLDED + _prefix(partition), _packed(folded))
        self._do(lambda database: database.write(batch))

    def prune(self, partition: TopicIdPartition, folded: Folded) -> int:
        """Let the keys go whose newest record lies below ``folded.pruned``; how many. Raises Unavailable."""
        return self._do(lambda database: _pruned(database, partition, folded))

    def forget(self, partition: TopicIdPartition) -> None:
        """Everything of a partition, its keys' bytes too. Raises Unavailable."""
        first, after = _KEY + _prefix(partition), _KEY + _prefix(partition, next_one=True)

        def forget(database: Rdict) -> None:
            # First of all: what is left after a crash is then begun again, and nothing believed.
            database.delete(_FOLDED + _prefix(partition))
            database.delete_range(first, after)
            database.compact_range(first, after)

        self._do(forget)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _do(self, work: Callable[[Rdict], _T]) -> _T:
        try:
            if self._database is None:
                self._database = self._open()
            return work(self._database)
        except Exception as error:  # outermost guard: rocksdict raises nothing narrower
            self._give_up(error)
            raise Unavailable(
                f"the index of keys can't be used: {error}",
                file=str(self._directory),
                next_step="look at the disk; the index is made again from the tables where it is lost",
            ) from error

    def _open(self) -> Rdict:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(WRITE_BUFFER_BYTES)
        options.set_max_total_wal_size(LARGEST_WAL_BYTES)
        options.set_keep_log_file_num(2)
        options.set_max_open_files(LARGEST_OPEN_FILES)
        blocks = BlockBasedOptions()
        blocks.set_bloom_filter(FILTER_BITS, False)
        blocks.set_block_cache(Cache(BLOCK_CACHE_BYTES))
        blocks.set_cache_index_and_filter_blocks(True)
        # In parts: the filter of a million keys is larger than a shard of the cache, which would hold none of it.
        blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
        blocks.set_partition_filters(True)
        options.set_block_based_table_factory(blocks)
        self._directory.mkdir(parents=True, exist_ok=True)
        return Rdict(str(self._directory), options, access_type=AccessType.read_write())

    def _give_up(self, error: Exception) -> None:
        """What is damaged is removed; what another process has open, or a full disk, is left as it is."""
        _log.warning("key_index_failed", error=str(error), directory=str(self._directory))
        if self._database is not None:
            self._database.close()
            self._database = None
        if "corruption" in str(error).casefold():
            shutil.rmtree(self._directory, ignore_errors=True)


def _pruned(database: Rdict, partition: TopicIdPartition, folded: Folded) -> int:
    prefix = _KEY + _prefix(partition)
    batch, waiting, gone = WriteBatch(raw_mode=True), 0, 0
    for key, offset in database.items(from_key=prefix):
        if not key.startswith(prefix):
            break
        if _OFFSET.unpack(offset)[0] < folded.pruned:
            batch.delete(key)
            gone += 1
            waiting += 1
        if waiting == PRUNED_AT_ONCE:
            database.write(batch)
            batch, waiting = WriteBatch(raw_mode=True), 0
    batch.put(_FOLDED + _prefix(partition), _packed(folded))
    database.write(batch)
    return gone


def _packed(folded: Folded) -> bytes:
    return _FOLD.pack(folded.end, folded.erased, folded.pruned)


def _prefix(partition: TopicIdPartition, *, next_one: bool = False) -> bytes:
    name = partition.topic_id.encode()
    return bytes([len(name)]) + name + struct.pack(">I", partition.partition + next_one)
