"""The data files of one snapshot of a table, out of its manifests: the read side's seam to pyiceberg.

Source: the Iceberg table specification, "Manifests". A manifest never changes, so each is read once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.exceptions import ValidationError
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestFile, read_manifest_list

from engine.errors import Corrupt, Invalid, Unavailable
from engine.offset_range import OffsetRange
from engine.table.data_file import parse_file_name
from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TableFile:
    """One data file as its manifest and its name describe it. Sorts by partition, then by offsets."""

    partition: int
    range: OffsetRange
    path: str
    size_bytes: int
    record_count: int
    leader_epoch: int


class ManifestReader:
    """Reads the manifests of one table's snapshots; those it has seen before are not read again.

    Not for use by two threads at a time. Keeps as much as the newest snapshot read has manifests.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[TableFile, ...]] = {}

    def files(self, table: TopicTable) -> tuple[TableFile, ...]:
        """Every data file of the table's snapshot, sorted; none where nothing was committed yet.

        Raises Corrupt (a manifest is missing or damaged, a file that this program did not name), Unavailable, Invalid
        (the table has delete files, which reading by offset does not apply).
        """
        if table.manifest_list is None:
            return ()
        at = table.manifest_list
        try:
            io = load_file_io(properties=dict(table.warehouse.properties), location=at)
            seen: dict[str, tuple[TableFile, ...]] = {}
            for manifest in read_manifest_list(io.new_input(at)):
                at = manifest.manifest_path
                seen[at] = self._seen[at] if at in self._seen else _files_of(manifest, io, table)
        except FileNotFoundError as error:
            raise Corrupt("a metadata file of the table is missing", topic=table.topic, file=at) from error
        except OSError as error:
            raise Unavailable(f"the warehouse does not answer: {error}", topic=table.topic, file=at) from error
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            raise Corrupt(f"a metadata file of the table is damaged: {error}", topic=table.topic, file=at) from error
        self._seen = seen
        return tuple(sorted(file for files in seen.values() for file in files))


def _files_of(manifest: ManifestFile, io: FileIO, table: TopicTable) -> tuple[TableFile, ...]:
    if manifest.content != ManifestContent.DATA and (manifest.existing_files_count or manifest.added_files_count):
        raise Invalid(
            "the table has delete files: somebody deleted rows with a SQL engine",
            topic=table.topic,
            file=manifest.manifest_path,
            next_step="roll the table back to the snapshot before, or rewrite its data files without deletes",
        )
    entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
    return tuple(_table_file(entry.data_file) for entry in entries if entry.data_file.content == DataFileContent.DATA)


def _table_file(file: DataFile) -> TableFile:
    try:
        name = parse_file_name(file.file_path)
    except Invalid as error:
        raise Corrupt("the table has a data file that this program did not name", file=file.file_path) from error
    return TableFile(
        partition=name.partition,
        range=name.range,
        path=file.file_path,
        size_bytes=int(file.file_size_in_bytes),
        record_count=int(file.record_count),
        leader_epoch=name.leader_epoch,
    )


def by_partition(files: tuple[TableFile, ...]) -> Mapping[int, tuple[TableFile, ...]]:
    """Sorted files, grouped. Raises Corrupt where two files of a partition cover the same offset."""
    grouped: dict[int, list[TableFile]] = {}
    for file in files:
        held = grouped.setdefault(file.partition, [])
        if held and held[-1].range.end > file.range.start:
            raise Corrupt(
                f"two files cover the same offsets: {held[-1].path} and this one",
                partition=file.partition,
                offset=file.range.start,
                file=file.path,
            )
        held.append(file)
    return {partition: tuple(held) for partition, held in grouped.items()}
