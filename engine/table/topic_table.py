"""A topic's table as it was loaded: a frozen view of what its properties say, and what a worker needs of it.

What another program did to it since Floeberg last sealed it is told from the table's metadata alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from engine.errors import Corrupt, Invalid
from engine.formats.codec import CodecSpec
from engine.offset_range import OffsetRange
from engine.parquet.settings import ParquetSettings
from engine.table.adopted_range import AdoptedRange
from engine.table.columns import TableLayout, arrow_schema, key_fields, key_fields_of, value_fields
from engine.table.data_file import FileName, data_path
from engine.table.erased import ErasedRecords
from engine.table.history import lineage
from engine.table.latest_line import LatestLine
from engine.table.ledger import LedgerEntry, ranges_from_json
from engine.table.manifest_seal import ManifestSeal
from engine.table.properties import COLUMNS_PROPERTY, RANGE_PREFIX
from engine.table.seal import (
    Seal,
    broken_guards,
    has_unguarded_columns,
    is_schema_edited,
    rules_checksum,
    seal_of,
    sealed_schema,
)
from engine.table.stream_branch import StreamList, stream_change
from engine.warehouse.warehouse import Warehouse

SOMEBODY_ELSE = "somebody else changed the table"
"""How every problem of this kind begins: operators, alarms and the runbook look for it."""

NEVER_SWEPT = -1
"""Before the first sequence number."""

_SNAPSHOTS_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSnapshot:
    """A snapshot that Floeberg did not make; ``engine`` as its summary names it, or "an unnamed engine"."""

    snapshot_id: int
    operation: str
    engine: str

    def __str__(self) -> str:
        return f"snapshot {self.snapshot_id} ({self.operation} by {self.engine})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignChange:
    """How a table differs from what its seal says.

    ``seal`` None: it has none that can be read. ``snapshots`` those between the newest one both histories share and
    the current one, oldest first; ``sealed_snapshot`` the sealed one where the metadata still has it;
    ``is_behind``: the current snapshot's history does not hold the sealed one (a rollback, a branch replaced);
    ``undone`` the ranges, by partition, that snapshots of ours added which the branch no longer has; ``rules_edited``
    what was edited of that by which rows become records again, and ``stream_changed`` what was done to the stream's own
    branch, in words.
    """

    seal: Seal | None
    snapshot_id: int | None
    snapshots: tuple[ForeignSnapshot, ...]
    sealed_snapshot: Snapshot | None
    is_behind: bool
    undone: dict[int, tuple[OffsetRange, ...]]
    properties_changed: bool
    schema_changed: bool
    uuid_changed: bool
    rules_edited: tuple[str, ...] = ()
    stream_changed: str | None = None

    @property
    def properties_unproven(self) -> bool:
        """Whether the ledger and the ranges without a file may be anybody's."""
        return self.properties_changed or self.seal is None

    @property
    def files_changed(self) -> bool:
        """Whether the table's files may be others: its branch is not at the sealed snapshot."""
        return self.seal is None or self.snapshot_id != self.seal.snapshot_id or self.uuid_changed

    def __str__(self) -> str:
        parts = []
        if self.uuid_changed:
            parts.append("it is another table under the same name")
        if self.is_behind:
            at = "no snapshot" if self.snapshot_id is None else f"snapshot {self.snapshot_id}"
            parts.append(f"its branch was set to {at}, whose history lacks Floeberg's newest commit")
        parts += [str(snapshot) for snapshot in self.snapshots[-_SNAPSHOTS_NAMED:]]
        if len(self.snapshots) > _SNAPSHOTS_NAMED:
            parts.append(f"{len(self.snapshots) - _SNAPSHOTS_NAMED} snapshots before")
        if self.properties_changed:
            parts.append("Floeberg's own properties were edited")
        if self.rules_edited:
            parts.append(f"{', '.join(self.rules_edited)} was edited")
        if self.schema_changed:
            parts.append("its columns or its partitioning were changed")
        if self.stream_changed is not None:
            parts.append(self.stream_changed)
        return ", ".join(parts) or "it has no seal of Floeberg's"


