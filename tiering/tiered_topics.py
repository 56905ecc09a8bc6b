"""The topics whose partitions lie here, by topic id, each with its table as this process last saw it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.clock import Clock
from engine.errors import FloebergError, Invalid, Unavailable
from engine.formats.proposals import first_fields
from engine.parquet.settings import ParquetSettings
from engine.table.commit.judge import check_same
from engine.table.commit.range_append import CommitResult, RangeAppend
from engine.table.commit.writer import TableWriter
from engine.table.ledger import LedgerEntry, Outcome
from engine.table.topic_table import TableFacts, TopicTable
from engine.topic_partition import TopicIdPartition
from tiering.open_format import OpenFormat, ReadRanges
from tiering.planner import PartitionWork, PlannedRange
from tiering.tiering_limits import TieringLimits
from topics.needs_schemas import NeedsSchemas
from topics.topic_rule import TopicRule, rule_of
from topics.topic_schemas import TopicSchemas

_PAUSE_BETWEEN_TURNS_MS = 2_000
"""A turn costs about ten milliseconds: the catalog, the broker and what they answer."""


class TieredTopic:
    """Opens the table, creates it with the first work, keeps the newest state that the writer gave back."""

    def __init__(
        self, *, topic: str, topic_id: str, rule: TopicRule, writer: TableWriter, clock: Clock, limits: TieringLimits
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.rule = rule
        self.table: TopicTable | None = None
        self._asked = rule
        self._writer = writer
        self._clock = clock
        self._limits = limits
        self._schemas = None if rule.is_open else self._schemas_of(rule)
        self._open_format = OpenFormat(rule, topic, clock=clock, limits=limits)
        self._opened_at_ms: int | None = None
        self._ask_newest_at_ms: int | None = 0 if rule.use_latest else None

    def open(self) -> None:
        """Read the table where it was not read yet. Raises Unavailable, Corrupt, Invalid."""
        if self._opened_at_ms is None:
            self.table = self._writer.open(self.topic, self.topic_id)
            self._opened_at_ms = self._clock.monotonic_ms()
            if self._asked.is_open and self.table is not None:
                settled = self._asked.settled_by(self.table)
                if (settled.value_format, settled.codec_options) != (self.rule.value_format, self.rule.codec_options):
                    self._settle(settled)

    @property
    def schemas(self) -> TopicSchemas:
        """Those of the topic's table."""
        assert self._schemas is not None, "there is no table before its format is known"
        return self._schemas

    def find_format(self, ranges: Sequence[PlannedRange], read: ReadRanges) -> str | None:
        """Settle the rule, where it leaves the format open, by the first values of ``ranges`` of one partition, none
        of which is tiered; why that can't be done yet, or None. Raises Corrupt, Unavailable when these can't be read.
        """
        if not self.rule.is_open:
            return None
        guess = self._open_format.find(ranges, read)
        if guess is None:
            return self._open_format.why
        self._settle(self.rule.settled_as(guess))
        return None

    def _settle(self, rule: TopicRule) -> None:
        self.rule = rule
        self._schemas = self._schemas_of(rule)

    def _schemas_of(self, rule: TopicRule) -> TopicSchemas:
        return TopicSchemas(
            topic=self.topic,
            rule=rule,
            writer=self._writer,
            clock=self._clock,
            patience_ms=self._limits.schema_patience_ms,
            retry_ms=self._limits.schema_retry_ms,
        )

    def check_settings(self) -> None:
        """That the settings keep the topic as its table was made to. Raises Invalid."""
        if self.table is not None:
            self.rule.check_table(self.table)

    def mark_stale(self) -> None:
        """Somebody else may have committed: read the table again before the next plan."""
        self._opened_at_ms = None

    @property
    def is_old(self) -> bool:
        """It was last read so long ago that the limits say: again."""
        now_ms = self._clock.monotonic_ms()
        return self._opened_at_ms is None or now_ms - self._opened_at_ms >= self._limits.reload_interval_ms

    def ledger(self, partition: int) -> LedgerEntry | None:
        """The ledger's line; None before the first commit."""
        return None if self.table is None else self.table.ledger.get(partition)

    def ensure(self, cluster_id: str, *, is_gone: bool) -> None:
        """Create the table unless it is there. Raises Unavailable, Corrupt, Invalid.

        ``is_gone``: the broker has this incarnation no more, what is left of it lies in the spool.
        """
        if self.table is not None:
            self._require_warehouse(self.table)
            if not is_gone:
                self._check_same(self.table, cluster_id)
            return
        try:
            self.table = self._made(cluster_id, is_gone=is_gone)
        except Invalid:
            # Another daemon, whose partitions begin with other values, was quicker: its table's word counts.
            if not self._asked.is_open:
                raise
            self.mark_stale()
            self.open()
            if self.table is None:
                raise
            self._check_same(self.table, cluster_id)
        self._opened_at_ms = self._clock.monotonic_ms()

    def _check_same(self, table: TopicTable, cluster_id: str) -> None:
        check_same(table, cluster_id, self.rule.layout, self.rule.codec, self.rule.key_codec)

    def _made(self, cluster_id: str, *, is_gone: bool) -> TopicTable:
        rule = self.rule
        codec, key_codec = rule.codec, rule.key_codec
        return self._writer.ensure(
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
    def wants_newest_at_ms(self) -> int | None:
        """When (monotonic) the table may get columns from schemas that no record has named yet; None for never."""
        return self._ask_newest_at_ms

    @property
    def wants_newest(self) -> bool:
        return self._ask_newest_at_ms is not None and self._clock.monotonic_ms() >= self._ask_newest_at_ms

    def add_newest(self) -> None:
        """Give the table the columns of its subjects' newest schemas, once there are some. A registry that is away is
        asked again later: records bring the schemas they need. Raises Unavailable, Corrupt, CommitUnknown of the table.
        """
        assert self.table is not None, "columns are added after ensure"
        self._ask_newest_at_ms = self._clock.monotonic_ms() + self._limits.reload_interval_ms
        self.table, has_some = self.schemas.add_newest(self.table)
        if has_some:
            self._ask_newest_at_ms = None

    def facts(self) -> TableFacts:
        """What workers need of the table, the ids that were given up included."""
        assert self.table is not None, "facts are asked for after ensure"
        return self.schemas.facts(self.table)

    def resolve(self, needed: NeedsSchemas) -> Unavailable | None:
        """Get these ids into the table, or give them up; the error to wait out when the source is away.

        Raises Unavailable, Corrupt, CommitUnknown of the table.
        """
        assert self.table is not None, "schemas are asked for by records, which need a table"
        self.table, waiting = self.schemas.resolve(self.table, needed)
        return waiting

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """``ready``: the ids of topics that have tables; ``failures``: why those of partitions can't be had, and ``errors``
    those of whole topics; ``undecided``: why the format of others is not known yet."""

    ready: set[str] = field(default_factory=set)
    failures: dict[TopicIdPartition, FloebergError] = field(default_factory=dict)
    errors: dict[str, FloebergError] = field(default_factory=dict)
    undecided: dict[str, str] = field(default_factory=dict)


class TieredTopics:
    """Opens tables, and makes those that are missing. ``get`` is for any thread, the rest for the loop's."""

    def __init__(self, *, writer: TableWriter, rules: Sequence[TopicRule], clock: Clock, limits: TieringLimits) -> None:
        self._writer = writer
        self._rules = tuple(rules)
        self._clock = clock
        self._limits = limits
        self._topics: dict[str, TieredTopic] = {}
        self._led_here: set[TopicIdPartition] = set()
        self._turn_at_ms = clock.monotonic_ms()
        self._new_tables: set[str] = set()

    def of(self, partition: TopicIdPartition) -> TieredTopic:
        """The topic of a partition that a rule matches."""
        return self._topics[partition.topic_id]

    def get(self, topic_id: str) -> TieredTopic | None:
        """The topic of this id; None where none of its partitions lies here."""
        return self._topics.get(topic_id)

    def take_turn(self) -> str | None:
        """The id of the topic whose last turn is the longest ago, where its table was read long ago and no other had
        its turn just now."""
        topic_id, now_ms = next(iter(self._topics), None), self._clock.monotonic_ms()
        pause_ms = min(_PAUSE_BETWEEN_TURNS_MS, self._limits.reload_interval_ms)
        if topic_id is None or not self._topics[topic_id].is_old or now_ms - self._turn_at_ms < pause_ms:
            return None
        self._turn_at_ms = now_ms
        self._topics[topic_id] = self._topics.pop(topic_id)
        return topic_id

    def take_new_tables(self) -> set[str]:
        """The ids of topics that got their table since the last call."""
        new, self._new_tables = self._new_tables, set()
        return new

    def open(
        self, partitions: Sequence[TopicIdPartition], *, led_here: Collection[TopicIdPartition], known: Collection[str]
    ) -> tuple[dict[TopicIdPartition, FloebergError], set[str]]:
        """Read the tables of ``partitions`` where their state may be old: why some can't be had, and the topic ids of
        which all partitions are concerned, by an error or another ledger.

        ``known``: the topic ids that the broker has. Where leadership came here, somebody else committed before.
        """
        for who in partitions:
            topic = self._topics.get(who.topic_id) or self._made(who)
            if topic is None:
                continue
            self._topics[who.topic_id] = topic
            came_here = who in led_here and who not in self._led_here
            # Another daemon commits where it leads; other programs change a table at any time.
            if came_here or topic.is_old:
                topic.mark_stale()
        self._led_here.difference_update(partitions)
        self._led_here.update(led_here)
        errors: dict[str, FloebergError] = {}
        changed: set[str] = set()
        for topic_id in dict.fromkeys(who.topic_id for who in partitions if who.topic_id in self._topics):
            topic = self._topics[topic_id]
            before = topic.table
            try:
                topic.open()
                # Of a topic that the broker has no more, what the spool holds is kept as its table was made.
                if topic_id in known:
                    topic.check_settings()
            except FloebergError as error:
                errors[topic_id] = error
            if topic.table is not before and _ledger_of(topic.table) != _ledger_of(before):
                changed.add(topic_id)
        return {who: errors[who.topic_id] for who in partitions if who.topic_id in errors}, changed | errors.keys()

    def forget(self, partition: TopicIdPartition, *, is_last: bool) -> None:
        """A partition is gone, or ``is_last``: all of its topic."""
        self._led_here.discard(partition)
        if is_last:
            self._topics.pop(partition.topic_id, None)

    def prepare(
        self,
        wanted: Iterable[PartitionWork],
        *,
        most_tasks: int,
        cluster_id: str,
        known: Collection[str],
        read: ReadRanges,
    ) -> Prepared:
        """See that the topics of ``wanted`` have tables, with the columns they get before their first record, in this
        order and until those partitions together, each with its share, take ``most_tasks``. A share that makes a table
        is a whole task: that costs about as much. What fails takes no other's place.

        A topic whose format is open gets its table once some partition's ranges tell it.
        """
        done = Prepared()
        tasks = 0.0
        for work in wanted:
            who, topic_id = work.partition, work.partition.topic_id
            is_new = self._topics[topic_id].table is None
            if topic_id not in done.ready and topic_id not in done.errors:
                self._prepare(work, done, cluster_id=cluster_id, is_gone=topic_id not in known, read=read)
            if topic_id in done.errors:
                done.failures[who] = done.errors[topic_id]
            if topic_id not in done.ready:
                continue
            if is_new:
                self._new_tables.add(topic_id)
            tasks += 1 if is_new and work.share else work.share
            if tasks >= most_tasks:
                break
        return done

    def _prepare(
        self,
        work: PartitionWork,
        done: Prepared,
        *,
        cluster_id: str,
        is_gone: bool,
        read: ReadRanges,
    ) -> None:
        topic_id = work.partition.topic_id
        topic = self._topics[topic_id]
        try:
            why = topic.find_format(work.ranges, read)
        except FloebergError as error:
            # Another partition's values may tell.
            done.failures[work.partition] = error
            return
        if why is not None:
            done.undecided[topic_id] = why
            return
        try:
            topic.ensure(cluster_id, is_gone=is_gone)
            if topic.wants_newest:
                topic.add_newest()
        except FloebergError as error:
            done.errors[topic_id] = error
        else:
            done.ready.add(topic_id)

    def _made(self, who: TopicIdPartition) -> TieredTopic | None:
        rule = rule_of(who.topic, self._rules)
        if rule is None:
            return None
        return TieredTopic(
            topic=who.topic,
            topic_id=who.topic_id,
            rule=rule,
            writer=self._writer,
            clock=self._clock,
            limits=self._limits,
        )


def _ledger_of(table: TopicTable | None) -> Mapping[int, LedgerEntry]:
    return {} if table is None else table.ledger
