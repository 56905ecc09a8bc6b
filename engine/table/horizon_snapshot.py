"""The snapshots of a horizon that moves: the table's, and that of the branch which lists what the stream still has."""

from __future__ import annotations

from pyiceberg.table.snapshots import Operation, Summary

from engine.table.manifest_seal import ManifestSeal
from engine.table.seal import sealed_stream
from engine.table.sealed_snapshot import OverwriteFiles, SealedProducer
from engine.table.stream_branch import STREAM_BRANCH


class RemoveFiles(SealedProducer):
    """Files go, and their records with them. Where none does, it is an append of nothing: readers of changes stop at
    what says that rows were deleted."""

    _made_as = Operation.DELETE

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        self._operation = Operation.DELETE if self._gone else Operation.APPEND
        return super()._summary(snapshot_properties or {})


class KeepForStream(OverwriteFiles):
    """Files that the table has no more come to the stream's branch, files that the stream has no more leave it."""

    _branch = STREAM_BRANCH

    def _seal_before(self) -> ManifestSeal | None:
        stream = sealed_stream(self._before)
        return None if stream is None else stream.manifests
