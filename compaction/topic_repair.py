"""Repair of one topic's table: records that were stored without columns get them (docs/repair.md).

A turn is observe, plan, act, record: the table's files and what their footers say, which are worth a try by what is
known now, the files decoded again and verified, one commit. Nothing is kept but in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from compaction.repair_limits import RepairLimits
from compaction.replacing import FileReplacer, Replaced
from engine.clock import Clock
from engine.errors import FloebergError, Unavailable
from engine.table.ledger import Outcome
from engine.table.merge.candidates import KeptRows, RepairCandidates, Survey
from engine.table.merge.merge_files import MergeTask, reasons_in
from engine.table.merge.plan import (
    MOST_IDS_WANTED,
    Candidate,
    Knowledge,
    WantedSchemas,
    plan_repair,
    retry_reason,
    rows_helped,
    wanted_schemas,
)
from engine.table.rows.rows import RowCodecs
from engine.table.topic_table import TableFacts, TopicTable
from topics.needs_schemas import NeedsSchemas
from topics.topic_schemas import TopicSchemas

SCHEMAS_A_TURN = 64
"""Asked for in one turn: a source may take long to refuse each."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class RepairTurn:
    """What one turn found and did, filled as it goes.

    ``found`` files with rows that keep their bytes, ``adopted`` ranges that are never repaired; ``tried`` files that
    were decoded again, ``replaced`` those of them that got better, ``gone`` those that somebody else replaced
    meanwhile; ``gained`` records that have more columns now; ``left`` files that are worth a try, or were not looked
    at; ``wanted`` the schemas still missing, of which ``unasked`` were not asked for yet; ``problems`` files that can't
    be read or repaired; ``source_problem`` why the schemas' source could not be asked; ``cpu_ms`` of the work.
    """

    found: int = 0
    adopted: int = 0
    tried: int = 0
    replaced: int = 0
    gone: int = 0
    gained: int = 0
    left: int = 0
    wanted: WantedSchemas = field(default_factory=WantedSchemas)
    unasked: int = 0
    problems: tuple[FloebergError, ...] = ()
    source_problem: Unavailable | None = None
    cpu_ms: int = 0

    @property
    def is_held_up(self) -> bool:
        """Whether something was wrong that a later turn may find put right."""
        return bool(self.problems) or self.source_problem is not None

    @property
    def goes_on(self) -> bool:
        """Whether a next turn has something to do at once."""
        return self.replaced > 0 and self.left > 0


