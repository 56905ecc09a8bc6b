"""What the Kafka client's errors say: Kafka's own codes, and a text for people."""

from __future__ import annotations

from confluent_kafka import KafkaException

UNKNOWN_TOPIC = 3

_OF_ONE_PARTITION = frozenset({UNKNOWN_TOPIC, 5, 6, 17, 74, 76, 78, 100})
"""Unknown topic or partition, leader not available, not leader or follower, invalid topic, fenced leader epoch, unknown
leader epoch, offset not available, unknown topic id."""


def code_of(error: BaseException | None) -> int | None:
    """Kafka's code of an error, or the client's own, which is below 0; None of another's."""
    return int(error.args[0].code()) if isinstance(error, KafkaException) and error.args else None


def concerns_one_partition(error: BaseException | None) -> bool:
    """Whether the broker answers, and has a reason of a topic or partition."""
    return code_of(error) in _OF_ONE_PARTITION


def text_of(error: BaseException) -> str:
    if isinstance(error, KafkaException) and error.args:
        return str(error.args[0].str())
    return str(error) or type(error).__name__
