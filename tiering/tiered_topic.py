"""One incarnation of a topic and its table, as this process last saw it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from engine.clock import Clock
from engine.errors import Invalid, Unavailable
from engine.formats.proposals import first_fields, on_conflict_of
from engine.parquet.settings import ParquetSettings
from engine.schemas.source import Role
from engine.table.commit.identity import check_same
from engine.table.commit.range_append import CommitResult, Outcome, RangeAppend
from engine.table.commit.replacement import FileReplacement, ReplacementResult
from engine.table.commit.writer import TableWriter
from engine.table.ledger import LedgerEntry
from engine.table.topic_table import TableFacts, TopicTable
from tiering.rewrite_task import NeedsSchemas
from tiering.schema_inference import SchemaInference
from tiering.schema_resolver import SchemaResolver
from tiering.tiering_limits import TieringLimits
from tiering.topic_rule import TopicRule


class TieredTopic:
    """Opens the table, creates it with the first work, keeps the newest state that the writer gave back."""

    def __init__(
        self, *, topic: str, topic_id: str, rule: TopicRule, writer: TableWriter, clock: Clock, limits: TieringLimits
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.rule = rule
        self.table: TopicTable | None = None
        self._writer = writer
        self._clock = clock
        self._limits = limits
        # An id that was given up for values may be a key's all the same: each has a list of its own.
        self._resolver, self._key_resolver = (
            SchemaResolver(
                rule.schema_source, topic=topic, role=role, schema_format=schema_format, clock=clock, limits=limits
            )
            for role, schema_format in ((Role.VALUE, rule.value_format), (Role.KEY, rule.layout.key))
        )
        self._inference = SchemaInference(rule, Role.VALUE)
        self._key_inference = SchemaInference(rule, Role.KEY)
        self._opened_at_ms: int | None = None
        self._ask_newest_at_ms: int | None = 0 if rule.use_latest else None

    def open(self) -> None:
        """Read the table where it was not read yet. Raises Unavailable, Corrupt, Invalid."""
        if self._opened_at_ms is None:
            self.table = self._writer.open(self.topic, self.topic_id)
            self._opened_at_ms = self._clock.monotonic_ms()

    def check_settings(self) -> None:
        """That the settings keep the topic as its table was made to. Raises Invalid."""
        if self.table is not None:
            self.rule.check_table(self.table)

    def mark_stale(self) -> None:
        """Somebody else may have committed: read the table again before the next plan."""
        self._opened_at_ms = None

    def mark_stale_when_old(self) -> None:
        """As ``mark_stale``, but not more often than the limits say."""
        now_ms = self._clock.monotonic_ms()
        if self._opened_at_ms is not None and now_ms - self._opened_at_ms >= self._limits.reload_interval_ms:
            self._opened_at_ms = None

    def ledger(self, partition: int) -> LedgerEntry | None:
        """The ledger's line; None before the first commit."""
        return None if self.table is None else self.table.ledger.get(partition)

    def ensure(self, cluster_id: str, *, is_gone: bool) -> bool:
        """Create the table unless it is there; True when its state is news. Raises Unavailable, Corrupt, Invalid.

        ``is_gone``: the broker has this incarnation no more, what is left of it lies in the spool.
        """
        rule = self.rule
        codec, key_codec = rule.codec, rule.key_codec
        if self.table is not None:
            self._require_warehouse(self.table)
            if not is_gone:
                check_same(self.table, cluster_id, rule.layout, codec, key_codec)
            return False
        self.table = self._writer.ensure(
            topic=self.topic,
            topic_id=self.topic_id,
            cluster_id=cluster_id,
            layout=rule.layout,
            codec=codec,
            value_fields=first_fields(codec),
            key_codec=key_codec,
            key_fields=() if key_codec is None else first_fields(key_codec),
            is_gone=is_gone,
        )
        self._opened_at_ms = self._clock.monotonic_ms()
        return True

    def _require_warehouse(self, table: TopicTable) -> None:
        """A disk that is not mounted leaves an empty folder that could be written to as well: files would go to the
        wrong disk, and be hidden once the right one is back."""
        if table.warehouse.exists(table.metadata_location):
            return
        # Or others have committed so often since it was read that its metadata file was removed.
        self.mark_stale()
        raise Unavailable(
            "the warehouse does not have the table's own metadata",
            topic=self.topic,
            file=table.metadata_location,
            next_step="see that the warehouse's disk is mounted, and that it is the one the table was made on.",
        )

    @property
    def wants_newest(self) -> bool:
        """Whether the table may get columns now from schemas that no record has named yet."""
        return self._ask_newest_at_ms is not None and self._clock.monotonic_ms() >= self._ask_newest_at_ms

    def add_newest(self) -> None:
        """Give the table the columns of its subjects' newest schemas, once there are some. A registry that is away is
        asked again later: records bring the schemas they need. Raises Unavailable, Corrupt, CommitUnknown of the table.
        """
        assert self.table is not None, "columns are added after ensure"
        self._ask_newest_at_ms = self._clock.monotonic_ms() + self._limits.reload_interval_ms
        values, keys = self._resolver.newest(), {}
        if self.rule.layout.has_typed_key:
            keys = self._key_resolver.newest()
        self._add(self._resolver, values, self._add_schemas)
        self._add(self._key_resolver, keys, self._add_key_schemas)
        if values:
            self._ask_newest_at_ms = None

    def facts(self) -> TableFacts:
        """What workers need of the table, the ids that were given up included."""
        assert self.table is not None, "facts are asked for after ensure"
        facts = self.table.facts
        key_codec = facts.key_codec
        if key_codec is not None:
            options = {**key_codec.options, **self._key_inference.options(self.table)}
            key_codec = replace(key_codec, unresolved=self._key_resolver.given_up(), options=options)
        options = {**facts.codec.options, **self._inference.options(self.table)}
        codec = replace(facts.codec, unresolved=self._resolver.given_up(), options=options)
        return replace(facts, codec=codec, key_codec=key_codec)

    def resolve(self, needed: NeedsSchemas) -> Unavailable | None:
        """Get these ids into the table, or give them up; the error to wait out when the source is away.

        Raises Unavailable, Corrupt, CommitUnknown of the table.
        """
        assert self.table is not None, "schemas are asked for by records, which need a table"
        if needed.proposed_schemas:
            self.table = self._inference.add(self._writer, self.table, needed.proposed_schemas)
        if needed.proposed_key_schemas:
            self.table = self._key_inference.add(self._writer, self.table, needed.proposed_key_schemas)
        of_values = self._resolve(self._resolver, needed.schema_ids, self._add_schemas)
        of_keys = self._resolve(self._key_resolver, needed.key_schema_ids, self._add_key_schemas)
        return of_values or of_keys

    def obtainable(self, needed: NeedsSchemas) -> tuple[NeedsSchemas, Unavailable | None]:
        """Which of these ids the source has, the table as it is; and the error to wait out when the source is away."""
        values = self._resolver.resolve(needed.schema_ids)
        keys = self._key_resolver.resolve(needed.key_schema_ids)
        had = NeedsSchemas(schema_ids=frozenset(values.schemas), key_schema_ids=frozenset(keys.schemas))
        return had, next(iter([*values.waiting.values(), *keys.waiting.values()]), None)

    def _add_schemas(self, table: TopicTable, schemas: Mapping[int, str]) -> TopicTable:
        return self._writer.add_schemas(table, schemas, on_conflict=on_conflict_of(self.rule.codec_options))

    def _add_key_schemas(self, table: TopicTable, schemas: Mapping[int, str]) -> TopicTable:
        return self._writer.add_key_schemas(table, schemas, on_conflict=on_conflict_of(self.rule.key_options))

    def _resolve(
        self,
        resolver: SchemaResolver,
        schema_ids: Collection[int],
        add: Callable[[TopicTable, Mapping[int, str]], TopicTable],
    ) -> Unavailable | None:
        resolution = resolver.resolve(schema_ids)
        self._add(resolver, resolution.schemas, add)
        return next(iter(resolution.waiting.values()), None)

    def _add(
        self,
        resolver: SchemaResolver,
        schemas: Mapping[int, str],
        add: Callable[[TopicTable, Mapping[int, str]], TopicTable],
    ) -> None:
        assert self.table is not None, "schemas are added to a table"
        for schema_id, text in schemas.items():
            try:
                self.table = add(self.table, {schema_id: text})
            except Invalid as error:
                resolver.give_up(schema_id, error.problem)

    def commit(self, appends: Sequence[RangeAppend], settings: ParquetSettings | None) -> CommitResult:
        """One commit; what the table refuses makes it stale. Raises Unavailable, CommitUnknown, Invalid, Corrupt."""
        assert self.table is not None, "appends come from files of the table"
        try:
            result = self._writer.commit(self.table, appends, settings)
        except BaseException:
            self.mark_stale()
            raise
        self.table = result.table
        refused = any(item.outcome not in {Outcome.COMMITTED, Outcome.ALREADY_THERE} for item in result.results)
        if refused or result.table.foreign is not None:
            self.mark_stale()
        return result

    def replace_files(
        self, replacements: Sequence[FileReplacement], settings: ParquetSettings | None
    ) -> ReplacementResult:
        """One commit of files in the place of others. Raises Unavailable, CommitUnknown, Invalid, Corrupt."""
        assert self.table is not None, "files are replaced in a table"
        try:
            result = self._writer.replace(self.table, replacements, settings)
        except BaseException:
            self.mark_stale()
            raise
        self.table = result.table
        return result
