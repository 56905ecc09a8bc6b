"""A topic's table as any Iceberg reader sees it: pyiceberg, pyarrow and docs/row_format.md are all that is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from engine.records.digest import EMPTY_DIGEST, RangeDigest
from tests.engine.kafka_log.batch_twin import Header, Row, read_varint
from tests.simulation.catalog import CatalogState, Identifier
from tests.simulation.object_store import ObjectStore, SimulatedFileIO, endpoint_properties

_UNKNOWN_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """``rows`` None: the file is missing or can't be read."""

    path: str
    partition: int
    rows: tuple[Row, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    start: int
    end: int
    epoch: int
    digest: str
    log_start: int
    table_start: int = 0
    gone: Mapping[str, Any] | None = None

    @property
    def held_start(self) -> int:
        """The first offset whose record a file holds."""
        return self.start if self.gone is None else int(self.gone["end"])

    def digest_with(self, rows: RangeDigest) -> str:
        """Of what is gone, and then of these."""
        gone = EMPTY_DIGEST if self.gone is None else RangeDigest.from_text(self.gone["digest"])
        return gone.then(rows).to_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What a manifest lists: data, or position deletes."""

    path: str
    partition: int
    is_data: bool


class TableReading:
    """Reads tables out of the truth behind all clients. Files are read once: a stored object never changes."""

    def __init__(self, state: CatalogState, store: ObjectStore, endpoint: str) -> None:
        self._state = state
        self._store = store
        self._io = SimulatedFileIO(endpoint_properties(endpoint))
        self._rows: dict[tuple[str, int], tuple[Row, ...] | None] = {}
        self._lists: dict[str, list[ManifestFile]] = {}
        self._entries: dict[str, list[_Entry]] = {}
        self.missing: set[str] = set()
        """Lists and manifests that a state of a table names and that are not there."""

    def tables_of(self, topic_id: str) -> list[tuple[Identifier, TableMetadata]]:
        return [
            (name, metadata)
            for name, metadata in self.tables()
            if metadata.properties.get("floeberg.topic_id") == topic_id
        ]

    def tables(self) -> list[tuple[Identifier, TableMetadata]]:
        return [(name, stored.metadata) for name, stored in sorted(self._state.tables.items())]

    def files(self, metadata: TableMetadata) -> tuple[StoredFile, ...]:
        """The data files of the current snapshot, once for each time that a manifest names them."""
        return self._files(metadata.current_snapshot())

    def stream_files(self, metadata: TableMetadata) -> tuple[StoredFile, ...]:
        """Those that only the stream has: no SQL engine sees them."""
        branch = metadata.refs.get("floeberg-stream")
        return self._files(None if branch is None else metadata.snapshot_by_id(branch.snapshot_id))

    def all_files(self, metadata: TableMetadata) -> tuple[StoredFile, ...]:
        """What a consumer is served from."""
        return (*self.files(metadata), *self.stream_files(metadata))

    def taken_out(self, metadata: TableMetadata) -> dict[str, list[int]]:
        """The positions that the position deletes of the current snapshot take out of each data file."""
        found: dict[str, list[int]] = {}
        snapshot = metadata.current_snapshot()
        for manifest in () if snapshot is None else self._manifests(snapshot):
            for entry in self._entries_of(manifest):
                content = None if entry.is_data else self._store.objects.get(entry.path.removeprefix("s3://"))
                if content is not None:
                    for row in pq.read_table(pa.BufferReader(content), use_threads=False).to_pylist():
                        found.setdefault(row["file_path"], []).append(row["pos"])
        return found

    def named(self, metadata: TableMetadata) -> set[str]:
        """Every path that any snapshot names: lists, manifests, data files."""
        paths: set[str] = set()
        for snapshot in metadata.snapshots:
            paths.add(snapshot.manifest_list)
            for manifest in self._manifests(snapshot):
                paths.add(manifest.manifest_path)
                paths.update(entry.path for entry in self._entries_of(manifest))
        return paths

    def _files(self, snapshot: Snapshot | None) -> tuple[StoredFile, ...]:
        return tuple(
            StoredFile(path=entry.path, partition=entry.partition, rows=self.rows_of(entry.path))
            for manifest in (() if snapshot is None else self._manifests(snapshot))
            for entry in self._entries_of(manifest)
            if entry.is_data
        )

    def _manifests(self, snapshot: Snapshot) -> list[ManifestFile]:
        at = snapshot.manifest_list
        if at not in self._lists:
            if self._is_missing(at):
                return []
            self._lists[at] = snapshot.manifests(self._io)
        return self._lists[at]

    def _is_missing(self, path: str) -> bool:
        if path.removeprefix("s3://") in self._store.objects:
            return False
        self.missing.add(path)
        return True

    def _entries_of(self, manifest: ManifestFile) -> list[_Entry]:
        """The live entries; a manifest never changes."""
        at = manifest.manifest_path
        if at not in self._entries:
            if self._is_missing(at):
                return []
            entries = manifest.fetch_manifest_entry(self._io, discard_deleted=True)
            self._entries[at] = [
                _Entry(
                    path=file.file_path,
                    partition=int(file.partition[0]),
                    is_data=file.content == DataFileContent.DATA,
                )
                for file in (entry.data_file for entry in entries)
            ]
        return self._entries[at]

    def rows_of(self, path: str) -> tuple[Row, ...] | None:
        """Of a data file; None where it is missing or can't be read."""
        content = self._store.objects.get(path.removeprefix("s3://"))
        if content is None:
            return None
        key = (path, id(content))
        if key not in self._rows:
            self._rows[key] = _rows_in(content)
        return self._rows[key]


def ledger_of(metadata: TableMetadata, partition: int) -> LedgerLine | None:
    text = metadata.properties.get(f"floeberg.ledger.{partition}")
    return None if text is None else LedgerLine(**json.loads(text))


def ranges_of(metadata: TableMetadata, kind: str, partition: int) -> list[tuple[int, int]]:
    """``kind``: skipped or empty."""
    return [(start, end) for start, end in json.loads(metadata.properties.get(f"floeberg.{kind}.{partition}", "[]"))]


def _rows_in(content: bytes) -> tuple[Row, ...] | None:
    try:
        table = pq.read_table(pa.BufferReader(content), use_threads=False)
    except (pa.ArrowException, OSError):
        return None
    return tuple(map(_row, table.to_pylist()))


def _row(found: dict[str, object]) -> Row:
    time = found["kafka_timestamp"]
    micros = time.value // 1000 if hasattr(time, "value") else round(time.timestamp() * 1_000_000)  # type: ignore[attr-defined]
    epoch = found.get("kafka_leader_epoch")
    return Row(
        offset=int(found["kafka_offset"]),  # type: ignore[call-overload]
        timestamp_ms=micros // 1000,
        timestamp_type=int(found["kafka_timestamp_type"] or 0),  # type: ignore[call-overload]
        leader_epoch=_UNKNOWN_EPOCH if epoch is None else int(epoch),  # type: ignore[call-overload]
        key=_bytes(found.get("kafka_key"), found.get("kafka_key_raw")),
        value=None if found["kafka_is_null"] else _bytes(found.get("value"), found.get("kafka_value_raw")),
        headers=_headers(found),
    )


def _bytes(typed: object, raw: object) -> bytes | None:
    if raw is not None:
        assert isinstance(raw, bytes)
        return raw
    return typed.encode() if isinstance(typed, str) else typed  # type: ignore[return-value]


def _headers(found: dict[str, object]) -> tuple[Header, ...]:
    raw = found.get("kafka_headers_raw")
    if raw is None:
        listed = found.get("kafka_headers") or []
        return tuple((header["key"].encode(), header["value"]) for header in listed)  # type: ignore[attr-defined]
    assert isinstance(raw, bytes)
    count, at = read_varint(raw, 0, 32)
    headers: list[Header] = []
    for _ in range(count):
        size, at = read_varint(raw, at, 32)
        key, at = raw[at : at + size], at + size
        size, at = read_varint(raw, at, 32)
        value, at = (None, at) if size < 0 else (raw[at : at + size], at + size)
        headers.append((key, value))
    return tuple(headers)
