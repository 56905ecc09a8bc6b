"""One broker with the plugin for all tests of this folder, and two topics with the same records, one of them tiered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from engine.clock import SystemClock
from floeberg.settings import BrokerSettings, Settings
from floeberg.settings.rooms import topic_rules
from floeberg.settings.schema_sources import SchemaSources
from tests.native.gapped_topics import GappedTopic, aborted_topic, erased_topic, once_compacted_topic
from tests.native.stage import PLAIN, TIERED, NativeStage, Sent, sample
from tests.native.value_topics import value_topics, write_schemas
from topics.retention_rule import Keep, RetentionRule
from topics.topic_rule import TopicRule

RECORDS = 40_000
MERGED = "merged"
"""A topic that is tiered in as many files as can be."""
SLICED, SLICED_FRESHNESS_MS = "sliced", 500
SHORT_TABLE = "short-table"
"""A topic of whose records the table keeps the newest file alone."""
DROPPED = "dropped"
"""A topic whose table goes when it is deleted."""


@dataclass
class History:
    """``sent``: every record of both topics so far, in offset order (partition 0)."""

    stage: NativeStage
    tiered: str = "history"
    plain: str = "history-plain"
    sent: list[Sent] = field(default_factory=list)

    def produce(self, count: int) -> None:
        """The same new records into both topics' live tails."""
        records = sample(len(self.sent), count)
        for topic in (self.tiered, self.plain):
            self.stage.produce(topic, records)
        self.sent += records


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeStage]:
    folder = tmp_path_factory.mktemp("native")
    write_schemas(folder)
    broker = BrokerSettings(bootstrap="of the stage", log_dirs=(folder,))
    settings = Settings(broker=broker, topics=value_topics(folder))
    rules = topic_rules(settings, SchemaSources(folder, SystemClock()))
    sliced = TopicRule(pattern=SLICED, value_format="raw", freshness_ms=SLICED_FRESHNESS_MS)
    merged = TopicRule(pattern=MERGED, value_format="string", freshness_ms=0)
    kept = RetentionRule(table=Keep(size_bytes=1))
    short = TopicRule(pattern=SHORT_TABLE, value_format="raw", retention=kept)
    dropped = TopicRule(pattern=DROPPED, value_format="raw", drops_with_topic=True)
    with NativeStage(folder, [*rules, sliced, merged, short, dropped]) as stage:
        yield stage


@pytest.fixture(scope="session")
def history(stage: NativeStage) -> History:
    """All closed segments of the tiered topic are gone from the broker's disk."""
    history = History(stage=stage)
    stage.create(history.tiered, TIERED)
    stage.create(history.plain, PLAIN)
    history.produce(RECORDS)
    stage.await_history_gone(history.tiered)
    assert len(stage.local_segments(history.plain)) > 3
    return history


_GAPPED = (aborted_topic, once_compacted_topic, erased_topic)


@pytest.fixture(scope="session", params=_GAPPED, ids=[topic.__name__ for topic in _GAPPED])
def gapped(stage: NativeStage, request: pytest.FixtureRequest) -> GappedTopic:
    """A topic with gaps; all its closed segments are gone from the broker's disk."""
    topic: GappedTopic = request.param(stage)
    return topic
