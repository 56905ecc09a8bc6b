"""The topics whose partitions lie here, by topic id, with their tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from engine.clock import Clock
from engine.errors import FloebergError
from engine.table.commit.writer import TableWriter
from engine.topic_partition import TopicIdPartition
from tiering.tiered_topic import TieredTopic
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule, rule_of


class TieredTopics:
    """Opens tables, and makes those that are missing. ``get`` is for any thread, the rest for the loop's."""

    def __init__(self, *, writer: TableWriter, rules: Sequence[TopicRule], clock: Clock, limits: TieringLimits) -> None:
        self._writer = writer
        self._rules = tuple(rules)
        self._clock = clock
        self._limits = limits
        self._topics: dict[str, TieredTopic] = {}
        self._led_here: frozenset[TopicIdPartition] = frozenset()

    def of(self, partition: TopicIdPartition) -> TieredTopic:
        """The topic of a partition that a rule matches."""
        return self._topics[partition.topic_id]

    def get(self, topic_id: str) -> TieredTopic | None:
        """The topic of this id; None where none of its partitions lies here."""
        return self._topics.get(topic_id)

    def open(
        self, partitions: Sequence[TopicIdPartition], *, led_here: frozenset[TopicIdPartition], known: Collection[str]
    ) -> dict[TopicIdPartition, FloebergError]:
        """Read the tables of ``partitions`` where their state may be old, and forget all others; why some can't be had.

        ``known``: the topic ids that the broker has. Where leadership came here, somebody else committed before.
        """
        topics: dict[str, TieredTopic] = {}
        for who in partitions:
            topic = topics.get(who.topic_id) or self._topics.get(who.topic_id) or self._made(who)
            if topic is None:
                continue
            topics[who.topic_id] = topic
            if who in led_here and who not in self._led_here:
                topic.mark_stale()
            else:
                # Another daemon commits where it leads; other programs change a table at any time.
                topic.mark_stale_when_old()
        self._topics, self._led_here = topics, led_here
        errors: dict[str, FloebergError] = {}
        for topic_id, topic in self._topics.items():
            try:
                topic.open()
                # Of a topic that the broker has no more, what the spool holds is kept as its table was made.
                if topic_id in known:
                    topic.check_settings()
            except FloebergError as error:
                errors[topic_id] = error
        return {who: errors[who.topic_id] for who in partitions if who.topic_id in errors}

    def prepare(
        self,
        wanted: Iterable[TopicIdPartition],
        *,
        enough: int,
        cluster_id: str,
        known: Collection[str],
    ) -> tuple[set[str], dict[TopicIdPartition, FloebergError]]:
        """See that the topics of ``wanted`` have tables, with the columns they get before their first record, in this
        order and until ``enough`` partitions have one; what fails takes no other's place.

        Returns the ids of those topics, and why the tables of other partitions can't be had.
        """
        errors: dict[str, FloebergError] = {}
        ready: set[str] = set()
        failures: dict[TopicIdPartition, FloebergError] = {}
        for who in wanted:
            if who.topic_id not in ready and who.topic_id not in errors:
                try:
                    self._prepare(self._topics[who.topic_id], cluster_id, is_gone=who.topic_id not in known)
                    ready.add(who.topic_id)
                except FloebergError as error:
                    errors[who.topic_id] = error
            if who.topic_id in errors:
                failures[who] = errors[who.topic_id]
                continue
            enough -= 1
            if enough == 0:
                break
        return ready, failures

    def _prepare(self, topic: TieredTopic, cluster_id: str, *, is_gone: bool) -> None:
        topic.ensure(cluster_id, is_gone=is_gone)
        if topic.wants_newest:
            topic.add_newest()

    def _made(self, who: TopicIdPartition) -> TieredTopic | None:
        rule = rule_of(who.topic, self._rules)
        if rule is None:
            return None
        return TieredTopic(
            topic=who.topic,
            topic_id=who.topic_id,
            rule=rule,
            writer=self._writer,
            clock=self._clock,
            limits=self._limits,
        )
