"""A topic's table as any Iceberg reader sees it: pyiceberg, pyarrow and docs/row_format.md are all that is used."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.metadata import TableMetadata

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


class TableReading:
    """Reads tables out of the truth behind all clients. Files are read once: a stored object never changes."""

    def __init__(self, state: CatalogState, store: ObjectStore, endpoint: str) -> None:
        self._state = state
        self._store = store
        self._io = SimulatedFileIO(endpoint_properties(endpoint))
        self._rows: dict[tuple[str, int], tuple[Row, ...] | None] = {}
        self._lists: dict[str, list[ManifestFile]] = {}
        self._entries: dict[str, list[tuple[str, int]]] = {}

    def tables_of(self, topic_id: str) -> list[tuple[Identifier, TableMetadata]]:
        return [
            (name, stored.metadata)
            for name, stored in sorted(self._state.tables.items())
            if stored.metadata.properties.get("floeberg.topic_id") == topic_id
        ]

    def files(self, metadata: TableMetadata) -> tuple[StoredFile, ...]:
        """The data files of the current snapshot, once for each time that a manifest names them."""
        snapshot = metadata.current_snapshot()
        if snapshot is None:
            return ()
        at = snapshot.manifest_list
        if at not in self._lists:
            self._lists[at] = snapshot.manifests(self._io)
        return tuple(
            StoredFile(path=path, partition=partition, rows=self._read(path))
            for manifest in self._lists[at]
            for path, partition in self._entries_of(manifest)
        )

    def _entries_of(self, manifest: ManifestFile) -> list[tuple[str, int]]:
        """(path, partition) of each live entry; a manifest never changes."""
        at = manifest.manifest_path
        if at not in self._entries:
            entries = manifest.fetch_manifest_entry(self._io, discard_deleted=True)
            self._entries[at] = [(entry.data_file.file_path, int(entry.data_file.partition[0])) for entry in entries]
        return self._entries[at]

    def _read(self, path: str) -> tuple[Row, ...] | None:
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
