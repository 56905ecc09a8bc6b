"""The newest records of the daemon's topics, kept in a thread of their own (docs/latest_by_key.md)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from engine.clock import Clock
from engine.errors import FloebergError
from engine.table.commit.writer import TableWriter
from latest.key_index import KeyIndex
from latest.latest_limits import LatestLimits
from latest.latest_report import LatestReport, LatestTotals
from latest.topic_latest import LatestTurn, TopicLatest
from topics.loop_record import LoopRecord
from topics.topic_schemas import LedTopic

MOST_PROBLEMS = 20
"""Told at a time: a person looks at the first ones."""

_COMPACT = "compact"

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Watch:
    """One topic. ``looked_at`` the table's state, and the partitions, for which nothing was left to do; it is looked at
    not before ``not_before_ms`` (monotonic), and unchanged not before ``due_ms``."""

    led: LedTopic
    work: TopicLatest
    looked_at: tuple[str, frozenset[int]] | None = None
    not_before_ms: int = 0
    due_ms: int = 0
    behind_offsets: int = 0
    problems: tuple[FloebergError, ...] = field(default_factory=tuple)

    def is_due(self, state: tuple[str, frozenset[int]], now_ms: int) -> bool:
        return now_ms >= self.not_before_ms and (self.looked_at != state or now_ms >= self.due_ms)


@dataclass(frozen=True, slots=True)
class _Policy:
    is_compacted: bool
    asked_ms: int


class LatestLoop:
    """``turn`` is for one thread; the rest for any."""

    def __init__(
        self,
        *,
        writer: TableWriter,
        directory: Path,
        configs_of: Callable[[Collection[str]], Mapping[str, Mapping[str, str]]],
        clock: Clock,
        limits: LatestLimits | None = None,
    ) -> None:
        """``directory`` of the index of keys; ``configs_of`` topics, as the broker reports them."""
        self._writer = writer
        self._index = KeyIndex(directory)
        self._configs_of = configs_of
        self._clock = clock
        self._limits = limits or LatestLimits()
        self.record = LoopRecord("latest", clock)
        self._led: Mapping[str, LedTopic] = {}
        self._policies: dict[str, _Policy] = {}
        self._watches: dict[str, _Watch] = {}
        self._totals = LatestTotals()
        self._last_commit_ms: int | None = None
        self._problem: FloebergError | None = None
        self._ask_again_ms = 0
        self._is_ending = False
        self._wake = threading.Event()

    def note_topics(self, led: Mapping[str, LedTopic]) -> None:
        """The topics that are led here, by topic id."""
        self._led = led
        self._wake.set()

    def hurry(self) -> None:
        """Begin no further topic: the loop is to end. Returns at once."""
        self._is_ending = True
        self._wake.set()

    def report(self) -> LatestReport:
        """What was done since the start, and what is left as of the last look at each table."""
        watches = list(self._watches.values())
        problems = [problem for watch in watches for problem in watch.problems]
        problems += [] if self._problem is None else [self._problem]
        return LatestReport(
            totals=self._totals,
            tables=len(watches),
            behind_offsets=sum(watch.behind_offsets for watch in watches),
            last_commit_ms=self._last_commit_ms,
            problems=tuple(problems[:MOST_PROBLEMS]),
        )

    def run_forever(self, stop: threading.Event) -> None:
        """A round each time that topics were noted, with a pause for its share of the CPU. Call ``hurry`` after setting
        ``stop``."""
        while not stop.is_set():
            self._wake.wait()
            self._wake.clear()
            try:
                while not stop.is_set() and self._paced_round(stop):
                    pass
            except Exception:  # noqa: BLE001 - the outermost guard of the daemon's loop
                _log.exception("latest_ended_unforeseen")
        self.close()

    def close(self) -> None:
        """The index, which a next turn would open again."""
        self._index.close()

    def _paced_round(self, stop: threading.Event) -> bool:
        turns = self.round()
        cpu_ms = sum(turn.cpu_ms for turn in turns)
        stop.wait(cpu_ms * (1 / self._limits.cpu_share - 1) / 1000)
        return any(turn.goes_on for turn in turns)

    def round(self) -> list[LatestTurn]:
        """A turn of each topic that has something to do, or may have."""
        now_ms = self._clock.monotonic_ms()
        self._ask_policies(now_ms)
        wanted = {topic_id: led for topic_id, led in self._led.items() if self._is_wanted(topic_id, led)}
        self._watches = {topic_id: self._watch(topic_id, led) for topic_id, led in wanted.items()}
        turns = []
        for watch in self._watches.values():
            if not self._is_ending and watch.led.table.foreign is None and watch.is_due(self._state(watch), now_ms):
                with self.record.look():
                    turns.append(self._turn_of(watch))
        if turns:
            due_ms = min(max(watch.due_ms, watch.not_before_ms) for watch in self._watches.values())
            self.record.next_in(due_ms - self._clock.monotonic_ms())
        return turns

    def _ask_policies(self, now_ms: int) -> None:
        """Ask the broker about the topics whose settings leave it to it. While it is away, what it said last counts."""
        led = self._led
        self._policies = {topic_id: policy for topic_id, policy in self._policies.items() if topic_id in led}
        oldest_ms = now_ms - self._limits.policy_interval_ms
        unknown = {
            one.table.topic: topic_id
            for topic_id, one in led.items()
            if one.schemas.latest_by_key is None
            and ((known := self._policies.get(topic_id)) is None or known.asked_ms < oldest_ms)
        }
        if not unknown or now_ms < self._ask_again_ms:
            return
        try:
            configs = self._configs_of(unknown.keys())
        except FloebergError as error:
            self._problem, self._ask_again_ms = error, now_ms + self._limits.retry_ms
            return
        self._problem = None
        for topic, topic_id in unknown.items():
            is_compacted = _COMPACT in configs.get(topic, {}).get("cleanup.policy", "")
            self._policies[topic_id] = _Policy(is_compacted, now_ms)

    def _is_wanted(self, topic_id: str, led: LedTopic) -> bool:
        asked, policy = led.schemas.latest_by_key, self._policies.get(topic_id)
        return asked if asked is not None else policy is not None and policy.is_compacted

    def _watch(self, topic_id: str, led: LedTopic) -> _Watch:
        watch = self._watches.get(topic_id)
        if watch is not None:
            watch.led = led
            return watch
        work = TopicLatest(led.table, writer=self._writer, index=self._index, clock=self._clock, limits=self._limits)
        return _Watch(led=led, work=work)

    def _state(self, watch: _Watch) -> tuple[str, frozenset[int]]:
        """The newest that this process knows of the topic's table, who leads what: compaction commits here too."""
        known = self._writer.session(watch.led.table.topic, watch.led.table.topic_id).known
        return (watch.led.table if known is None else known).metadata_location, watch.led.partitions

    def _turn_of(self, watch: _Watch) -> LatestTurn:
        now_ms = self._clock.monotonic_ms()
        turn = LatestTurn()
        try:
            turn = watch.work.turn(watch.led.partitions)
        except FloebergError as error:
            turn.problems = (error,)
        for problem in turn.problems:
            _log.warning("latest_put_off", topic=watch.led.table.topic, error=str(problem))
        is_done = not (turn.problems or turn.committed or turn.gone)
        watch.looked_at = (watch.work.stream.metadata_location, watch.led.partitions) if is_done else None
        watch.not_before_ms = now_ms + self._limits.retry_ms if turn.problems else 0
        watch.due_ms = now_ms + self._limits.look_interval_ms
        watch.problems, watch.behind_offsets = turn.problems, turn.behind_offsets
        self._count(turn)
        return turn

    def _count(self, turn: LatestTurn) -> None:
        totals = self._totals
        self._totals = replace(
            totals,
            commits=totals.commits + (turn.committed > 0),
            rows=totals.rows + turn.rows,
            builds=totals.builds + turn.built,
        )
        if turn.committed:
            self._last_commit_ms = self._clock.now_ms()
            self.record.worked()
