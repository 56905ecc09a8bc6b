"""The writers' schemas of one topic: which are known, asked for or given up, and how they get into its table."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Protocol

import structlog

from engine.bounded_cache import BoundedCache
from engine.clock import Clock
from engine.errors import Corrupt, Invalid, Unavailable
from engine.formats.codec import (
    DEFAULT_INFER_RECORDS,
    EVERY_OTHER_ID,
    INFER_RECORDS,
    INFERENCE,
    OPEN,
    PLAIN_SCHEMA_ID,
    CodecSpec,
    OnConflict,
)
from engine.formats.format_facts import facts_of
from engine.formats.proposals import on_conflict_of
from engine.schemas.source import Role, SchemaSource
from engine.table.topic_table import TableFacts, TopicTable
from topics.needs_schemas import NeedsSchemas
from topics.topic_rule import TopicRule

MOST_GIVEN_UP = 500  # schemas of one topic; more of them are no schemas but values that happen to begin as framed ones
MOST_AWAY = 10_000  # ids of which is known how long they have been asked for in vain

_log = structlog.get_logger(__name__)

_MOST_FRUITLESS = 4
"""Proposals that add nothing: workers may be a schema behind, but not for ever."""

log = structlog.get_logger(__name__)


class SchemaStore(Protocol):
    """Where a topic's schemas are kept: its table, through the writer of all tables."""

    def add_schemas(
        self,
        table: TopicTable,
        schemas: Mapping[int, str],
        *,
        on_conflict: OnConflict | None = None,
        of_keys: bool = False,
    ) -> TopicTable:
        """As ``TableWriter.add_schemas``."""

    def open(self, topic: str, topic_id: str) -> TopicTable | None:
        """As ``TableWriter.open``."""


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


class SchemaInference:
    """The columns of a topic whose values, or keys, name no schema. What the table refuses is not proposed again.

    New ones are inferred until the table holds so many offsets, or has had so many schemas. Both are in the table: a
    restart changes nothing.
    """

    def __init__(self, rule: TopicRule, role: Role) -> None:
        of_keys = role is Role.KEY
        schema_format, options = (
            (rule.layout.key, rule.key_options) if of_keys else (rule.value_format, rule.codec_options)
        )
        self._of_keys = of_keys
        self._inference = facts_of(schema_format).inference
        has_source = rule.schema_source is not None and (of_keys or not rule.infers)
        self._may_infer = self._inference is not None and not has_source
        self._records = int(options.get(INFER_RECORDS, DEFAULT_INFER_RECORDS))
        self._fruitless = 0

    def options(self, table: TopicTable) -> dict[str, str]:
        """What the codec is told: it counts the schemas itself."""
        offsets = sum(entry.end - entry.start for entry in table.ledger.values())
        is_open = offsets < self._records or not self._inferred(table)
        return {INFERENCE: OPEN} if self._may_infer and is_open else {}

    def add(self, writer: SchemaStore, table: TopicTable, proposed: Iterable[str]) -> TopicTable:
        """Store what workers propose as one more schema; the table as it is then. Raises as the writer does, but for
        Invalid: a schema that the table refuses ends inference, and the records keep their bytes."""
        known = self._inferred(table)
        newest = min(known, default=0)
        assert self._inference is not None, "only formats that infer propose schemas"
        text = resolve_name(self._inference)(known.get(newest), proposed)
        if text is None:
            self._fruitless += 1
            self._may_infer &= self._fruitless < _MOST_FRUITLESS
            return table
        try:
            return writer.add_schemas(table, {newest - 1: text}, of_keys=self._of_keys)
        except Invalid as error:
            found = writer.open(table.topic, table.topic_id)
            if found is not None and len(self._inferred(found)) > len(known):
                return found  # another daemon was faster
            log.warning("schema_inference_ended", topic=table.topic, problem=error.problem)
            self._may_infer = False
            return table

    def _inferred(self, table: TopicTable) -> dict[int, str]:
        codec = table.key_codec if self._of_keys else table.codec
        return {} if codec is None else {number: text for number, text in codec.schemas.items() if number < 0}


