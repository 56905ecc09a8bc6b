"""A loaded Iceberg table to the frozen view the program works with, and the properties a new table starts with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property

import crc32c
from pydantic import ValidationError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from engine.errors import Corrupt, Invalid
from engine.formats.codec import CodecSpec
from engine.offset_range import OffsetRange
from engine.parquet.settings import ParquetSettings
from engine.table.adopted_range import AdoptedRange, adopted_from_json
from engine.table.catalog.metadata_errors import UNDECODABLE
from engine.table.columns import TableLayout
from engine.table.erased import ErasedRecords
from engine.table.latest_line import parse_lines
from engine.table.ledger import parse_ledger, ranges_from_json
from engine.table.manifest_seal import changed
from engine.table.properties import (
    ADOPTED_PREFIX,
    CLUSTER_ID_PROPERTY,
    COLUMNS_PROPERTY,
    EMPTY_PREFIX,
    ERASED_PREFIX,
    FORMAT_VERSION_PROPERTY,
    KEY_PROPERTIES,
    KIND_PROPERTY,
    LATEST_KIND,
    LAYOUT_PROPERTY,
    SKIPPED_PREFIX,
    STREAM_SWEPT_PROPERTY,
    SWEPT_PROPERTY,
    TABLE_FORMAT_VERSION,
    TOPIC_ID_PROPERTY,
    TOPIC_PROPERTY,
    VALUE_PROPERTIES,
    CodecProperties,
)
from engine.table.seal import (
    current_manifest_seal,
    new_schema_seal_property,
    seal_property,
    sealed_schema,
    sealed_stream,
)
from engine.table.stream_branch import stream_list
from engine.table.topic_table import NEVER_SWEPT, TopicTable, foreign_change
from engine.warehouse.warehouse import Warehouse

_KEPT_METADATA_FILES = 100

_SCHEMA_FILE_CHECKSUM = re.compile(r"-([0-9a-f]{8})\.txt$")

ICEBERG_PROPERTIES: Mapping[str, str] = {
    "format-version": "2",
    # A library that retries a commit by itself would put files over a ledger it has not validated them against.
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": str(_KEPT_METADATA_FILES),
    "write.parquet.compression-codec": "zstd",
    # For files that other programs write: small row groups, and pages that begin at the same rows in all columns, so
    # that a read by offset decodes no more than it does of Floeberg's own.
    "write.parquet.row-group-size-bytes": str(16 << 20),
    "write.parquet.page-row-limit": "8192",
    "write.parquet.page-size-bytes": str(16 << 20),
}


def new_table_properties(
    *,
    topic: str,
    topic_id: str,
    cluster_id: str,
    layout: TableLayout,
    codec: CodecSpec,
    key_codec: CodecSpec | None = None,
) -> dict[str, str]:
    """What the table of a topic is created with. Schemas are added when records that need them arrive."""
    properties = {
        **ICEBERG_PROPERTIES,
        FORMAT_VERSION_PROPERTY: str(TABLE_FORMAT_VERSION),
        CLUSTER_ID_PROPERTY: cluster_id,
        TOPIC_PROPERTY: topic,
        TOPIC_ID_PROPERTY: topic_id,
        LAYOUT_PROPERTY: layout.to_json(),
        VALUE_PROPERTIES.codec: codec_property(codec),
    }
    if key_codec is not None:
        properties[KEY_PROPERTIES.codec] = codec_property(key_codec)
    seal = seal_property(properties, table_uuid=None, snapshot_id=None)
    return {**properties, **seal, **new_schema_seal_property()}


def new_latest_properties(table: TopicTable) -> dict[str, str]:
    """What the ``__latest`` table of a topic's is created with."""
    properties = new_table_properties(
        topic=table.topic,
        topic_id=table.topic_id,
        cluster_id=table.cluster_id,
        layout=table.layout,
        codec=table.codec,
        key_codec=table.key_codec,
    )
    # Its data files are the topic's: engines that would remove what only this table names don't.
    return {**properties, KIND_PROPERTY: LATEST_KIND, "gc.enabled": "false"}


def codec_property(codec: CodecSpec) -> str:
    """The format and its options; schemas and their placements have properties of their own."""
    return replace(codec, schemas={}, unresolved={}, placements={}).to_json()


