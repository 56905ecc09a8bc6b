"""Repair of one topic's table: records that were stored without columns get them (docs/repair.md).

A turn is observe, plan, act, record: the table's files and what their footers say, which are worth a try by what is
known now, the files decoded again and verified, one commit. Nothing is kept but in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from engine.clock import Clock
from engine.errors import FloebergError, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.parquet.settings import ParquetSettings
from engine.table.commit.replacement import FileReplacement, ReplacementOutcome
from engine.table.proof.verifier import Verifier
from engine.table.repair.candidates import KeptRows, Look, RepairCandidates, knowledge_of
from engine.table.repair.file import Redecoded, RepairFailed, RepairTask, reasons_in
from engine.table.repair.plan import (
    MOST_IDS_WANTED,
    Candidate,
    Knowledge,
    WantedSchemas,
    hope_for,
    plan_repair,
    rows_helped,
    wanted_schemas,
)
from engine.table.rows.rows import RowCodecs
from engine.table.topic_table import TableFacts
from tiering.rewrite_task import NeedsSchemas
from tiering.rewriter import Rewriter, VerifyTask
from tiering.tiered_topic import TieredTopic
from tiering.tiering_limits import TieringLimits

SCHEMAS_A_TURN = 64
"""Asked for in one turn: a source may take long to refuse each."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairTurn:
    """What one turn found and did.

    ``found`` files with rows that keep their bytes, ``adopted`` ranges that are never repaired; ``tried`` files that
    were decoded again, ``replaced`` those of them that got better, ``gone`` those that somebody else replaced
    meanwhile; ``gained`` records that have more columns now; ``left`` files that are worth a try, or were not looked
    at; ``wanted`` the schemas still missing, of which ``unasked`` were not asked for yet; ``problems`` files that can't
    be read or repaired; ``source_problem`` why the schemas' source could not be asked.
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

    @property
    def is_held_up(self) -> bool:
        """Whether something was wrong that a later turn may find put right."""
        return bool(self.problems) or self.source_problem is not None


class TopicRepair:
    """One topic's, for one thread. Its table is open."""

    def __init__(
        self, topic: TieredTopic, *, rewriter: Rewriter, verifier: Verifier, clock: Clock, limits: TieringLimits
    ) -> None:
        self.topic = topic
        self._rewriter = rewriter
        self._verifier = verifier
        self._clock = clock
        self._limits = limits
        self._candidates = RepairCandidates()
        self._failed: set[str] = set()
        self._codecs: RowCodecs | None = None
        self.kept: Mapping[int, KeptRows] = {}
        """By partition, as of the last look; none of a partition without such rows, or before the first look."""

    def forget_failures(self) -> None:
        """Files that could not be read or repaired are tried again."""
        self._failed.clear()
        self._candidates.forget_unreadable()

    def look(self, partitions: Collection[int] | None = None, *, max_footers: int | None = None) -> Look:
        """The files of ``partitions`` (all without) with rows that keep their bytes. Raises Corrupt, Unavailable."""
        assert self.topic.table is not None, "only a table that is open is repaired"
        look = self._candidates.look(self.topic.table, max_footers=max_footers)
        self.kept = look.kept
        if partitions is None:
            partitions = self.topic.table.ledger.keys()
        return replace(
            look,
            candidates=tuple(
                one for one in look.candidates if one.file.partition in partitions and one.file.path not in self._failed
            ),
            unreadable=tuple(error for error in look.unreadable if error.partition in partitions),
        )

    def turn(self, partitions: Collection[int] | None = None) -> RepairTurn:
        """Look, ask for schemas, try some files, commit. Raises Unavailable, Corrupt, CommitUnknown of the table."""
        look = self.look(partitions, max_footers=self._limits.repair_footers_per_cycle)
        found = RepairTurn(found=len(look.candidates), adopted=look.adopted, left=look.unread, problems=look.unreadable)
        if not look.candidates:
            return found
        asked, unasked = self._unasked(look.candidates, at_once=SCHEMAS_A_TURN)
        source_problem = self.topic.resolve(asked) if asked != NeedsSchemas() else None
        facts = self._facts()
        known = self._knowledge(facts)
        plan = plan_repair(
            look.candidates,
            known,
            max_files=self._limits.repair_files_per_cycle,
            max_bytes=self._limits.repair_bytes_per_cycle,
        )
        done = self._try([candidate for candidate, _ in plan.chosen], facts) if plan.chosen else _Tried()
        return replace(
            found,
            tried=len(plan.chosen),
            replaced=done.replaced,
            gone=done.gone,
            gained=done.gained,
            left=look.unread + plan.left,
            wanted=wanted_schemas(look.candidates, known),
            unasked=unasked,
            problems=(*look.unreadable, *done.problems),
            source_problem=source_problem,
        )

    def foresee(self) -> RepairTurn:
        """What turns would do: asks the source, changes nothing. ``gained`` the records that name schemas it has.

        Raises as ``turn``.
        """
        look = self.look()
        known = self._knowledge(self._facts())
        asked, _ = self._unasked(look.candidates, at_once=MOST_IDS_WANTED)
        had, source_problem = self.topic.obtainable(asked)
        known = replace(
            known,
            schema_ids=known.schema_ids | had.schema_ids,
            key_schema_ids=known.key_schema_ids | had.key_schema_ids,
        )
        hopeful = [one for one in look.candidates if hope_for(one.lack, known) is not None]
        return RepairTurn(
            found=len(look.candidates),
            adopted=look.adopted,
            tried=len(hopeful),
            gained=sum(rows_helped(one.lack, known) for one in hopeful),
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
        """What files are decoded by: what the table has. Columns are inferred from new records, never from old ones."""
        assert self.topic.table is not None, "only a table that is open is repaired"
        facts, stored = self.topic.facts(), self.topic.table
        key_codec = facts.key_codec
        if key_codec is not None and stored.key_codec is not None:
            key_codec = replace(key_codec, options=stored.key_codec.options)
        return replace(facts, codec=replace(facts.codec, options=stored.codec.options), key_codec=key_codec)

    def _knowledge(self, facts: TableFacts) -> Knowledge:
        # Opening compiles all schemas, and a process has one version of each codec.
        if self._codecs is None:
            self._codecs = RowCodecs.of(facts)
        return knowledge_of(facts, self._codecs)

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

    def _try(self, chosen: Sequence[Candidate], facts: TableFacts) -> _Tried:
        """Decode again, verify, commit."""
        tried = _Tried()
        tasks = [RepairTask(table=facts, file=one.file, attempt=self._clock.new_id()) for one in chosen]
        written: list[tuple[RepairTask, Redecoded]] = []
        for task, outcome in zip(tasks, self._rewriter.repair(tasks), strict=True):
            if isinstance(outcome, RepairFailed):
                self._fail(task, outcome.error, tried)
            elif outcome.new is None:
                self._candidates.note(task.file, outcome.lack)
                if outcome.lost:
                    _log.warning("repair_would_lose", topic=facts.topic, file=task.file.path, records=outcome.lost)
            else:
                written.append((task, outcome))
        reach(FaultPoint.REPAIRS_WRITTEN)
        ready = self._verified(written, facts, tried)
        if ready:
            reach(FaultPoint.REPAIRS_VERIFIED)
            self._commit(ready, next(outcome.settings for _, outcome in written), tried)
        return tried

    def _verified(
        self, written: Sequence[tuple[RepairTask, Redecoded]], facts: TableFacts, tried: _Tried
    ) -> list[tuple[FileReplacement, int]]:
        files = [outcome.new for _, outcome in written if outcome.new is not None]
        answers = self._rewriter.verify([VerifyTask(table=facts, file=file) for file in files])
        ready = []
        for (task, outcome), file, found in zip(written, files, answers, strict=True):
            try:
                if isinstance(found, FloebergError):
                    raise found
                proof = self._verifier.accept(file, found)
            except FloebergError as error:
                self._fail(task, error, tried)
                continue
            ready.append((FileReplacement(old=task.file, digest=outcome.digest, new=proof), outcome.gained))
        return ready

    def _commit(
        self, ready: Sequence[tuple[FileReplacement, int]], settings: ParquetSettings | None, tried: _Tried
    ) -> None:
        result = self.topic.replace_files([replacement for replacement, _ in ready], settings)
        reach(FaultPoint.REPAIRS_TOLD)
        for (replacement, gained), outcome in zip(ready, result.outcomes, strict=True):
            if outcome is ReplacementOutcome.GONE:
                tried.gone += 1
                continue
            tried.replaced += 1
            tried.gained += gained
            _log.info(
                "repaired",
                topic=self.topic.topic,
                partition=replacement.old.partition,
                start=replacement.old.range.start,
                end=replacement.old.range.end,
                records=gained,
                file=replacement.new.description.path,
            )

    def _fail(self, task: RepairTask, error: FloebergError, tried: _Tried) -> None:
        self._failed.add(task.file.path)
        tried.problems.append(error)
        _log.warning("repair_failed", topic=self.topic.topic, file=task.file.path, error=str(error))


@dataclass(slots=True)
class _Tried:
    replaced: int = 0
    gone: int = 0
    gained: int = 0
    problems: list[FloebergError] = field(default_factory=list)
