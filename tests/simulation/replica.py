"""One node's copy of a partition, on disk as a broker keeps it: real segment files that the real daemon reads."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.kafka_log.log_directory import format_partition_metadata
from engine.kafka_log.segment import AbortedTransaction, format_transaction_index, segment_file_name
from engine.topic_partition import TopicIdPartition
from tests.simulation.batches import Batch, Kind


@dataclass(slots=True)
class LocalSegment:
    """``aborted``: entries of its transaction index, those of the abort markers in it."""

    base_offset: int
    batches: list[Batch] = field(default_factory=list)
    aborted: list[AbortedTransaction] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return sum(len(batch.encoded) for batch in self.batches)


class Replica:
    """Segments of a partition below one log directory. ``roll_bytes`` is this node's own: boundaries differ."""

    def __init__(
        self, log_dir: Path, who: TopicIdPartition, *, start: int, roll_bytes: int, now_ms: Callable[[], int]
    ) -> None:
        self.who = who
        self.directory = log_dir / f"{who.topic}-{who.partition}"
        self.segments: list[LocalSegment] = []
        self.is_removed = False
        self._roll_bytes = roll_bytes
        self._now_ms = now_ms
        self.directory.mkdir()
        (self.directory / "partition.metadata").write_text(format_partition_metadata(who.topic_id))
        self._touch(log_dir)
        self._open(start)

    @property
    def end(self) -> int:
        last = self.segments[-1]
        return last.batches[-1].end if last.batches else last.base_offset

    @property
    def local_start(self) -> int:
        return self.segments[0].base_offset

    @property
    def batches(self) -> list[Batch]:
        return [batch for segment in self.segments for batch in segment.batches]

    def closed(self) -> list[tuple[LocalSegment, int]]:
        """(segment, its end) of all but the active one."""
        return [(one, later.base_offset) for one, later in zip(self.segments, self.segments[1:], strict=False)]

    def append(self, batch: Batch, aborted: AbortedTransaction | None) -> None:
        """``aborted``: the transaction that ends with this batch, when it is an abort marker."""
        if self.segments[-1].batches and self.segments[-1].size_bytes + len(batch.encoded) > self._roll_bytes:
            self._open(batch.base_offset)
        segment = self.segments[-1]
        self._index(segment, batch)
        segment.batches.append(batch)
        with self._path(segment).open("ab") as file:
            file.write(batch.encoded)
        if batch.kind is Kind.ABORT and aborted is not None:
            segment.aborted.append(aborted)
            self._write_index(segment)

    def roll(self) -> bool:
        """Close the active segment, as its age would; nothing happens to an empty one."""
        if not self.segments[-1].batches:
            return False
        self._open(self.end)
        return True

    def truncate(self, offset: int) -> None:
        """Forget everything at and behind ``offset``, in place, as a follower does (LocalLog.truncateTo)."""
        while len(self.segments) > 1 and self.segments[-1].base_offset >= offset:
            self._remove(self.segments.pop())
        last = self.segments[-1]
        if last.base_offset > offset:
            self.restart(offset)
            return
        last.batches = [batch for batch in last.batches if batch.base_offset < offset]
        last.aborted = [entry for entry in last.aborted if entry.last_offset < offset]
        os.truncate(self._path(last), last.size_bytes)
        self._write_index(last)

    def restart(self, offset: int) -> None:
        """Begin anew with an empty log at ``offset`` (LocalLog.truncateFullyAndStartAt)."""
        for segment in self.segments:
            self._remove(segment)
        self.segments = []
        self._open(offset)

    def drop_oldest(self) -> LocalSegment:
        """What retention does: rename, then remove."""
        oldest = self.segments.pop(0)
        self._remove(oldest)
        return oldest

    def replace(self, old: Sequence[LocalSegment], new: LocalSegment) -> None:
        """What the cleaner does: one new file for several adjacent ones, under the first one's name."""
        at = self.segments.index(old[0])
        for segment in old:
            self._path(segment).rename(self._path(segment).with_suffix(".log.deleted"))
            self._path(segment).with_suffix(".txnindex").unlink(missing_ok=True)
        self.segments[at : at + len(old)] = [new]
        cleaned = self._path(new).with_suffix(".log.swap")
        cleaned.write_bytes(b"".join(batch.encoded for batch in new.batches))
        cleaned.rename(self._path(new))
        self._write_index(new)
        for segment in old:
            self._path(segment).with_suffix(".log.deleted").unlink()
        self._touch(self.directory)

    def remove(self) -> None:
        """The topic is deleted: the directory is renamed, then removed."""
        gone = self.directory.with_name(f"{self.directory.name}.0123456789abcdef0123456789abcdef-delete")
        self.directory.rename(gone)
        shutil.rmtree(gone)
        self.is_removed = True
        self._touch(self.directory.parent)

    def _open(self, base_offset: int) -> None:
        segment = LocalSegment(base_offset)
        self.segments.append(segment)
        self._path(segment).touch()
        self._touch(self._path(segment))
        self._touch(self.directory)

    def _remove(self, segment: LocalSegment) -> None:
        path = self._path(segment)
        path.rename(path.with_name(path.name + ".deleted")).unlink()
        path.with_suffix(".txnindex").unlink(missing_ok=True)
        path.with_suffix(".index").unlink(missing_ok=True)
        self._touch(self.directory)

    def _index(self, segment: LocalSegment, batch: Batch) -> None:
        """An entry for each batch but the first. What is truncated or cleaned keeps its entries, as after a crash."""
        if segment.batches:
            with self._path(segment).with_suffix(".index").open("ab") as file:
                file.write(struct.pack(">ii", batch.last_offset - segment.base_offset, segment.size_bytes))

    def _write_index(self, segment: LocalSegment) -> None:
        path = self._path(segment).with_suffix(".txnindex")
        if segment.aborted:
            path.write_bytes(format_transaction_index(segment.aborted))
            self._touch(self.directory)
        else:
            path.unlink(missing_ok=True)

    def _path(self, segment: LocalSegment) -> Path:
        return self.directory / segment_file_name(segment.base_offset)

    def _touch(self, path: Path) -> None:
        """The file system's time is that of the simulated machine."""
        now_ns = self._now_ms() * 1_000_000
        os.utime(path, ns=(now_ns, now_ns))
