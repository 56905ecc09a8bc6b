"""Hard links that keep ready segments readable until they are committed, whatever the broker's retention does.

A spool lies beside its log directory, never in it: a broker refuses to start when a log directory has a folder whose
name is no ``topic-partition`` (LogManager.loadLogs). Kafka deletes by renaming to ``*.deleted`` and unlinking; a link
to the same inode survives both. Layout, one folder a partition::

    <log dir>.floeberg-spool/<topic>/<partition>.<topic id>/<start>-<end>.log    the link, made last
                                                            <start>-<end>.json   what the link alone doesn't say

Everything here can be rebuilt while Kafka has the segments: a spool that is lost costs its safety margin, no record.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from engine.durable_file import TEMPORARY_SUFFIX, make_durable_folder, sync_folder, write_durably
from engine.errors import Corrupt, FloebergError, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.file_lock import FileLock, owner_of
from engine.kafka_log.log_directory import read_topic_id
from engine.kafka_log.segment import AbortedTransaction
from engine.offset_range import OffsetRange
from engine.topic_partition import TopicIdPartition

SPOOL_SUFFIX = ".floeberg-spool"
OWNERS_ONLY = 0o700
"""A spool's mode: its segments have the broker's, which counts on what its own log directory lets through."""

_log = structlog.get_logger(__name__)
_LINK_NAME = re.compile(r"(\d{20})-(\d{20})\.log")
_FOLDER_NAME = re.compile(r"(\d+)\.([A-Za-z0-9_-]{22})")

_OWNER_FILE = "owner"


def spool_root(log_dir: Path) -> Path:
    """Where the spool of a log directory lies."""
    return log_dir.with_name(log_dir.name + SPOOL_SUFFIX)


def spooled_ranges(log_dirs: Sequence[Path], topic_id: str) -> dict[int, list[OffsetRange]]:
    """What the spools of log directories hold of a topic, by partition; nothing is touched."""
    found: dict[int, list[OffsetRange]] = {}
    for log_dir in log_dirs:
        for path in spool_root(log_dir).glob(f"*/*.{topic_id}/*.log"):
            folder, name = _FOLDER_NAME.fullmatch(path.parent.name), _LINK_NAME.fullmatch(path.name)
            if folder is not None and name is not None:
                offsets = OffsetRange(start=int(name[1]), end=int(name[2]))
                found.setdefault(int(folder[1]), []).append(offsets)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledSegment:
    """One link, with all that tiering it needs: it was stable when it was linked and stays so.

    ``leader_epoch`` is the epoch this broker led in when it linked; ``aborted`` the aborted transactions of ``range``.
    """

    partition: TopicIdPartition
    range: OffsetRange
    path: Path
    size_bytes: int
    leader_epoch: int
    aborted: tuple[AbortedTransaction, ...]


class Spool:
    """The spools of all log directories. What it holds is kept in memory, read from the disk once."""

    def __init__(self, log_dirs: Sequence[Path]) -> None:
        self._roots = {log_dir: spool_root(log_dir) for log_dir in log_dirs}
        self._held: dict[TopicIdPartition, dict[OffsetRange, SpooledSegment]] = {}

    def read(self, *, is_shared: bool = False) -> tuple[FloebergError, ...]:
        """Adopt what an earlier process left, and remove its half-made pieces. What can't be read is returned.

        ``is_shared``: another process works here by mistake. What looks half-made may be what it is just making.
        """
        problems: list[FloebergError] = []
        self._held = {}
        for root in self._roots.values():
            try:
                for found in _read_root(root, is_shared=is_shared):
                    if isinstance(found, FloebergError):
                        problems.append(found)
                    else:
                        self._held.setdefault(found.partition, {})[found.range] = found
            except OSError as error:
                problems.append(_unavailable("a spool can't be read", root, error))
        return tuple(problems)

    def held(self, partition: TopicIdPartition) -> tuple[SpooledSegment, ...]:
        """A partition's links, rising."""
        links = self._held.get(partition, {})
        return tuple(links[key] for key in sorted(links))

    def partitions(self) -> frozenset[TopicIdPartition]:
        """The partitions that have links."""
        return frozenset(partition for partition, links in self._held.items() if links)

    @property
    def size_bytes(self) -> int:
        """Bytes of all linked segments; Kafka may still have its own names for them."""
        return sum(spooled.size_bytes for links in self._held.values() for spooled in links.values())

    def link(
        self,
        source: Path,
        *,
        log_dir: Path,
        partition: TopicIdPartition,
        segment_range: OffsetRange,
        leader_epoch: int,
        aborted: tuple[AbortedTransaction, ...],
    ) -> SpooledSegment | None:
        """Hold ``source``, in place of what was held of its range; None, and nothing changes, when Kafka has deleted it
        meanwhile, or made another topic of the same name.

        Raises Unavailable with the next step when links can't be made (another file system, a full or read-only one).
        """
        folder = self._roots[log_dir] / partition.topic / f"{partition.partition}.{partition.topic_id}"
        stem = f"{segment_range.start:020d}-{segment_range.end:020d}"
        path = folder / f"{stem}.log"
        try:
            make_durable_folder(self._roots[log_dir], mode=OWNERS_ONLY)
            make_durable_folder(folder)
            temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
            temporary.unlink(missing_ok=True)
            os.link(source, temporary)
            if not is_of_topic(source, partition.topic_id):
                temporary.unlink()
                return None
            # Only now: an earlier link stays, and with its own facts, where there is none to take its place.
            _write_facts(folder / f"{stem}.json", leader_epoch, aborted)
            reach(FaultPoint.SPOOL_FACTS_WRITTEN)
            if path.exists():
                # A link of an earlier attempt may be of a file that compaction has replaced since.
                path.unlink()
                reach(FaultPoint.SPOOL_STALE_LINK_REMOVED)
            temporary.rename(path)
            reach(FaultPoint.SPOOL_LINK_MADE)
            sync_folder(folder)
            size_bytes = path.stat().st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unavailable("a segment can't be held in the spool", path, error) from error
        spooled = SpooledSegment(
            partition=partition,
            range=segment_range,
            path=path,
            size_bytes=size_bytes,
            leader_epoch=leader_epoch,
            aborted=aborted,
        )
        self._held.setdefault(partition, {})[segment_range] = spooled
        return spooled

    def unlink(self, links: Iterable[SpooledSegment]) -> None:
        """Let go of committed segments. A link that is gone already is no error; others are left for the next time."""
        for spooled in links:
            try:
                # The link first: facts without a link are what ``read`` removes, a link without facts is not usable.
                spooled.path.unlink(missing_ok=True)
                reach(FaultPoint.SPOOL_LINK_REMOVED)
                spooled.path.with_suffix(".json").unlink(missing_ok=True)
                reach(FaultPoint.SPOOL_FACTS_REMOVED)
            except OSError as error:
                _log.warning("spool_unlink_failed", file=str(spooled.path), error=str(error))
                continue
            self._held.get(spooled.partition, {}).pop(spooled.range, None)


