"""What the broker said of the cluster, and when it is asked again: as rarely as that can be (docs/tiering.md)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache

from engine.broker import Broker, PartitionView
from engine.clock import Clock
from engine.errors import Invalid
from engine.topic_partition import TopicIdPartition
from tiering.open_segment import SegmentBounds
from tiering.tiering_limits import TieringLimits

_SAMPLES = 256
"""Offsets remembered a partition: when they are more, every second one goes, and the lag gets coarser with its age."""

_CONFIRMED_AFTER_MS = 30_000
"""How long after a log grew its offsets may still rise: a follower that takes longer is no longer waited for
(``replica.lag.time.max.ms``)."""

_REMOTE_STORAGE = "remote.storage.enable"
_COPY_DISABLED = "remote.log.copy.disable"


class StableHistory:
    """One partition's last stable offsets over time. Times are monotonic milliseconds, so that no wait is negative."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque()

    def note(self, since_ms: int, stable_offset: int) -> None:
        """Remember what the leader said, and since when it may have been so. Offsets that did not rise add nothing."""
        if self._samples and stable_offset <= self._samples[-1][1]:
            return
        self._samples.append((since_ms, stable_offset))
        if len(self._samples) > _SAMPLES:
            kept = [sample for index, sample in enumerate(self._samples) if index % 2 == 0]
            self._samples = deque([*kept[:-1], self._samples[-1]])

    def untiered_since_ms(self, tiered_end: int) -> int | None:
        """Since when there may be a stable offset beyond ``tiered_end``; None while there is none."""
        while self._samples and self._samples[0][1] <= tiered_end:
            self._samples.popleft()
        return self._samples[0][0] if self._samples else None


@dataclass(slots=True)
class _Heard:
    """Of one partition. Times are monotonic: ``asked_ms`` before its leader was last asked, ``grew_ms`` when its log
    was last seen to have changed, ``unchanged_ms`` of the last look before it grew beyond what the leader said."""

    history: StableHistory = field(default_factory=StableHistory)
    view: PartitionView | None = None
    asked_ms: int | None = None
    grew_ms: int | None = None
    unchanged_ms: int | None = None

    def answer(self, view: PartitionView, now_ms: int, *, looked_ms: int) -> None:
        """What the leader said when it was asked at ``now_ms``; what is new in it came after the last look that did not
        see it."""
        unchanged_ms = looked_ms if self.unchanged_ms is None else self.unchanged_ms
        since_ms = now_ms if self.asked_ms is None else max(self.asked_ms, unchanged_ms)
        self.history.note(since_ms, view.last_stable_offset)
        self.view, self.asked_ms, self.unchanged_ms = view, now_ms, None


