"""One data file in the making, out of the records of its range: rows, digest, counts, and what the footer says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa

from engine.formats.codec import Decoded, Verdict
from engine.parquet.settings import ParquetSettings, choose_settings
from engine.records.digest import EMPTY_DIGEST, RangeDigest, digest_of
from engine.records.records import Records
from engine.table.data_file import FileDescription, FileFooter, FileName
from engine.table.rows.parquet_writer import ParquetFileWriter
from engine.table.rows.rows import RowCodecs, rows_from_records
from engine.table.topic_table import TableFacts

MOST_UNRESOLVED = 256
"""Ids that a footer names, those of the most records first: bytes that are no schema id at all may look like many."""


class RecordFile:
    """The file is opened with its first records, and is there once ``finish`` has returned.

    ``codecs`` are those that decoded the records. Memory: a block's columns and one row group.
    """

    def __init__(self, table: TableFacts, name: FileName, codecs: RowCodecs) -> None:
        self._table = table
        self._name = name
        self._codecs = codecs
        self._writer: ParquetFileWriter | None = None
        self.settings: ParquetSettings | None = None
        """The encodings the file is written with, None before its first records."""
        self.digest: RangeDigest = EMPTY_DIGEST
        self._schema_ids: set[int] = set()
        self._key_schema_ids: set[int] = set()
        self.unresolved: Counter[int] = Counter()
        """Records without columns, by the id of the schema that could not be had."""
        self.unresolved_keys: Counter[int] = Counter()
        self._raw_rows = 0
        self._error_rows = 0

    def add(self, records: Records, value: Decoded, key: Decoded | None) -> pa.RecordBatch:
        """Write the rows of a block, which follows those before, and return them."""
        table = self._table
        self.digest = self.digest.then(digest_of(records))
        worst = value.verdict if key is None else np.maximum(value.verdict, key.verdict)
        self._raw_rows += int(np.count_nonzero(worst == Verdict.KEEP_RAW))
        self._error_rows += int(np.count_nonzero(worst == Verdict.UNDECODABLE))
        self._schema_ids.update(_ids(value))
        self.unresolved.update(_unresolved(value, table.codec.unresolved))
        if key is not None and table.key_codec is not None:
            self._key_schema_ids.update(_ids(key))
            self.unresolved_keys.update(_unresolved(key, table.key_codec.unresolved))
        rows = rows_from_records(table.layout, table.schema, self._name.partition, records, value, key)
        if self._writer is None:
            self.settings = _settings_for(table.settings, rows)
            path = table.data_path(self._name)
            self._writer = ParquetFileWriter(table.warehouse, path=path, schema=table.schema, settings=self.settings)
        self._writer.write(rows)
        return rows

    def finish(self) -> FileDescription | None:
        """Make the file appear; None where there was no record. Raises Unavailable when the warehouse fails."""
        if self._writer is None:
            return None
        key = self._codecs.key
        footer = FileFooter(
            topic=self._table.topic,
            topic_id=self._table.topic_id,
            partition=self._name.partition,
            range=self._name.range,
            record_count=self.digest.record_count,
            digest=self.digest,
            codec=self._codecs.value.name,
            codec_version=self._codecs.value.version,
            schema_ids=tuple(sorted(self._schema_ids)),
            unresolved=dict(self.unresolved.most_common(MOST_UNRESOLVED)),
            key_codec_version=None if key is None else key.version,
            key_schema_ids=tuple(sorted(self._key_schema_ids)),
            unresolved_keys=None if key is None else dict(self.unresolved_keys.most_common(MOST_UNRESOLVED)),
        )
        return self._writer.finish(
            footer, leader_epoch=self._name.leader_epoch, raw_rows=self._raw_rows, error_rows=self._error_rows
        )

    def close(self) -> None:
        """Drop a file that is not finished."""
        if self._writer is not None:
            self._writer.abort()


def _ids(decoded: Decoded) -> Collection[int]:
    found: list[int] = decoded.schema_id.unique().drop_null().to_pylist()
    return found


def _unresolved(decoded: Decoded, given_up: Mapping[int, str]) -> dict[int, int]:
    lacking = given_up.keys() | decoded.missing_schema_ids
    if not lacking:
        return {}
    is_lost = pa.array(decoded.verdict == Verdict.UNDECODABLE)
    counts = decoded.schema_id.filter(is_lost).drop_null().value_counts().to_pylist()
    return {count["values"]: count["counts"] for count in counts if count["values"] in lacking}


def _settings_for(remembered: ParquetSettings | None, sample: pa.RecordBatch) -> ParquetSettings:
    if remembered is not None and remembered.covers(sample.schema):
        return remembered
    return choose_settings(pa.Table.from_batches([sample]), remembered)