class TopicSchemas:
    """Those of the topic's values and of its keys. Safe to use from several threads.

    No table is kept: each method takes a state of it, old or new, and gives back the one that it left. What changes the
    table raises Unavailable, Corrupt, CommitUnknown as the writer does. ``patience_ms`` and ``retry_ms`` as
    ``SchemaResolver``.
    """

    def __init__(
        self, *, topic: str, rule: TopicRule, writer: SchemaStore, clock: Clock, patience_ms: int, retry_ms: int
    ) -> None:
        def of(role: Role, schema_format: str) -> _RoleSchemas:
            resolver = SchemaResolver(
                rule.schema_source,
                topic=topic,
                role=role,
                schema_format=schema_format,
                clock=clock,
                patience_ms=patience_ms,
                retry_ms=retry_ms,
            )
            return _RoleSchemas(role, rule, writer, resolver)

        # An id that was given up for values may be a key's all the same: each has a list of its own.
        self._values, self._keys = of(Role.VALUE, rule.value_format), of(Role.KEY, rule.layout.key)
        self._has_typed_key = rule.layout.has_typed_key
        self.clustering = rule.clustering
        """What files that are written again are sorted by."""
        self.latest_by_key = rule.latest_by_key
        """Whether a second table shows the newest record of each key; None: where the broker compacts the topic."""

    def facts(self, table: TopicTable, *, may_infer: bool = True) -> TableFacts:
        """What workers need of the table, the ids that were given up included.

        ``may_infer``: columns may be inferred from the records, as they are from new ones and never from old ones.
        """
        facts = table.facts
        key_codec = facts.key_codec
        return replace(
            facts,
            codec=self._values.codec(facts.codec, table, may_infer=may_infer),
            key_codec=None if key_codec is None else self._keys.codec(key_codec, table, may_infer=may_infer),
        )

    def resolve(self, table: TopicTable, needed: NeedsSchemas) -> tuple[TopicTable, Unavailable | None]:
        """Get these schemas into the table, or give them up; the error to wait out when the source is away."""
        table, of_values = self._values.resolve(table, needed.schema_ids, needed.proposed_schemas)
        table, of_keys = self._keys.resolve(table, needed.key_schema_ids, needed.proposed_key_schemas)
        return table, of_values or of_keys

    def obtainable(self, needed: NeedsSchemas) -> tuple[NeedsSchemas, Unavailable | None]:
        """Which of these ids the source has; and the error to wait out when the source is away."""
        values, of_values = self._values.resolver.resolve(needed.schema_ids)
        keys, of_keys = self._keys.resolver.resolve(needed.key_schema_ids)
        return NeedsSchemas(schema_ids=frozenset(values), key_schema_ids=frozenset(keys)), of_values or of_keys

    def add_newest(self, table: TopicTable) -> tuple[TopicTable, bool]:
        """Give the table the columns of its subjects' newest schemas; whether there were some of values. A registry
        that is away has none now: records bring the schemas they need."""
        values = self._values.resolver.newest()
        keys = self._keys.resolver.newest() if self._has_typed_key else {}
        return self._keys.add(self._values.add(table, values), keys), bool(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedTopic:
    """A topic as the daemon that leads some of its partitions last saw it; others' files are their own daemons' to
    replace. ``table`` may be old by the time it is looked at."""

    schemas: TopicSchemas
    table: TopicTable
    partitions: frozenset[int]


class _RoleSchemas:
    """Those of the values, or of the keys."""

    def __init__(self, role: Role, rule: TopicRule, writer: SchemaStore, resolver: SchemaResolver) -> None:
        of_keys = role is Role.KEY
        self.resolver = resolver
        self._writer = writer
        self._of_keys = of_keys
        self._value_format = rule.value_format
        self._on_conflict = on_conflict_of(rule.key_options if of_keys else rule.codec_options)
        self._inference = SchemaInference(rule, role)

    def codec(self, stored: CodecSpec, table: TopicTable, *, may_infer: bool) -> CodecSpec:
        inference = self._inference.options(table) if may_infer else {}
        return replace(stored, unresolved=self.resolver.given_up(), options={**stored.options, **inference})

    def resolve(
        self, table: TopicTable, schema_ids: Collection[int], proposed: Collection[str]
    ) -> tuple[TopicTable, Unavailable | None]:
        if proposed:
            table = self._inference.add(self._writer, table, proposed)
        schemas, waiting = self.resolver.resolve(schema_ids)
        return self.add(table, schemas), waiting

    def add(self, table: TopicTable, schemas: Mapping[int, str]) -> TopicTable:
        if schemas and not self._of_keys and table.codec.name != self._value_format:
            raise Unavailable(
                f"schemas are {self._value_format} ones, the table's values {table.codec.name}", topic=table.topic
            )
        for schema_id, text in schemas.items():
            try:
                table = self._writer.add_schemas(
                    table, {schema_id: text}, on_conflict=self._on_conflict, of_keys=self._of_keys
                )
            except Invalid as error:
                self.resolver.give_up(schema_id, error.problem)
        return table
