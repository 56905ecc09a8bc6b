"""Who a partition is: a topic's id survives neither deletion nor re-creation, its name survives both."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TopicIdPartition:
    """One partition of one incarnation of a topic.

    ``topic_id`` is Kafka's topic UUID in its own text form: 22 characters of URL-safe base64 (KIP-516).
    """

    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