def is_of_topic(segment: Path, topic_id: str) -> bool:
    """Whether a segment's path still leads into the directory of this incarnation of its topic.

    Asked after opening or linking it: a topic's id never comes back, so what was opened before is of this one, too.
    """
    try:
        return read_topic_id(segment.parent) == topic_id
    except FloebergError:
        return False


def _write_facts(path: Path, leader_epoch: int, aborted: tuple[AbortedTransaction, ...]) -> None:
    facts = {
        "leader_epoch": leader_epoch,
        "aborted": [
            [entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset] for entry in aborted
        ],
    }
    write_durably(path, json.dumps(facts).encode(), synced=FaultPoint.SPOOL_FACTS_HALF_WRITTEN)


def _read_root(root: Path, *, is_shared: bool) -> Iterator[SpooledSegment | FloebergError]:
    if not root.is_dir():
        return
    for folder in sorted(root.glob("*/*")):
        name = _FOLDER_NAME.fullmatch(folder.name)
        if name is None:
            continue
        partition = TopicIdPartition(topic=folder.parent.name, topic_id=name[2], partition=int(name[1]))
        names = sorted(path.name for path in folder.iterdir())
        whole = {stem for stem in _stems(names, ".log") if f"{stem}.json" in names}
        for path in map(folder.joinpath, names):
            # A crash leaves facts without a link or half-written facts; a link without facts was never adopted.
            if not is_shared and (path.name.split(".")[0] not in whole or path.suffix == TEMPORARY_SUFFIX):
                path.unlink(missing_ok=True)
        for stem in sorted(whole):
            # Another process may let go of a link at any time.
            with contextlib.suppress(FileNotFoundError):
                yield _read_link(folder / f"{stem}.log", partition)


