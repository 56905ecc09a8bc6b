"""Bounds of ``[topics.retention]`` that nobody would keep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from engine.broker import Broker
from engine.clock import Clock
from floeberg.settings import Settings
from floeberg.settings.rooms import topic_rules
from floeberg.settings.schema_sources import SchemaSources
from floeberg.setup.check_result import CheckResult, note
from tiering.broker_watch import waits_for_copies
from topics.topic_rule import rule_of


def check_stream_retention(broker: Broker, settings: Settings, clock: Clock) -> Iterator[CheckResult]:
    """The native topics whose rule bounds the stream: their consumers have what the broker offers. Raises
    Unavailable."""
    if all(topic.retention.rule.stream is None for topic in settings.topics):
        return
    with closing(SchemaSources(settings.data_dir, clock)) as sources:
        rules = topic_rules(settings, sources)
    bounded = [
        name
        for name in sorted(broker.topic_names())
        if (rule := rule_of(name, rules)) is not None and rule.retention.stream is not None
    ]
    native = [name for name, config in broker.topic_configs(bounded).items() if waits_for_copies(config)]
    if native:
        yield note(
            f"retention of {', '.join(native)}",
            "stream_ms and stream_bytes count for nothing here: in native mode consumers have what the broker offers",
            "set retention.ms and retention.bytes of the topic in Kafka, and take stream_ms and stream_bytes out",
        )
