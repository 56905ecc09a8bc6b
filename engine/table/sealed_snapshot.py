"""The seam to pyiceberg's snapshots: each knows what its manifests are, for the seal (manifest_seal.py), and keeps
their number small."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, TypeAlias

from pyiceberg.io import OutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update.snapshot import _SnapshotProducer

from engine.table.manifest_seal import (
    ChecksumIO,
    ManifestDigest,
    ManifestSeal,
    changed,
    changed_among,
    is_as_told,
    is_told,
    sum_of,
    told_checksums,
)
from engine.table.seal import current_manifest_seal

OWN_MANIFEST = "floeberg-"
"""How the names of Floeberg's manifests begin: another program's are never merged, and never deleted."""

MANIFESTS_OF_A_TIER = 10
"""As many of one tier become one: more would make a longer list, fewer would write entries again more often."""

FULL_ENTRIES = 1000
"""Entries of a full manifest, which is not merged again: about 0.2 s to write, and 50 ms to read."""

ProvenManifests: TypeAlias = dict[str, ManifestDigest]
"""By path, what this process has compared with the sum of all."""


class SealedProducer(_SnapshotProducer[Any]):
    """One snapshot: files come, files go, and manifests that are small and many become one.

    A manifest that held a file that goes is written again without it. Entries that are written again keep the snapshot
    and the sequence number they were added with (Iceberg table specification, "Manifest Entry Fields").
    """

    _made_as: Operation
    _branch: str = MAIN_BRANCH
    commit_uuid: Any

    def __init__(
        self, table: Table, transaction: Transaction, summary: Mapping[str, str], proven: ProvenManifests
    ) -> None:
        self._before = table.metadata
        self._parent: Snapshot | None = self._before.snapshot_by_name(self._branch)
        self._sealed = self._seal_before()
        expected = {self._parent_list: self._sealed.list_crc32c} if self._parent and self._sealed else {}
        self._checked = ChecksumIO(table.io, expected)
        super().__init__(
            operation=self._made_as,
            transaction=transaction,
            io=self._checked,
            snapshot_properties=dict(summary),
            branch=self._branch,
        )
        # Part of the names of the manifest list and of the manifests, by which they can be told from another program's.
        self.commit_uuid = f"{OWN_MANIFEST}{self.commit_uuid}"
        self._proven = proven
        self._touched: set[str] = set()
        self._gone: set[str] = set()
        self._listed: tuple[ManifestFile, ...] = ()

    def remove(self, entry: DataFile, manifest_path: str) -> None:
        """A data file that goes, and the manifest that lists it."""
        self.delete_data_file(entry)
        self._touched.add(manifest_path)
        self._gone.add(entry.file_path)

    def new_manifest_output(self) -> OutputFile:
        name = f"{self.commit_uuid}-m{next(self._manifest_num_counter)}.avro"
        path = self._transaction._table.location_provider().new_metadata_location(name)
        self._written_manifests.append(path)
        return self._io.new_output(path)

    def _validate_concurrency(self) -> None:
        """What is committed was decided on the very state that the commit asserts."""

    def _seal_before(self) -> ManifestSeal | None:
        """Of the branch's manifests; a manifest list that is not the sealed one is not built upon."""
        return current_manifest_seal(self._before)

    @property
    def _parent_list(self) -> str:
        assert self._parent is not None, "a manifest is listed somewhere"
        return str(self._parent.manifest_list)

    @cached_property
    def _parent_manifests(self) -> list[ManifestFile]:
        return [] if self._parent is None else self._parent.manifests(self._io)

    @cached_property
    def _manifests_before(self) -> tuple[list[ManifestFile], list[ManifestFile]]:
        """(those that stay as they are, those that are written again)."""
        live = [
            manifest
            for manifest in self._parent_manifests
            if manifest.has_added_files() or manifest.has_existing_files()
        ]
        untouched = [manifest for manifest in live if manifest.manifest_path not in self._touched]
        ours = [manifest for manifest in untouched if self._may_merge(manifest)]
        merged = {ours[at].manifest_path for at in to_merge([_live_files(manifest) for manifest in ours])}
        again = self._touched | merged
        return (
            [manifest for manifest in live if manifest.manifest_path not in again],
            [manifest for manifest in live if manifest.manifest_path in again],
        )

    def _may_merge(self, manifest: ManifestFile) -> bool:
        return manifest.partition_spec_id == self._before.default_spec_id and is_own_manifest(self._before, manifest)

    @cached_property
    def _entries_again(self) -> list[tuple[int, ManifestEntry]]:
        """Live entries of the manifests that are written again, by partition and name, each with its partition spec."""
        _, again = self._manifests_before
        self._check(again)
        entries = [
            (manifest.partition_spec_id, entry)
            for manifest in again
            for entry in manifest.fetch_manifest_entry(self._io, discard_deleted=True)
        ]
        return sorted(entries, key=lambda item: (item[0], _deletes(item[1].data_file), item[1].data_file.file_path))

    def _deleted_entries(self) -> list[ManifestEntry]:
        if not self._parent_manifests:
            return []
        gone = [(spec_id, entry) for spec_id, entry in self._entries_again if entry.data_file.file_path in self._gone]
        assert len(gone) == len(self._gone), "what goes was listed where it was decided"
        for spec_id, entry in gone:
            entry.data_file.spec_id = spec_id
        return [_entry(entry, ManifestEntryStatus.DELETED, self._snapshot_id) for _, entry in gone]

    def gone_files(self) -> dict[str, DataFile]:
        """What the manifests said of the files that went, by path."""
        return {
            entry.data_file.file_path: entry.data_file
            for _, entry in self._entries_again
            if entry.data_file.file_path in self._gone
        }

    def _existing_manifests(self) -> list[ManifestFile]:
        kept, _ = self._manifests_before
        left = [item for item in self._entries_again if item[1].data_file.file_path not in self._gone]
        again = [(spec_id, _entry(one, ManifestEntryStatus.EXISTING, one.snapshot_id)) for spec_id, one in left]
        return [*reversed(self._written(again)), *kept]

    def _written(self, entries: Sequence[tuple[int, ManifestEntry]]) -> list[ManifestFile]:
        """Manifests of entries that come by partition spec and content, none of more entries than a full one."""
        written = []
        for (spec_id, deletes), group in groupby(entries, key=lambda item: (item[0], _deletes(item[1].data_file))):
            coming = list(group)
            for at in range(0, len(coming), FULL_ENTRIES):
                make = self._new_delete_manifest_writer if deletes else self.new_manifest_writer
                with make(self.spec(spec_id)) as writer:
                    for _, entry in coming[at : at + FULL_ENTRIES]:
                        writer.add_entry(entry)
                written.append(writer.to_manifest_file())
        return written

    def _new_delete_manifest_writer(self, spec: PartitionSpec) -> ManifestWriterV2:
        return _DeleteManifestWriter(
            spec, self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression
        )

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        listed: list[ManifestFile] = super()._process_manifests(manifests)
        self._listed = tuple(listed)
        self.snapshot_properties.update(told_checksums(self._checked.written))
        return listed

    def manifest_seal(self) -> ManifestSeal:
        """Of the snapshot that was staged. Raises Corrupt, OSError.

        Reads manifests only where the table had no such seal, or where one is left out. What was written here needs no
        proof later, when no summary tells of it any more.
        """
        written, sealed = self._checked.written, self._sealed
        kept = [manifest for manifest in self._listed if manifest.manifest_path not in written]
        total = sum_of(digest.hashed(path) for path, digest in written.items() if path in self._paths)
        if sealed is None:
            total += sum_of(self._hash(manifest) for manifest in kept)
        elif len(kept) != sealed.count:
            paths = {manifest.manifest_path for manifest in kept}
            gone = [manifest for manifest in self._parent_manifests if manifest.manifest_path not in paths]
            self._check(gone)
            total += sealed.total - sum_of(map(self._hash, gone))
        else:
            total += sealed.total
        known = {**self._proven, **written}
        self._proven.clear()
        self._proven.update({path: known[path] for path in self._paths & known.keys()})
        return ManifestSeal(
            list_crc32c=written[self._written_manifest_lists[-1]].crc32c,
            total=sum_of([total]),
            count=len(self._listed),
        )

    @property
    def _paths(self) -> set[str]:
        return {manifest.manifest_path for manifest in self._listed}

    def _hash(self, manifest: ManifestFile) -> int:
        return self._digest(manifest).hashed(manifest.manifest_path)

    def _digest(self, manifest: ManifestFile) -> ManifestDigest:
        path = manifest.manifest_path
        return self._checked.read.get(path) or self._checked.hold(path)

    def _check(self, manifests: Sequence[ManifestFile]) -> None:
        """Before anything of them is used, or taken from the sum, which a damaged one would spoil for good.

        Raises Corrupt, OSError. What no summary tells any more is found out by the sum of all, once a process.
        """
        is_sealed = self._sealed is not None
        for manifest in manifests:
            path, digest = manifest.manifest_path, self._digest(manifest)
            told = is_as_told(summary_of(self._before, manifest), path, digest)
            if told is False:
                raise changed(path)
            if told is None and is_sealed and self._proven.get(path) != digest:
                self._prove_all()

    def _prove_all(self) -> None:
        sealed = self._sealed
        assert sealed is not None, "only sealed manifests are compared"
        digests = {manifest.manifest_path: self._digest(manifest) for manifest in self._parent_manifests}
        if sum_of(digest.hashed(path) for path, digest in digests.items()) != sealed.total:
            raise changed_among(len(digests), self._parent_list)
        self._proven.clear()
        self._proven.update(digests)


