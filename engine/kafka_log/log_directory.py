"""Log directories: which partitions a broker keeps in them, and in which state.

A partition's directory is ``<topic>-<partition>``; three suffixes mark another state, each after a dot and a unique
id: ``<topic>-<partition>.<id>-future`` (a replica being moved to another log directory), ``-stray`` (a replica the
cluster no longer knows), ``-delete`` (waiting to be removed). Under ``-stray`` and ``-delete`` a long topic name is
cut so that the whole fits 255 characters. In it, ``partition.metadata`` has the topic id (KIP-516). Source: Kafka's
``LocalLog.parseTopicPartitionName``, ``LogManager`` and ``PartitionMetadataFile``.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from engine.errors import Corrupt, FloebergError, Invalid, Unavailable
from engine.topic_partition import TopicIdPartition

EPOCHS_FILE: Final = "leader-epoch-checkpoint"
_EPOCHS_VERSION: Final = "0"

# Kafka's topic names: letters, digits, dot, underscore, hyphen; 249 characters at most.
_NAME: Final = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})"
    r"(?:\.(?P<unique_id>[^\s.-]+)-(?P<suffix>future|stray|delete))?",
    re.ASCII,
)
# Directories the broker makes among its partitions: remote indexes, and the controller's metadata log.
_CACHE_DIRECTORY: Final = "remote-log-index-cache"
_METADATA_TOPIC: Final = "__cluster_metadata"
_MAX_PARTITION: Final = 2**31 - 1

METADATA_FILE: Final = "partition.metadata"
_METADATA_TEXT: Final = re.compile(
    r"version:\s+(?P<version>\d+)\r?\ntopic_id:\s+(?P<topic_id>[A-Za-z0-9_-]{22})\s*", re.ASCII
)
_METADATA_VERSION: Final = "0"
# Kafka's own stand-in for "no id", which it refuses in this file too.
_ZERO_ID: Final = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderEpochs:
    """``leader-epoch-checkpoint``: which leader epoch wrote which offsets of a partition (KIP-101).

    ``entries``: (epoch, start offset), both strictly rising; an epoch lasts to the next one's start. Kafka's checkpoint
    files are text: a version, a count of entries, then one entry a line (``CheckpointFile``).
    """

    entries: tuple[tuple[int, int], ...]

    @classmethod
    def read(cls, directory: Path) -> LeaderEpochs:
        """The file in a partition's directory; empty when there is none yet. Errors: Unavailable, Corrupt."""
        path = directory / EPOCHS_FILE
        try:
            return cls.from_text(path.read_text(encoding="utf-8"), file=str(path))
        except FileNotFoundError:
            return cls(entries=())
        except OSError as error:
            raise Unavailable(f"A checkpoint file can't be read: {error.strerror}", file=str(path)) from error
        except UnicodeDecodeError as error:
            raise _corrupt("is not text", str(path)) from error

    @classmethod
    def from_text(cls, text: str, *, file: str) -> LeaderEpochs:
        """A text without version or without count has no entries, as Kafka reads it (it creates the file empty).

        Errors: Corrupt, naming ``file``, when the text is not what Kafka writes.
        """
        if len(text.splitlines()) < 2:
            return cls(entries=())
        version, count, *lines = text.splitlines()
        if version.strip() != _EPOCHS_VERSION:
            raise _corrupt(f"has version {version!r}, not {_EPOCHS_VERSION}", file)
        if count.strip() != str(len(lines)):
            raise _corrupt(f"says it has {count!r} entries and has {len(lines)}", file)
        entries = tuple(_entry(line, file) for line in lines)
        for before, after in itertools.pairwise(entries):
            if not (before[0] < after[0] and before[1] < after[1]):
                raise _corrupt("has leader epochs that do not rise with their offsets", file)
        return cls(entries=entries)


def _entry(line: str, file: str) -> tuple[int, int]:
    try:
        epoch, start = (int(part) for part in line.split())
    except ValueError as error:
        raise _corrupt(f"has the line {line!r} where an epoch and an offset must be", file) from error
    if not (-(2**31) <= epoch < 2**31 and -(2**63) <= start < 2**63):
        raise _corrupt(f"has numbers too large for Kafka: {line!r}", file)
    return epoch, start


def _corrupt(what: str, file: str) -> Corrupt:
    step = "the broker rewrites it within a minute; if it stays, look at the broker's own log"
    return Corrupt(f"A checkpoint file {what}", file=file, next_step=step)


class DirectoryState(Enum):
    """What the broker does with a partition's directory; the value is the name's suffix."""

    LIVE = ""
    FUTURE = "future"
    STRAY = "stray"
    DELETED = "delete"


_MAY_LACK_METADATA: Final = (DirectoryState.STRAY, DirectoryState.DELETED)
"""A directory that is being deleted loses its files one by one. A broker killed right after it made a directory calls
it stray when it comes back, and keeps it for ever: it writes ``partition.metadata`` a moment after the directory and
before the first record (``LogManager.isStrayKraftReplica``), so there is nothing in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryName:
    """What a directory's name says. ``topic`` may be cut short under STRAY and DELETED."""

    topic: str
    partition: int
    state: DirectoryState


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDirectory:
    """A partition in one log directory. Only one directory of a partition is LIVE."""

    partition: TopicIdPartition
    path: Path
    state: DirectoryState


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectoryScan:
    """What was found, sorted by path, and what could not be understood; a problem hides nothing else.

    ``failed``: by the path of a log directory or of a partition's, why nothing of it was found.
    """

    partitions: tuple[PartitionDirectory, ...]
    failed: Mapping[Path, FloebergError]

    @property
    def problems(self) -> tuple[FloebergError, ...]:
        """Each once, though a problem may concern two directories."""
        return tuple(dict.fromkeys(self.failed.values()))

    @property
    def live(self) -> tuple[PartitionDirectory, ...]:
        """The partitions that the broker serves from here."""
        return tuple(found for found in self.partitions if found.state is DirectoryState.LIVE)


