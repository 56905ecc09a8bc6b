"""Merges and repairs by the daemon itself, in a thread of their own (docs/compaction.md)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from compaction.compaction_limits import CompactionLimits
from compaction.compaction_report import Backlog, CompactionReport, CompactionTotals, sum_of
from compaction.replacing import FileReplacer
from compaction.topic_merge import MergeTurn, TopicMerge
from compaction.topic_repair import RepairTurn, TopicRepair
from engine.clock import Clock
from engine.errors import FloebergError
from engine.table.commit.writer import TableWriter
from engine.table.merge.candidates import KeptRows
from engine.table.proof.verifier import Verifier
from engine.topic_partition import TopicIdPartition
from topics.loop_record import LoopRecord
from topics.topic_schemas import LedTopic
from workers.workers import Workers

MOST_LOOKS = 8
"""Tables looked at in one turn: a look reads what manifests are new, and a daemon may have a thousand tables."""

MOST_PROBLEMS = 20
"""Told at a time: a person looks at the first ones, and each file may have one."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTurn:
    """What was done to one topic's table."""

    repair: RepairTurn = field(default_factory=RepairTurn)
    merge: MergeTurn = field(default_factory=MergeTurn)

    @property
    def has_tried(self) -> bool:
        return self.repair.tried > 0 or self.merge.tried > 0

    @property
    def goes_on(self) -> bool:
        """Whether a next turn has something to do at once."""
        return self.repair.goes_on or self.merge.goes_on

    @property
    def gained(self) -> int:
        return self.repair.gained + self.merge.gained

    @property
    def cpu_ms(self) -> int:
        return self.repair.cpu_ms + self.merge.cpu_ms


@dataclass(slots=True)
class _RepairWatch:
    """``looked_at`` the table's state and the partitions in which nothing was left to do; ``due_ms`` (monotonic) when
    its missing schemas are asked for again, or what failed is tried again, None where neither is awaited."""

    looked_at: tuple[str, frozenset[int]] | None = None
    due_ms: int | None = None
    is_held_up: bool = False

    def is_due(self, state: tuple[str, frozenset[int]], now_ms: int) -> bool:
        if self.due_ms is not None and now_ms >= self.due_ms:
            return True
        return not self.is_held_up and self.looked_at != state

    def note(self, turn: RepairTurn | None, state: tuple[str, frozenset[int]], now_ms: int, retry_ms: int) -> None:
        # What was replaced is looked at once more, so that what is left is counted.
        is_done = turn is not None and turn.left == 0 and turn.unasked == 0 and turn.replaced == 0
        self.looked_at = state if is_done else None
        self.is_held_up = turn is None or turn.is_held_up
        awaits = self.is_held_up or (turn is not None and bool(turn.wanted))
        self.due_ms = now_ms + retry_ms if awaits else None


@dataclass(slots=True)
class _MergeWatch:
    """``looked_at`` the table's state in which nothing was left to do; it is looked at not before ``not_before_ms``
    again, and unchanged not before ``due_ms``, None where nothing is awaited."""

    looked_at: tuple[str, frozenset[int]] | None = None
    not_before_ms: int = 0
    due_ms: int | None = None
    backlog: Backlog = field(default_factory=Backlog)

    def is_due(self, state: tuple[str, frozenset[int]], now_ms: int) -> bool:
        is_awaited = self.due_ms is not None and now_ms >= self.due_ms
        return now_ms >= self.not_before_ms and (is_awaited or self.looked_at != state)

    def note(self, turn: MergeTurn | None, state: tuple[str, frozenset[int]], again_ms: int) -> None:
        """``again_ms``: when to look again where a turn did not get on."""
        is_done = turn is not None and not turn.tried
        self.looked_at = state if is_done else None
        self.not_before_ms = 0 if turn is not None and turn.goes_on else again_ms
        if turn is not None:
            self.backlog = Backlog(groups=turn.left, files=turn.left_files, size_bytes=turn.left_bytes)


