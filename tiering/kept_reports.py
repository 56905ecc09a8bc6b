"""What was reported of each partition: a cycle makes again what it attended to, and keeps the rest."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from engine.topic_partition import TopicIdPartition
from tiering.cycle_report import PartitionReport
from tiering.observation import PartitionState
from tiering.tiered_topics import TieredTopics
from topics.topic_schemas import LedTopic


class KeptReports:
    """For the loop's thread. What it gives away is not changed later."""

    def __init__(self, topics: TieredTopics) -> None:
        self._topics = topics
        self._by_partition: dict[TopicIdPartition, PartitionReport] = {}
        self._led_partitions: dict[str, set[int]] = {}
        self.led: Mapping[str, LedTopic] = {}
        self.partitions: tuple[PartitionReport, ...] = ()

    def note(
        self,
        states: Sequence[PartitionState],
        reports: Sequence[PartitionReport],
        gone: Collection[TopicIdPartition],
    ) -> None:
        """Take in the attended partitions, in order, each with its report, and those that are gone."""
        if not states and not gone:
            return
        is_new = any(report.partition not in self._by_partition for report in reports)
        self._by_partition |= {report.partition: report for report in reports}
        for who in gone:
            self._by_partition.pop(who, None)
        if is_new:
            self._by_partition = dict(sorted(self._by_partition.items()))
        self.partitions = tuple(self._by_partition.values())
        self._note_led(states, gone)

    def _note_led(self, states: Sequence[PartitionState], gone: Collection[TopicIdPartition]) -> None:
        """The topics with the partitions that this loop's broker leads, and whose table can be had."""
        for who in gone:
            self._led_partitions.get(who.topic_id, set()).discard(who.partition)
        for state in states:
            led = self._led_partitions.setdefault(state.partition.topic_id, set())
            if state.is_leader and state.failure is None:
                led.add(state.partition.partition)
            else:
                led.discard(state.partition.partition)
        now = dict(self.led)
        for topic_id in {*(state.partition.topic_id for state in states), *(who.topic_id for who in gone)}:
            topic, led = self._topics.get(topic_id), self._led_partitions.get(topic_id, set())
            if topic is None or topic.table is None or not led:
                now.pop(topic_id, None)
            else:
                now[topic_id] = LedTopic(schemas=topic.schemas, table=topic.table, partitions=frozenset(led))
        self.led = now