class AppendFiles(SealedProducer):
    """Files come."""

    _made_as = Operation.APPEND


class ReplaceFiles(SealedProducer):
    """Files go and files come, and the records stay what they are: the operation ``replace``.

    Source: the Iceberg table specification, "Snapshots". pyiceberg 0.12 refuses to sum a replacement up, so it is told
    of an overwrite.
    """

    _made_as = Operation.OVERWRITE

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        summed_up = super()._summary(snapshot_properties or {})
        return Summary(operation=Operation.REPLACE, **summed_up.additional_properties)


class OverwriteFiles(SealedProducer):
    """Files go and files come, and rows go for good: the operation ``overwrite``.

    An entry of a file that goes has no bounds: they are keys and values.
    """

    _made_as = Operation.OVERWRITE

    def _deleted_entries(self) -> list[ManifestEntry]:
        gone = super()._deleted_entries()
        for entry in gone:
            entry.data_file = _without_bounds(entry.data_file)
        return gone


class DeltaFiles(OverwriteFiles):
    """As those, and delete files go and come: other rows are visible.

    Source: the Iceberg table specification, "Snapshots" and "Scan Planning". pyiceberg 0.12 writes no delete manifests.
    """

    def _manifests(self) -> list[ManifestFile]:
        spec_id = self._before.default_spec_id
        added = [
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=self._snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=file,
            )
            for file in sorted(self._added_data_files, key=_deletes)
        ]
        gone = [(int(entry.data_file.spec_id), entry) for entry in self._deleted_entries()]
        written = [*self._written([(spec_id, entry) for entry in added]), *self._written(gone)]
        return self._process_manifests([*written, *self._existing_manifests()])


