"""One segment's share of a commit on its way to a worker and back: plain values, picklable."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from engine.kafka_log.segment import AbortedTransaction
from engine.offset_range import OffsetRange
from engine.parquet.settings import ParquetSettings
from engine.records.digest import RangeDigest
from engine.table.data_file import FileDescription, FileName
from engine.table.topic_table import TableFacts
from engine.topic_partition import TopicIdPartition
from topics.needs_schemas import NeedsSchemas


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """Turn the committed records of ``range`` in one segment file into one data file.

    ``closed`` is False for a segment that still grows; ``attempt`` makes the file's name this attempt's own.
    """

    table: TableFacts
    partition: TopicIdPartition
    range: OffsetRange
    leader_epoch: int
    segment_path: Path
    closed: bool
    aborted: tuple[AbortedTransaction, ...]
    attempt: str

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

    ``settings``: the encodings the file was written with, None without a file. ``value_bytes``: of all values read.
    """

    file: FileDescription | None
    digest: RangeDigest
    settings: ParquetSettings | None
    value_bytes: int


RewriteOutcome: TypeAlias = Rewritten | NeedsSchemas
