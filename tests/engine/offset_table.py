"""Small tables for tests that read by offset: real Parquet files and manifests, with any row group and page size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from engine.formats.codec import CodecSpec, open_codec, propose_fields
from engine.offset_range import OffsetRange
from engine.parquet.settings import choose_settings
from engine.records.digest import digest_of
from engine.records.records import ByteSpans, Headers, Records
from engine.table.columns import TableLayout, arrow_schema, iceberg_schema
from engine.table.data_file import FileFooter, FileName, data_path
from engine.table.ledger import LedgerEntry
from engine.table.rows.rows import rows_from_records
from engine.table.rows.window_rows import row_groups_of
from engine.table.topic_table import TopicTable
from engine.table.windows import Clustering, FileWindows
from engine.warehouse.warehouse import Warehouse

TOPIC = "orders"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShape:
    """How a test's files are cut; with ``window_rows`` they are clustered by the key."""

    row_group_rows: int = 64
    page_rows: int = 8
    window_rows: int | None = None
    writer_options: dict[str, Any] = field(default_factory=dict)


def records_of(
    offsets: Sequence[int],
    *,
    value: Callable[[int], bytes | None] = lambda offset: b"value %d" % offset,
    key: Callable[[int], bytes | None] = lambda offset: b"key %d" % (offset % 5),
    timestamp_ms: Callable[[int], int] = lambda offset: 1_760_000_000_000 + offset,
    timestamp_type: Callable[[int], int] = lambda _: 0,
    leader_epoch: Callable[[int], int] = lambda _: 3,
    headers: Callable[[int], list[tuple[bytes, bytes | None]]] = lambda _: [],
) -> Records:
    lists = [headers(offset) for offset in offsets]
    return Records(
        offset=np.array(offsets, np.int64),
        timestamp_ms=np.array([timestamp_ms(offset) for offset in offsets], np.int64),
        timestamp_type=np.array([timestamp_type(offset) for offset in offsets], np.int8),
        leader_epoch=np.array([leader_epoch(offset) for offset in offsets], np.int32),
        key=ByteSpans.from_list([key(offset) for offset in offsets]),
        value=ByteSpans.from_list([value(offset) for offset in offsets]),
        headers=Headers.from_lists(lists) if any(lists) else None,
    )


class OffsetTable:
    """A table in a folder that grows by files; ``view`` is what a loaded table looks like."""

    def __init__(
        self, folder: Path, *, codec: CodecSpec | None = None, schema_text: str = "", layout: TableLayout | None = None
    ) -> None:
        codec = codec or CodecSpec(name="raw")
        layout = layout or TableLayout()
        fields = propose_fields(codec.name, schema_text, ()).fields
        schema = iceberg_schema(layout, fields)
        self.folder = folder
        self._spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), layout.partition))
        self._io = load_file_io({}, folder.as_uri())
        self._manifests: list[Any] = []
        self._snapshot_id = 0
        self.view = TopicTable(
            identifier=("kafka", TOPIC),
            location=folder.as_uri(),
            metadata_location=f"{folder.as_uri()}/metadata/0.metadata.json",
            manifest_list=None,
            topic=TOPIC,
            topic_id=TOPIC_ID,
            cluster_id="cluster",
            layout=layout,
            codec=codec,
            iceberg_schema=schema,
            ledger={},
            skipped={},
            empty={},
            settings=None,
            snapshot_id=None,
            warehouse=Warehouse(),
            shown_schema=schema,
        )

    def add(
        self, range_: OffsetRange, records: Records, *, partition: int = 0, shape: FileShape | None = None
    ) -> Path | None:
        """Store a range: a file where it has records, an empty range where it has none. The ledger grows by it."""
        path = None
        if len(records):
            path = self._write_file(range_, records, partition, shape or FileShape())
        else:
            empty = (*self.view.empty.get(partition, ()), range_)
            self.view = replace(self.view, empty={**self.view.empty, partition: empty})
        before = self.view.ledger.get(partition)
        entry = LedgerEntry(
            start=range_.start if before is None else before.start,
            end=range_.end,
            epoch=3,
            digest=digest_of(records) if before is None else before.digest.then(digest_of(records)),
            log_start=range_.start if before is None else before.log_start,
        )
        self.view = replace(self.view, ledger={**self.view.ledger, partition: entry})
        return path

    def _write_file(self, range_: OffsetRange, records: Records, partition: int, shape: FileShape) -> Path:
        view = self.view
        codec = open_codec(view.codec, view.value_fields)
        schema = arrow_schema(view.iceberg_schema)
        rows = pa.Table.from_batches(
            [rows_from_records(view.layout, schema, partition, records, codec.decode(records.value))]
        )
        name = FileName(partition=partition, range=range_, leader_epoch=3, attempt="a1")
        uri = data_path(view.location, view.topic_id, name)
        path = Path(uri.removeprefix("file://"))
        path.parent.mkdir(parents=True, exist_ok=True)
        options = choose_settings(rows).writer_options(schema)
        options |= {"max_rows_per_page": shape.page_rows, "write_batch_size": shape.page_rows}
        footer = FileFooter(
            topic=view.topic,
            topic_id=view.topic_id,
            partition=partition,
            range=range_,
            record_count=len(records),
            digest=digest_of(records),
            codec=codec.name,
            codec_version=codec.version,
            schema_ids=(),
        )
        windows = self._windows(rows, shape)
        first_groups = [sum(map(len, windows[:at])) for at in range(len(windows))]
        if shape.window_rows is not None:
            clustering = Clustering(columns=(view.layout.key_column,), window_rows=shape.window_rows)
            footer = replace(footer, windows=FileWindows(clustering=clustering, first_groups=tuple(first_groups)))
        with pq.ParquetWriter(path, schema, **{**options, **shape.writer_options}) as writer:
            for group in (group for window in windows for group in window):
                writer.write_table(group, row_group_size=shape.row_group_rows)
            writer.add_key_value_metadata(footer.to_key_values())
        self._append(uri, path.stat().st_size, len(records), partition)
        return path

    def _windows(self, rows: pa.Table, shape: FileShape) -> list[list[pa.Table]]:
        if shape.window_rows is None:
            return [[rows]]
        parts = [rows.slice(at, shape.window_rows) for at in range(0, rows.num_rows, shape.window_rows)]
        by = [self.view.layout.key_column]
        return [list(row_groups_of(part, by, -(-part.num_rows // shape.row_group_rows))) for part in parts]

    def _append(self, uri: str, size_bytes: int, record_count: int, partition: int) -> None:
        self._snapshot_id += 1
        data_file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=uri,
            file_format=FileFormat.PARQUET,
            partition=Record(partition),
            record_count=record_count,
            file_size_in_bytes=size_bytes,
        )
        entry = ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, data_file=data_file
        )
        (self.folder / "metadata").mkdir(exist_ok=True)
        manifest = f"{self.view.location}/metadata/manifest-{self._snapshot_id}.avro"
        schema = self.view.iceberg_schema
        with write_manifest(
            2, self._spec, schema, self._io.new_output(manifest), self._snapshot_id, "null"
        ) as manifest_writer:
            manifest_writer.add_entry(entry)
        self._manifests.append(manifest_writer.to_manifest_file())
        listed = f"{self.view.location}/metadata/snap-{self._snapshot_id}.avro"
        with write_manifest_list(
            2, self._io.new_output(listed), self._snapshot_id, None, self._snapshot_id, "null"
        ) as list_writer:
            list_writer.add_manifests(self._manifests)
        self.view = replace(self.view, snapshot_id=self._snapshot_id, manifest_list=listed)
