"""The one writer of a process: everything that changes a topic's table goes through it (docs/commit_protocol.md)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa
import structlog
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from engine.clock import Clock
from engine.errors import Invalid
from engine.fault_points import FaultPoint, reach
from engine.formats.codec import CodecSpec, OnConflict
from engine.parquet.settings import ParquetSettings
from engine.table.catalog import access as catalogs
from engine.table.catalog.access import Identifier
from engine.table.columns import TableLayout, iceberg_schema
from engine.table.commit.change import Committed, ExpireSnapshots, OnCommit
from engine.table.commit.erasure import EraseRecords
from engine.table.commit.horizon_move import MoveHorizons
from engine.table.commit.judge import check_older_incarnation, check_same, topic_id_of
from engine.table.commit.latest_files import FenceStream, FollowColumns, NameFiles, PartitionNaming
from engine.table.commit.range_append import AppendRanges, AppendResult, CommitResult, RangeAppend
from engine.table.commit.replacement import FileReplacement, ReplaceDataFiles
from engine.table.commit.retype import FooterDigests, RetypeTable
from engine.table.commit.retype_plan import RetypePlan
from engine.table.commit.schema_change import AddColumns, AddSchemas
from engine.table.commit.session import TableSession
from engine.table.commit.sweep_fence import FenceSweep
from engine.table.commit.takeover import Takeover, TakeOverRanges
from engine.table.foreign.examination import GatherAll, gather_in_process
from engine.table.history_limits import HistoryLimits
from engine.table.loading import TableLoader, new_latest_properties, new_table_properties
from engine.table.proof.verifier import VerifiedErasure, VerifiedFile
from engine.table.properties import CLUSTER_ID_PROPERTY, TOPIC_ID_PROPERTY, TOPIC_PROPERTY
from engine.table.topic_table import TopicTable

# The first id Iceberg gives to partition fields (spec, Partitioning).
_PARTITION_FIELD_ID = 1000

log = structlog.get_logger(__name__)


class TableWriter:
    """Opens, creates and commits to the tables of one catalog. One object per process; safe between its threads.

    Changes of one table that come together are committed together; those of different tables side by side.
    """

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        *,
        namespace: str = catalogs.DEFAULT_NAMESPACE,
        gather: GatherAll = gather_in_process,
        history: HistoryLimits | None = None,
        on_commit: OnCommit = lambda kind, took_ms: None,  # noqa: ARG005
    ) -> None:
        """``gather`` reads files that other programs wrote; ``history`` says which old snapshots go with a commit."""
        self._catalog = catalog
        self._clock = clock
        self._namespace = namespace
        self._gather = gather
        self._history = history or HistoryLimits()
        self._on_commit = on_commit
        self._loader = TableLoader(lambda: catalogs.warehouse_of(catalog))
        self._sessions: dict[tuple[str, str, bool], TableSession] = {}
        self._log_starts: dict[str, Mapping[int, int]] = {}
        self._lock = threading.Lock()

    def session(self, topic: str, topic_id: str) -> TableSession:
        """The session of this incarnation of a topic. Raises Unavailable while a catalog is away from the start."""
        return self._session(topic, topic_id, is_latest=False)

    def latest_session(self, topic: str, topic_id: str) -> TableSession:
        """The session of the ``__latest`` table of this incarnation. Raises as ``session``."""
        return self._session(topic, topic_id, is_latest=True)

    def _session(self, topic: str, topic_id: str, *, is_latest: bool) -> TableSession:
        key = topic, topic_id, is_latest
        with self._lock:
            if key not in self._sessions:
                self._sessions[key] = TableSession(
                    topic=topic,
                    topic_id=topic_id,
                    catalog=self._catalog,
                    namespace=self._namespace,
                    clock=self._clock,
                    loader=self._loader,
                    gather=self._gather,
                    history=self._history,
                    on_commit=self._on_commit,
                    is_latest=is_latest,
                )
            return self._sessions[key]

    def open(self, topic: str, topic_id: str) -> TopicTable | None:
        """The table of this incarnation of a topic as the catalog has it now, or None.

        What somebody else changed without loss is adopted. Raises Unavailable, Corrupt (somebody else broke the
        stream, or dropped the table), Invalid (a table of that name is not a topic's).
        """
        return self.session(topic, topic_id).open()

    def newest(self, table: TopicTable) -> TopicTable:
        """A table as it is now: others commit to it. Raises as ``open``, and Invalid where it is gone."""
        found = self.open(table.topic, table.topic_id)
        if found is None:
            raise Invalid("the topic's table is gone from the catalog", topic=table.topic)
        return found

    def ensure(
        self,
        *,
        topic: str,
        topic_id: str,
        cluster_id: str,
        layout: TableLayout,
        codec: CodecSpec,
        value_fields: Sequence[pa.Field],
        key_codec: CodecSpec | None = None,
        key_fields: Sequence[pa.Field] = (),
        is_gone: bool = False,
    ) -> TopicTable:
        """The table of this incarnation, created where there is none, with at least these columns of value and key.

        The table of an earlier incarnation keeps its files and is renamed with its topic id. ``is_gone``: the broker
        has this incarnation no more, so its table gets the name with the id at once, and leaves the plain name to the
        next. Raises Invalid when the table has another layout or format, or belongs to another cluster or topic;
        Unavailable; Corrupt.
        """

        def create() -> Table | None:
            properties = new_table_properties(
                topic=topic,
                topic_id=topic_id,
                cluster_id=cluster_id,
                layout=layout,
                codec=codec,
                key_codec=key_codec,
            )
            schema = iceberg_schema(layout, value_fields, key_fields)
            return self._create(properties, session.given(), schema, layout, is_gone)

        session = self.session(topic, topic_id)
        check_same(session.find_or_create(create), cluster_id, layout, codec, key_codec)
        return session.commit(
            AddColumns(value_format=codec.name, value_fields=value_fields, key_fields=key_fields)
        ).table

    def add_schemas(
        self,
        table: TopicTable,
        schemas: Mapping[int, str],
        *,
        on_conflict: OnConflict | None = None,
        of_keys: bool = False,
    ) -> TopicTable:
        """Store writers' schemas with the table and add the columns they need (docs/row_format.md, Several schemas).

        ``of_keys``: those of typed keys, whose fields are the key's. ``on_conflict`` as the topic's setting says; None:
        as it did when the table was made. Raises Invalid for a text that is no schema, and when an id is known with
        another text.
        """
        change = AddSchemas(value_format=table.codec.name, schemas=schemas, on_conflict=on_conflict, of_keys=of_keys)
        added = self.session(table.topic, table.topic_id).commit(change).table
        reach(FaultPoint.SCHEMAS_COMMITTED)
        return added

    def commit(
        self, table: TopicTable, appends: Sequence[RangeAppend], settings: ParquetSettings | None = None
    ) -> CommitResult:
        """Add ranges in one Iceberg commit; each stands or falls by itself, and the result says which did.

        ``settings``: the encodings the files were written with, remembered with the table. Raises CommitUnknown when
        neither the commit nor the ledger afterwards could be had an answer from, Unavailable after too many conflicts
        or when the catalog is away, Invalid for a file of another table.
        """
        _check_files(table, [append.file for append in appends if append.file is not None])
        change = AppendRanges(appends, settings, self._log_starts.get(table.topic_id, {}))
        done = self.session(table.topic, table.topic_id).commit(change)
        results = (AppendResult(append=a, outcome=o) for a, o in zip(appends, done.outcomes, strict=True))
        return CommitResult(table=done.table, results=tuple(results))

    def replace(
        self, table: TopicTable, replacements: Sequence[FileReplacement], settings: ParquetSettings | None = None
    ) -> Committed:
        """Put files in the place of others with the same records, in one Iceberg commit; each group stands or falls by
        itself. Appends of others are conflicts, which are counted, and nothing worse.

        ``settings`` the encodings of the new ones. Raises as ``commit``.
        """
        _check_files(table, [new for replacement in replacements for new in replacement.new])
        return self.session(table.topic, table.topic_id).commit(ReplaceDataFiles(replacements, settings))

    def retype(
        self, table: TopicTable, plan: RetypePlan, new: Sequence[VerifiedFile], digests: FooterDigests
    ) -> Committed:
        """Give the values the columns and the codec of ``plan``, and all files' places to ``new`` ones, in one commit.

        GONE where ``new`` does not cover all of the table's files. Raises as ``commit``, and Invalid where the table
        can't have these columns.
        """
        _check_files(table, new)
        return self.session(table.topic, table.topic_id).commit(RetypeTable(plan, new, digests))

    def take_over(
        self, table: TopicTable, takeovers: Sequence[Takeover], settings: ParquetSettings | None = None
    ) -> Committed:
        """Put files of our own in the place of others' that hold the same records, in one Iceberg commit; each group
        stands or falls by itself. Raises as ``commit``."""
        _check_files(table, [new for takeover in takeovers for new in takeover.new])
        return self.session(table.topic, table.topic_id).commit(TakeOverRanges(takeovers, settings))

    def erase(
        self,
        table: TopicTable,
        erasures: Sequence[VerifiedErasure],
        *,
        erasure_id: str,
        at_ms: int,
        settings: ParquetSettings | None = None,
    ) -> Committed:
        """Take records out for good, in one Iceberg commit; each file stands or falls by itself.

        ``erasure_id`` and ``at_ms`` are what the table remembers of it. Raises as ``commit``, and Corrupt where the
        files of a partition are not what the ledger says.
        """
        _check_files(table, [one.new for one in erasures if one.new is not None])
        change = EraseRecords(erasures, erasure_id=erasure_id, at_ms=at_ms, settings=settings)
        return self.session(table.topic, table.topic_id).commit(change)

    def note_log_starts(self, table: TopicTable, log_starts: Mapping[int, int]) -> None:
        """The stream's horizons by partition, to be recorded with the next append to the table: that costs nothing."""
        with self._lock:
            self._log_starts[table.topic_id] = dict(log_starts)

    def move_horizons(
        self,
        table: TopicTable,
        *,
        log_starts: Mapping[int, int] = MappingProxyType({}),
        table_starts: Mapping[int, int] = MappingProxyType({}),
    ) -> TopicTable:
        """Move horizons of partitions in one commit: the stream's to ``log_starts``, the table's up to ``table_starts``
        as far as whole files lie below. None moves back. Files leave what they no longer belong to.

        Raises Invalid for a partition without a ledger line, and as ``commit``.
        """
        session = self.session(table.topic, table.topic_id)
        change = MoveHorizons(log_starts=log_starts, table_starts=table_starts)
        # What the decision reads is read before anybody waits for the commit.
        change.decide(session.open() or table)
        moved = session.commit(change).table
        reach(FaultPoint.HORIZONS_MOVED)
        return moved

    def expire(self, table: TopicTable, limits: HistoryLimits | None = None, *, is_latest: bool = False) -> Committed:
        """Let old snapshots go in a commit of its own; none is made where none goes. ``limits`` instead of the
        writer's; ``is_latest``: of a ``__latest`` table. The result says how many went, at most ``MOST_AT_ONCE``.
        Raises as ``commit``.
        """
        return self._session(table.topic, table.topic_id, is_latest=is_latest).commit(ExpireSnapshots(limits))

    def ensure_latest(self, table: TopicTable) -> TopicTable:
        """The ``__latest`` table of a topic's, created where there is none, with its columns (docs/latest_by_key.md).

        Raises Invalid (the name is taken), Unavailable, Corrupt.
        """
        properties = new_latest_properties(table)

        def create() -> Table | None:
            return self._create(properties, session.given(), table.shown_schema, table.layout, False)

        session = self.latest_session(table.topic, table.topic_id)
        if session.open() is None:
            session.find_or_create(create)
        return session.commit(FollowColumns(stream=table)).table

    def name_files(self, table: TopicTable, planned: Mapping[int, PartitionNaming], *, stream: TopicTable) -> Committed:
        """Change what a ``__latest`` table names, in one Iceberg commit; each partition stands or falls by itself.

        ``table`` the state of it that this was planned on, ``stream`` that of the topic's table, which was loaded when
        the other was there. Raises as ``commit``.
        """
        session = self.latest_session(table.topic, table.topic_id)
        return session.commit(NameFiles(planned, planned_on=table, stream=stream))

    def fence_sweep(self, table: TopicTable, begun_at: int, *, is_latest: bool = False) -> TopicTable:
        """Take no data file any more that was begun at this sequence number or before: those that no snapshot of the
        state that comes back names, none ever will. ``is_latest``: of a ``__latest`` table. Raises as ``commit``."""
        session = self._session(table.topic, table.topic_id, is_latest=is_latest)
        fenced = session.commit(FenceSweep(begun_at)).table
        reach(FaultPoint.SWEEP_FENCED)
        return fenced

    def fence_latest(self, stream: TopicTable) -> None:
        """The ``__latest`` table names no file any more that states of the topic's table from before this one listed,
        and it did not name by now. Raises as ``commit``."""
        self.latest_session(stream.topic, stream.topic_id).commit(FenceStream(stream))
        reach(FaultPoint.SWEEP_FENCED_LATEST)

    def _create(
        self,
        properties: Mapping[str, str],
        identifier: Identifier,
        schema: Schema,
        layout: TableLayout,
        is_gone: bool,
    ) -> Table | None:
        """A new table; None when another process was quicker. An older incarnation's is renamed to make room."""
        topic, topic_id = properties[TOPIC_PROPERTY], properties[TOPIC_ID_PROPERTY]
        if is_gone:
            identifier = catalogs.retired_identifier(identifier, topic_id)
        elif (present := catalogs.load(self._catalog, identifier)) is not None:
            check_older_incarnation(present, topic, properties[CLUSTER_ID_PROPERTY])
            retired = catalogs.retired_identifier(identifier, topic_id_of(present))
            log.info("topic_created_again", topic=topic, topic_id=topic_id, older_table=".".join(retired))
            catalogs.rename(self._catalog, identifier, retired)
            reach(FaultPoint.OLDER_TABLE_RENAMED)
        column_id = schema.find_field(layout.partition).field_id
        table = catalogs.create(
            self._catalog,
            identifier,
            schema=schema,
            location=catalogs.default_location(self._catalog, identifier, topic_id),
            partition_spec=PartitionSpec(
                PartitionField(column_id, _PARTITION_FIELD_ID, IdentityTransform(), layout.partition)
            ),
            properties=properties,
        )
        if table is not None:
            reach(FaultPoint.TABLE_CREATED)
        return table


def _check_files(table: TopicTable, files: Sequence[VerifiedFile]) -> None:
    for description in (file.description for file in files):
        if description.topic_id != table.topic_id:
            raise Invalid(
                f"a file of the topic id {description.topic_id} is to be added to {table.topic_id}'s table",
                topic=table.topic,
                partition=description.partition,
                file=description.path,
            )
