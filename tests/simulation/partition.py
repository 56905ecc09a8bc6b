"""One partition of the simulated cluster: who leads it, what is replicated, and what became of each transaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.broker import NO_LEADER, PartitionView
from engine.kafka_log.segment import AbortedTransaction
from engine.topic_partition import TopicIdPartition
from tests.engine.kafka_log.batch_twin import Row
from tests.simulation.batches import Batch, Kind, encode
from tests.simulation.replica import Replica


@dataclass(slots=True, kw_only=True)
class Partition:
    """``history`` is the leader's log as it was written, nothing ever removed but what an election threw away.

    ``isr``: in-sync replicas by node; only these may lead (no unclean elections). ``compacted``: offsets that a
    cleaner took away on any node. ``remote_end``: how far the broker was told that the log is tiered (native topics).
    ``is_sure``: a new leader answers for its offsets only once its followers have fetched from it.
    """

    who: TopicIdPartition
    native: bool
    compact: bool
    replicas: dict[int, Replica]
    leader: int
    isr: set[int]
    epoch: int = 0
    high_watermark: int = 0
    log_start: int = 0
    remote_end: int = 0
    is_sure: bool = True
    is_deleted: bool = False
    history: list[Batch] = field(default_factory=list)
    compacted: set[int] = field(default_factory=set)

    @property
    def end(self) -> int:
        return self.history[-1].end if self.history else 0

    @property
    def last_stable_offset(self) -> int:
        """The first offset of an undecided transaction, or of one whose end is not replicated (KIP-98)."""
        open_since: dict[int, int] = {}
        unstable = self.high_watermark
        for batch in self.history:
            if batch.kind is not Kind.DATA:
                first = open_since.pop(batch.producer_id, None)
                if first is not None and batch.base_offset >= self.high_watermark:
                    unstable = min(unstable, first)
            elif batch.transactional:
                open_since.setdefault(batch.producer_id, batch.base_offset)
        return min([unstable, *open_since.values()])

    def view(self) -> PartitionView:
        if self.leader == NO_LEADER or not self.is_sure:
            return PartitionView(leader_id=self.leader)
        return PartitionView(
            leader_id=self.leader,
            leader_epoch=self.epoch,
            log_start_offset=self.log_start,
            last_stable_offset=self.last_stable_offset,
            high_watermark=self.high_watermark,
        )

    def open_transactions(self) -> dict[int, int]:
        """Producers with a transaction that has no end in this partition yet, and where it begins."""
        found: dict[int, int] = {}
        for batch in self.history:
            if batch.kind is not Kind.DATA:
                found.pop(batch.producer_id, None)
            elif batch.transactional:
                found.setdefault(batch.producer_id, batch.base_offset)
        return found

    def append(self, batch: Batch) -> None:
        """The leader takes a batch; followers fetch it with ``replicate``."""
        batch = encode(batch)
        entry = self._aborted(batch)
        self.history.append(batch)
        self.replicas[self.leader].append(batch, entry)
        self._advance()

    def replicate(self, nodes: Iterable[int], *, at_most: int | None = None) -> None:
        """Followers on ``nodes`` fetch; who has all that is replicated is in sync again."""
        if self.leader == NO_LEADER:
            return
        leader = self.replicas[self.leader]
        for node in nodes:
            replica = self.replicas.get(node)
            if replica is None or node == self.leader:
                continue
            self._follow(replica, leader, at_most)
            if replica.end >= self.high_watermark:
                self.isr.add(node)
        self._advance()
        self.is_sure = True

    def elect(self, node: int) -> None:
        """``node``, which is in sync, leads; what it never fetched is gone, and was never acknowledged."""
        assert node in self.isr, "only in-sync replicas are elected"
        self.leader = node
        self.epoch += 1
        end = self.replicas[node].end
        self.history = [batch for batch in self.history if batch.base_offset < end]
        for other in self.isr - {node}:
            # A follower's offsets count again from its first fetch on, and before that it has truncated.
            self.replicas[other].truncate(self._common_end(self.replicas[other]))
        self.is_sure = len(self.isr) == 1
        self._advance()

    def _follow(self, replica: Replica, leader: Replica, at_most: int | None) -> None:
        replica.truncate(self._common_end(replica))
        if replica.end < leader.local_start:
            replica.restart(leader.local_start)
        while len(replica.segments) > 1 and replica.segments[1].base_offset <= self._may_drop():
            replica.drop_oldest()
        missing = [batch for batch in leader.batches if batch.base_offset >= replica.end][:at_most]
        for batch in missing:
            replica.append(batch, self._aborted(batch))

    def _common_end(self, replica: Replica) -> int:
        """Where a follower's log leaves the leader's: what is replicated never differs."""
        known = set(map(id, self.history))
        for batch in replica.batches:
            if batch.base_offset >= self.high_watermark and id(batch) not in known:
                return batch.base_offset
        return replica.end

    def _may_drop(self) -> int:
        """A follower drops what lies below the log start; nothing else by itself."""
        return self.log_start

    def _advance(self) -> None:
        replicated = min((self.replicas[node].end for node in self.isr | {self.leader}), default=0)
        self.high_watermark = max(self.high_watermark, replicated)

    def _aborted(self, batch: Batch) -> AbortedTransaction | None:
        if batch.kind is not Kind.ABORT:
            return None
        first = None
        for earlier in self.history:
            if earlier.base_offset >= batch.base_offset:
                break
            if earlier.producer_id == batch.producer_id and earlier.kind is not Kind.DATA:
                first = None
            elif earlier.producer_id == batch.producer_id and earlier.transactional and first is None:
                first = earlier.base_offset
        if first is None:
            return None
        return AbortedTransaction(
            producer_id=batch.producer_id,
            first_offset=first,
            last_offset=batch.last_offset,
            last_stable_offset=first,
        )

    def committed(self) -> dict[int, Row]:
        """Every record that a read_committed consumer may ever have, by offset: what producers were told, no more."""
        found: dict[int, Row] = {}
        pending: dict[int, list[Row]] = {}
        for batch in self.history:
            if batch.base_offset >= self.high_watermark:
                break
            if batch.kind is not Kind.DATA:
                rows = pending.pop(batch.producer_id, [])
                if batch.kind is Kind.COMMIT:
                    found.update((row.offset, row) for row in rows)
            elif batch.transactional:
                pending.setdefault(batch.producer_id, []).extend(batch.rows)
            else:
                found.update((row.offset, row) for row in batch.rows)
        return found
