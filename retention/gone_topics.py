"""What becomes of a table whose topic the broker has no more: pure. Values in, values out (docs/retention.md).

Every line is a reason of its own to keep the table; one that can't be answered keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from topics.topic_rule import TopicRule


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopic:
    """One incarnation of a topic that has a table. ``is_retired``: the table's name has the topic's id in it, and
    leaves the plain one to a topic of the same name; ``held``: why its state may not be built upon."""

    topic: str
    topic_id: str
    cluster_id: str
    is_retired: bool
    held: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersWord:
    """What the broker said at this moment. ``topic_ids``: None for a name that no topic has; a name of which it says
    nothing is left out. ``has_topics``: whether it has any topic, Kafka's own included."""

    cluster_id: str
    topic_ids: Mapping[str, str | None]
    has_topics: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHere:
    """What the last cycle of tiering saw. ``is_whole``: the broker, every log directory and the spool could be asked.
    ``topic_ids`` of which a partition lies in the log directories or in the spool, or is worked on."""

    is_whole: bool = False
    topic_ids: Set[str] = frozenset()


def is_there(topic: StoredTopic, word: BrokersWord) -> bool:
    """Whether the broker has this very incarnation: whatever was noted of its being gone is forgotten."""
    return word.topic_ids.get(topic.topic) == topic.topic_id


def reasons_to_doubt(topic: StoredTopic, word: BrokersWord, here: SeenHere) -> Iterator[str]:
    """Why a topic does not count as gone; none for one that does. What was noted before stays noted."""
    if word.cluster_id != topic.cluster_id:
        yield f"it is a topic of the cluster {topic.cluster_id}, and the broker is of {word.cluster_id}"
    if topic.topic not in word.topic_ids:
        yield "the broker does not say whether it has the topic (is Describe granted on it?)"
    if is_there(topic, word):
        yield "the broker has the topic"
    if not word.has_topics:
        yield "the broker has no topic at all: its metadata may be lost"
    if not here.is_whole:
        yield "the broker, its log directories and the spool were not all to be read in the last cycle"
    if topic.topic_id in here.topic_ids:
        yield "a partition of it lies in the log directories or in the spool"


def reasons_to_keep(
    topic: StoredTopic,
    word: BrokersWord,
    here: SeenHere,
    *,
    rule: TopicRule | None,
    since_ms: int | None,
    now_ms: int,
    grace_ms: int,
) -> Iterator[str]:
    """None for a topic whose table may be dropped. ``since_ms``: when it was noted as gone first, None for never."""
    if rule is None:
        yield "no [[topics]] names it"
    elif not rule.drops_with_topic:
        yield 'delete_on_topic_deletion = "keep"'
    yield from reasons_to_doubt(topic, word, here)
    if since_ms is None or not 0 <= since_ms <= now_ms - grace_ms:
        yield GRACE
    if not topic.is_retired and word.topic_ids.get(topic.topic) is not None:
        yield "a new topic of its name has no table yet, and this one is in its place"
    if topic.held is not None:
        yield topic.held


GRACE = "its grace is not over"
