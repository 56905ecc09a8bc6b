"""Repair by the daemon itself, in a thread of its own, while there is nothing to tier (docs/repair.md)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import structlog

from compaction.repair_limits import RepairLimits
from compaction.topic_repair import RepairTurn, TopicRepair
from engine.clock import Clock
from engine.errors import FloebergError
from engine.table.commit.writer import TableWriter
from engine.table.merge.candidates import KeptRows
from engine.table.proof.verifier import Verifier
from engine.topic_partition import TopicIdPartition
from topics.topic_schemas import LedTopic
from workers.workers import Workers

MOST_LOOKS = 8
"""Tables looked at in one turn: a look reads what manifests are new, and a daemon may have a thousand tables."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Watch:
    """One topic. ``looked_at`` the table's state and the partitions in which nothing was left to do; ``due_ms``
    (monotonic) when its missing schemas are asked for again, or what failed is tried again, None where neither is
    awaited."""

    led: LedTopic
    repair: TopicRepair
    looked_at: tuple[str, frozenset[int]] | None = None
    due_ms: int | None = None
    is_held_up: bool = False

    @property
    def state(self) -> tuple[str, frozenset[int]]:
        return self.led.table.metadata_location, self.led.partitions

    def is_due(self, now_ms: int) -> bool:
        if self.led.table.foreign is not None:
            return False
        if self.due_ms is not None and now_ms >= self.due_ms:
            return True
        return not self.is_held_up and self.looked_at != self.state

    def note(self, turn: RepairTurn | None, now_ms: int, retry_ms: int) -> None:
        # What was replaced is looked at once more, so that what is left is counted.
        is_done = turn is not None and turn.left == 0 and turn.unasked == 0 and turn.replaced == 0
        self.looked_at = self.state if is_done else None
        self.is_held_up = turn is None or turn.is_held_up
        awaits = self.is_held_up or (turn is not None and bool(turn.wanted))
        self.due_ms = now_ms + retry_ms if awaits else None


class RepairLoop:
    """The repairs of one daemon. ``turn`` is for one thread; the rest for any."""

    def __init__(
        self,
        *,
        writer: TableWriter,
        workers: Workers,
        verifier: Verifier,
        clock: Clock,
        limits: RepairLimits | None = None,
        on_gain: Callable[[int], None] = lambda _: None,
    ) -> None:
        """``on_gain`` is told how many records got columns, from the loop's thread."""
        self._clock = clock
        self._limits = limits or RepairLimits()
        self._repair_of = partial(
            TopicRepair, writer=writer, workers=workers, verifier=verifier, clock=clock, limits=self._limits
        )
        self._led: Mapping[str, LedTopic] = {}
        self._may_work = False
        self._watches: dict[str, _Watch] = {}
        self._on_gain = on_gain
        self._wake = threading.Event()

    def note_topics(self, led: Mapping[str, LedTopic], *, may_work: bool) -> None:
        """The topics that are led here, by topic id. No turn begins unless it ``may_work``: what is new goes first."""
        self._led, self._may_work = led, may_work
        self.hurry()

    def hurry(self) -> None:
        """Look at once whether there is something to do, or whether to stop. Returns at once."""
        self._wake.set()

    def kept(self, partition: TopicIdPartition) -> KeptRows:
        """Rows of a partition that keep their bytes, as far as they were counted."""
        watch = self._watches.get(partition.topic_id)
        return KeptRows() if watch is None else watch.repair.kept.get(partition.partition, KeptRows())

    def run_forever(self, stop: threading.Event) -> None:
        """A turn each time that topics were noted, and on while one leaves work; call ``hurry`` after setting
        ``stop``."""
        while not stop.is_set():
            self._wake.wait()
            self._wake.clear()
            try:
                while not stop.is_set() and self.turn().goes_on:
                    pass
            except Exception:  # noqa: BLE001 - the outermost guard of the daemon's loop
                _log.exception("repair_ended_unforeseen")

    def turn(self) -> RepairTurn:
        """One topic's turn, the first that finds something to try."""
        if not self._may_work:
            return RepairTurn()
        self._watches = {topic_id: self._watch(topic_id, led) for topic_id, led in self._led.items()}
        now_ms = self._clock.monotonic_ms()
        turn = RepairTurn()
        for watch in [watch for watch in self._watches.values() if watch.is_due(now_ms)][:MOST_LOOKS]:
            turn = self._turn_of(watch)
            if turn.tried:
                break
        if turn.gained:
            self._on_gain(turn.gained)
        return turn

    def _watch(self, topic_id: str, led: LedTopic) -> _Watch:
        watch = self._watches.get(topic_id)
        if watch is None or watch.led.schemas is not led.schemas:
            return _Watch(led=led, repair=self._repair_of(led.table, led.schemas))
        watch.led = led
        return watch

    def _turn_of(self, watch: _Watch) -> RepairTurn:
        if watch.due_ms is not None:
            watch.repair.forget_failures()
        turn: RepairTurn | None = None
        try:
            watch.repair.reopen()
            turn = watch.repair.turn(watch.led.partitions)
        except FloebergError as error:
            _log.warning("repair_put_off", topic=watch.led.table.topic, error=str(error))
        watch.note(turn, self._clock.monotonic_ms(), self._limits.retry_ms)
        return turn or RepairTurn()
