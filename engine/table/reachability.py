"""Everything that a table names, in any of its snapshots: what must not be deleted.

Source: the Iceberg table specification. Named are, for each snapshot in the metadata, whatever branch or tag it is of,
its manifest list, its manifests, and their live entries, which are data and delete files; statistics; the metadata log
and the metadata itself; and, by Floeberg's own properties, schemas' files and the files of adopted ranges.

Files are known by their last name alone: a name of Floeberg's has an id of one attempt in it, and what names a file
under another scheme, or through another folder, still names it. Of a name a hash of 64 bits is kept, 8 bytes a file:
where two have the same hash, one is held to be named that is not, and stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import load_file_io
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot

from engine.table.history import before_erasures
from engine.table.manifest_seal import ChecksumIO, changed, is_as_told
from engine.table.manifests import listed_manifests, manifest_entries, reading_metadata
from engine.table.properties import KEY_PROPERTIES, VALUE_PROPERTIES
from engine.table.sealed_snapshot import summary_of
from engine.table.stream_branch import STREAM_BRANCH
from engine.table.topic_table import TopicTable

_LIVE_BRANCHES = frozenset({MAIN_BRANCH, STREAM_BRANCH})
"""What SQL engines see, and what only the stream still has; other branches and tags are history that is kept."""

_LITTLE_ENDIAN = np.dtype("<u8")

Hashes: TypeAlias = NDArray[np.uint64]
"""Of names, sorted, none twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFiles:
    """``live``: what the newest snapshots name, and the table's own state; ``history``: what others name, but for
    those from before an erasure, which name what is ``erased``. A name may be in several: the first counts."""

    live: Hashes
    history: Hashes
    erased: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))

    def is_live(self, path: str) -> bool:
        return holds(self.live, path)

    def is_erased(self, path: str) -> bool:
        """Whether only snapshots from before an erasure name it."""
        return holds(self.erased, path) and not (holds(self.live, path) or holds(self.history, path))

    def is_named(self, path: str) -> bool:
        return holds(self.live, path) or holds(self.history, path) or holds(self.erased, path)

    def joined(self, other: NamedFiles) -> NamedFiles:
        """What either names."""
        return NamedFiles(
            live=np.union1d(self.live, other.live),
            history=np.union1d(self.history, other.history),
            erased=np.union1d(self.erased, other.erased),
        )


class ReachableFiles:
    """Reads what one table names; manifests and manifest lists that it has seen are not read again.

    For one thread. Keeps 8 bytes for each live entry of each manifest that is named (so 8 MB a million files, once more
    for each time that compaction wrote an entry again and history still has it), and 8 for each manifest of each
    snapshot. Manifests are read one at a time.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Hashes] = {}
        self._lists: dict[str, tuple[str, ...]] = {}

    def of(self, view: TopicTable, metadata: TableMetadata) -> NamedFiles:
        """``view`` and ``metadata`` of one loaded state, the view for where it is and how it is reached.

        Raises Corrupt (a metadata file is missing or damaged: nothing is known of what it named), Unavailable.
        """
        heads = {ref.snapshot_id for name, ref in metadata.refs.items() if name in _LIVE_BRANCHES}
        if metadata.current_snapshot_id is not None:
            heads.add(metadata.current_snapshot_id)
        io = ChecksumIO(load_file_io(properties=dict(view.warehouse.properties), location=view.location), {})
        entries: dict[str, Hashes] = {}
        lists: dict[str, tuple[str, ...]] = {}
        for snapshot in metadata.snapshots:
            listed = str(snapshot.manifest_list)
            lists[listed] = self._lists.get(listed) or self._read_list(view, metadata, io, listed, entries)
            for path in lists[listed]:
                if path not in entries and path in self._entries:
                    entries[path] = self._entries[path]
        self._entries, self._lists = entries, lists
        live = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in heads]
        before = before_erasures(metadata.snapshots, metadata.refs)
        old = {snapshot.snapshot_id for snapshot in before}
        others = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in old]
        return NamedFiles(
            live=self._union(live, _state_files(view, metadata, heads)),
            history=self._union(others, _past_files(metadata)),
            erased=self._union(before, ()),
        )

    def _read_list(
        self, view: TopicTable, metadata: TableMetadata, io: ChecksumIO, path: str, entries: dict[str, Hashes]
    ) -> tuple[str, ...]:
        manifests = list(listed_manifests(view, io, path))
        for manifest in manifests:
            at = manifest.manifest_path
            if at not in self._entries and at not in entries:
                entries[at] = _entry_names(view, metadata, io, manifest)
        return tuple(manifest.manifest_path for manifest in manifests)

    def _union(self, snapshots: Iterable[Snapshot], others: Iterable[str]) -> Hashes:
        lists = {str(snapshot.manifest_list) for snapshot in snapshots}
        manifests = {path for one in lists for path in self._lists[one]}
        named = hashes_of((*lists, *manifests, *others))
        return np.unique(np.concatenate([named, *(self._entries[path] for path in manifests)]))


def name_of(path: str) -> str:
    """The part of a path by which a file is known."""
    return path.rpartition("/")[2]


def hashes_of(paths: Iterable[str]) -> Hashes:
    return np.unique(np.frombuffer(b"".join(map(_hash, paths)), _LITTLE_ENDIAN)).astype(np.uint64, copy=False)


def holds(hashes: Hashes, path: str) -> bool:
    """Whether a file of this name is among them."""
    wanted = np.uint64(int.from_bytes(_hash(path), "little"))
    at = int(np.searchsorted(hashes, wanted))
    return at < len(hashes) and bool(hashes[at] == wanted)


def _hash(path: str) -> bytes:
    return blake2b(name_of(path).encode(), digest_size=_LITTLE_ENDIAN.itemsize).digest()


def _entry_names(view: TopicTable, metadata: TableMetadata, io: ChecksumIO, manifest: ManifestFile) -> Hashes:
    path = manifest.manifest_path
    with reading_metadata(view, path):
        digest = io.hold(path)
    # Where a summary tells what its bytes were: one that is damaged may name other files than it did.
    if is_as_told(summary_of(metadata, manifest), path, digest) is False:
        raise changed(path, topic=view.topic)
    return hashes_of(entry.data_file.file_path for entry in manifest_entries(view, manifest, io))


def _state_files(view: TopicTable, metadata: TableMetadata, heads: set[int]) -> Iterable[str]:
    """The current state's own files, and what its properties and statistics name."""
    yield view.metadata_location
    prefixes = (VALUE_PROPERTIES.schema_file, KEY_PROPERTIES.schema_file)
    yield from (text for name, text in metadata.properties.items() if name.startswith(prefixes))
    yield from (file.path for ranges in view.adopted.values() for part in ranges for file in part.files)
    yield from (path for snapshot_id, path in _statistics(metadata) if snapshot_id in heads)


def _past_files(metadata: TableMetadata) -> Iterable[str]:
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (path for _, path in _statistics(metadata))


def _statistics(metadata: TableMetadata) -> Iterable[tuple[int, str]]:
    for one in (*metadata.statistics, *metadata.partition_statistics):
        yield one.snapshot_id, one.statistics_path