class _DeleteManifestWriter(ManifestWriterV2):
    """A manifest of delete files. Source: the Iceberg table specification, "Manifests"."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _deletes(file: DataFile) -> bool:
    return bool(file.content != DataFileContent.DATA)


def summary_of(metadata: TableMetadata, manifest: ManifestFile) -> Mapping[str, str]:
    """The summary of the snapshot that added a manifest; empty where the table does not keep that any more."""
    snapshot = metadata.snapshot_by_id(manifest.added_snapshot_id or -1)
    return {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties


def is_own_manifest(metadata: TableMetadata, manifest: ManifestFile) -> bool:
    """Whether Floeberg wrote it: its name says so, or, of an earlier version's, the snapshot that added it."""
    path = manifest.manifest_path
    return path.rpartition("/")[2].startswith(OWN_MANIFEST) or is_told(summary_of(metadata, manifest), path)


def _live_files(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _entry(entry: ManifestEntry, status: ManifestEntryStatus, snapshot_id: int | None) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def _without_bounds(file: DataFile) -> DataFile:
    bare = DataFile.from_args(
        content=file.content,
        file_path=file.file_path,
        file_format=file.file_format,
        partition=file.partition,
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
    )
    bare.spec_id = file.spec_id
    return bare


def to_merge(entry_counts: Sequence[int]) -> tuple[int, ...]:
    """The places of the manifests that become one, of all by their numbers of live entries, oldest last: pure.

    Size-tiered: one of up to ten entries is of the first tier, of up to a hundred of the second. A tier with as many as
    make one of the next is merged, the lowest first, and in it the oldest, as many as fill a manifest. So an entry is
    written again once a tier, and a commit writes no more than a full manifest again, however many came before.
    """
    tiers: dict[int, list[int]] = defaultdict(list)
    for at, count in enumerate(entry_counts):
        if 0 < count <= FULL_ENTRIES // 2:
            tiers[_tier_of(count)].append(at)
    full = next((tiers[tier] for tier in sorted(tiers) if len(tiers[tier]) >= MANIFESTS_OF_A_TIER), [])
    chosen: list[int] = []
    entries = 0
    for at in reversed(full):
        entries += entry_counts[at]
        if chosen[1:] and entries > FULL_ENTRIES:
            break
        chosen.append(at)
    return tuple(chosen)


def _tier_of(count: int) -> int:
    tier, least = 0, MANIFESTS_OF_A_TIER
    while count >= least:
        tier, least = tier + 1, least * MANIFESTS_OF_A_TIER
    return tier