class BrokerWatch:
    """What is known of the cluster, and how old it is. Every method that asks may raise Unavailable."""

    def __init__(self, broker: Broker, *, clock: Clock, limits: TieringLimits) -> None:
        self._broker = broker
        self._clock = clock
        self._limits = limits
        self._cluster_id: str | None = None
        self._kept: dict[str, tuple[int, bool, SegmentBounds]] = {}
        self._all_asked_at_ms: int | None = None
        self._described: dict[str, Mapping[TopicIdPartition, PartitionView]] = {}
        self._described_now: set[str] = set()
        self._moved: set[TopicIdPartition] = set()
        self._heard: dict[TopicIdPartition, _Heard] = {}

    def cluster_id(self, seen_in_log_dirs: Collection[str]) -> str:
        """The cluster's id. Raises Invalid when the log directories are another cluster's."""
        if self._cluster_id is None:
            self._cluster_id = self._broker.cluster_id()
        strangers = sorted(set(seen_in_log_dirs) - {self._cluster_id})
        if strangers:
            raise Invalid(
                f"the log directories belong to the cluster {strangers[0]}, the broker to {self._cluster_id}",
                next_step="make [broker] bootstrap and log_dirs those of one broker.",
            )
        return self._cluster_id

    def begin_cycle(self, topics: Callable[[], Collection[str]]) -> None:
        """Ask who leads what of all ``topics``, in one request, where that was long ago."""
        self._described_now.clear()
        now_ms = self._clock.monotonic_ms()
        if self._all_asked_at_ms is None or now_ms - self._all_asked_at_ms >= self._limits.leaders_interval_ms:
            all_topics = frozenset(topics())
            self._ask(all_topics, ())
            for memory in (self._described, self._kept):
                for topic in memory.keys() - all_topics:
                    del memory[topic]
            self._all_asked_at_ms = now_ms

    def leaders(self, topics: Collection[str]) -> dict[TopicIdPartition, PartitionView]:
        """Who leads the partitions of ``topics``, as it was last heard; asked for where it never was. Without offsets:
        those of an earlier cycle must not get into a plan."""
        self._ask([topic for topic in topics if topic not in self._described], ())
        return {who: view for topic in topics for who, view in self._described[topic].items()}

    def with_offsets(
        self, topics: Collection[str], asked: Mapping[TopicIdPartition, int]
    ) -> dict[TopicIdPartition, PartitionView]:
        """The leaders of ``topics`` as they are now, with the offsets of ``asked``, each with the time (monotonic) of
        the last look at its log.

        A topic that was deleted or created again in between is not in the answer under its old id.
        """
        if not asked and self._described_now.issuperset(topics):
            return self.leaders(topics)
        now_ms = self._clock.monotonic_ms()
        answered = self._ask(topics, asked)
        for who, looked_ms in asked.items():
            view = answered.get(who)
            if view is not None and view.is_answered:
                self._heard.setdefault(who, _Heard()).answer(view, now_ms, looked_ms=looked_ms)
        return answered

    def take_moved(self) -> set[TopicIdPartition]:
        """The partitions that were found to have another leader, to be there or to be gone, since the last call."""
        moved, self._moved = self._moved, set()
        return moved

    def is_native(self, topics: Collection[str]) -> Mapping[str, bool]:
        """Which topics keep their segments until they are told that these are tiered (KIP-405)."""
        now_ms = self._clock.monotonic_ms()
        old = [
            topic
            for topic in topics
            if topic not in self._kept or now_ms - self._kept[topic][0] >= self._limits.config_interval_ms
        ]
        if old:
            nothing: dict[str, Mapping[str, str]] = {topic: {} for topic in old}
            configs = nothing | dict(self._broker.topic_configs(old))
            self._kept |= {
                topic: (now_ms, waits_for_copies(config), SegmentBounds.of(config)) for topic, config in configs.items()
            }
        return {topic: self._kept[topic][1] for topic in topics}

    def segment_bounds(self, topic: str) -> SegmentBounds:
        """As the topic's configuration was when ``is_native`` last asked for it."""
        return self._kept[topic][2] if topic in self._kept else SegmentBounds()

    def note_growth(self, who: TopicIdPartition, unchanged_ms: int) -> None:
        """A log has changed since its leader was asked. ``unchanged_ms``: the last look that did not see it."""
        heard = self._heard.setdefault(who, _Heard())
        heard.grew_ms = self._clock.monotonic_ms()
        if heard.unchanged_ms is None:
            heard.unchanged_ms = unchanged_ms

    def asks_again_ms(self, who: TopicIdPartition) -> int | None:
        """When to ask again of a partition that gave no offsets, or whose offsets may still rise; None for no need."""
        heard = self._heard.get(who)
        if heard is None or heard.asked_ms is None:
            return self._clock.monotonic_ms() + self._limits.lag_interval_ms
        if heard.grew_ms is None or heard.asked_ms - heard.grew_ms >= _CONFIRMED_AFTER_MS:
            return None
        return heard.asked_ms + self._limits.lag_interval_ms

    def last_answered(self, partition: TopicIdPartition) -> PartitionView | None:
        """The offsets as they last were, for what is shown and for the log door; never for a plan."""
        heard = self._heard.get(partition)
        return None if heard is None else heard.view

    def untiered_since_ms(self, partition: TopicIdPartition, tiered_end: int) -> int | None:
        """Since when (monotonic) stable records beyond ``tiered_end`` may have waited; None when none does.

        Counted from the last look that did not see them: a record's own timestamp may say anything.
        """
        heard = self._heard.get(partition)
        return None if heard is None else heard.history.untiered_since_ms(tiered_end)

    def forget(self, partition: TopicIdPartition) -> None:
        """Drop what is remembered of a partition that is gone."""
        self._heard.pop(partition, None)

    def _ask(
        self, topics: Collection[str], offsets_of: Collection[TopicIdPartition]
    ) -> dict[TopicIdPartition, PartitionView]:
        if not topics:
            return {}
        answered = dict(self._broker.partitions(topics, offsets_of=offsets_of))
        leaders: dict[str, dict[TopicIdPartition, PartitionView]] = {topic: {} for topic in topics}
        for who, view in answered.items():
            leaders[who.topic][who] = _led_by(view.leader_id)
        for topic, now in leaders.items():
            before = self._described.get(topic, {})
            self._moved |= {who for who in now.keys() | before.keys() if now.get(who) != before.get(who)}
        self._described |= leaders
        self._described_now.update(topics)
        return answered


@cache
def _led_by(leader_id: int) -> PartitionView:
    return PartitionView(leader_id=leader_id)


def waits_for_copies(config: Mapping[str, str]) -> bool:
    """The broker keeps each segment until its copy is confirmed; not where copying is turned off (KIP-950), which
    leaves tiered storage readable and gives local segments to the topic's own retention."""
    return config.get(_REMOTE_STORAGE) == "true" and config.get(_COPY_DISABLED) != "true"
