"""Asks the broker what is safe, as rarely as that can be: leaders each cycle, offsets where they decide something."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from engine.broker import Broker, PartitionView
from engine.clock import Clock
from engine.errors import Invalid
from engine.topic_partition import TopicIdPartition
from tiering.stable_history import StableHistory
from tiering.tiering_limits import TieringLimits

_REMOTE_STORAGE = "remote.storage.enable"
_COPY_DISABLED = "remote.log.copy.disable"


class BrokerWatch:
    """What is known of the cluster, and how old it is. Every method may raise Unavailable."""

    def __init__(self, broker: Broker, *, clock: Clock, limits: TieringLimits) -> None:
        self._broker = broker
        self._clock = clock
        self._limits = limits
        self._cluster_id: str | None = None
        self._native: dict[str, bool] = {}
        self._configs_at_ms: int | None = None
        self._all_asked_at_ms: int | None = None
        self._last_answered: dict[TopicIdPartition, PartitionView] = {}
        self._stable: dict[TopicIdPartition, StableHistory] = {}

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

    def leaders(self, topics: Collection[str]) -> Mapping[TopicIdPartition, PartitionView]:
        """Who leads which partition, in one request."""
        return self._broker.partitions(topics, offsets_of=()) if topics else {}

    def with_offsets(
        self,
        leaders: Mapping[TopicIdPartition, PartitionView],
        *,
        worth_asking: Collection[TopicIdPartition],
        led_here: Callable[[PartitionView], bool],
    ) -> Mapping[TopicIdPartition, PartitionView]:
        """``leaders`` with offsets for what is worth asking, and now and then for all that is led here.

        A topic that was deleted or created again in between is not in the answer under its old id.
        """
        asked = set(worth_asking)
        now_ms = self._clock.monotonic_ms()
        if self._all_asked_at_ms is None or now_ms - self._all_asked_at_ms >= self._limits.lag_interval_ms:
            self._all_asked_at_ms = now_ms
            asked = {partition for partition, view in leaders.items() if led_here(view)}
        if not asked:
            return leaders
        topics = {partition.topic for partition in asked}
        answered = self._broker.partitions(topics, offsets_of=asked)
        for partition, view in answered.items():
            if view.is_answered:
                self._last_answered[partition] = view
                history = self._stable.setdefault(partition, StableHistory())
                history.note(now_ms, view.last_stable_offset)
        others = {partition: view for partition, view in leaders.items() if partition.topic not in topics}
        return {**others, **answered}

    def is_native(self, topics: Collection[str]) -> Mapping[str, bool]:
        """Which topics keep their segments until they are told that these are tiered (KIP-405)."""
        now_ms = self._clock.monotonic_ms()
        is_old = self._configs_at_ms is None or now_ms - self._configs_at_ms >= self._limits.config_interval_ms
        if is_old or any(topic not in self._native for topic in topics):
            configs = self._broker.topic_configs(topics)
            self._native = {topic: _waits_for_copies(configs.get(topic, {})) for topic in topics}
            self._configs_at_ms = now_ms
        return self._native

    def last_answered(self, partition: TopicIdPartition) -> PartitionView | None:
        """The offsets as they last were, for what is shown and for the log door; never for a plan."""
        return self._last_answered.get(partition)

    def untiered_since_ms(self, partition: TopicIdPartition, tiered_end: int) -> int | None:
        """Since when (monotonic) stable records beyond ``tiered_end`` wait; None when none does.

        Counted from when this process first saw them: a record's own timestamp may say anything.
        """
        history = self._stable.get(partition)
        return None if history is None else history.untiered_since_ms(tiered_end)

    def forget(self, gone: Callable[[TopicIdPartition], bool]) -> None:
        """Drop what is remembered of partitions that are gone."""
        for memory in (self._last_answered, self._stable):
            for partition in [partition for partition in memory if gone(partition)]:
                del memory[partition]


def _waits_for_copies(config: Mapping[str, str]) -> bool:
    """The broker keeps each segment until its copy is confirmed; not where copying is turned off (KIP-950), which
    leaves tiered storage readable and gives local segments to the topic's own retention."""
    return config.get(_REMOTE_STORAGE) == "true" and config.get(_COPY_DISABLED) != "true"
