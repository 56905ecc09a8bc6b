"""The one writer of a process: everything that changes a topic's table goes through it (docs/commit_protocol.md).

Each change is decided against a loaded state of the table and committed against that very state; after a conflict
or an unanswered commit the table is loaded again and the change decided again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import structlog
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.transforms import IdentityTransform

from engine.clock import Clock
from engine.errors import CommitUnknown, Corrupt, Invalid, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.formats.codec import CodecSpec, OnConflict
from engine.parquet.settings import ParquetSettings
from engine.table.catalog import access as catalogs
from engine.table.catalog.access import CommitConflict
from engine.table.columns import TableLayout, iceberg_schema
from engine.table.commit.identity import check_older_incarnation, check_same
from engine.table.commit.judge import TableJudge
from engine.table.commit.plan import CommitPlan, plan_commit, stage_commit, stage_ledger_line
from engine.table.commit.range_append import AppendResult, CommitResult, Outcome, RangeAppend
from engine.table.commit.replacement import FileReplacement, ReplacementResult, Replacing
from engine.table.commit.schema_change import stage_columns, stage_key_schemas, stage_schemas
from engine.table.commit.turns import CommitTurns
from engine.table.foreign.examination import GatherAll, gather_in_process
from engine.table.lineage import foreign_change
from engine.table.loading import TableLoader, new_table_properties
from engine.table.proof.verifier import VerifiedFile
from engine.table.properties import TOPIC_ID_PROPERTY
from engine.table.topic_table import TopicTable

COMMIT_ATTEMPTS = 20
"""Six processes committing to one table at once need about that many; more means something else is wrong."""

COMMIT_PATIENCE_MS = 60_000
"""No further attempt begins behind it: twenty attempts of which each waits for a silent catalog would take an hour."""

_ENSURE_ATTEMPTS = 5
"""Two processes that find a topic created again step on each other at most once each per rename and creation."""

# The first id Iceberg gives to partition fields (spec, Partitioning).
_PARTITION_FIELD_ID = 1000

log = structlog.get_logger(__name__)

Change = Callable[[Table, TopicTable], "tuple[Transaction, int | None] | None"]


class TableWriter:
    """Opens, creates and commits to the tables of one catalog. One object per process; safe between its threads."""

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        *,
        namespace: str = catalogs.DEFAULT_NAMESPACE,
        gather: GatherAll = gather_in_process,
    ) -> None:
        """``gather`` reads files that other programs wrote."""
        self._catalog = catalog
        self._clock = clock
        self._namespace = namespace
        self._loader = TableLoader(lambda: catalogs.warehouse_of(catalog))
        self._turns = CommitTurns(clock, catalogs.lock_file_of(catalog))
        self._tables: dict[str, Table] = {}
        self._judge = TableJudge(self._loader, clock, gather)
        self._lock = threading.RLock()

    def open(self, topic: str, topic_id: str) -> TopicTable | None:
        """The table of this incarnation of a topic as the catalog has it now, or None.

        What somebody else changed without loss is adopted. Raises Unavailable, Corrupt (somebody else broke the
        stream, or dropped the table), Invalid (a table of that name is not a topic's).
        """
        with self._lock:
            table = self._load(topic, topic_id)
            if table is None:
                self._judge.check_absent(self._catalog, topic, topic_id, namespace=self._namespace)
                return None
            return self._loader.view(self._judge.settled(table))

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
        with self._lock:
            for attempt in range(_ENSURE_ATTEMPTS):
                table = self._load(topic, topic_id)
                if table is None:
                    self._judge.check_absent(self._catalog, topic, topic_id, namespace=self._namespace)
                    identifier = self._name_for(topic, topic_id, cluster_id, is_gone=is_gone)
                    schema = iceberg_schema(layout, value_fields, key_fields)
                    properties = new_table_properties(
                        topic=topic,
                        topic_id=topic_id,
                        cluster_id=cluster_id,
                        layout=layout,
                        codec=codec,
                        key_codec=key_codec,
                    )
                    table = self._create(identifier, schema, layout, properties)
                if table is not None:
                    view = self._loader.view(table)
                    check_same(view, cluster_id, layout, codec, key_codec)
                    return self._change(view, lambda found, _: stage_columns(found, layout, value_fields, key_fields))
                self._turns.wait_after_silence(attempt)
        raise Unavailable(f"the table could not be created in {_ENSURE_ATTEMPTS} attempts", topic=topic)

    def add_schemas(
        self, table: TopicTable, schemas: Mapping[int, str], *, on_conflict: OnConflict | None = None
    ) -> TopicTable:
        """Store writers' schemas with the table and add the columns they need (docs/row_format.md, Several schemas).

        ``on_conflict`` as the topic's setting says; None: as it did when the table was made. Raises Invalid for a text
        that is no schema, and when an id is known with another text.
        """
        with self._lock:
            added = self._change(table, lambda found, view: stage_schemas(found, view, schemas, on_conflict))
        reach(FaultPoint.SCHEMAS_COMMITTED)
        return added

    def add_key_schemas(
        self, table: TopicTable, schemas: Mapping[int, str], *, on_conflict: OnConflict | None = None
    ) -> TopicTable:
        """``add_schemas`` for the schemas of typed keys, whose fields are the key's."""
        with self._lock:
            added = self._change(table, lambda found, view: stage_key_schemas(found, view, schemas, on_conflict))
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
        plans: list[tuple[CommitPlan, int | None]] = []

        def change(found: Table, view: TopicTable) -> tuple[Transaction, int | None] | None:
            plan = plan_commit(view, appends)
            if not plan.accepted:
                plans.append((plan, None))
                return None
            if any(append.skipped is not None for append in plan.accepted):
                self._judge.check_newest(view)
            reach(FaultPoint.COMMIT_DECIDED)
            transaction, snapshot_id = stage_commit(found, view, plan, settings)
            plans.append((plan, snapshot_id))
            return transaction, snapshot_id

        with self._lock:
            cached = self._tables.get(table.topic_id)
            if cached is not None and plan_commit(self._loader.view(cached), appends).refuses_some:
                # The refusal may be true of the state in memory only: decide on what the catalog has.
                self._tables.pop(table.topic_id)
            view = self._change(table, change)
            stored = self._tables[table.topic_id]
        outcomes = list(plans[-1][0].outcomes)
        for plan, snapshot_id in plans:
            # An attempt that was not answered may have landed; its snapshot is then in the history.
            if snapshot_id is not None and stored.metadata.snapshot_by_id(snapshot_id) is not None:
                for index, outcome in enumerate(plan.outcomes):
                    if outcome is Outcome.COMMITTED:
                        outcomes[index] = Outcome.COMMITTED
        results = (AppendResult(append=a, outcome=o) for a, o in zip(appends, outcomes, strict=True))
        return CommitResult(table=view, results=tuple(results))

    def replace(
        self, table: TopicTable, replacements: Sequence[FileReplacement], settings: ParquetSettings | None = None
    ) -> ReplacementResult:
        """Put files in the place of others with the same records, in one Iceberg commit.

        ``settings`` the encodings of the new ones. Raises as ``commit``.
        """
        _check_files(table, [replacement.new for replacement in replacements])
        replacing = Replacing(replacements, settings)
        with self._lock:
            view = self._change(table, replacing)
        return ReplacementResult(table=view, outcomes=replacing.outcomes)

    def set_log_start(self, table: TopicTable, partition: int, log_start: int) -> TopicTable:
        """Record the stream's horizon of a partition; it never moves back.

        Raises Invalid for a partition without a ledger line or a horizon beyond the ledger's end.
        """

        def change(found: Table, view: TopicTable) -> tuple[Transaction, int | None] | None:
            entry = view.ledger.get(partition)
            if entry is None or log_start > entry.end:
                end = 0 if entry is None else entry.end
                raise Invalid(
                    f"the log start {log_start} lies beyond what is stored, which ends at {end}",
                    topic=view.topic,
                    partition=partition,
                )
            if log_start <= entry.log_start:
                return None
            return stage_ledger_line(found, partition, replace(entry, log_start=log_start))

        with self._lock:
            recorded = self._change(table, change)
        reach(FaultPoint.LOG_START_RECORDED)
        return recorded

    def _change(self, table: TopicTable, change: Change) -> TopicTable:
        """Load, decide, commit; again after a conflict or an unanswered commit. None from ``change``: nothing to do."""
        with self._turns.turn(table.topic_id) as is_alone:
            if is_alone:
                # Nobody commits between this look and the commit; a local catalog is looked at for next to nothing.
                self._tables.pop(table.topic_id, None)
            return self._change_in_turn(table, change)

    def _change_in_turn(self, table: TopicTable, change: Change) -> TopicTable:
        unanswered: CommitUnknown | None = None
        began_ms, attempt = self._clock.monotonic_ms(), 0
        while True:
            tried_ms = self._clock.monotonic_ms()
            found = self._state(table, unanswered)
            view = self._loader.view(found)
            staged = change(found, view)
            if staged is None:
                return view
            # Asked behind the look at the catalog: the last attempt may have landed unanswered.
            is_late = self._clock.monotonic_ms() - began_ms > COMMIT_PATIENCE_MS
            if attempt == COMMIT_ATTEMPTS or (attempt and is_late):
                raise unanswered or Unavailable(f"the commit met a conflict {attempt} times", topic=table.topic)
            try:
                catalogs.commit(found, staged[0])
                reach(FaultPoint.WRITER_TOLD)
                number = found.metadata.last_sequence_number
                self._turns.note_commit(table.topic_id, began_ms=tried_ms, sequence_number=number)
                return self._loader.view(found)
            except CommitConflict as conflict:
                log.info("commit_conflict", topic=table.topic, attempt=attempt, problem=conflict.problem)
                self._turns.wait_after_conflict(attempt, began_ms=tried_ms)
            except CommitUnknown as error:
                log.warning("commit_unanswered", topic=table.topic, attempt=attempt, problem=error.problem)
                self._turns.wait_after_silence(attempt)
                unanswered = error
            except (Unavailable, Invalid, Corrupt) as error:
                # Refused: true of this attempt, while an earlier one may still land.
                raise (unanswered or error) from error
            self._tables.pop(table.topic_id, None)
            attempt += 1

    def _state(self, table: TopicTable, unanswered: CommitUnknown | None) -> Table:
        """The state to decide on: the one in memory, which may be old (the commit finds out), or the catalog's.

        It is Floeberg's own, or one that was proven to hold every record and sealed again.
        """
        cached = self._tables.get(table.topic_id)
        if cached is not None and foreign_change(cached.metadata) is None:
            return cached
        try:
            loaded = self._load(table.topic, table.topic_id)
        except (Unavailable, Corrupt) as error:
            raise (unanswered or error) from error
        if loaded is None:
            self._judge.check_absent(self._catalog, table.topic, table.topic_id, namespace=self._namespace)
            raise unanswered or Invalid("the topic's table is gone from the catalog", topic=table.topic)
        return self._judge.settled(loaded)

    def _load(self, topic: str, topic_id: str) -> Table | None:
        """The table of this incarnation under its own name or, retired, under the one with its id."""
        identifier = catalogs.table_identifier(self._namespace, topic)
        for name in (identifier, catalogs.retired_identifier(identifier, topic_id)):
            table = catalogs.load(self._catalog, name)
            if table is not None and TOPIC_ID_PROPERTY not in table.metadata.properties:
                self._judge.check_absent(self._catalog, topic, topic_id, namespace=self._namespace)
            if table is not None and self._topic_id(table) == topic_id:
                self._tables[topic_id] = table
                self._judge.note_present(table, topic_id)
                return table
        return None

    def _topic_id(self, table: Table) -> str:
        topic_id: str | None = table.metadata.properties.get(TOPIC_ID_PROPERTY)
        if topic_id is None:
            raise Invalid(
                f"the table {'.'.join(table.name())} exists and is not a topic's",
                next_step="rename that table, or set another namespace",
            )
        return topic_id

    def _name_for(self, topic: str, topic_id: str, cluster_id: str, *, is_gone: bool) -> catalogs.Identifier:
        """Where a new table belongs; an older incarnation's table is renamed to make room."""
        identifier = catalogs.table_identifier(self._namespace, topic)
        if is_gone:
            return catalogs.retired_identifier(identifier, topic_id)
        present = catalogs.load(self._catalog, identifier)
        if present is not None:
            check_older_incarnation(present, topic, cluster_id)
            retired = catalogs.retired_identifier(identifier, self._topic_id(present))
            log.info("topic_created_again", topic=topic, topic_id=topic_id, older_table=".".join(retired))
            catalogs.rename(self._catalog, identifier, retired)
            reach(FaultPoint.OLDER_TABLE_RENAMED)
        return identifier

    def _create(
        self,
        identifier: catalogs.Identifier,
        schema: Schema,
        layout: TableLayout,
        properties: Mapping[str, str],
    ) -> Table | None:
        """A new table; None when another process was quicker."""
        topic_id = properties[TOPIC_ID_PROPERTY]
        partition_column = schema.find_field(layout.partition)
        table = catalogs.create(
            self._catalog,
            identifier,
            schema=schema,
            location=catalogs.default_location(self._catalog, identifier, topic_id),
            partition_spec=PartitionSpec(
                PartitionField(partition_column.field_id, _PARTITION_FIELD_ID, IdentityTransform(), layout.partition)
            ),
            properties=properties,
        )
        if table is not None:
            reach(FaultPoint.TABLE_CREATED)
            self._tables[topic_id] = table
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
