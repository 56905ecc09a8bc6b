"""Reads a segment file: committed records, in blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import crc32c
import numpy as np
from numpy.typing import NDArray

from engine.errors import Corrupt, FloebergError, Unavailable
from engine.kafka_log import batch_reader_kernels as kernels
from engine.kafka_log.compression import Decompressor
from engine.kafka_log.record_batch import (
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    HEADER_SIZE_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_FLAG,
    parse_header,
)
from engine.kafka_log.record_block import RecordBlock
from engine.kafka_log.segment import MAX_RELATIVE_OFFSET, AbortedBatches, AbortedTransaction, base_offset_in
from engine.offset_range import OffsetRange
from engine.records.records import Records
from engine.topic_partition import TopicIdPartition

# Read at a time: small enough to stay in the processor's cache until its batches are decompressed.
_WINDOW_BYTES: Final = 1 << 20
_WINDOW_BATCHES: Final = 4096

_REPLICA_STEP: Final = (
    "the segment is left as it is and its partition waits; compare with another replica, "
    "or move the directory away so that the broker fetches the partition again"
)
_OLD_FORMAT_STEP: Final = (
    "this partition can't be tiered until its old segments have passed the topic's retention, "
    "or the topic has been copied into a new one (any broker since 0.11 writes format v2)"
)


def read_segment(
    path: Path,
    *,
    partition: TopicIdPartition,
    offsets: OffsetRange,
    aborted: Sequence[AbortedTransaction],
    block_bytes: int = 16 << 20,
    closed: bool = True,
    is_stable: bool = True,
    position: int = 0,
) -> Iterator[Records]:
    """Yield the committed records of a segment that lie in ``offsets``, in offset order, in blocks of whole batches.

    A block holds about ``block_bytes`` of decompressed records, or one larger batch; a block without records is not
    yielded. Each block owns its memory and stays valid as long as something refers to it. Control batches and the
    batches of ``aborted`` transactions are dropped. Nothing past ``offsets.end`` is looked at. With ``closed=False``
    the file may be growing, and no later segment vouches for its end: where ``is_stable``, the broker has said that all
    of ``offsets`` are, its whole batches must reach ``offsets.end``.

    ``position`` may name a byte at which a batch begins that ends before ``offsets``: what lies before it is not read.
    A batch that is not there, whole and with a right CRC, was a wrong hint, and the file is read from its start.

    The file is read and not mapped: a broker may truncate a file that we hold, and touching a mapped page after
    the new end would kill the process.

    Errors: Corrupt (offset of the batch, file) for a wrong CRC, a bad record, a cut batch in a closed segment, and
    message formats v0 and v1, whole batches of a growing segment that end too early; Unavailable when the file can't be
    read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            segment = _SegmentScan(
                descriptor=file.fileno(),
                base_offset=base_offset_in(path),
                range=offsets,
                closed=closed,
                is_stable=is_stable,
                aborted=AbortedBatches(aborted),
            )
            segment.go_to(position)
            yield from segment.blocks(block_bytes)
    except (Corrupt, OSError) as error:
        raise _with_coordinates(error, path, partition) from error