@dataclass(slots=True)
class _Watch:
    """One topic. ``problem``: why its table could not be worked on at all."""

    led: LedTopic
    repair: TopicRepair
    merge: TopicMerge
    repairs: _RepairWatch = field(default_factory=_RepairWatch)
    merges: _MergeWatch = field(default_factory=_MergeWatch)
    problem: FloebergError | None = None

    @property
    def state(self) -> tuple[str, frozenset[int]]:
        return self.led.table.metadata_location, self.led.partitions


class CompactionLoop:
    """The merges and repairs of one daemon. ``turn`` is for one thread; the rest for any."""

    def __init__(
        self,
        *,
        writer: TableWriter,
        workers: Workers,
        verifier: Verifier,
        clock: Clock,
        limits: CompactionLimits | None = None,
        on_gain: Callable[[int], None] = lambda _: None,
    ) -> None:
        """``on_gain`` is told how many records got columns, from the loop's thread."""
        self._clock = clock
        self._limits = limits or CompactionLimits()
        self._replacer = FileReplacer(
            writer=writer,
            workers=workers,
            verifier=verifier,
            parallel=self._limits.parallel,
            may_go_on=lambda: self._may_work,
        )
        self._led: Mapping[str, LedTopic] = {}
        self._may_work = False
        self._watches: dict[str, _Watch] = {}
        self._last_topic_id = ""
        self._totals = CompactionTotals()
        self._last_run_ms: int | None = None
        self.merging, self.repairing = LoopRecord("compaction", clock), LoopRecord("repair", clock)
        self._on_gain = on_gain
        self._wake = threading.Event()

    def note_topics(self, led: Mapping[str, LedTopic], *, may_work: bool) -> None:
        """The topics that are led here, by topic id. Nothing is begun unless it ``may_work``: new records go first."""
        self._led, self._may_work = led, may_work
        self._wake.set()

    def hurry(self) -> None:
        """Begin nothing more: the loop is to end. Returns at once; the next ``note_topics`` takes it back."""
        self._may_work = False
        self._wake.set()

    def kept(self, partition: TopicIdPartition) -> KeptRows:
        """Rows of a partition that keep their bytes, as far as they were counted."""
        watch = self._watches.get(partition.topic_id)
        return KeptRows() if watch is None else watch.repair.kept.get(partition.partition, KeptRows())

    def report(self) -> CompactionReport:
        """What was done since the start, and what is left as of the last look at each table."""
        watches = list(self._watches.values())
        problems = [problem for watch in watches for problem in watch.merge.problems]
        put_off = [watch.problem for watch in watches if watch.problem is not None]
        return CompactionReport(
            totals=self._totals,
            backlog=sum_of([watch.merges.backlog for watch in watches]),
            last_run_ms=self._last_run_ms,
            problems=tuple(problems[:MOST_PROBLEMS]),
            put_off=tuple(put_off[:MOST_PROBLEMS]),
        )

    def run_forever(self, stop: threading.Event) -> None:
        """Turns each time that topics were noted, and on while there is work; after each a pause, so that the share of
        the CPU is kept. Call ``hurry`` after setting ``stop``."""
        while not stop.is_set():
            self._wake.wait()
            self._wake.clear()
            try:
                while not stop.is_set() and self._paced_turn(stop).goes_on:
                    pass
            except Exception:  # noqa: BLE001 - the outermost guard of the daemon's loop
                _log.exception("compaction_ended_unforeseen")

    def _paced_turn(self, stop: threading.Event) -> CompactionTurn:
        began_ms = self._clock.monotonic_ms()
        turn = self.turn()
        took_ms = self._clock.monotonic_ms() - began_ms
        stop.wait(self._limits.pause_ms(cpu_ms=turn.cpu_ms, took_ms=took_ms) / 1000)
        return turn

    def turn(self) -> CompactionTurn:
        """One topic's turn, the first that finds something to try after the one that did last."""
        if not self._may_work:
            return CompactionTurn()
        self._watches = {topic_id: self._watch(topic_id, led) for topic_id, led in self._led.items()}
        now_ms = self._clock.monotonic_ms()
        turn = CompactionTurn()
        due = [topic_id for topic_id, watch in self._watches.items() if self._is_due(watch, now_ms)]
        for topic_id in sorted(due, key=lambda one: (one <= self._last_topic_id, one))[:MOST_LOOKS]:
            turn = self._turn_of(self._watches[topic_id])
            if turn.has_tried:
                self._last_topic_id = topic_id
                break
        if turn.gained:
            self._on_gain(turn.gained)
        if due:
            self._tell_next()
        return turn

    def _tell_next(self) -> None:
        """When tables are looked at again in which nothing changes."""
        now_ms, watches = self._clock.monotonic_ms(), self._watches.values()
        merges = [max(one.merges.due_ms, one.merges.not_before_ms) for one in watches if one.merges.due_ms is not None]
        repairs = [one.repairs.due_ms for one in watches if one.repairs.due_ms is not None]
        for record, dues in ((self.merging, merges), (self.repairing, repairs)):
            record.next_in(min(dues) - now_ms if dues else None)

    def _watch(self, topic_id: str, led: LedTopic) -> _Watch:
        watch = self._watches.get(topic_id)
        if watch is not None and watch.led.schemas is led.schemas:
            watch.led = led
            return watch
        replacer, clock, limits = self._replacer, self._clock, self._limits
        return _Watch(
            led=led,
            repair=TopicRepair(led.table, led.schemas, replacer=replacer, clock=clock, limits=limits.repair),
            merge=TopicMerge(led.table, led.schemas, replacer=replacer, clock=clock, limits=limits.merge),
        )

    def _is_due(self, watch: _Watch, now_ms: int) -> bool:
        return watch.led.table.foreign is None and (
            watch.repairs.is_due(watch.state, now_ms) or self._merges_are_due(watch, now_ms)
        )

    def _merges_are_due(self, watch: _Watch, now_ms: int) -> bool:
        return self._limits.enabled and watch.merges.is_due(watch.state, now_ms)

    def _turn_of(self, watch: _Watch) -> CompactionTurn:
        now_ms = self._clock.monotonic_ms()
        repair, merge = RepairTurn(), MergeTurn()
        merges_are_due = self._merges_are_due(watch, now_ms)
        try:
            if watch.repairs.is_due(watch.state, now_ms):
                with self.repairing.look():
                    repair = self._repair(watch)
            if merges_are_due:
                with self.merging.look():
                    merge = self._merge(watch)
            watch.problem = None
        except FloebergError as error:
            _log.warning("compaction_put_off", topic=watch.led.table.topic, error=str(error))
            watch.problem = error
            merge.failed += 1
        self._count(repair, merge)
        return CompactionTurn(repair=repair, merge=merge)

    def _repair(self, watch: _Watch) -> RepairTurn:
        if watch.repairs.due_ms is not None:
            watch.repair.forget_failures()
        turn: RepairTurn | None = None
        try:
            watch.repair.reopen()
            turn = watch.repair.turn(watch.led.partitions)
        finally:
            watch.repairs.note(turn, watch.state, self._clock.monotonic_ms(), self._limits.repair.retry_ms)
        return turn

    def _merge(self, watch: _Watch) -> MergeTurn:
        limits, turn = self._limits.merge, None
        try:
            watch.merge.reopen()
            turn = watch.merge.turn(watch.led.partitions)
        finally:
            pause_ms = limits.retry_ms if turn is None else limits.look_interval_ms
            watch.merges.note(turn, watch.state, self._clock.monotonic_ms() + pause_ms)
            watch.merges.due_ms = watch.merge.due_ms
        return turn

    def _count(self, repair: RepairTurn, merge: MergeTurn) -> None:
        self._totals = self._totals.with_turn(merge, cpu_ms=repair.cpu_ms + merge.cpu_ms)
        for has_worked, record in ((repair.replaced, self.repairing), (merge.merged, self.merging)):
            if has_worked:
                self._last_run_ms = self._clock.now_ms()
                record.worked()
