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
    """``stream_…``: what consumers have, in place of what the broker's own log start says; ``table_…``: what the table
    shows. Milliseconds by records' timestamps, bytes of files by partition; -1 for no bound."""

    stream_ms: Bound | None = None
    stream_bytes: Bound | None = None
    table_ms: Bound | None = None
    table_bytes: Bound | None = None

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
