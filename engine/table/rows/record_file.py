"""One data file in the making, out of the records of its range, or out of rows of other files: rows, digest, counts,
and what the footer says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.formats.codec import Decoded, Verdict
from engine.parquet.settings import ParquetSettings, choose_settings
from engine.records.digest import EMPTY_DIGEST, RangeDigest, digest_of
from engine.records.records import Records
from engine.table.data_file import FileDescription, FileFooter, FileName
from engine.table.rows.parquet_writer import ParquetFileWriter
from engine.table.rows.rows import RowCodecs, rows_from_records
from engine.table.topic_table import TableFacts
from engine.table.windows import Clustering

MOST_UNRESOLVED = 256
"""Ids that a footer names, those of the most records first: bytes that are no schema id at all may look like many."""


class RecordFile:
    """The file is opened with its first records, and is there once ``finish`` has returned.

    ``codecs`` are those that decode the records that are added. Memory: a block's columns and one row group; with
    ``clustering`` what ParquetFileWriter says.
    """

    def __init__(
        self, table: TableFacts, name: FileName, codecs: RowCodecs, *, clustering: Clustering | None = None
    ) -> None:
        self._clustering = clustering
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
        self._codec_version = codecs.value.version
        self._key_codec_version = None if codecs.key is None else codecs.key.version
        self._is_unsaid = False
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
        # The codec fills the same memory for the next records.
        self._write(rows, is_lent=True)
        return rows

    def copy(self, rows: pa.RecordBatch) -> None:
        """Write rows of another file, in the table's schema, after those before; ``note_copied`` tells of them."""
        layout = self._table.layout
        has_reason = _is_valid(rows.column(layout.error))
        is_kept = _is_valid(rows.column(layout.value_raw)) | _is_valid(rows.column(layout.key_raw))
        self._error_rows += int(np.count_nonzero(has_reason))
        self._raw_rows += int(np.count_nonzero(is_kept & ~has_reason))
        self._write(rows, is_lent=False)

    def note_copied(self, footer: FileFooter, *, digest: RangeDigest, has_reasons: bool) -> None:
        """What is said of a file by its ``footer``, once its rows were written here as they were.

        ``digest`` of their records: the footer's where they are all of them. ``has_reasons``: some say why they keep
        their bytes, so what they lack, and which codec tried them, counts: what the footer counts is the most.
        """
        self.digest = self.digest.then(digest)
        self._schema_ids.update(footer.schema_ids)
        self._key_schema_ids.update(footer.key_schema_ids)
        if not has_reasons:
            return
        self._codec_version = min(self._codec_version, footer.codec_version)
        if self._key_codec_version is not None:
            self._key_codec_version = min(self._key_codec_version, footer.key_codec_version or 0)
        self._is_unsaid |= footer.unresolved is None
        self.unresolved.update(footer.unresolved or {})
        self.unresolved_keys.update(footer.unresolved_keys or {})

    def _write(self, rows: pa.RecordBatch, *, is_lent: bool) -> None:
        if self._writer is None:
            table = self._table
            self.settings = _settings_for(table.settings, rows)
            path = table.data_path(self._name)
            self._writer = ParquetFileWriter(
                table.warehouse,
                path=path,
                schema=table.schema,
                settings=self.settings,
                clustering=self._clustering,
            )
        self._writer.write(rows, is_lent=is_lent)

    @property
    def footer(self) -> FileFooter:
        """What the file says of itself, by what was written so far."""
        name = self._name
        return FileFooter(
            topic=self._table.topic,
            topic_id=self._table.topic_id,
            partition=name.partition,
            range=name.range,
            record_count=self.digest.record_count,
            digest=self.digest,
            codec=self._codecs.value.name,
            codec_version=self._codec_version,
            schema_ids=tuple(sorted(self._schema_ids)),
            unresolved=None if self._is_unsaid else dict(self.unresolved.most_common(MOST_UNRESOLVED)),
            key_codec_version=self._key_codec_version,
            key_schema_ids=tuple(sorted(self._key_schema_ids)),
            unresolved_keys=None
            if self._codecs.key is None
            else dict(self.unresolved_keys.most_common(MOST_UNRESOLVED)),
        )

    def finish(self) -> FileDescription | None:
        """Make the file appear; None where there was no record. Raises Unavailable when the warehouse fails."""
        if self._writer is None:
            return None
        return self._writer.finish(
            self.footer,
            leader_epoch=self._name.leader_epoch,
            raw_rows=self._raw_rows,
            error_rows=self._error_rows,
            begun_at=self._table.sequence_number,
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


def _is_valid(column: pa.Array) -> NDArray[np.bool_]:
    valid: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _settings_for(remembered: ParquetSettings | None, sample: pa.RecordBatch) -> ParquetSettings:
    if remembered is not None and remembered.covers(sample.schema):
        return remembered
    return choose_settings(pa.Table.from_batches([sample]), remembered)
