"""What is known of a partition at one moment: plain values, from the log directories, the broker and the ledger."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from engine.broker import PartitionView
from engine.errors import FloebergError
from engine.kafka_log.segment import Segment
from engine.offset_range import OffsetRange
from engine.records.records import UNKNOWN_EPOCH
from engine.topic_partition import TopicIdPartition
from tiering.spool import SpooledSegment

_WORK_MS_PER_MIB = 40
"""What a MiB of a segment takes until it is committed, on a machine that has other things to do, too."""
_LATE_MS = 2_500
"""How much later than ``freshness_ms`` records may be visible before slices are begun earlier for the work that other
partitions make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLog:
    """One partition's live directory: its segments rising by base offset; the last one is active.

    ``leader_epoch``: the newest one in the directory's own checkpoint, as it was before the segments were listed; -1
    where the directory has none.
    """

    partition: TopicIdPartition
    log_dir: Path
    segments: tuple[Segment, ...]
    leader_epoch: int = UNKNOWN_EPOCH

    @property
    def closed_end(self) -> int | None:
        """The end of the last closed segment, which is the base offset of the active one; None when none is closed."""
        return self.segments[-1].base_offset if len(self.segments) > 1 else None

    def segment_with(self, offset: int) -> Segment | None:
        """The one that holds ``offset``, or would; None below all of them."""
        index = bisect.bisect_right(self.segments, offset, key=lambda segment: segment.base_offset) - 1
        return self.segments[index] if index >= 0 else None

    def closed(self) -> tuple[ClosedSegment, ...]:
        """Every segment that a later one follows, which is what gives it an end."""
        pairs = zip(self.segments, self.segments[1:], strict=False)
        return tuple(
            ClosedSegment(
                range=OffsetRange(start=segment.base_offset, end=later.base_offset),
                path=segment.log_path,
                size_bytes=segment.size_bytes,
                modified_ms=segment.modified_ms,
            )
            for segment, later in pairs
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedSegment:
    """A segment that gets no more records: it covers ``range`` whole, however few records it holds."""

    range: OffsetRange
    path: Path
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """All that the planner looks at for one partition.

    ``log`` None: no live directory (deleted topic, moved replica; spooled segments may remain). ``view`` None: the
    broker doesn't know this topic id. ``tiered_end`` and ``tiered_epoch`` are the ledger's, None and -1 before the
    first commit; ``tiered_position`` is a byte of the segment with ``tiered_end`` at which a batch begins that ends
    before it, 0 for the segment's start. ``active_bytes``: of the active segment now, while its records wait; what the
    listing says of it is older. ``native``: the broker keeps its segments until it is told they are tiered, so
    nothing is spooled.
    ``untiered_since_ms`` (monotonic): since when stable records have waited beyond the ledger's end, None while there
    are none. ``stopped``: why an operator must look before this partition goes on. ``failing``: why it failed the last
    times, while it is not yet time to try again. ``failure``: why its log or its table can't be had now.
    ``has_table``: its table was seen to in this cycle; False where that failed, or others came first. ``undecided``:
    why there can be none yet, for the format of its values is still to be found. ``under_way``: ranges of an earlier
    cycle's plan are being worked on. ``seen_ms_per_mib``: what a MiB of its last large ranges took from plan to commit,
    the wait for other partitions' included; 0 before the first.
    """

    partition: TopicIdPartition
    log: PartitionLog | None
    spooled: tuple[SpooledSegment, ...] = ()
    view: PartitionView | None
    is_leader: bool
    tiered_end: int | None = None
    tiered_epoch: int = -1
    tiered_position: int = 0
    active_bytes: int = 0
    native: bool = False
    freshness_ms: int | None = None
    untiered_since_ms: int | None = None
    stopped: str | None = None
    failing: str | None = None
    failure: FloebergError | None = None
    has_table: bool = True
    undecided: str | None = None
    under_way: bool = False
    seen_ms_per_mib: float = 0.0

    @property
    def is_of_answered_epoch(self) -> bool:
        """The broker's offsets are about the log that lies here.

        A broker that was replaced and has not noticed may still be named as leader by metadata, while the offsets come
        from its successor: below them, its own log may hold records that were never committed, and that it will drop.
        Its checkpoint gets the successor's epoch only when the two logs agree (KIP-101), and a new leader's gets its
        own before it answers.
        """
        if self.log is None or self.view is None or self.log.leader_epoch == UNKNOWN_EPOCH:
            return True
        return self.log.leader_epoch == self.view.leader_epoch

    @property
    def prefix_due_ms(self) -> int | None:
        """When (monotonic) the stable records of the active segment are tiered; None while none wait.

        So much before they have waited ``freshness_ms`` as the work on them takes; or earlier, when the topic's time
        comes round, so that its partitions share their table's commits. Rounds are a tenth shorter than the wait, and
        only records that have waited a quarter of one go along: who is out of step neither makes tiny slices nor stays
        so.
        """
        since_ms, freshness_ms = self.untiered_since_ms, self.freshness_ms
        if since_ms is None or freshness_ms is None or not self.is_leader:
            return None
        at_latest_ms = since_ms + max(0, freshness_ms - self._prefix_work_ms)
        round_ms = max(1, freshness_ms - freshness_ms // 10)
        together_ms = at_latest_ms - (at_latest_ms - crc32(self.partition.topic_id.encode())) % round_ms
        return together_ms if together_ms - since_ms >= round_ms // 4 else at_latest_ms

    @property
    def _prefix_work_ms(self) -> int:
        active_base = 0 if self.log is None or not self.log.segments else self.log.segments[-1].base_offset
        is_begun = self.tiered_end is not None and self.tiered_end > active_base
        mib = (self.active_bytes - (self.tiered_position if is_begun else 0)) / (1 << 20)
        return int(max(mib * _WORK_MS_PER_MIB, mib * self.seen_ms_per_mib - _LATE_MS))

    def ready(self) -> tuple[ClosedSegment, ...]:
        """Closed segments that end at or below the last stable offset and reach past the ledger's end."""
        if self.log is None or self.view is None or not self.is_leader or not self.view.is_answered:
            return ()
        if not self.is_of_answered_epoch:
            return ()
        done = -1 if self.tiered_end is None else self.tiered_end
        stable = self.view.last_stable_offset
        return tuple(segment for segment in self.log.closed() if done < segment.range.end <= stable)
