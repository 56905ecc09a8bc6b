"""How long a topic's records are kept: the table ``retention`` of ``[[topics]]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, model_validator

from floeberg.settings.section import Section
from topics.retention_rule import Keep, RetentionRule

_FOR_EVER = -1
"""As Kafka writes it."""


def _bound(value: object) -> object:
    if type(value) is int and (value > 0 or value == _FOR_EVER):
        return value
    raise ValueError(f"it is a whole number above 0, or {_FOR_EVER} for no bound, not {value!r}")


Bound: TypeAlias = Annotated[int, BeforeValidator(_bound)]


class RetentionSettings(Section):
    """How long a topic's records are kept (retention.md): ``table_…`` for SQL, ``stream_…`` for consumers. Each is
    above 0, or -1 for no bound."""

    stream_ms: Bound | None = None
    """Records are offered to consumers until their file's newest timestamp is older. In watch mode alone, in place of
    the broker's log start; in native mode the topic's ``retention.ms`` decides."""

    stream_bytes: Bound | None = None
    """The same by size: what a partition's newest files have together, in bytes of Parquet."""

    table_ms: Bound | None = None
    """SQL sees a file until its newest record is older, by the records' timestamps. Without a bound it sees all."""

    table_bytes: Bound | None = None
    """A partition's oldest file leaves the table while the later ones hold as much, in bytes of Parquet."""

    @model_validator(mode="before")
    @classmethod
    def _check_table(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            raise ValueError(f"it is a table, as {{table_ms = 604800000}}, not {value!r}")
        return value

    @property
    def rule(self) -> RetentionRule:
        has_stream = self.stream_ms is not None or self.stream_bytes is not None
        stream = _keep(self.stream_ms, self.stream_bytes) if has_stream else None
        return RetentionRule(stream=stream, table=_keep(self.table_ms, self.table_bytes))


def _keep(age_ms: int | None, size_bytes: int | None) -> Keep:
    return Keep(
        age_ms=None if age_ms == _FOR_EVER else age_ms, size_bytes=None if size_bytes == _FOR_EVER else size_bytes
    )