def parse_directory_name(name: str) -> DirectoryName | None:
    """What ``name`` says of a partition, or None when it is no name that Kafka gives."""
    found = _NAME.fullmatch(name)
    if found is None or int(found["partition"]) > _MAX_PARTITION:
        return None
    state = DirectoryState(found["suffix"] or "")
    return DirectoryName(topic=found["topic"], partition=int(found["partition"]), state=state)


def scan_log_directories(log_dirs: Sequence[Path]) -> LogDirectoryScan:
    """Find the partitions in all of a broker's log directories (``log.dirs``).

    A log directory that can't be listed, a directory that is no partition's, and a partition without a readable
    ``partition.metadata`` are problems in the result; the others are found all the same. What vanishes while the scan
    runs is left out. The same partition LIVE in two log directories is a problem, and neither is in the result.
    """
    partitions: list[PartitionDirectory] = []
    failed: dict[Path, FloebergError] = {}
    for log_dir in log_dirs:
        try:
            paths = sorted(path for path in log_dir.iterdir() if path.is_dir())
        except OSError as error:
            problem = f"A log directory can't be listed: {error.strerror}"
            step = "check that the path is the broker's log.dirs, its disk is mounted and this user may read it"
            failed[log_dir] = Unavailable(problem, file=str(log_dir), next_step=step)
            continue
        for path in paths:
            try:
                partitions.extend(_partitions_at(path))
            except FloebergError as problem_here:
                failed[path] = problem_here
    twice = _live_twice(partitions)
    kept: list[PartitionDirectory] = []
    for found in sorted(partitions, key=lambda found: found.path):
        if found.state is DirectoryState.LIVE and _name(found) in twice:
            failed[found.path] = twice[_name(found)]
        else:
            kept.append(found)
    return LogDirectoryScan(partitions=tuple(kept), failed=failed)


def _partitions_at(path: Path) -> Iterator[PartitionDirectory]:
    if path.name == _CACHE_DIRECTORY:
        return
    name = parse_directory_name(path.name)
    if name is None:
        problem = "A directory among the partitions is not named as Kafka names one"
        raise Invalid(problem, file=str(path), next_step="move it away; the broker does not start beside it")
    if name.topic == _METADATA_TOPIC:
        return
    try:
        topic_id = read_topic_id(path)
    except FloebergError as error:
        if isinstance(error, Unavailable) and (name.state in _MAY_LACK_METADATA or not path.exists()):
            return
        raise error.located(name.topic, name.partition) from error
    partition = TopicIdPartition(topic=name.topic, topic_id=topic_id, partition=name.partition)
    yield PartitionDirectory(partition=partition, path=path, state=name.state)


def _name(found: PartitionDirectory) -> tuple[str, int]:
    return found.partition.topic, found.partition.partition


def _live_twice(partitions: Sequence[PartitionDirectory]) -> dict[tuple[str, int], FloebergError]:
    seen: dict[tuple[str, int], PartitionDirectory] = {}
    twice: dict[tuple[str, int], FloebergError] = {}
    for found in partitions:
        if found.state is not DirectoryState.LIVE:
            continue
        first = seen.setdefault(_name(found), found)
        if first is not found:
            twice[_name(found)] = Invalid(
                f"A partition is in two log directories, {first.path.parent} too",
                topic=found.partition.topic,
                partition=found.partition.partition,
                file=str(found.path),
                next_step="keep the one the broker serves, or name each log directory once in the settings",
            )
    return twice


def read_topic_id(directory: Path) -> str:
    """The topic id of the partition in ``directory``: 22 characters of URL-safe base64.

    Errors: Unavailable when the file is not there (the broker writes it a moment after the directory) or can't be
    read; Corrupt when it does not say what Kafka writes.
    """
    path = directory / METADATA_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise Unavailable("A partition's directory has no partition.metadata yet", file=str(path)) from error
    except OSError as error:
        problem = f"A partition's partition.metadata can't be read: {error.strerror}"
        raise Unavailable(problem, file=str(path)) from error
    except UnicodeDecodeError as error:
        raise _damaged_metadata(path) from error
    found = _METADATA_TEXT.fullmatch(text)
    if found is None or found["version"] != _METADATA_VERSION:
        raise _damaged_metadata(path)
    topic_id = found["topic_id"]
    if base64.urlsafe_b64decode(topic_id + "==") == _ZERO_ID:
        raise _damaged_metadata(path)
    return topic_id


def format_partition_metadata(topic_id: str) -> str:
    """The text of the file, as Kafka writes it; the inverse of ``read_topic_id``."""
    return f"version: {_METADATA_VERSION}\ntopic_id: {topic_id}"


def _damaged_metadata(path: Path) -> Corrupt:
    return Corrupt(
        f"A partition's partition.metadata does not name a topic id in version {_METADATA_VERSION}",
        file=str(path),
        next_step="compare it with the same file of another partition of the topic",
    )
