"""The files of one snapshot of a table, out of its manifests: the read side's seam to pyiceberg.

Source: the Iceberg table specification, "Manifests" and "Delete Formats". A manifest never changes, so each is read
once. Of a snapshot that is sealed nothing is believed but the sealed bytes (manifest_seal.py). Nothing else is judged
here: what another program wrote, or deleted, is listed as such.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from pyiceberg.io import FileIO, load_file_io
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry, ManifestFile, read_manifest_list
from pyiceberg.serializers import FromInputFile

from engine.errors import Corrupt, Invalid, Unavailable
from engine.offset_range import OffsetRange
from engine.table import known_avro
from engine.table.adopted_range import AdoptedRange, ForeignFile
from engine.table.catalog.metadata_errors import RESTORE_METADATA, metadata_decoded
from engine.table.data_file import clustering_checksum_of, footer_checksum_of, newest_timestamp_ms, parse_file_name
from engine.table.manifest_seal import (
    ChecksumIO,
    ManifestDigest,
    ManifestSeal,
    changed,
    changed_among,
    is_as_told,
    sum_of,
)
from engine.table.sealed_snapshot import summary_of
from engine.table.topic_table import TopicTable

_DELETED_PATH_FIELD_ID = 2147483546
"""Reserved by the specification for the column of position deletes that names the data file."""

NO_PARTITION = -1

known_avro.use()


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TableFile:
    """One data file as its manifest and its name describe it. Sorts by partition, then by offsets.

    ``parts``: none for a file of our own. Else the files of an adopted range, together: their rows that lie in
    ``range``; ``path`` then names the range, ``size_bytes`` and ``record_count`` are those of the range.
    ``newest_timestamp_ms`` of its records, None where that is not known;
    ``reason_rows``: rows whose error column says something, ``footer_checksum``: of the file's footer, each None where
    that is not known; ``clustering_checksum`` of how its rows are clustered, None in stream order; ``manifest`` the
    path of the one that lists the file.
    """

    partition: int
    range: OffsetRange
    path: str
    size_bytes: int
    record_count: int
    leader_epoch: int
    sequence_number: int = 0
    parts: tuple[ForeignFile, ...] = ()
    newest_timestamp_ms: int | None = field(default=None, compare=False)
    reason_rows: int | None = field(default=None, compare=False)
    footer_checksum: int | None = field(default=None, compare=False)
    clustering_checksum: int | None = field(default=None, compare=False)
    manifest: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A file that deletes rows. ``deleted_path`` the only data file it deletes from, None where that is not known."""

    path: str
    partition: int
    sequence_number: int
    deleted_path: str | None

    def may_delete_from(self, path: str, partition: int, sequence_number: int) -> bool:
        """By the specification's rules: never from what was written after it, nor from another partition."""
        if self.partition not in {NO_PARTITION, partition} or sequence_number > self.sequence_number:
            return False
        return self.deleted_path in {None, path}


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFiles:
    """All live files of a snapshot, sorted: ``own`` ones by their names, ``foreign`` ones with the sequence numbers
    of their entries, and those that delete rows; ``stream``: our own ones that the stream's branch lists, and the
    snapshot does not."""

    own: tuple[TableFile, ...] = ()
    foreign: Mapping[ForeignFile, int] = field(default_factory=dict)
    deletes: tuple[DeleteFile, ...] = ()
    stream: tuple[TableFile, ...] = ()

    def is_deleted_from(self, path: str, partition: int, sequence_number: int) -> DeleteFile | None:
        """A delete file that may take rows out of a data file."""
        return next((d for d in self.deletes if d.may_delete_from(path, partition, sequence_number)), None)

    def whole_own(self) -> tuple[TableFile, ...]:
        """Our own files that no row was deleted from."""
        if not self.deletes:
            return self.own
        return tuple(
            file for file in self.own if not self.is_deleted_from(file.path, file.partition, file.sequence_number)
        )

    def has_whole(self, adopted: AdoptedRange) -> bool:
        """Whether all files of an adopted range are still there as they were proven."""
        return all(
            file in self.foreign and not self.is_deleted_from(file.path, file.partition, self.foreign[file])
            for file in adopted.files
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _StatColumns:
    """The ids of the columns whose counts and bounds say something of a file."""

    error: int
    timestamp: int
    timestamp_type: int

    @classmethod
    def of(cls, table: TopicTable) -> Self:
        layout = table.layout
        names = (layout.error, layout.timestamp, layout.timestamp_type)
        error, timestamp, timestamp_type = (table.iceberg_schema.find_field(name).field_id for name in names)
        return cls(error=error, timestamp=timestamp, timestamp_type=timestamp_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadManifest:
    files: SnapshotFiles
    digest: ManifestDigest


class ManifestReader:
    """Reads the manifests of one table's snapshots; those it has seen before are not read again.

    Not for use by two threads at a time. Keeps as much as the newest snapshot read has manifests.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _ReadManifest] = {}

    def files(self, table: TopicTable) -> SnapshotFiles:
        """The files of the table's snapshot. Raises Corrupt (a manifest is missing or damaged), Unavailable."""
        seen: dict[str, _ReadManifest] = {}
        main = self._listed(table, table.manifest_list, table.manifest_seal, seen)
        stream = table.stream
        kept = [] if stream is None else self._listed(table, stream.manifest_list, stream.manifests, seen)
        self._seen = seen
        return SnapshotFiles(
            own=tuple(sorted(file for one in main for file in one.own)),
            foreign={file: sequence for one in main for file, sequence in one.foreign.items()},
            deletes=tuple(delete for one in main for delete in one.deletes),
            stream=tuple(sorted(file for one in kept for file in one.own)),
        )

    def _listed(
        self, table: TopicTable, manifest_list: str | None, sealed: ManifestSeal | None, seen: dict[str, _ReadManifest]
    ) -> list[SnapshotFiles]:
        """The files of each manifest of a list; what was read is ``seen``."""
        if manifest_list is None:
            return []
        noted = _noted_io(table, manifest_list, sealed)
        listed = list(listed_manifests(table, noted, manifest_list))
        digests = {path: one.digest for path, one in self._seen.items()}
        for path in (manifest.manifest_path for manifest in listed):
            if path not in digests:
                with reading_metadata(table, path):
                    digests[path] = noted.hold(path)
        if sealed is not None:
            _check_sealed(table, manifest_list, listed, digests, sealed, noted)
        columns = _StatColumns.of(table)
        for manifest in listed:
            path = manifest.manifest_path
            if path in self._seen:
                seen[path] = self._seen[path]
                continue
            with reading_metadata(table, path):
                seen[path] = _ReadManifest(files=_files_of(manifest, noted, columns), digest=digests[path])
        return [seen[manifest.manifest_path].files for manifest in listed]


def listed_manifests(table: TopicTable, io: FileIO, manifest_list: str) -> Iterator[ManifestFile]:
    """What a manifest list names. Raises Corrupt, Unavailable."""
    with reading_metadata(table, manifest_list):
        yield from read_manifest_list(io.new_input(manifest_list))


def manifest_entries(
    table: TopicTable, manifest: ManifestFile, io: FileIO, *, discard_deleted: bool = True
) -> list[ManifestEntry]:
    """The entries of a manifest, live ones unless said otherwise. Raises Corrupt, Unavailable."""
    with reading_metadata(table, manifest.manifest_path):
        entries: list[ManifestEntry] = manifest.fetch_manifest_entry(io, discard_deleted=discard_deleted)
        return entries


@contextmanager
def reading_metadata(table: TopicTable, path: str) -> Iterator[None]:
    """A metadata file of the table is read inside: what goes wrong becomes Corrupt or Unavailable."""
    try:
        with metadata_decoded(path, topic=table.topic):
            yield
    except FileNotFoundError as error:
        raise Corrupt(
            "a metadata file of the table is missing", topic=table.topic, file=path, next_step=RESTORE_METADATA
        ) from error
    except OSError as error:
        raise Unavailable(f"the warehouse does not answer: {error}", topic=table.topic, file=path) from error
    except Corrupt as error:
        raise Corrupt(error.problem, topic=table.topic, file=error.file or path, next_step=error.next_step) from error


def _noted_io(table: TopicTable, manifest_list: str, sealed: ManifestSeal | None) -> ChecksumIO:
    expected = {} if sealed is None else {manifest_list: sealed.list_crc32c}
    with reading_metadata(table, manifest_list):
        return ChecksumIO(load_file_io(properties=dict(table.warehouse.properties), location=manifest_list), expected)


def _check_sealed(
    table: TopicTable,
    manifest_list: str,
    listed: Sequence[ManifestFile],
    digests: Mapping[str, ManifestDigest],
    sealed: ManifestSeal,
    io: ChecksumIO,
) -> None:
    """Raises Corrupt, naming the manifest where the snapshots that the table keeps tell which one it is."""
    found = sum_of(digests[manifest.manifest_path].hashed(manifest.manifest_path) for manifest in listed)
    if found == sealed.total and len(listed) == sealed.count:
        return
    with reading_metadata(table, table.metadata_location):
        metadata = FromInputFile.table_metadata(io.new_input(table.metadata_location))
    for manifest in listed:
        path = manifest.manifest_path
        if is_as_told(summary_of(metadata, manifest), path, digests[path]) is False:
            raise changed(path, topic=table.topic)
    untold = [
        m.manifest_path
        for m in listed
        if is_as_told(summary_of(metadata, m), m.manifest_path, digests[m.manifest_path]) is None
    ]
    raise changed_among(len(untold), manifest_list, topic=table.topic)


def listed_files(table: TopicTable, paths: Collection[str]) -> Iterator[TableFile]:
    """Some data files of the snapshot, whoever wrote them, as a commit takes them out: what they cover is not told.

    Raises Corrupt, Unavailable.
    """
    if table.manifest_list is None:
        return
    io = _noted_io(table, table.manifest_list, table.manifest_seal)
    for manifest in listed_manifests(table, io, table.manifest_list):
        for file in (entry.data_file for entry in manifest_entries(table, manifest, io)):
            if file.file_path in paths:
                yield TableFile(
                    partition=_partition_of(file),
                    range=OffsetRange(start=0, end=0),
                    path=file.file_path,
                    size_bytes=int(file.file_size_in_bytes),
                    record_count=int(file.record_count),
                    leader_epoch=NO_PARTITION,
                    manifest=manifest.manifest_path,
                )


def live_ranges(table: TopicTable, files: SnapshotFiles) -> tuple[TableFile, ...]:
    """What can be read by offset, sorted: our own files that are whole, adopted ranges that still are, and the stream's
    own."""
    return tuple(sorted((*files.whole_own(), *adopted_ranges(table, files), *files.stream)))


def adopted_ranges(table: TopicTable, files: SnapshotFiles) -> Iterator[TableFile]:
    """The adopted ranges of which all files are there as they were proven."""
    for part in (part for ranges in table.adopted.values() for part in ranges if files.has_whole(part)):
        yield TableFile(
            partition=part.partition,
            range=part.range,
            path=f"{part.files[0].path}#{part.range.start}-{part.range.end}-{part.digest.to_text()}",
            size_bytes=part.digest.length_bytes,
            record_count=part.digest.record_count,
            leader_epoch=NO_PARTITION,
            parts=part.files,
        )


def _files_of(manifest: ManifestFile, io: FileIO, columns: _StatColumns) -> SnapshotFiles:
    entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
    own: list[TableFile] = []
    foreign: dict[ForeignFile, int] = {}
    deletes: list[DeleteFile] = []
    for entry in entries:
        file = entry.data_file
        sequence = entry.sequence_number or 0
        if file.content != DataFileContent.DATA:
            deletes.append(_delete_file(file, sequence))
            continue
        try:
            own.append(_table_file(file, sequence, columns, manifest.manifest_path))
        except Invalid:
            foreign[_foreign_file(entry)] = sequence
    return SnapshotFiles(own=tuple(own), foreign=foreign, deletes=tuple(deletes))


def _table_file(file: DataFile, sequence_number: int, columns: _StatColumns, manifest: str) -> TableFile:
    name = parse_file_name(file.file_path)
    return TableFile(
        partition=name.partition,
        range=name.range,
        path=file.file_path,
        size_bytes=int(file.file_size_in_bytes),
        record_count=int(file.record_count),
        leader_epoch=name.leader_epoch,
        sequence_number=sequence_number,
        newest_timestamp_ms=newest_timestamp_ms(file, columns.timestamp, columns.timestamp_type),
        reason_rows=_values_in(file, columns.error),
        footer_checksum=footer_checksum_of(file),
        manifest=manifest,
        clustering_checksum=clustering_checksum_of(file),
    )


def _values_in(file: DataFile, field_id: int) -> int | None:
    """How many values a column has that are not null."""
    values, nulls = ((counts or {}).get(field_id) for counts in (file.value_counts, file.null_value_counts))
    return None if values is None or nulls is None else int(values) - int(nulls)


def _foreign_file(entry: ManifestEntry) -> ForeignFile:
    file = entry.data_file
    return ForeignFile(
        path=file.file_path,
        partition=_partition_of(file),
        size_bytes=int(file.file_size_in_bytes),
        record_count=int(file.record_count),
    )


def _delete_file(file: DataFile, sequence_number: int) -> DeleteFile:
    bounds = [(held or {}).get(_DELETED_PATH_FIELD_ID) for held in (file.lower_bounds, file.upper_bounds)]
    # Bounds may be cut, so only a pair that agrees names one file for sure, and only where it names it whole.
    named = bounds[0].decode() if bounds[0] is not None and bounds[0] == bounds[1] else None
    deleted_path = named if named is not None and named.endswith(".parquet") else None
    return DeleteFile(
        path=file.file_path,
        partition=_partition_of(file),
        sequence_number=sequence_number,
        deleted_path=deleted_path,
    )


def _partition_of(file: DataFile) -> int:
    # One partition field, the identity of kafka_partition; a foreign table's may be null, or missing.
    value = file.partition[0] if len(file.partition) else None
    return value if isinstance(value, int) else NO_PARTITION


def by_partition(files: Iterable[TableFile]) -> Mapping[int, tuple[TableFile, ...]]:
    """Sorted files, grouped."""
    grouped: dict[int, list[TableFile]] = {}
    for file in files:
        grouped.setdefault(file.partition, []).append(file)
    return {partition: tuple(held) for partition, held in grouped.items()}


def first_overlap(files: Iterable[TableFile]) -> tuple[TableFile, TableFile] | None:
    """Two of a partition's sorted files that cover the same offset."""
    before: TableFile | None = None
    for file in files:
        if before is not None and before.range.end > file.range.start:
            return before, file
        before = file
    return None