class TableLoader:
    """Makes TopicTables. Keeps the schemas it read from files of their own: they never change."""

    def __init__(self, warehouse: Callable[[], Warehouse]) -> None:
        self._find_warehouse = warehouse
        self._schema_files: dict[str, str] = {}

    @cached_property
    def warehouse(self) -> Warehouse:
        """The tables' files. Raises Unavailable while a catalog that knows of them was not there yet."""
        return self._find_warehouse()

    def view(self, table: Table) -> TopicTable:
        """The view of a loaded table.

        Raises Invalid when the table is not a topic's or was made by a newer program, Corrupt when a property that
        this program wrote is damaged, Unavailable when a schema's file can't be read.
        """
        properties = table.metadata.properties
        name = ".".join(table.name())
        version = properties.get(FORMAT_VERSION_PROPERTY, "")
        if version != str(TABLE_FORMAT_VERSION):
            raise Invalid(
                f"the table {name} has format version {version!r}, not {TABLE_FORMAT_VERSION}",
                topic=properties.get(TOPIC_PROPERTY),
                file=table.metadata_location,
            )
        snapshot = table.metadata.current_snapshot()
        try:
            _check_snapshot(table.metadata, snapshot)
            layout = TableLayout.from_json(properties[LAYOUT_PROPERTY])
            columns = own_schema(table.metadata)
            for name in (layout.partition, layout.offset, layout.error):
                columns.find_field(name)
            return TopicTable(
                identifier=tuple(table.name()),
                location=table.location(),
                metadata_location=table.metadata_location,
                manifest_list=None if snapshot is None else snapshot.manifest_list,
                topic=properties[TOPIC_PROPERTY],
                topic_id=properties[TOPIC_ID_PROPERTY],
                cluster_id=properties[CLUSTER_ID_PROPERTY],
                layout=layout,
                codec=self.codec(properties, VALUE_PROPERTIES),
                key_codec=self.codec(properties, KEY_PROPERTIES) if layout.has_typed_key else None,
                iceberg_schema=columns,
                ledger=parse_ledger(properties),
                skipped=_ranges(properties, SKIPPED_PREFIX),
                empty=_ranges(properties, EMPTY_PREFIX),
                settings=ParquetSettings.from_properties(properties),
                snapshot_id=None if snapshot is None else snapshot.snapshot_id,
                warehouse=self.warehouse,
                adopted=_adopted(properties, table.location()),
                erased=_erased(properties),
                foreign=foreign_change(table.metadata),
                manifest_seal=current_manifest_seal(table.metadata),
                shown_schema=table.schema(),
                lines=parse_lines(properties),
                sequence_number=table.metadata.last_sequence_number,
                swept=int(properties.get(SWEPT_PROPERTY, NEVER_SWEPT)),
                stream_swept=int(properties.get(STREAM_SWEPT_PROPERTY, NEVER_SWEPT)),
                uuid=str(table.metadata.table_uuid),
                stream=stream_list(table.metadata, sealed_stream(table.metadata)),
                last_column_id=table.metadata.last_column_id,
            )
        except (Invalid, *UNDECODABLE) as error:
            raise Corrupt(
                f"a property of the table {name} is not what this program writes: {error}",
                topic=properties.get(TOPIC_PROPERTY),
                file=table.metadata_location,
                next_step="run floeberg fsck",
            ) from error

    def codec(self, properties: Mapping[str, str], names: CodecProperties) -> CodecSpec:
        """What properties under these names say of a codec. Raises Invalid, Corrupt, Unavailable, and KeyError or
        ValueError where they are not what this program writes."""
        schemas = {
            int(key.removeprefix(names.schema)): text
            for key, text in properties.items()
            if key.startswith(names.schema)
        }
        for key, path in properties.items():
            if key.startswith(names.schema_file):
                schemas[int(key.removeprefix(names.schema_file))] = self._schema_file(path)
        order = {schema_id: at for at, schema_id in enumerate(json.loads(properties.get(names.order, "[]")))}
        placements = {
            int(key.removeprefix(names.placement)): json.loads(text)
            for key, text in properties.items()
            if key.startswith(names.placement)
        }
        return replace(
            CodecSpec.from_json(properties[names.codec]),
            # Oldest first; tables of before the order was kept have none.
            schemas=dict(sorted(schemas.items(), key=lambda item: (order.get(item[0], -1), item[0]))),
            placements=placements,
        )

    def _schema_file(self, path: str) -> str:
        if path not in self._schema_files:
            content = self.warehouse.read_bytes(path)
            named = _SCHEMA_FILE_CHECKSUM.search(path)
            if named is not None and named[1] != f"{crc32c.crc32c(content):08x}":
                raise changed(path, "a schema's file is not what Floeberg wrote")
            self._schema_files[path] = content.decode()
        return self._schema_files[path]


def own_schema(metadata: TableMetadata) -> Schema:
    """The columns as Floeberg made them. Raises Invalid when the property that keeps them is damaged."""
    kept = metadata.properties.get(COLUMNS_PROPERTY)
    if kept is not None:
        try:
            return Schema.model_validate_json(kept)
        except ValidationError as error:
            raise Invalid(f"the property {COLUMNS_PROPERTY} is no schema: {error}") from error
    sealed = sealed_schema(metadata.properties)
    known = (schema for schema in metadata.schemas if sealed is not None and schema.schema_id == sealed[0])
    return next(known, metadata.schema())


def _check_snapshot(metadata: TableMetadata, snapshot: Snapshot | None) -> None:
    if metadata.current_snapshot_id is not None and (snapshot is None or not snapshot.manifest_list):
        raise Invalid(f"the metadata says nothing of its current snapshot {metadata.current_snapshot_id}")


def _adopted(properties: Mapping[str, str], location: str) -> dict[int, tuple[AdoptedRange, ...]]:
    adopted = {}
    for key, text in properties.items():
        if key.startswith(ADOPTED_PREFIX):
            partition = int(key.removeprefix(ADOPTED_PREFIX))
            adopted[partition] = adopted_from_json(text, partition, location)
    return adopted


def _erased(properties: Mapping[str, str]) -> dict[int, ErasedRecords]:
    return {
        int(key.removeprefix(ERASED_PREFIX)): ErasedRecords.from_json(text)
        for key, text in properties.items()
        if key.startswith(ERASED_PREFIX)
    }


def _ranges(properties: Mapping[str, str], prefix: str) -> dict[int, tuple[OffsetRange, ...]]:
    return {
        int(key.removeprefix(prefix)): ranges_from_json(text)
        for key, text in properties.items()
        if key.startswith(prefix)
    }
