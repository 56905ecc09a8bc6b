"""What a ``__latest`` table names, as its manifests say, and how the topic's table describes files that it is to name.

Source: the Iceberg table specification, "Manifests" and "Position Delete Files".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pyiceberg.io import load_file_io
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.typedef import Record

from engine.errors import Corrupt, Invalid
from engine.offset_range import OffsetRange
from engine.table.adopted_range import ForeignFile
from engine.table.data_file import clustering_checksum_of, footer_checksum_of, parse_file_name
from engine.table.latest.delete_file import DELETED_PATH_ID
from engine.table.latest.keyed_rows import StreamFile
from engine.table.manifests import NO_PARTITION, TableFile, listed_manifests, manifest_entries
from engine.table.topic_table import TopicTable

_BEYOND = 2**63 - 1
"""No offset is greater."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """A data file that the table names, or a delete file, with the ``manifest`` that lists it.

    ``deletes_from``: the one data file that a file of position deletes names in its bounds; None for data files, and
    for delete files of another kind, which only another program writes. ``stream`` is a data file as it is read.
    """

    path: str
    partition: int
    record_count: int
    size_bytes: int
    content: DataFileContent
    manifest: str
    deletes_from: str | None = None
    stream: StreamFile | None = None

    @property
    def going(self) -> tuple[DataFile, str]:
        """As a commit takes what is to go."""
        entry = DataFile.from_args(
            content=self.content,
            file_path=self.path,
            file_format=FileFormat.PARQUET,
            partition=Record(self.partition),
            record_count=self.record_count,
            file_size_in_bytes=self.size_bytes,
        )
        entry.spec_id = 0
        return entry, self.manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionNames:
    """Of one partition: data files by path, the delete files of each, and ``others``, which no commit of ours made."""

    data: Mapping[str, NamedFile] = field(default_factory=dict)
    deletes: Mapping[str, NamedFile] = field(default_factory=dict)
    others: tuple[NamedFile, ...] = ()


class NamedFilesReader:
    """Of one table. A manifest never changes: each is read once. Keeps as much as the newest snapshot has."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[NamedFile, ...]] = {}

    def files(self, table: TopicTable) -> Mapping[int, PartitionNames]:
        """By partition; ``NO_PARTITION`` what has none. Raises Corrupt (a file is named twice too), Unavailable."""
        if table.manifest_list is None:
            return {}
        io = load_file_io(properties=dict(table.warehouse.properties), location=table.manifest_list)
        seen = {}
        offset_id = table.iceberg_schema.find_field(table.layout.offset).field_id
        for manifest in listed_manifests(table, io, table.manifest_list):
            path = manifest.manifest_path
            seen[path] = self._seen.get(path) or tuple(
                _named(entry.data_file, path, offset_id) for entry in manifest_entries(table, manifest, io)
            )
        self._seen = seen
        found: dict[int, list[NamedFile]] = {}
        for file in (file for files in seen.values() for file in files):
            found.setdefault(file.partition, []).append(file)
        return {partition: _sorted_out(table, files) for partition, files in found.items()}


def _named(entry: DataFile, manifest: str, offset_id: int) -> NamedFile:
    lower, upper = ((held or {}).get(DELETED_PATH_ID) for held in (entry.lower_bounds, entry.upper_bounds))
    is_one = entry.content == DataFileContent.POSITION_DELETES and lower is not None and lower == upper
    value = entry.partition[0] if len(entry.partition) else None
    partition = value if isinstance(value, int) else NO_PARTITION
    return NamedFile(
        path=entry.file_path,
        partition=partition,
        record_count=int(entry.record_count),
        size_bytes=int(entry.file_size_in_bytes),
        content=entry.content,
        manifest=manifest,
        deletes_from=lower.decode() if is_one and lower is not None else None,
        stream=_stream_file(entry, partition, manifest, offset_id) if entry.content == DataFileContent.DATA else None,
    )


def _stream_file(entry: DataFile, partition: int, manifest: str, offset_id: int) -> StreamFile:
    """A file that the topic's table may have no more."""
    path, size_bytes, record_count = entry.file_path, int(entry.file_size_in_bytes), int(entry.record_count)
    try:
        name = parse_file_name(path)
    except Invalid:
        foreign = ForeignFile(path=path, partition=partition, size_bytes=size_bytes, record_count=record_count)
        covered = _bounded_range(entry, offset_id)
        return StreamFile(partition=partition, range=covered, path=path, record_count=record_count, foreign=foreign)
    own = TableFile(
        partition=name.partition,
        range=name.range,
        path=path,
        size_bytes=size_bytes,
        record_count=record_count,
        leader_epoch=name.leader_epoch,
        footer_checksum=footer_checksum_of(entry),
        manifest=manifest,
        clustering_checksum=clustering_checksum_of(entry),
    )
    return StreamFile(partition=partition, range=name.range, path=path, record_count=record_count, own=own)


def _bounded_range(entry: DataFile, offset_id: int) -> OffsetRange:
    lower, upper = ((held or {}).get(offset_id) for held in (entry.lower_bounds, entry.upper_bounds))
    if lower is None or upper is None:
        return OffsetRange(start=0, end=_BEYOND)
    return OffsetRange(start=int.from_bytes(lower, "little"), end=int.from_bytes(upper, "little") + 1)


def _sorted_out(table: TopicTable, files: Collection[NamedFile]) -> PartitionNames:
    data = {file.path: file for file in files if file.content == DataFileContent.DATA}
    deletes = {file.deletes_from: file for file in files if file.deletes_from in data}
    kept = {file.path for file in deletes.values()}
    others = tuple(file for file in files if file.content != DataFileContent.DATA and file.path not in kept)
    if len({file.path for file in files}) < len(files):
        raise Corrupt(
            "the table names a file twice",
            topic=table.topic,
            file=table.manifest_list,
            next_step="drop it, without purging its files: it is built again",
        )
    return PartitionNames(data=data, deletes={path: file for path, file in deletes.items() if path}, others=others)


def described_files(table: TopicTable, paths: Mapping[str, str | None]) -> Mapping[str, DataFile]:
    """The topic's table's own descriptions of files, bounds and all, by path. ``paths`` with the manifest that lists
    each, None where that is not known. Raises Corrupt (one is not there), Unavailable."""
    if not paths or table.manifest_list is None:
        return {}
    io = load_file_io(properties=dict(table.warehouse.properties), location=table.manifest_list)
    wanted = None if None in paths.values() else set(paths.values())
    found: dict[str, DataFile] = {}
    for manifest in listed_manifests(table, io, table.manifest_list):
        if manifest.content != ManifestContent.DATA or (wanted is not None and manifest.manifest_path not in wanted):
            continue
        for entry in manifest_entries(table, manifest, io):
            if entry.data_file.file_path in paths:
                entry.data_file.spec_id = 0
                found[entry.data_file.file_path] = entry.data_file
    missing = paths.keys() - found.keys()
    if missing:
        raise Corrupt("no manifest lists a file of the table", topic=table.topic, file=min(missing))
    return found
