"""Schema ids to schemas, with patience for a registry that is away and an end to it."""

from __future__ import annotations

import threading
from collections.abc import Collection

import structlog

from engine.bounded_cache import BoundedCache
from engine.clock import Clock
from engine.errors import Corrupt, Invalid, Unavailable
from engine.formats.codec import EVERY_OTHER_ID, PLAIN_SCHEMA_ID
from engine.schemas.source import Role, SchemaSource

MOST_GIVEN_UP = 500  # schemas of one topic; more of them are no schemas but values that happen to begin as framed ones
MOST_AWAY = 10_000  # ids of which is known how long they have been asked for in vain

_log = structlog.get_logger(__name__)


class SchemaResolver:
    """The ids of one topic's values, or of its keys, for any thread. Ids that are unavailable are given up for a while,
    so that no record ever waits for good.

    ``patience_ms``: how long a source that is away may hold records up before they are kept raw; ``retry_ms``: how long
    an id stays given up.
    """

    def __init__(
        self,
        source: SchemaSource | None,
        *,
        topic: str,
        role: Role,
        schema_format: str,
        clock: Clock,
        patience_ms: int,
        retry_ms: int,
    ) -> None:
        self._source = source
        self._topic = topic
        self._role = role
        self._format = schema_format
        self._clock = clock
        self._patience_ms = patience_ms
        self._retry_ms = retry_ms
        self._lock = threading.Lock()
        self._away_since_ms: BoundedCache[int, int] = BoundedCache(capacity=MOST_AWAY)
        self._given_up: dict[int, tuple[int, str]] = {}
        self._newest_problem: str | None = None

    def given_up(self) -> dict[int, str]:
        """The ids whose records are kept raw for now, with the reasons; where they are very many, all others too."""
        expired_ms = self._clock.monotonic_ms() - self._retry_ms
        with self._lock:
            self._given_up = {key: value for key, value in self._given_up.items() if value[0] > expired_ms}
            reasons = {schema_id: reason for schema_id, (_, reason) in self._given_up.items()}
        if len(reasons) >= MOST_GIVEN_UP:
            reasons[EVERY_OTHER_ID] = f"{len(reasons)} schemas are unavailable: no other is asked for now"
        return reasons

    def give_up(self, schema_id: int, reason: str) -> None:
        """Keep the records of this id raw until it is asked for again."""
        with self._lock:
            self._given_up[schema_id] = (self._clock.monotonic_ms(), reason)
            are_too_many = len(self._given_up) == MOST_GIVEN_UP
        if are_too_many:
            _log.warning("schemas_asked_for_no_more", topic=self._topic, role=self._role.value, ids=MOST_GIVEN_UP)

    def resolve(self, schema_ids: Collection[int]) -> tuple[dict[int, str], Unavailable | None]:
        """Ask the source for each id: the texts that it has, and the error to wait out where it is away. What can't be
        waited for is given up."""
        schemas: dict[int, str] = {}
        waiting: Unavailable | None = None
        given_up: dict[int, str] = {}
        for schema_id in sorted(schema_ids):
            if len(self._given_up) + len(given_up) >= MOST_GIVEN_UP:
                break
            try:
                schemas[schema_id] = self._get(schema_id)
                self._away_since_ms.remove(schema_id)
            except Unavailable as error:
                since_ms = self._away_since_ms.get_or_make(schema_id, self._clock.monotonic_ms)
                if self._clock.monotonic_ms() - since_ms < self._patience_ms:
                    waiting = waiting or error
                else:
                    given_up[schema_id] = error.problem
            except (Invalid, Corrupt) as error:
                given_up[schema_id] = error.problem
        for schema_id, reason in given_up.items():
            self.give_up(schema_id, reason)
        return schemas, waiting

    def newest(self) -> dict[int, str]:
        """The newest schema of each of the topic's subjects; none while they are unavailable, which is logged."""
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
