"""The port through which writer schemas come in: by id, or the newest of a topic, as text that needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Role(StrEnum):
    """Which part of a record a schema describes, as serializers name it in a subject."""

    KEY = "key"
    VALUE = "value"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSchema:
    """A schema that a source has for a topic. ``subject`` and ``version`` as the registry counts; a file has neither.

    ``schema_id`` is what records name it by, None for a file's, which none does.
    """

    text: str
    schema_id: int | None = None
    subject: str = ""
    version: int | None = None


class SchemaSource(Protocol):
    """Where the schemas of a topic rule are found. ``schema_format`` is the codec's name: avro, protobuf, json."""

    def get(self, schema_id: int, schema_format: str) -> str:
        """The schema's text as the format's codec reads it, everything it refers to put in.

        Raises Invalid when the source answers that there is no such schema, or none that can be used: asking again
        won't help. Raises Unavailable when it can't be asked now, has not answered yet, or what answers is not the
        source that was meant.
        """

    def newest(self, topic: str, role: Role, schema_format: str) -> tuple[FoundSchema, ...]:
        """The newest schema of each subject of the topic; none where the source does not know the topic.

        Raises as ``get`` does.
        """

    def close(self) -> None:
        """Let go of connections; the source is not used afterwards."""