def foreign_change(metadata: TableMetadata) -> ForeignChange | None:
    """What is not Floeberg's in a table's state; None, at no cost, for a state that Floeberg made."""
    properties = metadata.properties
    seal = seal_of(properties)
    current_id = metadata.current_snapshot_id
    properties_changed = seal is not None and not seal.is_of(properties)
    schema_changed = sealed_schema(properties) != (metadata.current_schema_id, metadata.default_spec_id)
    uuid_changed = seal is not None and seal.table_uuid not in {None, str(metadata.table_uuid)}
    same_snapshot = seal is not None and seal.snapshot_id == current_id
    stream_changed = stream_change(metadata, None if seal is None else seal.stream)
    rules_edited = _rules_edited(metadata, seal, properties_changed=properties_changed)
    if same_snapshot and not (
        properties_changed or schema_changed or uuid_changed or rules_edited or stream_changed is not None
    ):
        return None
    sealed_id = None if seal is None else seal.snapshot_id
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    ours, theirs = list(lineage(by_id, sealed_id)), list(lineage(by_id, current_id))
    shared = {snapshot.snapshot_id for snapshot in ours}
    # Where the snapshots between have expired, the two histories share none: an earlier one is told by its number.
    sealed_number = ours[0].sequence_number or 0 if ours else 0
    newer = [
        snapshot
        for snapshot in theirs
        if snapshot.snapshot_id not in shared and (snapshot.sequence_number or 0) > sealed_number
    ]
    kept = {snapshot.snapshot_id for snapshot in theirs}
    return ForeignChange(
        seal=seal,
        snapshot_id=current_id,
        snapshots=() if same_snapshot or seal is None else tuple(map(_foreign, reversed(newer))),
        sealed_snapshot=ours[0] if ours else None,
        is_behind=sealed_id is not None and bool(ours or current_id is None) and sealed_id not in kept,
        undone=added_ranges([snapshot for snapshot in ours if snapshot.snapshot_id not in kept]),
        properties_changed=properties_changed,
        schema_changed=schema_changed,
        uuid_changed=uuid_changed,
        rules_edited=rules_edited,
        stream_changed=stream_changed,
    )


def _rules_edited(metadata: TableMetadata, seal: Seal | None, *, properties_changed: bool) -> tuple[str, ...]:
    edited = [f"the property {name}" for name in broken_guards(metadata.properties)]
    if has_unguarded_columns(metadata.properties):
        edited.append(f"the property {COLUMNS_PROPERTY}")
    if is_schema_edited(metadata):
        edited.append(f"the schema {metadata.current_schema_id} or the partition spec {metadata.default_spec_id}")
    # A seal of an earlier version does not say which properties were edited: those that count may be among them.
    if seal is not None and properties_changed and seal.rules != rules_checksum(metadata.properties):
        edited.append("a property that says how values are kept")
    return tuple(edited)


def _foreign(snapshot: Snapshot) -> ForeignSnapshot:
    summary = snapshot.summary
    if summary is None:
        return ForeignSnapshot(snapshot_id=snapshot.snapshot_id, operation="unknown", engine="an unnamed engine")
    told = summary.additional_properties
    engine = " ".join(filter(None, [told.get("engine-name"), told.get("engine-version")]))
    return ForeignSnapshot(
        snapshot_id=snapshot.snapshot_id, operation=summary.operation.value, engine=engine or "an unnamed engine"
    )


def added_ranges(snapshots: Sequence[Snapshot]) -> dict[int, tuple[OffsetRange, ...]]:
    """What snapshots of Floeberg's added, by partition."""
    ranges: dict[int, list[OffsetRange]] = {}
    for snapshot in snapshots:
        told = {} if snapshot.summary is None else snapshot.summary.additional_properties
        for name, text in told.items():
            partition = name.removeprefix(RANGE_PREFIX)
            if partition == name or not partition.isdecimal():
                continue
            try:
                ranges.setdefault(int(partition), []).extend(ranges_from_json(text))
            except Invalid:
                continue  # a summary that somebody else wrote: what is missing is found out from the files
    return {partition: tuple(sorted(found)) for partition, found in ranges.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What a worker needs to write or verify files of one table: plain, picklable, no catalog.

    ``schema`` with field ids at every level; ``settings`` None until the first commit has chosen some; ``key_codec``
    None where the key's column is the key itself (string, raw); ``sequence_number`` the state's, which files that are
    begun on it remember.
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
    sequence_number: int = 0

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
    proven; ``erased`` by partition what was erased of it; ``foreign`` what another program changed and nobody has
    judged yet; ``manifest_seal`` what the snapshot's manifests were when it was committed, None where that is not
    known; ``stream`` the list of the files that only the stream has, None where there are none, or where somebody else
    changed it; ``sequence_number`` of the newest snapshot there ever was; ``swept``: files that were begun at this
    number or before it, and that nothing names, may be gone; ``uuid`` no other table's. ``shown_schema`` are the
    columns as engines see them, ``last_column_id`` the greatest id that any column ever had.
    ``lines`` only a ``__latest`` table has, and no ledger, and ``stream_swept``: the number of a state of the topic's
    table, of which those before listed files that may be gone.
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
    erased: Mapping[int, ErasedRecords] = field(default_factory=dict)
    foreign: ForeignChange | None = None
    manifest_seal: ManifestSeal | None = None
    stream: StreamList | None = None
    key_codec: CodecSpec | None = None
    shown_schema: Schema
    lines: Mapping[int, LatestLine] = field(default_factory=dict)
    sequence_number: int = 0
    swept: int = NEVER_SWEPT
    stream_swept: int = NEVER_SWEPT
    uuid: str = ""
    last_column_id: int = 0

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
            sequence_number=self.sequence_number,
        )
