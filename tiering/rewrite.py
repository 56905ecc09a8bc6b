"""The rewrite of one segment range: log bytes in, one Parquet file and its description out.

What goes to a worker and comes back are plain values, picklable.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from heapq import nsmallest
from pathlib import Path
from typing import TypeAlias

from engine.formats.codec import EVERY_OTHER_ID, CodecSpec, Decoded
from engine.kafka_log.segment import AbortedTransaction
from engine.kafka_log.segment_reader import read_segment
from engine.offset_range import OffsetRange
from engine.parquet.settings import ParquetSettings
from engine.records.digest import RangeDigest
from engine.table.data_file import FileDescription, FileName
from engine.table.rows.record_file import RecordFile
from engine.table.rows.rows import RowCodecs
from engine.table.topic_table import TableFacts
from engine.topic_partition import TopicIdPartition
from topics.needs_schemas import NeedsSchemas

BLOCK_BYTES = 16 << 20
"""Decompressed records in memory at a time; columns and a row group in the making come on top."""

MOST_IDS_AT_ONCE = 1000
"""Schemas that one block asks for: values that only begin as framed ones name as many as there are values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """Turn the committed records of ``range`` in one segment file into one data file.

    ``closed`` is False for a segment that still grows; ``position`` is a byte of it to begin at, if ``read_segment``
    finds it right; ``size_bytes`` about those that are read. ``attempt`` makes the file's name this attempt's own. A
    task ``is_suspect`` where the partition's last one failed: it may end its process.
    """

    table: TableFacts
    partition: TopicIdPartition
    range: OffsetRange
    leader_epoch: int
    segment_path: Path
    closed: bool
    aborted: tuple[AbortedTransaction, ...]
    attempt: str
    position: int = 0
    size_bytes: int = 0
    is_suspect: bool = False

    @property
    def file_name(self) -> FileName:
        return FileName(
            partition=self.partition.partition, range=self.range, leader_epoch=self.leader_epoch, attempt=self.attempt
        )

    def again(self, *, table: TableFacts, attempt: str) -> RewriteTask:
        """The same work with newer facts, as an attempt of its own."""
        return replace(self, table=table, attempt=attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """``file`` is None where the range holds no committed record; ``digest`` is that of the log's records.

    ``settings``: the encodings the file was written with, None without a file. ``value_bytes``: of all values read,
    ``log_bytes``: of the batches that they were in, as they lie in the log.
    """

    file: FileDescription | None
    digest: RangeDigest
    settings: ParquetSettings | None
    value_bytes: int
    log_bytes: int


RewriteOutcome: TypeAlias = Rewritten | NeedsSchemas


def rewrite_segment(task: RewriteTask) -> RewriteOutcome:
    """Read, check, decode and write one range. A pure function of files: a second call differs in nothing but time.

    Memory: one block of records, its columns, one row group. Raises Corrupt, Unavailable, Invalid.
    """
    codecs = RowCodecs.of(task.table)
    value_bytes, log_bytes = 0, 0
    blocks = read_segment(
        task.segment_path,
        partition=task.partition,
        offsets=task.range,
        aborted=task.aborted,
        block_bytes=BLOCK_BYTES,
        closed=task.closed,
        position=task.position,
    )
    with closing(RecordFile(task.table, task.file_name, codecs)) as file:
        for records in blocks:
            value, key = codecs.decode(records)
            needed = _needed(value, key, task.table)
            if needed != NeedsSchemas():
                return needed
            value_bytes += records.value.size_bytes
            log_bytes += records.batch_bytes
            file.add(records, value, key)
        return Rewritten(
            file=file.finish(),
            digest=file.digest,
            settings=file.settings,
            value_bytes=value_bytes,
            log_bytes=log_bytes,
        )


def _needed(value: Decoded, key: Decoded | None, table: TableFacts) -> NeedsSchemas:
    return NeedsSchemas(
        schema_ids=_missing(value, table.codec),
        key_schema_ids=_missing(key, table.key_codec),
        proposed_schemas=_proposed(value),
        proposed_key_schemas=frozenset() if key is None else _proposed(key),
    )


def _missing(decoded: Decoded | None, spec: CodecSpec | None) -> frozenset[int]:
    if decoded is None or spec is None or EVERY_OTHER_ID in spec.unresolved:
        return frozenset()
    return frozenset(nsmallest(MOST_IDS_AT_ONCE, decoded.missing_schema_ids))


def _proposed(decoded: Decoded) -> frozenset[str]:
    return frozenset() if decoded.proposed_schema is None else frozenset({decoded.proposed_schema})
