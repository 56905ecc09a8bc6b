"""A topic's table as it was loaded: a frozen view of what its properties say, and what a worker needs of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.schema import Schema

from engine.errors import Corrupt
from engine.formats.codec import CodecSpec
from engine.offset_range import OffsetRange
from engine.parquet.settings import ParquetSettings
from engine.table.adopted_range import AdoptedRange
from engine.table.columns import TableLayout, arrow_schema, key_fields, key_fields_of, value_fields
from engine.table.data_file import FileName, data_path
from engine.table.ledger import LedgerEntry
from engine.table.lineage import ForeignChange
from engine.table.manifest_seal import ManifestSeal
from engine.warehouse.warehouse import Warehouse


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What a worker needs to write or verify files of one table: plain, picklable, no catalog.

    ``schema`` with field ids at every level; ``settings`` None until the first commit has chosen some; ``key_codec``
    None where the key's column is the key itself (string, raw).
    """

    topic: str
    topic_id: str
    location: str
    layout: TableLayout
    codec: CodecSpec
    schema: pa.Schema
    settings: ParquetSettings | None
    warehouse: Warehouse
    key_codec: CodecSpec | None = None

    @property
    def value_fields(self) -> tuple[pa.Field, ...]:
        """The value's columns with their field ids, in table order."""
        return tuple(field for field in self.schema if not self.layout.is_metadata(field.name))

    @property
    def key_fields(self) -> tuple[pa.Field, ...]:
        """The typed key's fields with their field ids."""
        return key_fields_of(self.schema, self.layout)

    def data_path(self, name: FileName) -> str:
        """Where a new data file of the table goes."""
        return data_path(self.location, self.topic_id, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """One loaded state of a topic's table.

    ``ledger`` by partition; ``skipped`` offsets Kafka deleted before they could be stored and ``empty`` ranges that
    hold no record, both by partition: together with the files they cover the ledger's range without a gap.
    ``manifest_list`` the current snapshot's, None before the first commit; ``codec`` has the writers' schemas stored
    with the table, ``key_codec`` those of typed keys, None where the key's column is the key itself; ``settings`` are
    the remembered Parquet encodings. ``iceberg_schema`` has Floeberg's own columns under the names it gave them,
    whatever another program calls them since: ids decide. ``adopted`` ranges whose files another program wrote,
    proven; ``foreign`` what another program changed and nobody has judged yet; ``manifest_seal`` what the snapshot's
    manifests were when it was committed, None where that is not known.
    """

    identifier: tuple[str, ...]
    location: str
    metadata_location: str
    manifest_list: str | None
    topic: str
    topic_id: str
    cluster_id: str
    layout: TableLayout
    codec: CodecSpec
    iceberg_schema: Schema
    ledger: Mapping[int, LedgerEntry]
    skipped: Mapping[int, tuple[OffsetRange, ...]]
    empty: Mapping[int, tuple[OffsetRange, ...]]
    settings: ParquetSettings | None
    snapshot_id: int | None
    warehouse: Warehouse
    adopted: Mapping[int, tuple[AdoptedRange, ...]] = field(default_factory=dict)
    foreign: ForeignChange | None = None
    manifest_seal: ManifestSeal | None = None
    key_codec: CodecSpec | None = None

    @property
    def is_believed(self) -> bool:
        """Whether the properties are as Floeberg left them. Else files alone prove what the table holds: a ledger, a
        log start, skipped, empty and adopted ranges may be anybody's."""
        return self.foreign is None or not self.foreign.properties_unproven

    def horizon(self, partition: int) -> int:
        """Where the stream begins that is served: the recorded log start, as far as that is believed."""
        entry = self.ledger.get(partition)
        return entry.log_start if entry is not None and self.is_believed else 0

    def check_readable(self, partition: int, offset: int) -> None:
        """Raises Corrupt where what turns rows back into records was edited: any record could come back wrong."""
        if self.foreign is None or not self.foreign.rules_edited:
            return
        raise Corrupt(
            f"{', '.join(self.foreign.rules_edited)} of the table is not what Floeberg wrote: no record can be read",
            topic=self.topic,
            partition=partition,
            offset=offset,
            file=self.metadata_location,
            next_step="run floeberg fsck on the topic",
        )

    @property
    def value_fields(self) -> tuple[pa.Field, ...]:
        """The value's columns, without field ids: what a codec is opened with."""
        return value_fields(self.iceberg_schema, self.layout)

    @property
    def key_fields(self) -> tuple[pa.Field, ...]:
        """The typed key's fields, without field ids: what its codec is opened with."""
        return key_fields(self.iceberg_schema, self.layout)

    @property
    def facts(self) -> TableFacts:
        """The part a worker needs."""
        return TableFacts(
            topic=self.topic,
            topic_id=self.topic_id,
            location=self.location,
            layout=self.layout,
            codec=self.codec,
            schema=arrow_schema(self.iceberg_schema),
            settings=self.settings,
            warehouse=self.warehouse,
            key_codec=self.key_codec,
        )