@dataclass(slots=True, kw_only=True, eq=False)
class _SegmentScan:
    descriptor: int
    base_offset: int | None
    range: OffsetRange
    closed: bool
    is_stable: bool
    aborted: AbortedBatches
    decompressor: Decompressor = field(default_factory=Decompressor)
    position: int = 0
    last_offset: int = field(init=False)

    def __post_init__(self) -> None:
        self.last_offset = (self.base_offset or 0) - 1

    def go_to(self, position: int) -> None:
        """Begin after the batch at ``position``, if there is one that ends before the range; else at the start."""
        head = os.pread(self.descriptor, HEADER_SIZE_BYTES, position) if position > 0 else b""
        if len(head) < HEADER_SIZE_BYTES or not _is_readable(head):
            return
        header = parse_header(head)
        if not (self.base_offset or 0) <= header.base_offset < header.next_offset <= self.range.start:
            return
        end = position + header.size_bytes
        if end > os.fstat(self.descriptor).st_size:
            return
        covered = os.pread(self.descriptor, end - position - CRC_COVERS_FROM, position + CRC_COVERS_FROM)
        if crc32c.crc32c(covered) == header.crc32c:
            self.position, self.last_offset = end, header.next_offset - 1

    def blocks(self, block_bytes: int) -> Iterator[Records]:
        block = RecordBlock(target_bytes=block_bytes)
        for body, batch in self._wanted_batches():
            if not block.append(self.decompressor, body, batch):
                yield from self._found(block)
                block = RecordBlock(target_bytes=block_bytes)
                block.append(self.decompressor, body, batch)
            if block.is_full:
                yield from self._found(block)
                block = RecordBlock(target_bytes=block_bytes)
        if not self.closed and self.is_stable and self.last_offset < self.range.end - 1:
            raise _ends_early(self.last_offset + 1, self.range)
        yield from self._found(block)

    def _found(self, block: RecordBlock) -> Iterator[Records]:
        if len(block):
            records = block.records(self.range)
            if len(records):
                yield records

    def _wanted_batches(self) -> Iterator[tuple[memoryview, tuple[int, ...]]]:
        """(bytes after the header, row of the batch table) of each batch that holds records to be kept."""
        for window, batches in self._windows():
            view = window.data
            rows = list(map(tuple, batches.tolist()))
            for index, batch in enumerate(rows):
                start, end = batch[kernels.START], batch[kernels.END]
                base_offset, last_offset = batch[kernels.BASE_OFFSET], batch[kernels.LAST_OFFSET]
                self._check_claims(batch)
                if base_offset >= self.range.end:
                    if self.closed and index + 1 < len(rows):
                        # The CRC leaves the base offset out: the next batch tells whether this one's can be true.
                        self._check_claims(rows[index + 1])
                    return
                if last_offset < self.range.start:
                    continue
                if crc32c.crc32c(view[start + CRC_COVERS_FROM : end]) != batch[kernels.CRC32C]:
                    raise Corrupt("A batch's CRC is wrong", offset=base_offset)
                if self._is_kept(batch):
                    yield view[start + HEADER_SIZE_BYTES : end], batch
                if last_offset >= self.range.end - 1:
                    return

    def _is_kept(self, batch: tuple[int, ...]) -> bool:
        attributes = batch[kernels.ATTRIBUTES]
        if attributes & CONTROL_FLAG or batch[kernels.RECORD_COUNT] == 0:
            return False
        if attributes & TRANSACTIONAL_FLAG:
            return not self.aborted.holds(batch[kernels.PRODUCER_ID], batch[kernels.BASE_OFFSET])
        return True

    def _check_claims(self, batch: tuple[int, ...]) -> None:
        base_offset, last_offset = batch[kernels.BASE_OFFSET], batch[kernels.LAST_OFFSET]
        if not self.last_offset < base_offset <= last_offset:
            problem = f"A batch covers offsets {base_offset} to {last_offset} and follows offset {self.last_offset}"
            raise Corrupt(problem, offset=base_offset)
        if self.base_offset is not None and base_offset > self.base_offset + MAX_RELATIVE_OFFSET:
            problem = f"A batch is at offset {base_offset} and its segment starts at {self.base_offset}, too far away"
            raise Corrupt(problem, offset=base_offset)
        count, body_bytes = batch[kernels.RECORD_COUNT], batch[kernels.END] - batch[kernels.START] - HEADER_SIZE_BYTES
        if count < 0 or (count == 0 and body_bytes):
            raise Corrupt(f"A batch claims {count} records in {body_bytes} bytes", offset=base_offset)
        self.last_offset = last_offset

    def _windows(self) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
        """Windows of the file and the whole batches in each; the window's memory is used again for the next."""
        window = np.empty(_WINDOW_BYTES, np.uint8)
        table = np.empty((_WINDOW_BATCHES, kernels.BATCH_COLUMNS), np.int64)
        state = np.zeros(4, np.int64)
        size = os.fstat(self.descriptor).st_size
        position = self.position
        while position < size:
            wanted = min(len(window), size - position)
            got = _read_into(self.descriptor, window[:wanted].data, position)
            if got < wanted:
                # The file was truncated since its size was asked for; what is gone is not this reader's to judge.
                size = position + got
            kernels.scan_headers(window[:got], table, state)
            found, taken, ending, needed = (int(number) for number in state)
            if found:
                yield window, table[:found]
            position += taken
            if ending == kernels.BATCH_CUT and position + max(needed, MAGIC_POSITION + 1) > size:
                if self.closed:
                    raise _cut_tail(position, size, self.last_offset + 1)
                return
            if ending == kernels.BATCH_CUT and needed > len(window):
                window = np.empty(needed, np.uint8)
            if ending in (kernels.BAD_LENGTH, kernels.OTHER_MAGIC):
                head = window[taken : min(taken + HEADER_SIZE_BYTES, got)].tobytes()
                if self.closed or any(head):
                    raise _bad_header(head)
                # A preallocated file: the broker has not written here yet.
                return