def _stems(names: Iterable[str], suffix: str) -> set[str]:
    return {name.removesuffix(suffix) for name in names if _LINK_NAME.fullmatch(name)}


def _read_link(path: Path, partition: TopicIdPartition) -> SpooledSegment | FloebergError:
    match = _LINK_NAME.fullmatch(path.name)
    assert match is not None, "only names that match are read"
    facts_path = path.with_suffix(".json")
    try:
        facts = json.loads(facts_path.read_text())
        aborted = tuple(
            AbortedTransaction(producer_id=producer, first_offset=first, last_offset=last, last_stable_offset=stable)
            for producer, first, last, stable in facts["aborted"]
        )
        leader_epoch = int(facts["leader_epoch"])
    except (ValueError, KeyError, TypeError):
        return Corrupt(
            "what the spool says of a segment is not readable; the segment is not used",
            topic=partition.topic,
            partition=partition.partition,
            file=str(facts_path),
            next_step="remove the file and its .log once the table covers their offsets.",
        )
    return SpooledSegment(
        partition=partition,
        range=OffsetRange(start=int(match[1]), end=int(match[2])),
        path=path,
        size_bytes=path.stat().st_size,
        leader_epoch=leader_epoch,
        aborted=aborted,
    )


def _unavailable(problem: str, path: Path, error: OSError) -> Unavailable:
    step = "see that the daemon's user may write beside the log directory."
    if error.errno == errno.EXDEV:
        step = (
            "hard links need the spool on the log directory's own file system: make the log directory a folder "
            "of its mount, not the mount itself; until then Kafka's retention alone keeps untiered segments."
        )
    return Unavailable(f"{problem}: {error.strerror}", file=str(path), next_step=step)


class LogDirClaims:
    """Notice a second daemon on the same log directories: a mistake that costs double work, and no record.

    One lock a log directory, in its spool's folder, for as long as the object lives. It is advisory, for what two
    daemons do at once the ledger decides, and the process's, not the object's; where the folder can't be made, or files
    not be locked, there is none.
    """

    def __init__(self, log_dirs: Sequence[Path]) -> None:
        self._paths = [spool_root(log_dir) / _OWNER_FILE for log_dir in log_dirs]
        self._held: dict[Path, FileLock] = {}

    def rivals(self) -> Iterator[Unavailable]:
        """Claim what is not claimed; a problem for each directory that another process has claimed."""
        for path in self._paths:
            if path not in self._held:
                with contextlib.suppress(OSError):
                    path.parent.mkdir(OWNERS_ONLY, parents=True, exist_ok=True)
                    lock = FileLock(path, is_process_wide=True)
                    if lock.take(sign=True):
                        self._held[path] = lock
                    else:
                        lock.release()
                        yield _rival(path)


def _rival(path: Path) -> Unavailable:
    return Unavailable(
        f"another Floeberg tiers the same log directory (process {owner_of(path) or 'unknown'})",
        file=str(path),
        next_step="end one of the two: no record is stored twice, but every segment is rewritten twice",
    )
