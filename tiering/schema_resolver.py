"""Schema ids to schemas, with patience for a registry that is away and an end to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import structlog

from engine.clock import Clock
from engine.errors import Corrupt, Invalid, Unavailable
from engine.formats.codec import EVERY_OTHER_ID, PLAIN_SCHEMA_ID
from engine.schemas.source import Role, SchemaSource
from tiering.tiering_limits import TieringLimits

MOST_GIVEN_UP = 500  # schemas of one topic; more of them are no schemas but values that happen to begin as framed ones
MOST_AWAY = 10_000  # ids of which is known how long they have been asked for in vain

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What became of each id that was asked for: its text, the reason to give it up, or the error to wait out."""

    schemas: Mapping[int, str]
    given_up: Mapping[int, str]
    waiting: Mapping[int, Unavailable]


class SchemaResolver:
    """The ids of one topic's values, or of its keys. Ids that can't be had are given up for a while, so that no record
    ever waits for good."""

    def __init__(
        self,
        source: SchemaSource | None,
        *,
        topic: str,
        role: Role,
        schema_format: str,
        clock: Clock,
        limits: TieringLimits,
    ) -> None:
        self._source = source
        self._topic = topic
        self._role = role
        self._format = schema_format
        self._clock = clock
        self._limits = limits
        self._away_since_ms: dict[int, int] = {}
        self._given_up: dict[int, tuple[int, str]] = {}
        self._newest_problem: str | None = None

    def given_up(self) -> dict[int, str]:
        """The ids whose records are kept raw for now, with the reasons; where they are very many, all others too."""
        expired_ms = self._clock.monotonic_ms() - self._limits.schema_retry_ms
        self._given_up = {key: value for key, value in self._given_up.items() if value[0] > expired_ms}
        reasons = {schema_id: reason for schema_id, (_, reason) in self._given_up.items()}
        if len(reasons) >= MOST_GIVEN_UP:
            reasons[EVERY_OTHER_ID] = f"{len(reasons)} schemas can't be had: no other is asked for now"
        return reasons

    def give_up(self, schema_id: int, reason: str) -> None:
        """Keep the records of this id raw until it is asked for again."""
        self._given_up[schema_id] = (self._clock.monotonic_ms(), reason)
        if len(self._given_up) == MOST_GIVEN_UP:
            _log.warning("schemas_asked_for_no_more", topic=self._topic, role=self._role.value, ids=MOST_GIVEN_UP)

    def resolve(self, schema_ids: Collection[int]) -> Resolution:
        """Ask the source for each id."""
        schemas: dict[int, str] = {}
        waiting: dict[int, Unavailable] = {}
        given_up: dict[int, str] = {}
        for schema_id in sorted(schema_ids):
            if len(self._given_up) + len(given_up) >= MOST_GIVEN_UP:
                break
            try:
                schemas[schema_id] = self._get(schema_id)
                self._away_since_ms.pop(schema_id, None)
            except Unavailable as error:
                now_ms = self._clock.monotonic_ms()
                since_ms = self._away_since_ms.setdefault(schema_id, now_ms)
                if len(self._away_since_ms) > MOST_AWAY:
                    del self._away_since_ms[next(iter(self._away_since_ms))]
                if now_ms - since_ms < self._limits.schema_patience_ms:
                    waiting[schema_id] = error
                else:
                    given_up[schema_id] = error.problem
            except (Invalid, Corrupt) as error:
                given_up[schema_id] = error.problem
        for schema_id, reason in given_up.items():
            self.give_up(schema_id, reason)
        return Resolution(schemas=schemas, given_up=given_up, waiting=waiting)

    def newest(self) -> dict[int, str]:
        """The newest schema of each of the topic's subjects; none while they can't be had, which is logged."""
        if self._source is None:
            return {}
        try:
            found = self._source.newest(self._topic, self._role, self._format)
        except (Unavailable, Invalid) as error:
            if str(error) != self._newest_problem:
                _log.warning("newest_schema_not_had", topic=self._topic, role=self._role.value, error=str(error))
            self._newest_problem = str(error)
            return {}
        return {schema.schema_id: schema.text for schema in found if schema.schema_id is not None}

    def _get(self, schema_id: int) -> str:
        if self._source is None:
            raise Invalid(f"no source of schemas is set, and a value names the schema {schema_id}")
        if schema_id != PLAIN_SCHEMA_ID:
            return self._source.get(schema_id, self._format)
        newest = self._source.newest(self._topic, self._role, self._format)
        if not newest:
            raise Invalid("a value names no schema, and the source has none for the topic")
        return newest[0].text