def _is_readable(head: bytes) -> bool:
    return head[MAGIC_POSITION] == MAGIC and _length_bytes(head) >= HEADER_SIZE_BYTES - LENGTH_PREFIX_BYTES


def _length_bytes(head: bytes) -> int:
    return int.from_bytes(head[8:LENGTH_PREFIX_BYTES], "big", signed=True)


def _cut_tail(position: int, size: int, offset: int) -> Corrupt:
    return Corrupt(
        f"The segment is closed and ends inside a batch that starts at byte {position} of {size}", offset=offset
    )


def _ends_early(offset: int, wanted: OffsetRange) -> Corrupt:
    return Corrupt(
        f"the active segment ends at offset {offset}, the broker says that it is stable up to {wanted.end}",
        offset=offset,
        next_step="check that [broker] log_dirs are the directories of the broker at [broker] bootstrap.",
    )


def _bad_header(head: bytes) -> Corrupt:
    """What is wrong with a batch's first bytes. All formats have magic and length in the same places."""
    offset = int.from_bytes(head[:8], "big", signed=True)
    magic = int.from_bytes(head[MAGIC_POSITION : MAGIC_POSITION + 1], "big", signed=True)
    if not any(head):
        return Corrupt("The segment is closed and has zeros where a batch should start")
    if magic in (0, 1):
        problem = f"The segment holds message format v{magic}, which Floeberg does not read (only v{MAGIC})"
        return Corrupt(problem, offset=offset, next_step=_OLD_FORMAT_STEP)
    if magic != MAGIC:
        return Corrupt(f"A batch has magic {magic}, not {MAGIC}", offset=offset)
    return Corrupt(f"A batch claims a length of {_length_bytes(head)} bytes, less than its header", offset=offset)


def _with_coordinates(error: Corrupt | OSError, path: Path, partition: TopicIdPartition | None) -> FloebergError:
    topic = partition.topic if partition else None
    number = partition.partition if partition else None
    if isinstance(error, OSError):
        problem = f"A segment can't be read: {error.strerror}"
        return Unavailable(problem, topic=topic, partition=number, file=str(path))
    return Corrupt(
        error.problem,
        topic=topic,
        partition=number,
        offset=error.offset,
        file=str(path),
        next_step=error.next_step or _REPLICA_STEP,
    )


def _read_into(descriptor: int, target: memoryview, position: int) -> int:
    """Fill ``target`` from ``position``; fewer bytes only at the end of the file."""
    got = 0
    while got < len(target):
        count = os.preadv(descriptor, [target[got:]], position + got)
        if count == 0:
            break
        got += count
    return got
