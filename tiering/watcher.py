"""Sees what is in the log directories, and looks again only where something changed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.clock import Clock
from engine.errors import FloebergError, Invalid, Unavailable
from engine.kafka_log.log_directory import (
    METADATA_FILE,
    LeaderEpochs,
    LogDirectoryScan,
    PartitionDirectory,
    parse_directory_name,
    read_topic_id,
    scan_log_directories,
)
from engine.kafka_log.segment import list_segments
from engine.records.records import UNKNOWN_EPOCH
from engine.topic_partition import TopicIdPartition
from tiering.observation import PartitionLog

# A folder's mtime moves in steps of the kernel's clock tick: a change right after our look may leave it as it was.
_TRUSTED_AFTER_MS = 100

_IDENTITY_FILE = "meta.properties"

_RESCAN_AFTER_MS = 300_000
"""How long topic ids and ``meta.properties`` are taken for what they were: writing over them moves no folder's time."""

CREATED_WITHIN_MS = 10_000
"""A broker writes ``partition.metadata`` a moment after it made a partition's directory; what lacks it for longer is no
topic that is just being created."""

_UNREADABLE = 0
"""The modification time of a folder that can't be looked at: the listing says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogObservation:
    """``logs``: the live directories; ``node_ids``, ``cluster_ids`` as ``meta.properties`` have them.

    ``failures``: partitions that were here and whose directory, or whole log directory, can't be read now. ``changed``:
    the partitions of which ``logs`` says something else than the last time, those included that came or went.
    ``grown``: those that were known and whose directory or active segment has changed, with the time (monotonic) of the
    last look that did not see it.
    """

    logs: Mapping[TopicIdPartition, PartitionLog]
    failures: Mapping[TopicIdPartition, FloebergError]
    changed: frozenset[TopicIdPartition]
    grown: Mapping[TopicIdPartition, int]
    node_ids: frozenset[int]
    cluster_ids: frozenset[str]
    problems: tuple[FloebergError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scanned:
    """The log directories' modification times and what they held (``_folders``), before they were scanned.

    ``is_trusted``: the next change will show in the times.
    """

    modified_ns: tuple[int, ...]
    is_trusted: bool
    folders: tuple[frozenset[tuple[str, int]], ...]
    found: LogDirectoryScan


@dataclass(slots=True, kw_only=True)
class _Watched:
    """A partition's directory: what its time was before it was listed, and what was found.

    ``is_another``: it is no longer this incarnation's of the topic. ``active``: the active segment's file, its size and
    its time when it was last looked at.
    """

    directory: PartitionDirectory
    path: str
    modified_ns: int = -1
    is_settled: bool = False
    is_another: bool = False
    log: PartitionLog | None = None
    failure: FloebergError | None = None
    active: tuple[str, int, int] | None = None
    looked_at_ms: int = 0
    look_every_ms: int | None = None


class LogWatcher:
    """Watches all log directories of one broker.

    Creating, renaming and deleting a segment changes its directory's modification time, and so does a partition in its
    log directory; appending changes neither. One ``stat`` a directory is what a quiet partition costs, and one more of
    its active segment now and then (``look_every``).
    """

    def __init__(self, log_dirs: Sequence[Path], clock: Clock) -> None:
        self._log_dirs = tuple(log_dirs)
        self._clock = clock
        self._scanned: _Scanned | None = None
        self._scanned_at_ms = 0
        self._identities: dict[Path, _Identity] = {}
        self._live: dict[Path, TopicIdPartition] = {}
        self._lost: dict[TopicIdPartition, FloebergError] = {}
        self._watched: list[_Watched] = []
        self._by_partition: dict[TopicIdPartition, _Watched] = {}
        self._logs: dict[TopicIdPartition, PartitionLog] = {}
        self._grown: dict[TopicIdPartition, int] = {}
        self._nameless_since_ms: dict[Path, int] = {}

    def look_every(self, partition: TopicIdPartition, interval_ms: int | None) -> None:
        """How often a partition's active segment is looked at; not at all for None, as at first."""
        watched = self._by_partition.get(partition)
        if watched is not None:
            watched.look_every_ms = interval_ms

    def looked_at_ms(self, partition: TopicIdPartition) -> int:
        """When (monotonic) a partition's active segment was last looked at; 0 where it has none here."""
        watched = self._by_partition.get(partition)
        return 0 if watched is None else watched.looked_at_ms

    def observe(self) -> LogObservation:
        """Never raises for one bad directory: the others go on, the bad one is among the problems and failures."""
        scan = self._scan()
        self._grown = {}
        listed = self._look_around()
        if any(watched.is_another for watched in listed):
            self._scanned = None
            scan = self._scan()
            listed = [
                *(one for one in listed if self._by_partition.get(one.directory.partition) is one),
                *self._look_around(),
            ]
        changed = self._take_changes(listed)
        failures = dict(self._lost)
        for watched in listed:
            # Deleted or moved since the scan, unless it is still there.
            if watched.failure is not None and _is_there(watched.directory.path):
                failures[watched.directory.partition] = watched.failure
        return LogObservation(
            logs=self._logs,
            failures=failures,
            changed=changed,
            grown=self._grown,
            node_ids=frozenset(identity.node_id for identity in self._identities.values()),
            cluster_ids=frozenset(identity.cluster_id for identity in self._identities.values()),
            problems=self._problems(scan),
        )

    def _scan(self) -> LogDirectoryScan:
        """All log directories together, for a partition that is live in two of them is in neither's interest."""
        modified_ns = tuple(map(_modified_ns, self._log_dirs))
        is_trusted = all(map(self._is_settled, modified_ns))
        seen, now_ms = self._scanned, self._clock.monotonic_ms()
        # A directory that could not be read, or whose topic id is not yet written, may be fine at the next look.
        is_fresh = seen is not None and not seen.found.failed and now_ms - self._scanned_at_ms < _RESCAN_AFTER_MS
        if seen is not None and is_fresh and seen.is_trusted and seen.modified_ns == modified_ns:
            return seen.found
        # The broker replaces checkpoints of its own among the partitions every few seconds.
        folders = tuple(map(_folders, self._log_dirs))
        if seen is not None and is_fresh and seen.folders == folders:
            self._scanned = replace(seen, modified_ns=modified_ns, is_trusted=is_trusted)
            return seen.found
        self._scanned_at_ms = now_ms
        away = self._identify()
        scan = scan_log_directories([log_dir for log_dir in self._log_dirs if log_dir not in away])
        scan = replace(scan, failed={**away, **scan.failed})
        self._scanned = _Scanned(modified_ns=modified_ns, is_trusted=is_trusted, folders=folders, found=scan)
        self._note_scan(scan)
        return scan

    def _problems(self, scan: LogDirectoryScan) -> tuple[FloebergError, ...]:
        """Those of the scan, each once; a topic that is just being created is none."""
        now_ms = self._clock.monotonic_ms()
        nameless = [
            path for path in scan.failed if parse_directory_name(path.name) and not _is_there(path / METADATA_FILE)
        ]
        self._nameless_since_ms = {path: self._nameless_since_ms.get(path, now_ms) for path in nameless}
        return tuple(
            dict.fromkeys(
                error
                for path, error in scan.failed.items()
                if path not in nameless or now_ms - self._nameless_since_ms[path] >= CREATED_WITHIN_MS
            )
        )

    def _note_scan(self, scan: LogDirectoryScan) -> None:
        found = {directory.path: directory for directory in scan.live}
        # Partitions that an earlier scan found where this one can't must not vanish from what is shown.
        there = {directory.partition for directory in found.values()}
        lost = {
            path: (partition, scan.failed.get(path) or scan.failed[path.parent])
            for path, partition in self._live.items()
            if path not in found and partition not in there and (path in scan.failed or path.parent in scan.failed)
        }
        self._live = {
            **{path: directory.partition for path, directory in found.items()},
            **{path: partition for path, (partition, _) in lost.items()},
        }
        self._lost = {who: error.located(who.topic, who.partition) for who, error in lost.values()}
        before = {watched.directory: watched for watched in self._watched}
        self._watched = [before.get(one) or _Watched(directory=one, path=str(one.path)) for one in scan.live]
        self._by_partition = {watched.directory.partition: watched for watched in self._watched}

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

    def _look_around(self) -> list[_Watched]:
        """Look at each directory, and list those that changed; these."""
        listed = []
        stat, now_ms = os.stat, self._clock.monotonic_ms()
        for watched in self._watched:
            try:
                modified_ns = stat(watched.path).st_mtime_ns
            except OSError:
                modified_ns = _UNREADABLE
            if modified_ns != watched.modified_ns or not watched.is_settled:
                self._list(watched, modified_ns, now_ms)
                listed.append(watched)
            elif watched.look_every_ms is not None and now_ms - watched.looked_at_ms >= watched.look_every_ms:
                self._look_at_active(watched, now_ms)
        return listed

    def _list(self, watched: _Watched, modified_ns: int, now_ms: int) -> None:
        directory = watched.directory
        watched.modified_ns, watched.is_another = modified_ns, not _is_of(directory)
        try:
            # In this order: segments that are listed later than an epoch was read are of that epoch, or a later one.
            epochs = LeaderEpochs.read(directory.path).entries
            segments = list_segments(directory.path)
        except FloebergError as error:
            watched.is_settled, watched.log, watched.active = False, None, None
            watched.failure = error.located(directory.partition.topic, directory.partition.partition)
            return
        watched.is_settled, watched.failure = self._is_settled(modified_ns), None
        before = watched.log
        watched.log = PartitionLog(
            partition=directory.partition,
            log_dir=directory.path.parent,
            segments=segments,
            leader_epoch=epochs[-1][0] if epochs else UNKNOWN_EPOCH,
        )
        if before is not None and watched.log != before:
            self._grown[directory.partition] = watched.looked_at_ms
        # As it is before its offsets are asked for: what comes later is growth.
        watched.active = _active(str(segments[-1].log_path)) if segments else None
        watched.looked_at_ms = now_ms

    def _look_at_active(self, watched: _Watched, now_ms: int) -> None:
        before_ms, watched.looked_at_ms = watched.looked_at_ms, now_ms
        if watched.active is None:
            return
        active = _active(watched.active[0])
        if active != watched.active:
            watched.active = active or watched.active
            self._grown[watched.directory.partition] = before_ms

    def _take_changes(self, listed: Sequence[_Watched]) -> frozenset[TopicIdPartition]:
        """Bring ``_logs`` up to what was listed, as a new mapping: the old one was given away."""
        now = {watched.directory.partition: watched.log for watched in listed}
        gone = self._logs.keys() - self._by_partition.keys() if len(self._logs) != len(self._by_partition) else set()
        changed = frozenset(who for who, log in now.items() if log != self._logs.get(who)).union(gone)
        if changed:
            logs = {who: now.get(who, log) for who, log in self._logs.items() if who not in gone} | now
            self._logs = {who: log for who, log in logs.items() if log is not None}
        return changed

    def _is_settled(self, modified_ns: int) -> bool:
        # Either way: where the clock has gone back, a folder's next change gets another time than the one it has.
        return abs(self._clock.now_ms() - modified_ns // 1_000_000) > _TRUSTED_AFTER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Identity:
    node_id: int
    cluster_id: str


def _read_identity(log_dir: Path) -> _Identity:
    """A broker writes ``meta.properties`` into each log directory (KIP-631); ``broker.id`` is the older name."""
    path = log_dir / _IDENTITY_FILE
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
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - a quarter of Path.stat's cost
    except OSError:
        return _UNREADABLE


def _is_there(path: Path) -> bool:
    """Also where nobody may look: what can't be read is not gone."""
    try:
        return path.exists()
    except OSError:
        return True


def _folders(log_dir: Path) -> frozenset[tuple[str, int]]:
    """Names and inodes of the folders in a log directory, and of its ``meta.properties``: a partition that was made
    again under its name is another folder. Nothing where it can't be read: the scan says what is wrong."""
    try:
        with os.scandir(log_dir) as entries:
            return frozenset(
                (entry.name, entry.inode()) for entry in entries if entry.name == _IDENTITY_FILE or entry.is_dir()
            )
    except OSError:
        return frozenset()


def _is_of(directory: PartitionDirectory) -> bool:
    """Whether it is still there and this incarnation's of the topic."""
    try:
        return read_topic_id(directory.path) == directory.partition.topic_id
    except FloebergError:
        return False


def _active(path: str) -> tuple[str, int, int] | None:
    """A segment's path, size and time: where Kafka allocates segments beforehand, only the time changes."""
    try:
        status = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return None
    return path, status.st_size, status.st_mtime_ns
