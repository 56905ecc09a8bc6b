"""The branch that lists what the stream still has and the table has no more (docs/retention.md).

SQL engines read ``main`` unless they are told otherwise. Only Floeberg commits to the branch; the seal has its
snapshot, so that a branch that anybody else set, dropped or made is never read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType

from engine.table.manifest_seal import ManifestSeal

STREAM_BRANCH = "floeberg-stream"

NEVER_EXPIRES_MS = (1 << 63) - 1
"""``max-ref-age-ms`` of the branch: a table's own ``history.expire.max-ref-age-ms`` must not take it away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSeal:
    """The branch as Floeberg left it: its snapshot, and what that one's manifests were."""

    snapshot_id: int
    manifests: ManifestSeal

    def to_json(self) -> dict[str, Any]:
        return {"snapshot": self.snapshot_id, **self.manifests.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError, ValueError."""
        return cls(snapshot_id=int(value["snapshot"]), manifests=ManifestSeal.from_json(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamList:
    """Where the files are listed that only the stream has, and what that list was when it was sealed."""

    snapshot_id: int
    manifest_list: str
    manifests: ManifestSeal


def stream_list(metadata: TableMetadata, sealed: StreamSeal | None) -> StreamList | None:
    """The sealed branch; None where there is none, or where it is not as it was left."""
    if sealed is None or stream_change(metadata, sealed) is not None:
        return None
    snapshot = metadata.snapshot_by_id(sealed.snapshot_id)
    assert snapshot is not None, "a branch whose snapshot is gone has changed"
    return StreamList(
        snapshot_id=sealed.snapshot_id, manifest_list=str(snapshot.manifest_list), manifests=sealed.manifests
    )


def stream_change(metadata: TableMetadata, sealed: StreamSeal | None) -> str | None:
    """What another program did to the branch, in words; None for nothing."""
    ref = metadata.refs.get(STREAM_BRANCH)
    if sealed is None:
        return None if ref is None else f"a branch or tag {STREAM_BRANCH} was made"
    if ref is None:
        return f"its branch {STREAM_BRANCH} was dropped"
    if ref.snapshot_ref_type != SnapshotRefType.BRANCH or ref.snapshot_id != sealed.snapshot_id:
        return f"its branch {STREAM_BRANCH} was set to snapshot {ref.snapshot_id}"
    if metadata.snapshot_by_id(sealed.snapshot_id) is None:
        return f"the snapshot of its branch {STREAM_BRANCH} is gone"
    return None
