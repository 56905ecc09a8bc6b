"""Everything the manifests of a table's snapshot say of its files, bounds included, and without a judgement.

Reading by offset (``engine/table/manifests.py``) refuses a table that is not in order; a check has to list what is
there. Source: the Iceberg table specification, "Manifests" and "Manifest Lists".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.io import load_file_io
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry, ManifestEntryStatus, ManifestFile

from engine.fsck.file import ListedFile
from engine.table.data_file import footer_checksum_of
from engine.table.manifests import listed_manifests, manifest_entries, reading_metadata
from engine.table.proof.leaf_facts import claims_of
from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The live entries of a snapshot, and of the stream's branch; ``delete_paths`` those that delete rows instead of
    holding some; ``untrue`` by the manifest's path what the manifest list says of it and is not so."""

    files: tuple[ListedFile, ...]
    delete_paths: tuple[str, ...]
    untrue: tuple[tuple[str, str], ...] = ()


def list_files(table: TopicTable) -> Listing:
    """Raises Corrupt, naming the metadata file that is missing or damaged, and Unavailable."""
    files: list[ListedFile] = []
    deletes: list[str] = []
    untrue: list[tuple[str, str]] = []
    for manifest, entries in _manifests(table):
        with reading_metadata(table, manifest.manifest_path):
            untrue += [(manifest.manifest_path, said) for said in _untrue(manifest, entries)]
            for data_file in (entry.data_file for entry in entries if entry.status != ManifestEntryStatus.DELETED):
                if data_file.content == DataFileContent.DATA:
                    files.append(_listed(data_file))
                else:
                    deletes.append(data_file.file_path)
    return Listing(
        files=tuple(sorted(files, key=lambda file: file.path)),
        delete_paths=tuple(sorted(deletes)),
        untrue=tuple(untrue),
    )


def _manifests(table: TopicTable) -> Iterator[tuple[ManifestFile, Sequence[ManifestEntry]]]:
    streams = None if table.stream is None else table.stream.manifest_list
    for manifest_list in (one for one in (table.manifest_list, streams) if one is not None):
        with reading_metadata(table, manifest_list):
            io = load_file_io(properties=dict(table.warehouse.properties), location=manifest_list)
        for manifest in listed_manifests(table, io, manifest_list):
            yield manifest, manifest_entries(table, manifest, io, discard_deleted=False)


def _untrue(manifest: ManifestFile, entries: Sequence[ManifestEntry]) -> Iterator[str]:
    """Engines pass over a manifest by what the list says of it, unread."""
    for status, counted, rows in (
        (ManifestEntryStatus.ADDED, manifest.added_files_count, manifest.added_rows_count),
        (ManifestEntryStatus.EXISTING, manifest.existing_files_count, manifest.existing_rows_count),
        (ManifestEntryStatus.DELETED, manifest.deleted_files_count, manifest.deleted_rows_count),
    ):
        found = [entry.data_file.record_count for entry in entries if entry.status == status]
        if (counted, rows) not in {(len(found), sum(found)), (None, None)}:
            yield (
                f"the manifest list counts {counted} {status.name.lower()} files with {rows} rows in the manifest, "
                f"which has {len(found)} with {sum(found)}"
            )
    bounds = manifest.partitions[0] if manifest.partitions else None
    values = [entry.data_file.partition[0] for entry in entries if len(entry.data_file.partition)]
    present = [value for value in values if isinstance(value, int)]
    if bounds is None or not values:
        return
    if len(present) < len(values) and not bounds.contains_null:
        yield "the manifest list says that the manifest has no file without a partition, and it has one"
    for what, bound, value in (
        ("least", bounds.lower_bound, min(present, default=None)),
        ("greatest", bounds.upper_bound, max(present, default=None)),
    ):
        told = None if bound is None else int.from_bytes(bound, "little", signed=True)
        if told != value:
            yield f"the manifest list says that {told} is the {what} partition in the manifest, it is {value}"


def _listed(data_file: DataFile) -> ListedFile:
    # One partition field, the identity of kafka_partition; a foreign table's may be null.
    partition = data_file.partition[0] if len(data_file.partition) else None
    return ListedFile(
        path=data_file.file_path,
        partition=-1 if partition is None else int(partition),
        record_count=int(data_file.record_count),
        size_bytes=int(data_file.file_size_in_bytes),
        footer_checksum=footer_checksum_of(data_file),
        claims=claims_of(
            value_counts=data_file.value_counts,
            null_counts=data_file.null_value_counts,
            nan_counts=data_file.nan_value_counts,
            lower_bounds=data_file.lower_bounds,
            upper_bounds=data_file.upper_bounds,
        ),
    )
