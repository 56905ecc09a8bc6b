"""Who still has what was erased, or names the files that have it: branches, tags, other tables, the broker's log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH

from engine.errors import FloebergError
from engine.kafka_log.log_directory import scan_log_directories
from engine.kafka_log.segment import list_segments
from engine.offset_range import OffsetRange
from engine.table.manifests import ManifestReader
from engine.table.reachability import ReachableFiles
from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCopy:
    """``paths`` of the segments with erased offsets that the broker still has locally; its log begins at ``log_start``,
    below which consumers get what the table has."""

    partition: int
    paths: tuple[Path, ...]
    log_start: int

    def __str__(self) -> str:
        where = self.paths[0] if len(self.paths) == 1 else f"{len(self.paths)} segments, the first {self.paths[0]}"
        return (
            f"partition {self.partition}: the broker still has and serves {where}; to consumers erased records are "
            f"gone below offset {self.log_start}, where its local log begins"
        )


def refs_that_keep(view: TopicTable, metadata: TableMetadata, files: Collection[str]) -> Iterator[str]:
    """The branches and tags, in words, that name one of ``files``. Raises Corrupt, Unavailable."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    reader = ManifestReader()
    for name, ref in sorted(metadata.refs.items()):
        snapshot = by_id.get(ref.snapshot_id)
        if name == MAIN_BRANCH or snapshot is None:
            continue
        named = reader.files(replace(view, manifest_list=snapshot.manifest_list, manifest_seal=None))
        paths = [*(file.path for file in named.own), *(file.path for file in named.foreign)]
        held = sum(path in files for path in paths)
        if held:
            yield f"the {ref.snapshot_ref_type.value} {name} names {held} of the old files"


def names_old_files(view: TopicTable, metadata: TableMetadata, files: Collection[str]) -> bool:
    """Whether a snapshot of a table, whichever, names one of ``files``. Raises Corrupt, Unavailable."""
    named = ReachableFiles().of(view, metadata)
    return any(named.is_named(path) for path in files)


def local_copies(
    log_dirs: Sequence[Path], topic_id: str, erased: Mapping[int, Sequence[OffsetRange]]
) -> Iterator[LocalCopy]:
    """Of the log directories of this machine. What can't be read of them is left out: it may go at any moment."""
    for directory in scan_log_directories(log_dirs).live:
        gone = erased.get(directory.partition.partition, ())
        if directory.partition.topic_id != topic_id or not gone:
            continue
        try:
            segments = list_segments(directory.path)
        except FloebergError:
            continue
        ends = [segment.base_offset for segment in segments[1:]] + [max(item.end for item in gone)]
        paths = tuple(
            segment.log_path
            for segment, end in zip(segments, ends, strict=True)
            if any(item.start < end and segment.base_offset < item.end for item in gone)
        )
        if paths:
            number = directory.partition.partition
            yield LocalCopy(partition=number, paths=paths, log_start=segments[0].base_offset)
