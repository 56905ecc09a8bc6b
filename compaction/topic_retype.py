"""A topic's table gets another value format: its records are decoded again into new columns (docs/repair.md).

Every file is written again and proven before anything is committed; then one commit puts the new ones in their places,
with the columns. What was planned and written is kept beside the table, so a retype that was ended goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from compaction.replacing import FileReplacer, Replacements
from compaction.retype_journal import RetypeJournal
from engine.clock import Clock
from engine.errors import FloebergError, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.formats.codec import DEFAULT_INFER_RECORDS, INFER_RECORDS, CodecSpec, OnConflict
from engine.formats.proposals import first_fields
from engine.table.commit.change import Committed
from engine.table.commit.retype import FooterDigests, check_retypable, covering
from engine.table.commit.retype_plan import RetypePlan
from engine.table.commit.writer import TableWriter
from engine.table.ledger import Outcome
from engine.table.loading import TableLoader
from engine.table.manifests import ManifestReader, TableFile
from engine.table.merge.merge_files import MergeTask, Unknown
from engine.table.proof.verifier import VerifiedFile
from engine.table.topic_table import TableFacts, TopicTable
from topics.needs_schemas import NeedsSchemas
from topics.topic_rule import TopicRule
from topics.topic_schemas import TopicSchemas
from workers.workers import ReadBackTask

FILES_A_STEP, BYTES_A_STEP = 16, 1 << 30
"""What is done again when a retype is ended."""

SOURCE_PATIENCE_MS = 20_000
"""How long a source of schemas may be away until a retype ends: records would keep their bytes for want of it."""

_SOURCE_PAUSE_MS = 500
_FOR_EVER_MS = 1 << 40

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetypeForecast:
    """``files`` of the table, with their size and records; ``written_files`` of them were written by a retype that was
    ended."""

    files: int
    size_bytes: int
    records: int
    written_files: int = 0


@dataclass(slots=True, kw_only=True)
class RetypeDone:
    """``files`` that gave their places to others, with the size of the new ones and their records; ``reasons`` of the
    rows written now that keep their bytes; ``resumed_files`` that had been written before."""

    table: TopicTable
    files: int = 0
    size_bytes: int = 0
    records: int = 0
    resumed_files: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


class PlannedColumns:
    """Keeps schemas with the plan, as a writer does with the table."""

    def __init__(self, table: TopicTable, plan: RetypePlan) -> None:
        self.table = table
        self.plan = plan

    @property
    def view(self) -> TopicTable:
        """The table as it would be."""
        return self.plan.view(self.table)

    def add_schemas(
        self,
        table: TopicTable,
        schemas: Mapping[int, str],
        *,
        on_conflict: OnConflict | None = None,
        of_keys: bool = False,
    ) -> TopicTable:
        """Raises Invalid for a text that is no schema, Unavailable."""
        assert not of_keys, f"keys of {table.topic} are kept as they are"
        self.plan = self.plan.with_schemas(self.table, schemas, on_conflict)
        return self.view

    def open(self, topic: str, topic_id: str) -> TopicTable | None:
        assert (topic, topic_id) == (self.table.topic, self.table.topic_id), "a plan is one table's"
        return self.view


class TopicRetype:
    """One table's, for one thread, and one process at a time. ``rule``: what the table is to be made for."""

    def __init__(
        self,
        table: TopicTable,
        rule: TopicRule,
        *,
        replacer: FileReplacer,
        clock: Clock,
        on_file: Callable[[], object] = lambda: None,
    ) -> None:
        assert not rule.is_open, "the format is known before anything is decoded by it"
        self._table = table
        self._rule = rule
        self._replacer = replacer
        self._clock = clock
        self._on_file = on_file
        self._journal = RetypeJournal(table)
        self._manifests = ManifestReader()
        self._digests = FooterDigests()
        self._begun: PlannedColumns | None = None
        self._kept: RetypePlan | None = None
        self._proven: list[VerifiedFile] = []
        self._lost_keys: dict[int, str] = {}
        self._records = 0

    @property
    def _writer(self) -> TableWriter:
        return self._replacer.writer

    def foresee(self) -> RetypeForecast:
        """What would be done; nothing is changed. Raises Unavailable, Corrupt, Invalid where it can't be."""
        self._table = self._writer.newest(self._table)
        files = self._files(self._planned().plan)
        left = self._left(files)
        return RetypeForecast(
            files=len(files),
            size_bytes=sum(file.size_bytes for file in files),
            records=sum(file.record_count for file in files),
            written_files=len(files) - len(left),
        )

    def run(self) -> RetypeDone:
        """All of it. Raises Unavailable, Corrupt, Invalid, CommitUnknown: what was written until then is kept."""
        self._table = self._writer.newest(self._table)
        planned = self._planned()
        if self._kept is None:
            self._journal.clear()
        self._keep_plan(planned.plan)
        reach(FaultPoint.RETYPE_PLANNED)
        schemas = TopicSchemas(
            topic=self._table.topic,
            rule=self._rule,
            writer=planned,
            clock=self._clock,
            patience_ms=_FOR_EVER_MS,
            retry_ms=_FOR_EVER_MS,
        )
        if self._rule.use_latest:
            schemas.add_newest(planned.view)
        done = RetypeDone(table=self._table, resumed_files=len(self._proven))
        while True:
            planned.table = self._table = self._writer.newest(self._table)
            files = self._files(planned.plan)
            left = self._left(files)
            if left:
                self._write(left, planned, schemas, done)
                continue
            self._keep_plan(planned.plan)
            committed = self._commit(planned.plan)
            if committed.outcomes == (Outcome.COMMITTED,):
                reach(FaultPoint.TABLE_RETYPED)
                self._journal.clear()
                return self._ended(committed.table, files, done)

    def _commit(self, plan: RetypePlan) -> Committed:
        committed = self._writer.retype(self._table, plan, self._current(), self._digests)
        if committed.outcomes == (Outcome.COMMITTED,) and committed.table.codec.schemas.keys() - plan.codec.schemas:
            # Schemas of the old format that a daemon added under the commit: the change has another look.
            committed = self._writer.retype(self._table, plan, (), self._digests)
        return committed

    def _planned(self) -> PlannedColumns:
        """A plan that was begun for the same, with the files that were written by it; else a new one."""
        if self._begun is None:
            self._begun = self._resumed() or self._begin()
        return self._begun

    def _resumed(self) -> PlannedColumns | None:
        wanted = _bare(self._rule.codec)
        kept = self._journal.read(TableLoader(lambda: self._table.warehouse).codec)
        if kept is None or kept.plan.first_id <= self._table.last_column_id or _bare(kept.plan.codec) != wanted:
            return None
        self._kept = kept.plan
        facts = kept.plan.view(self._table).facts
        # A file of before the fence would be refused.
        files = (file for file in kept.files if file.begun_at > self._table.swept)
        tasks = {file.path: ReadBackTask(table=facts, file=file) for file in files}
        for path, proof in self._replacer.read_back(tasks):
            if isinstance(proof, FloebergError):
                _log.warning("retyped_file_not_resumed", file=path, error=str(proof))
            else:
                self._proven.append(proof)
        return PlannedColumns(self._table, kept.plan)

    def _begin(self) -> PlannedColumns:
        codec = _bare(self._rule.codec)
        plan = RetypePlan.begin(self._table, codec, first_fields(codec), plan_id=self._clock.new_id())
        return PlannedColumns(self._table, plan)

    def _keep_plan(self, plan: RetypePlan) -> None:
        if plan != self._kept:
            self._journal.keep_plan(plan)
            self._kept = plan

    def _files(self, plan: RetypePlan) -> tuple[TableFile, ...]:
        """Those that the table and the stream have. Raises Invalid where they can't get the plan's columns."""
        files = self._manifests.files(self._table)
        check_retypable(self._table, files, plan)
        return (*files.own, *files.stream)

    def _left(self, files: Sequence[TableFile]) -> tuple[TableFile, ...]:
        digests = self._digests.of(self._table, files)
        return covering(files, digests, (one.description for one in self._current()))[1]

    def _current(self) -> list[VerifiedFile]:
        """The new files that a commit may still name."""
        return [one for one in self._proven if one.description.begun_at > self._table.swept]

    def _write(
        self, left: Sequence[TableFile], planned: PlannedColumns, schemas: TopicSchemas, done: RetypeDone
    ) -> None:
        """Some of the files that are left, written and proven. Raises what a file raises."""
        tasks = {file.path: self._task(file, planned, schemas) for file in _step_of(left)}
        found = Replacements(table=self._table)
        ready, written = self._replacer.proven(tasks, found)
        for error in found.failed.values():
            raise error
        proven = [new for replacement in ready.values() for new in replacement.new]
        for key in ready:
            if (settings := written[key].settings) is not None:
                planned.plan = planned.plan.with_settings(settings)
            self._records += tasks[key].files[0].record_count
            done.reasons.update(written[key].reasons)
            self._on_file()
        if proven:
            self._keep_plan(planned.plan)
            self._journal.keep_files([one.description for one in proven])
            self._proven += proven
            reach(FaultPoint.RETYPE_FILES_NOTED)
        self._find([one.merged.unknown for one in found.done.values()], planned, schemas)

    def _task(self, file: TableFile, planned: PlannedColumns, schemas: TopicSchemas) -> MergeTask:
        return MergeTask(
            table=self._facts(planned, schemas),
            files=(file,),
            attempt=self._clock.new_id(),
            clustering=self._rule.clustering,
            read_as=self._table.facts,
        )

    def _facts(self, planned: PlannedColumns, schemas: TopicSchemas) -> TableFacts:
        infers_from = int(self._rule.codec_options.get(INFER_RECORDS, DEFAULT_INFER_RECORDS))
        # As in a table that has the records which were written so far.
        view = planned.view if self._records >= infers_from else replace(planned.view, ledger={})
        facts = schemas.facts(view)
        if facts.key_codec is None:
            return facts
        return replace(facts, key_codec=replace(facts.key_codec, unresolved=self._lost_keys))

    def _find(self, unknown: Sequence[Unknown], planned: PlannedColumns, schemas: TopicSchemas) -> None:
        """Get the schemas that records name, or propose; what the source does not have is given up.

        Raises Unavailable while the source is away for too long.
        """
        keys = (schema_id for one in unknown for schema_id in one.key_schema_ids)
        self._lost_keys |= dict.fromkeys(keys, "the schema was not known when the table got another value format")
        needed = NeedsSchemas(
            schema_ids=frozenset[int]().union(*(one.schema_ids for one in unknown)),
            proposed_schemas=frozenset[str]().union(*(one.proposed for one in unknown)),
        )
        began_ms = self._clock.monotonic_ms()
        while needed != NeedsSchemas():
            _, waiting = schemas.resolve(planned.view, needed)
            if waiting is None:
                return
            if self._clock.monotonic_ms() - began_ms > SOURCE_PATIENCE_MS:
                raise Unavailable(
                    f"records name schemas that can't be had now: {waiting.problem}",
                    topic=self._table.topic,
                    next_step="see that the source of schemas answers, and begin again: what was written is kept",
                )
            self._clock.sleep(_SOURCE_PAUSE_MS)
            needed = NeedsSchemas(schema_ids=needed.schema_ids - planned.plan.codec.schemas.keys())

    def _ended(self, table: TopicTable, files: Sequence[TableFile], done: RetypeDone) -> RetypeDone:
        done.table, done.files = table, len(files)
        now = self._manifests.files(table)
        done.size_bytes = sum(file.size_bytes for file in (*now.own, *now.stream))
        done.records = sum(file.record_count for file in files)
        return done


def _bare(codec: CodecSpec) -> CodecSpec:
    return replace(codec, schemas={}, unresolved={}, placements={})


def _step_of(left: Sequence[TableFile]) -> list[TableFile]:
    """As many as are done at a time: one at least."""
    chosen: list[TableFile] = []
    size_bytes = 0
    for file in left[:FILES_A_STEP]:
        size_bytes += file.size_bytes
        if chosen and size_bytes > BYTES_A_STEP:
            break
        chosen.append(file)
    return chosen
