"""The seam to pyiceberg's snapshots: each knows what its manifests are, for the seal (manifest_seal.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.manifest import ManifestFile, read_manifest_list
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _FastAppendFiles, _OverwriteFiles, _SnapshotProducer

from engine.table.manifest_seal import (
    ChecksumIO,
    ManifestDigest,
    ManifestSeal,
    changed,
    is_as_told,
    sum_of,
    told_checksums,
)
from engine.table.seal import current_manifest_seal


class SealedProducer(_SnapshotProducer[Any]):
    """Stands before one of the library's producers in a class's bases."""

    _made_as: Operation
    _io: ChecksumIO
    _listed: tuple[ManifestFile, ...] = ()

    def __init__(self, table: Table, transaction: Transaction, summary: Mapping[str, str]) -> None:
        super().__init__(
            operation=self._made_as,
            transaction=transaction,
            io=checksum_io(table),
            snapshot_properties=dict(summary),
        )

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        listed: list[ManifestFile] = super()._process_manifests(manifests)
        self._listed = tuple(listed)
        self.snapshot_properties.update(told_checksums(self._io.written))
        return listed

    def manifest_seal(self, before: TableMetadata) -> ManifestSeal:
        """Of the snapshot that was staged on ``before``. Raises Corrupt, OSError.

        Reads manifests only where the table had no such seal, or where one is left out.
        """
        written = self._io.written
        kept = [manifest.manifest_path for manifest in self._listed if manifest.manifest_path not in written]
        total = sum_of(
            written[manifest.manifest_path].hashed(manifest.manifest_path)
            for manifest in self._listed
            if manifest.manifest_path in written
        )
        sealed = current_manifest_seal(before)
        if sealed is None:
            total += sum_of(self._digest(path).hashed(path) for path in kept)
        else:
            gone = self._left_out(before, kept) if len(kept) != sealed.count else []
            total += sealed.total - sum_of(self._as_told(before, manifest) for manifest in gone)
        return ManifestSeal(
            list_crc32c=written[self._written_manifest_lists[-1]].crc32c,
            total=sum_of([total]),
            count=len(self._listed),
        )

    def _left_out(self, before: TableMetadata, kept: list[str]) -> list[ManifestFile]:
        snapshot = before.current_snapshot()
        if snapshot is None:
            return []
        known = set(kept)
        listed = read_manifest_list(self._io.new_input(snapshot.manifest_list))
        return [manifest for manifest in listed if manifest.manifest_path not in known]

    def _digest(self, path: str) -> ManifestDigest:
        if path not in self._io.read:
            self._io.content(path)
        return self._io.read[path]

    def _as_told(self, before: TableMetadata, manifest: ManifestFile) -> int:
        """The hash of a manifest that is left out: taken from the sum, a damaged one would spoil it for good."""
        path = manifest.manifest_path
        digest = self._digest(path)
        if is_as_told(summary_of(before, manifest), path, digest) is False:
            raise changed(path)
        return digest.hashed(path)


class AppendFiles(SealedProducer, _FastAppendFiles):
    """The library's fast append: one manifest more, those before are not looked at."""

    _made_as = Operation.APPEND


class ReplaceFiles(SealedProducer, _OverwriteFiles):
    """Files go and files come, and the records stay what they are: the operation ``replace``.

    Manifests that held a file that goes are written again without it. Source: the Iceberg table specification,
    "Snapshots". pyiceberg 0.12 has an overwrite, whose producer does all but the name, and refuses to sum a
    replacement up.
    """

    _made_as = Operation.OVERWRITE

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        summed_up = super()._summary(snapshot_properties or {})
        return Summary(operation=Operation.REPLACE, **summed_up.additional_properties)


def checksum_io(table: Table) -> ChecksumIO:
    """The table's file access; a manifest list that is not the sealed one is not built upon."""
    sealed, snapshot = current_manifest_seal(table.metadata), table.metadata.current_snapshot()
    if sealed is None or snapshot is None:
        return ChecksumIO(table.io, {})
    return ChecksumIO(table.io, {snapshot.manifest_list: sealed.list_crc32c})


def summary_of(metadata: TableMetadata, manifest: ManifestFile) -> Mapping[str, str]:
    """The summary of the snapshot that added a manifest; empty where the table does not keep that any more."""
    snapshot = metadata.snapshot_by_id(manifest.added_snapshot_id or -1)
    return {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties
