"""The rewrite of one segment range: log bytes in, one Parquet file and its description out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from engine.digest import EMPTY_DIGEST, RangeDigest, digest_of
from engine.errors import Corrupt, FloebergError
from engine.formats.value_codec import Decoded, Verdict
from engine.kafka_log.segment_reader import read_segment, scan_batch_headers
from engine.records import Records
from engine.table.data_file import FileFooter
from engine.table.parquet_settings import ParquetSettings, choose_settings
from engine.table.parquet_writer import ParquetFileWriter
from engine.table.row_codecs import RowCodecs
from engine.table.rows import rows_from_records
from tiering.rewrite_task import NeedsSchemas, RewriteFailed, RewriteOutcome, RewriteTask, Rewritten

BLOCK_BYTES = 16 << 20
"""Decompressed records in memory at a time; columns and a row group in the making come on top."""


def rewrite_segment(task: RewriteTask) -> RewriteOutcome:
    """Read, check, decode and write one range. A pure function of files: a second call differs in nothing but time.

    Errors come back as RewriteFailed, so that one bad segment takes no other task down. Memory: one block of records,
    its columns, one row group.
    """
    try:
        rewrite = _Rewrite(task)
        try:
            return rewrite.run()
        finally:
            rewrite.close()
    except FloebergError as error:
        return RewriteFailed(error=error)


class _Rewrite:
    def __init__(self, task: RewriteTask) -> None:
        self._task = task
        self._codecs = RowCodecs.of(task.table)
        self._writer: ParquetFileWriter | None = None
        self._settings: ParquetSettings | None = None
        self._digest: RangeDigest = EMPTY_DIGEST
        self._schema_ids: set[int] = set()
        self._key_schema_ids: set[int] = set()
        self._raw_rows = 0
        self._error_rows = 0
        self._value_bytes = 0

    def run(self) -> RewriteOutcome:
        task = self._task
        blocks = read_segment(
            task.segment_path,
            partition=task.partition,
            range=task.range,
            aborted=task.aborted,
            block_bytes=BLOCK_BYTES,
            closed=task.closed,
        )
        for records in blocks:
            decoded = self._codecs.value.decode(records.value)
            decoded_key = None if self._codecs.key is None else self._codecs.key.decode(records.key)
            missing_keys = frozenset() if decoded_key is None else decoded_key.missing_schema_ids
            if decoded.missing_schema_ids or missing_keys:
                return NeedsSchemas(schema_ids=decoded.missing_schema_ids, key_schema_ids=missing_keys)
            self._add(records, decoded, decoded_key)
        if not task.closed:
            _refuse_short_read(task.segment_path, task)
        return self._finish()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.abort()

    def _add(self, records: Records, decoded: Decoded, decoded_key: Decoded | None) -> None:
        task = self._task
        self._digest = self._digest.then(digest_of(records))
        worst = decoded.verdict if decoded_key is None else np.maximum(decoded.verdict, decoded_key.verdict)
        self._raw_rows += int(np.count_nonzero(worst == Verdict.KEEP_RAW))
        self._error_rows += int(np.count_nonzero(worst == Verdict.UNDECODABLE))
        self._schema_ids.update(decoded.schema_id.unique().drop_null().to_pylist())
        if decoded_key is not None:
            self._key_schema_ids.update(decoded_key.schema_id.unique().drop_null().to_pylist())
        self._value_bytes += records.value.size_bytes
        rows = rows_from_records(
            task.table.layout, task.table.schema, task.partition.partition, records, decoded, decoded_key
        )
        if self._writer is None:
            self._settings = _settings_for(task.table.settings, rows)
            self._writer = ParquetFileWriter(
                task.table.warehouse, path=task.data_path, schema=task.table.schema, settings=self._settings
            )
        self._writer.write(rows)

    def _finish(self) -> Rewritten:
        task = self._task
        description = None
        if self._writer is not None:
            footer = FileFooter(
                topic=task.partition.topic,
                topic_id=task.partition.topic_id,
                partition=task.partition.partition,
                range=task.range,
                record_count=self._digest.record_count,
                digest=self._digest,
                codec=self._codecs.value.name,
                codec_version=self._codecs.value.version,
                schema_ids=tuple(sorted(self._schema_ids)),
                key_schema_ids=tuple(sorted(self._key_schema_ids)),
            )
            description = self._writer.finish(
                footer, leader_epoch=task.leader_epoch, raw_rows=self._raw_rows, error_rows=self._error_rows
            )
        return Rewritten(file=description, digest=self._digest, settings=self._settings, value_bytes=self._value_bytes)


def _settings_for(remembered: ParquetSettings | None, sample: pa.RecordBatch) -> ParquetSettings:
    if remembered is not None and remembered.covers(sample.schema):
        return remembered
    return choose_settings(pa.Table.from_batches([sample]), remembered)


def _refuse_short_read(path: Path, task: RewriteTask) -> None:
    """A growing file has no closing segment behind it to vouch for its end: see that the batches reach the range's."""
    reached = 0
    for header in scan_batch_headers(path, partition=task.partition):
        reached = header.next_offset
        if reached >= task.range.end:
            return
    raise Corrupt(
        f"the active segment ends at offset {reached}, the broker says that it is stable up to {task.range.end}",
        topic=task.partition.topic,
        partition=task.partition.partition,
        offset=reached,
        file=str(path),
        next_step="check that [broker] log_dirs are the directories of the broker at [broker] bootstrap.",
    )
