"""Sees what is in the log directories, and looks again only where something changed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from engine.clock import Clock
from engine.errors import FloebergError, Invalid, Unavailable
from engine.kafka_log.log_directory import LeaderEpochs, LogDirectoryScan, PartitionDirectory, scan_log_directories
from engine.kafka_log.segment import Segment, list_segments
from engine.records.records import UNKNOWN_EPOCH
from engine.topic_partition import TopicIdPartition
from tiering.observation import PartitionLog

_Found = TypeVar("_Found")

# A folder's mtime moves in steps of the kernel's clock tick: a change right after our look may leave it as it was.
_TRUSTED_AFTER_MS = 100

_RESCAN_AFTER_MS = 30_000
"""How long topic ids and ``meta.properties`` are taken for what they were: changing them moves no folder's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogObservation:
    """``logs``: the live directories; ``node_ids``, ``cluster_ids`` as ``meta.properties`` have them.

    ``failures``: partitions that were here and whose directory, or whole log directory, can't be read now.
    """

    logs: Mapping[TopicIdPartition, PartitionLog]
    failures: Mapping[TopicIdPartition, FloebergError]
    node_ids: frozenset[int]
    cluster_ids: frozenset[str]
    problems: tuple[FloebergError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen(Generic[_Found]):
    """Folders' modification times before they were looked at, and what was found."""

    modified_ns: tuple[int, ...]
    is_settled: bool
    found: _Found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """A partition's directory. Kafka replaces the checkpoint of epochs by a rename, which the folder's time shows."""

    leader_epoch: int
    segments: tuple[Segment, ...]


class LogWatcher:
    """Watches all log directories of one broker.

    Creating, renaming and deleting a segment changes its directory's modification time, and so does a partition in its
    log directory; appending changes neither. One ``stat`` a directory is what a quiet partition costs.
    """

    def __init__(self, log_dirs: Sequence[Path], clock: Clock) -> None:
        self._log_dirs = tuple(log_dirs)
        self._clock = clock
        self._scanned: _Seen[LogDirectoryScan] | None = None
        self._scanned_at_ms = 0
        self._segments: dict[Path, _Seen[_Listed]] = {}
        self._identities: dict[Path, _Identity] = {}
        self._live: dict[Path, TopicIdPartition] = {}

    def observe(self) -> LogObservation:
        """Never raises for one bad directory: the others go on, the bad one is among the problems and failures."""
        logs: dict[TopicIdPartition, PartitionLog] = {}
        scan = self._scan()
        failures = self._lost(scan)
        for directory in scan.live:
            try:
                listed = self._list(directory)
            except FloebergError as error:
                # Deleted or moved since the scan, unless it is still there.
                if directory.path.exists():
                    failures[directory.partition] = error
                continue
            logs[directory.partition] = PartitionLog(
                partition=directory.partition,
                log_dir=directory.path.parent,
                segments=listed.segments,
                leader_epoch=listed.leader_epoch,
            )
        for gone in self._segments.keys() - {directory.path for directory in scan.live}:
            del self._segments[gone]
        return LogObservation(
            logs=logs,
            failures=failures,
            node_ids=frozenset(identity.node_id for identity in self._identities.values()),
            cluster_ids=frozenset(identity.cluster_id for identity in self._identities.values()),
            problems=scan.problems,
        )

    def _lost(self, scan: LogDirectoryScan) -> dict[TopicIdPartition, FloebergError]:
        """The partitions that an earlier look found where this one can't: they must not vanish from what is shown."""
        found = {directory.path: directory.partition for directory in scan.live}
        lost = {
            path: (partition, scan.failed.get(path) or scan.failed[path.parent])
            for path, partition in self._live.items()
            if path not in found
            and partition not in found.values()
            and (path in scan.failed or path.parent in scan.failed)
        }
        self._live = found | {path: partition for path, (partition, _) in lost.items()}
        return {partition: error.located(partition.topic, partition.partition) for partition, error in lost.values()}

    def _scan(self) -> LogDirectoryScan:
        """All log directories together, for a partition that is live in two of them is in neither's interest."""
        modified_ns = tuple(map(_modified_ns, self._log_dirs))
        seen, now_ms = self._scanned, self._clock.monotonic_ms()
        is_fresh = now_ms - self._scanned_at_ms < _RESCAN_AFTER_MS
        if seen is not None and seen.is_settled and seen.modified_ns == modified_ns and is_fresh:
            return seen.found
        self._scanned_at_ms = now_ms
        away = self._identify()
        scan = scan_log_directories([log_dir for log_dir in self._log_dirs if log_dir not in away])
        scan = replace(scan, failed={**away, **scan.failed})
        # A directory that could not be read, or whose topic id is not yet written, may be fine at the next look.
        is_settled = not scan.failed and all(map(self._is_settled, modified_ns))
        self._scanned = _Seen(modified_ns=modified_ns, is_settled=is_settled, found=scan)
        return scan

    def _identify(self) -> dict[Path, FloebergError]:
        """Read who each log directory belongs to; those that don't say, and why.

        A disk that is gone often leaves its mount point behind, an empty folder: without its ``meta.properties`` a log
        directory is away, and its partitions are not deleted.
        """
        failed: dict[Path, FloebergError] = {}
        for log_dir in self._log_dirs:
            try:
                self._identities[log_dir] = _read_identity(log_dir)
            except FloebergError as error:
                failed[log_dir] = error
        return failed

    def _list(self, directory: PartitionDirectory) -> _Listed:
        modified_ns = (_modified_ns(directory.path),)
        seen = self._segments.get(directory.path)
        if seen is not None and seen.is_settled and seen.modified_ns == modified_ns:
            return seen.found
        try:
            # In this order: segments that are listed later than an epoch was read are of that epoch, or a later one.
            epochs = LeaderEpochs.read(directory.path).entries
            segments = list_segments(directory.path)
        except FloebergError as error:
            raise error.located(directory.partition.topic, directory.partition.partition) from error
        is_settled = all(map(self._is_settled, modified_ns))
        listed = _Listed(leader_epoch=epochs[-1][0] if epochs else UNKNOWN_EPOCH, segments=segments)
        self._segments[directory.path] = _Seen(modified_ns=modified_ns, is_settled=is_settled, found=listed)
        return listed

    def _is_settled(self, modified_ns: int) -> bool:
        # Either way: where the clock has gone back, a folder's next change gets another time than the one it has.
        return abs(self._clock.now_ms() - modified_ns // 1_000_000) > _TRUSTED_AFTER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Identity:
    node_id: int
    cluster_id: str


def _read_identity(log_dir: Path) -> _Identity:
    """A broker writes ``meta.properties`` into each log directory (KIP-631); ``broker.id`` is the older name."""
    path = log_dir / "meta.properties"
    try:
        text = path.read_text()
    except OSError as error:
        raise Unavailable(
            f"a log directory has no readable meta.properties: {error.strerror}",
            file=str(path),
            next_step="check [broker] log_dirs: they are the broker's own log.dirs, as this machine sees them.",
        ) from error
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    properties = {name.strip(): value.strip() for name, value in pairs}
    node_id = properties.get("node.id", properties.get("broker.id", ""))
    if not node_id.isdecimal() or "cluster.id" not in properties:
        raise Invalid("meta.properties names no node.id or no cluster.id", file=str(path))
    return _Identity(node_id=int(node_id), cluster_id=properties["cluster.id"])


def _modified_ns(path: Path) -> int:
    """The folder's modification time, 0 where it can't be looked at: the look itself says what is wrong."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - a quarter of Path.stat's cost, hundreds of times a second
    except OSError:
        return 0
