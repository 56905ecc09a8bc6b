"""One table's commits: whoever asks for a change while another's is under way is committed with the next ones.

Each change is decided against a loaded state of the table and committed against that very state; after a conflict
or an unanswered commit the table is loaded again and every change decided again (docs/commit_protocol.md).
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import structlog
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from engine.clock import Clock
from engine.errors import CommitUnknown, FloebergError, Invalid, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.table.catalog import access as catalogs
from engine.table.catalog.access import Identifier
from engine.table.commit.change import (
    Change,
    ColumnsUpdate,
    Committed,
    Decision,
    HistoryUpdate,
    OnCommit,
    SchemaUpdate,
    SnapshotUpdate,
)
from engine.table.commit.judge import LatestJudge, TableJudge, topic_id_of
from engine.table.commit.schema_change import stage_columns, stage_schema
from engine.table.commit.sweep_fence import check_begun_since_swept
from engine.table.commit.transaction import CommitConflict, TableTransaction
from engine.table.commit.turns import CommitTurns
from engine.table.foreign.examination import GatherAll
from engine.table.history import expired
from engine.table.history_limits import HistoryLimits
from engine.table.ledger import Outcome
from engine.table.loading import TableLoader
from engine.table.properties import TOPIC_ID_PROPERTY
from engine.table.sealed_snapshot import ProvenManifests
from engine.table.topic_table import TopicTable

COMMIT_ATTEMPTS = 20
"""Six processes committing to one table at once need about that many; more means something else is wrong."""

COMMIT_PATIENCE_MS = 60_000
"""No further attempt begins after it: twenty attempts of which each waits for a silent catalog would take an hour."""

EXPIRY_INTERVAL_MS = 60_000
"""Old snapshots go with a commit once in this time: it looks at the catalog first, for a branch or a tag that was made
since the last look would go with the snapshot that it names."""

_CREATE_ATTEMPTS = 5
"""Two processes that find a topic created again step on each other at most once each per rename and creation."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Waiting:
    """A caller and its change; None: it wants the table to itself.

    ``attempts``: snapshots that were to hold the change, with the outcomes if they landed; ``unanswered``: one of them
    may have, ``landed``: one has; ``conflicts`` how many met another commit; ``expired`` snapshots that the last one
    lets go.
    """

    change: Change | None = None
    attempts: list[tuple[int, tuple[Outcome, ...]]] = field(default_factory=list)
    unanswered: CommitUnknown | None = None
    landed: bool = False
    conflicts: int = 0
    expired: int = 0
    result: Committed | None = None
    error: Exception | None = None

    @property
    def is_done(self) -> bool:
        return self.result is not None or self.error is not None

    def fail(self, error: Exception) -> None:
        """A refusal is true of its own attempt, while an earlier one may still land."""
        self.error = self.unanswered or error

    def settle(self, decision: Decision, state: _State) -> None:
        """Of an attempt that was not answered and has landed after all, the snapshot is in the table's history."""
        outcomes = list(decision.outcomes_if_committed)
        for snapshot_id, tried in self.attempts:
            if state.table.metadata.snapshot_by_id(snapshot_id) is not None:
                self.landed = True
                pairs = zip(tried, outcomes, strict=True)
                outcomes = [then if then is Outcome.COMMITTED else now for then, now in pairs]
        self.result = Committed(
            table=state.view, outcomes=tuple(outcomes), conflicts=self.conflicts, expired=self.expired
        )


@dataclass(frozen=True, slots=True)
class _State:
    """A loaded table, which a commit turns into what it makes of it, and the view of it as it was loaded."""

    table: Table
    view: TopicTable


_Decided = Sequence[tuple[_Waiting, Decision]]