class TopicRepair:
    """One topic's, for one thread. ``table`` is the newest state of the topic's table that it knows."""

    def __init__(
        self,
        table: TopicTable,
        schemas: TopicSchemas,
        *,
        replacer: FileReplacer,
        clock: Clock,
        limits: RepairLimits,
    ) -> None:
        self.table = table
        self._schemas = schemas
        self._replacer = replacer
        self._clock = clock
        self._limits = limits
        self._candidates = RepairCandidates()
        self._failed: set[str] = set()
        self._codecs: RowCodecs | None = None
        self.kept: Mapping[int, KeptRows] = {}
        """By partition, as of the last look; none of a partition without such rows, or before the first look."""

    def reopen(self) -> None:
        """Read the table again: others commit to it. Raises Unavailable, Corrupt, Invalid."""
        self.table = self._replacer.writer.newest(self.table)

    def forget_failures(self) -> None:
        """Files that could not be read or repaired are tried again."""
        self._failed.clear()
        self._candidates.forget_unreadable()

    def look(self, partitions: Collection[int] | None = None, *, max_footers: int | None = None) -> Survey:
        """The files of ``partitions`` (all without) with rows that keep their bytes. Raises Corrupt, Unavailable."""
        look = self._candidates.look(self.table, max_footers=max_footers)
        self.kept = look.kept
        if partitions is None:
            partitions = self.table.ledger.keys()
        return replace(
            look,
            candidates=tuple(
                one for one in look.candidates if one.file.partition in partitions and one.file.path not in self._failed
            ),
            unreadable=tuple(error for error in look.unreadable if error.partition in partitions),
        )

    def turn(self, partitions: Collection[int] | None = None) -> RepairTurn:
        """Look, ask for schemas, try some files, commit. Raises Unavailable, Corrupt, CommitUnknown of the table."""
        look = self.look(partitions, max_footers=self._limits.footers_per_turn)
        turn = RepairTurn(found=len(look.candidates), adopted=look.adopted, left=look.unread, problems=look.unreadable)
        if not look.candidates:
            return turn
        asked, unasked = self._unasked(look.candidates, at_once=SCHEMAS_A_TURN)
        self.table, turn.source_problem = self._schemas.resolve(self.table, asked)
        facts = self._facts()
        known = self._knowledge(facts)
        plan = plan_repair(
            look.candidates,
            known,
            max_files=self._limits.files_per_turn,
            max_bytes=self._limits.bytes_per_turn,
        )
        turn.tried, turn.left = len(plan.chosen), look.unread + plan.left
        turn.wanted, turn.unasked = wanted_schemas(look.candidates, known), unasked
        if plan.chosen:
            self._try([candidate for candidate, _ in plan.chosen], facts, turn)
        return turn

    def foresee(self) -> RepairTurn:
        """What turns would do: asks the source, changes nothing. ``gained`` the records that name schemas it has.

        Raises as ``turn``.
        """
        look = self.look()
        known = self._knowledge(self._facts())
        asked, _ = self._unasked(look.candidates, at_once=MOST_IDS_WANTED)
        had, source_problem = self._schemas.obtainable(asked)
        known = replace(
            known,
            schema_ids=known.schema_ids | had.schema_ids,
            key_schema_ids=known.key_schema_ids | had.key_schema_ids,
        )
        worthwhile = [one for one in look.candidates if retry_reason(one.missing, known) is not None]
        return RepairTurn(
            found=len(look.candidates),
            adopted=look.adopted,
            tried=len(worthwhile),
            gained=sum(rows_helped(one.missing, known) for one in worthwhile),
            wanted=wanted_schemas(look.candidates, known),
            problems=look.unreadable,
            source_problem=source_problem,
        )

    def reasons(self) -> Iterator[Counter[str]]:
        """Of each file with rows that keep their bytes, how many do why; empty for one that can't be read."""
        facts = self._facts()
        for candidate in self.look().candidates:
            try:
                yield reasons_in(facts, candidate.file)
            except FloebergError as error:
                _log.warning("reasons_not_read", topic=facts.topic, file=candidate.file.path, error=str(error))
                yield Counter()

    def _facts(self) -> TableFacts:
        """What files are decoded by: what the table has."""
        return self._schemas.facts(self.table, may_infer=False)

    def _knowledge(self, facts: TableFacts) -> Knowledge:
        # Opening compiles all schemas, and a process has one version of each codec.
        if self._codecs is None:
            self._codecs = RowCodecs.of(facts)
        return Knowledge.of(facts, self._codecs)

    def _unasked(self, candidates: Sequence[Candidate], *, at_once: int) -> tuple[NeedsSchemas, int]:
        """The missing schemas to ask for now, those of the most records first, and how many are left for a next turn.

        Those that were given up lately are not among them.
        """
        facts = self._facts()
        values, keys = wanted_schemas(candidates, self._knowledge(facts)).most()
        key_given_up = {} if facts.key_codec is None else facts.key_codec.unresolved
        values = [one for one in values if one not in facts.codec.unresolved]
        keys = [one for one in keys if one not in key_given_up]
        now, now_keys = values[:at_once], keys[:at_once]
        left = len(values) - len(now) + len(keys) - len(now_keys)
        return NeedsSchemas(schema_ids=frozenset(now), key_schema_ids=frozenset(now_keys)), left

    def _try(self, chosen: Sequence[Candidate], facts: TableFacts, turn: RepairTurn) -> None:
        """Decode again, verify, commit."""
        tasks = {
            one.file.path: MergeTask(
                table=facts,
                files=(one.file,),
                attempt=self._clock.new_id(),
                redecode=True,
                clustering=self._schemas.clustering,
            )
            for one in chosen
        }
        found = self._replacer.replace(self.table, tasks)
        self.table, turn.cpu_ms = found.table, found.cpu_ms
        turn.left += found.put_off
        for path, error in found.failed.items():
            self._fail(path, error, turn)
        for path, replaced in found.done.items():
            self._note(path, replaced, turn)

    def _note(self, path: str, replaced: Replaced, turn: RepairTurn) -> None:
        merged, covered = replaced.merged, replaced.task.range
        if replaced.outcome is None:
            self._candidates.note(path, merged.missing)
            if merged.lost:
                _log.warning("repair_would_lose", topic=self.table.topic, file=path, records=merged.lost)
            return
        if replaced.outcome is Outcome.GONE:
            turn.gone += 1
            return
        turn.replaced += 1
        turn.gained += merged.gained
        _log.info(
            "repaired",
            topic=self.table.topic,
            partition=replaced.task.files[0].partition,
            start=covered.start,
            end=covered.end,
            records=merged.gained,
            file=merged.new[0].path,
        )

    def _fail(self, path: str, error: FloebergError, turn: RepairTurn) -> None:
        self._failed.add(path)
        turn.problems += (error,)
        _log.warning("repair_failed", topic=self.table.topic, file=path, error=str(error))
