"""Subjects: the names under which a registry keeps the versions of a topic's schemas.

Source: Confluent's ``TopicNameStrategy``, ``RecordNameStrategy`` and ``TopicRecordNameStrategy`` of its serializers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from engine.schemas.source import Role

_RECORD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


class SubjectStrategy(StrEnum):
    """How producers name the subject of what they write."""

    TOPIC = "topic"
    """``<topic>-value``, ``<topic>-key``."""
    RECORD = "record"
    """The record's full name: the same subject in every topic, so that a topic alone does not tell its subjects."""
    TOPIC_RECORD = "topic_record"
    """``<topic>-<the record's full name>``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRule:
    """How the subjects of a topic are told. ``names`` are those of its values where an operator gives them, each with
    ``{topic}`` for the topic; ``metadata`` are properties that a schema must carry to count as the newest."""

    strategy: SubjectStrategy = SubjectStrategy.TOPIC
    names: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[object, ...]:
        """The rule as something to look up by."""
        return (self.strategy, self.names, tuple(sorted(self.metadata.items())))

    def subjects(self, topic: str, role: Role, listed: Callable[[], Sequence[str]]) -> tuple[str, ...]:
        """The subjects of a topic's values or keys; ``listed`` asks for all there are, and only where it has to."""
        if self.names and role is Role.VALUE:
            return tuple(name.replace("{topic}", topic) for name in self.names)
        if self.strategy is SubjectStrategy.TOPIC:
            return (f"{topic}-{role.value}",)
        if self.strategy is SubjectStrategy.RECORD or role is Role.KEY:
            # A record's name does not say whether it is a key's or a value's: what is known of one is the value's.
            return ()
        return tuple(name for name in sorted(listed()) if _is_record_of(topic, name))


def _is_record_of(topic: str, subject: str) -> bool:
    """Whether a subject is ``<topic>-<record>``; not of a topic ``<topic>-other``."""
    prefix, record = f"{topic}-", subject[len(topic) + 1 :]
    by_topic = record in {role.value for role in Role}
    return subject.startswith(prefix) and not by_topic and _RECORD_NAME.fullmatch(record) is not None