@dataclass(eq=False, kw_only=True)
class TableSession:
    """The one writer of a process to one topic's table, or to the ``__latest`` one. Safe between its threads.

    Group commit: the caller at the head of the queue commits for all whose changes fit into the same snapshot, and
    they wait for it. The queue is no longer than there are threads. No lock is held while a catalog is waited for.
    """

    topic: str
    topic_id: str
    catalog: Catalog
    namespace: str
    clock: Clock
    loader: TableLoader
    gather: GatherAll
    history: HistoryLimits
    on_commit: OnCommit
    is_latest: bool = False

    def __post_init__(self) -> None:
        table_id, judge = self.topic_id, TableJudge
        if self.is_latest:
            # Turns of its own: the topic's table never waits for it.
            table_id, judge = f"{table_id}-latest", LatestJudge
        self._plain = self._named(catalogs.table_identifier(self.namespace, self.topic))
        self._identifier = self._plain
        self._judge = judge(self.loader, self.clock, self.gather)
        self._turns = CommitTurns(self.clock, catalogs.lock_file_of(self.catalog, table_id))
        self._state: _State | None = None
        self._proven: ProvenManifests = {}
        self._expired_ms: int | None = None
        self._queue: list[_Waiting] = []
        self._moved = threading.Condition()

    def open(self) -> TopicTable | None:
        """The table as the catalog has it now, or None. Raises as ``TableWriter.open``."""
        with self._turn(_Waiting()):
            table = self._load()
            self._state = self._known_as(table) or self._adopted(table)
            return None if self._state is None else self._state.view

    @property
    def known(self) -> TopicTable | None:
        """The newest state that this process has made or loaded; None while it knows none. Asks nobody."""
        state = self._state
        return None if state is None else state.view

    def find_or_create(self, create: Callable[[], Table | None]) -> TopicTable:
        """``create`` answers None when another process was quicker. Raises Corrupt (the table was dropped),
        Unavailable, Invalid."""
        with self._turn(_Waiting()):
            for attempt in range(_CREATE_ATTEMPTS):
                table = self._load()
                if table is None:
                    self._check_absent()
                    table = create()
                if table is not None:
                    self._state = _State(table, self.loader.view(table))
                    return self._state.view
                self._turns.wait_after_silence(attempt)
        raise Unavailable(f"the table could not be created in {_CREATE_ATTEMPTS} attempts", topic=self.topic)

    def commit(self, change: Change) -> Committed:
        """Commit a change, with those of other threads where they go together.

        Raises what the change raises, CommitUnknown when neither the commit nor the table afterwards could be had an
        answer from, Unavailable after too many conflicts or when the catalog is away, Corrupt, Invalid.
        """
        mine = _Waiting(change)
        with self._turn(mine) as leads:
            if leads:
                with self._group(mine) as (group, is_alone):
                    # Nobody commits between a look now and the commit; a local catalog's look costs next to nothing.
                    self._attempt(group, looks=is_alone)
        if mine.error is not None:
            raise mine.error
        assert mine.result is not None, "who is not in the queue any more has a result"
        return mine.result

    @contextlib.contextmanager
    def _turn(self, mine: _Waiting) -> Iterator[bool]:
        """Wait for the head of the queue; False where another caller was there first and has committed for this one."""
        with self._moved:
            self._queue.append(mine)
        try:
            with self._moved:
                self._moved.wait_for(lambda: mine.is_done or self._queue[0] is mine)
            yield not mine.is_done
        finally:
            with self._moved:
                self._queue = [one for one in self._queue if one is not mine and not one.is_done]
                self._moved.notify_all()

    def _group_of(self, leader: _Waiting) -> list[_Waiting]:
        """The leader, and who else is in the queue with a change that its snapshot can hold."""
        group = [leader]
        with self._moved:
            for other in self._queue:
                change = other.change
                if other is not leader and change and all(one.change and change.joins(one.change) for one in group):
                    group.append(other)
        return group

    @contextlib.contextmanager
    def _group(self, leader: _Waiting) -> Iterator[tuple[Sequence[_Waiting], bool]]:
        """This process's turn: who is committed for in it, and whether no other process commits to the table. An error
        inside is that of all who are not done."""
        group = [leader]
        try:
            with self._turns.turn() as is_alone:
                group = self._group_of(leader)
                yield group, is_alone
        except FloebergError as error:
            for one in group:
                if not one.is_done:
                    one.fail(error)

    def _attempt(self, group: Sequence[_Waiting], *, looks: bool) -> None:
        """Load, decide, commit; again after a conflict or an unanswered commit. ``looks``: at the catalog, first."""
        began_ms, attempt = self.clock.monotonic_ms(), 0
        while True:
            tried_ms = self.clock.monotonic_ms()
            state, decided, is_fresh = self._decide(group, looks=looks or attempt > 0)
            if not decided:
                return self._tell([one for one in group if one.landed], began_ms=began_ms)
            # Asked after the look at the catalog: the last attempt may have landed unanswered.
            is_late = self.clock.monotonic_ms() - began_ms > COMMIT_PATIENCE_MS
            if attempt == COMMIT_ATTEMPTS or (attempt and is_late):
                raise Unavailable(f"the commit met a conflict {attempt} times", topic=self.topic)
            try:
                self._staged(state, decided, is_fresh=is_fresh).commit_once()
                self._settle(state.table, decided)
                self._tell([one for one, _ in decided], began_ms=began_ms)
                number = state.table.metadata.last_sequence_number
                return self._turns.note_commit(began_ms=tried_ms, sequence_number=number)
            except CommitConflict as conflict:
                log.info("commit_conflict", topic=self.topic, attempt=attempt, problem=conflict.problem)
                self._turns.wait_after_conflict(attempt, began_ms=tried_ms)
                for one, _ in decided:
                    one.conflicts += 1
            except CommitUnknown as error:
                log.warning("commit_unanswered", topic=self.topic, attempt=attempt, problem=error.problem)
                self._turns.wait_after_silence(attempt)
                for one, _ in decided:
                    one.unanswered = error
            attempt += 1

    def _decide(self, group: Sequence[_Waiting], *, looks: bool) -> tuple[_State, _Decided, bool]:
        """What each change comes to on the state in memory, which may be old: the commit finds out. What that state
        refuses is decided again on the catalog's, and snapshots go by the catalog's alone. A change that raises, or has
        nothing to commit, is done. The last value: whether the state is the catalog's."""
        while True:
            state = self._current(looks=looks)
            found = [(one, _decision(one.change, state.view)) for one in group if one.change and not one.is_done]
            if looks or not (self._expires(state) or any(_needs_a_look(it) for _, it in found)):
                break
            looks = True
        decided = []
        for one, decision in found:
            if isinstance(decision, Exception):
                one.fail(decision)
            elif decision.update is None:
                one.settle(decision, state)
            else:
                decided.append((one, decision))
        return state, decided, looks

    @property
    def _may_expire(self) -> bool:
        return self._expired_ms is None or self.clock.monotonic_ms() - self._expired_ms >= EXPIRY_INTERVAL_MS

    def _expires(self, state: _State) -> bool:
        metadata = state.table.metadata
        return self._may_expire and bool(expired(metadata.snapshots, metadata.refs, self.history, self.clock.now_ms()))

    def _staged(self, state: _State, decided: _Decided, *, is_fresh: bool) -> TableTransaction:
        """What was decided on the state, ready to be committed. Not answered, the state is not built upon again."""
        self._state = None
        transaction, (leader, first) = TableTransaction(state.table, self.clock.now_ms()), decided[0]
        assert leader.change is not None, "only changes are decided"
        if isinstance(first.update, ColumnsUpdate):
            stage_columns(transaction, state.view, first.update)
        elif isinstance(first.update, HistoryUpdate):
            leader.expired = transaction.stage_expiry(first.update.limits or self.history)
        elif isinstance(first.update, SchemaUpdate):
            stage_schema(transaction, first.update)
        else:
            assert leader.change.producer is not None, "what is no change of columns makes a snapshot"
            reach(FaultPoint.COMMIT_DECIDED)
            updates = [decision.update for _, decision in decided if isinstance(decision.update, SnapshotUpdate)]
            snapshot_id = transaction.stage_snapshot(leader.change.producer, updates, self._proven)
            gone = transaction.stage_expiry(self.history) if is_fresh and self._may_expire else 0
            if gone:
                self._expired_ms = self.clock.monotonic_ms()
            for one, decision in decided:
                one.attempts.append((snapshot_id, decision.outcomes_if_committed))
                one.expired = gone
        return transaction

    def _settle(self, table: Table, decided: _Decided) -> None:
        """``table`` is what the commit made of it."""
        reach(FaultPoint.WRITER_TOLD)
        self._state = _State(table, self.loader.view(table))
        for one, decision in decided:
            one.settle(decision, self._state)

    def _tell(self, committed: Sequence[_Waiting], *, began_ms: int) -> None:
        """Of one commit, and of none where nobody's change is in it."""
        for one in committed[:1]:
            kind = re.sub(r"\B(?=[A-Z])", "_", type(one.change).__name__).lower()
            self.on_commit(kind, self.clock.monotonic_ms() - began_ms)

    def _current(self, *, looks: bool) -> _State:
        """The state to decide on, Floeberg's own: the one in memory or the catalog's, adopted where that must be."""
        if self._state is not None and self._state.view.foreign is None and not looks:
            return self._state
        table = self._load()
        self._state = self._known_as(table) or self._adopted(table)
        if self._state is None:
            raise Invalid("the topic's table is gone from the catalog", topic=self.topic)
        return self._state

    def _known_as(self, table: Table | None) -> _State | None:
        """The state at hand, where it is this one and Floeberg's own."""
        if table is None or self._state is None or self._state.view.foreign is not None:
            return None
        view = self._state.view
        is_same = (table.name(), table.metadata_location) == (view.identifier, view.metadata_location)
        return self._state if is_same else None  # a rename moves no metadata

    def _adopted(self, table: Table | None) -> _State | None:
        self._state = None
        if table is not None:
            return _State(table, self._judge.adopt_if_intact(table))
        self._check_absent()
        return None

    def _load(self) -> Table | None:
        """The table of this incarnation under its own name, or the one it was given; or, retired, under the one of
        these with its id."""
        for plain in self._names():
            for name in (plain, catalogs.retired_identifier(plain, self.topic_id)):
                table = catalogs.load(self.catalog, name)
                if table is not None and TOPIC_ID_PROPERTY not in table.metadata.properties:
                    self._check_absent()
                if table is not None and topic_id_of(table) == self.topic_id:
                    self._identifier = plain
                    self._judge.note_present(table)
                    return table
        return None

    def _names(self) -> Iterator[Identifier]:
        """Where the table may be; the catalog is asked for others only when it is not where it was."""
        known = self._identifier
        yield known
        given = self.given()
        yield from (name for name in dict.fromkeys((self._plain, given)) if name != known)

    def given(self) -> Identifier:
        """The name that the table is to have, if it is not retired. Raises Unavailable."""
        given = catalogs.given_identifier(self.catalog, self.namespace, self.topic)
        return self._plain if given is None else self._named(given)

    def _named(self, identifier: Identifier) -> Identifier:
        return catalogs.latest_identifier(identifier) if self.is_latest else identifier

    def _check_absent(self) -> None:
        # A table that was renamed stays where it lies.
        for name in dict.fromkeys((self._plain, self.given())):
            location = catalogs.default_location(self.catalog, name, self.topic_id)
            self._judge.check_absent(self.topic, self.topic_id, location)


def _needs_a_look(found: Decision | Exception) -> bool:
    """Whether what was decided on a state that may be old is decided again on the catalog's."""
    return isinstance(found, Exception) or found.is_refused or isinstance(found.update, HistoryUpdate)


def _decision(change: Change, view: TopicTable) -> Decision | Exception:
    try:
        decision = change.decide(view)
        check_begun_since_swept(view, decision)
        return decision
    except Exception as error:  # noqa: BLE001 - a change's outermost guard: another caller's thread may be deciding it
        return error
