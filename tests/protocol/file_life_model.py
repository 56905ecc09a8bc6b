"""The life of a table's files as a state machine small enough to visit every state: somebody appends, merges, erases or
moves horizons, while snapshots expire and a sweep removes what nothing names.

What may be committed and removed is decided by the program's own checks (``check_begun_since_swept``,
``decide_replacements``, ``reasons_to_keep``); what surrounds them is reduced to what can interleave, as in
``commit_model``. A record is a number; a file is what it holds. docs/commit_protocol.md, "Every interleaving".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np

from engine.errors import Unavailable
from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST
from engine.table.commit.change import Decision, SnapshotUpdate
from engine.table.commit.erasure import _decided as decide_erasures
from engine.table.commit.replacement import FileReplacement, decide_replacements
from engine.table.commit.sweep_fence import check_begun_since_swept
from engine.table.data_file import FileDescription
from engine.table.manifests import SnapshotFiles, TableFile
from engine.table.own_files import FileKind, OwnFile, OwnFiles
from engine.table.proof.verifier import VERIFIERS_TOKEN, VerifiedErasure, VerifiedFile
from engine.table.reachability import NamedFiles, hashes_of
from engine.warehouse.warehouse import StoredFile
from retention.sightings import Look
from retention.sweep_planner import Due, Needed
from retention.unreferenced import TableMoment, reasons_to_keep
from tests.protocol import commit_model
from tests.protocol.commit_model import Step
from tests.protocol.commit_model import _description as describe

LOCATION, TOPIC_ID = "s3://bucket/orders", "t"
ERASED = 0
"""The record that somebody asks to be erased."""
MOST_REQUESTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeRules:
    """What the protocol asks for. Each one that is off has a trace that names a file that is gone, loses a record, or
    shows one that was erased."""

    fence_is_asked: bool = True
    """A file that was begun before the fence is not committed."""
    fence_is_put: bool = True
    """A file goes only once the fence stands that is of its sighting."""
    looks_again: bool = True
    """What was seen unnamed is looked for in the table of now."""
    asks_history: bool = True
    asks_branch: bool = True
    """Snapshots of before, and the stream's branch, count as the table's."""
    replaces_what_is_listed: bool = True
    """A file takes the place of the very ones that it was made of."""
    erases_in_the_branch: bool = True
    erasure_cuts_history: bool = True
    """Nothing of before an erasure is kept."""
    branch_keeps_what_leaves: bool = True
    """A file that leaves the table goes to the stream's branch in the same commit."""


class File(NamedTuple):
    """``begun``: the number of the snapshot that its writer had loaded before it began it."""

    number: int
    begun: int
    start: int
    end: int
    records: frozenset[int]


class Request(NamedTuple):
    """A commit on its way, with the state that it makes of the one that it ``asserted``."""

    sender: str
    asserted: int
    main: tuple[File, ...]
    stream: tuple[File, ...]
    swept: int
    erases: bool = False
    leaves: int = 0
    """How far the file that leaves has gone: 1 from the table, 2 from the stream too."""


class Actor(NamedTuple):
    """What a process holds in memory: the snapshot that it loaded, the file that it wrote and in whose place."""

    loaded: int | None = None
    old: tuple[File, ...] = ()
    new: File | None = None
    is_written: bool = False
    is_waiting: bool = False
    is_done: bool = False


class Life(NamedTuple):
    """``past``: what snapshots of before name; ``store``: files that are there; ``seen``: what the sweep found unnamed,
    and at which snapshot; ``left``: as ``Request.leaves``, of what landed."""

    snapshot: int
    main: tuple[File, ...]
    stream: tuple[File, ...]
    past: frozenset[File]
    swept: int
    store: frozenset[File]
    requests: frozenset[Request]
    actors: tuple[Actor, ...]
    written: int
    seen: tuple[tuple[File, int], ...] = ()
    is_erased: bool = False
    left: int = 0


FIRST = File(0, 0, 0, 2, frozenset({0, 1}))
SECOND = File(1, 0, 2, 3, frozenset({2}))


class FileLifeModel:
    """``names`` of who acts beside the sweep: append, merge, erase, leave. Each does one thing, however often it has to
    begin again, up to ``most_files``."""

    def __init__(self, *names: str, rules: LifeRules | None = None, most_files: int = 5, start_files: int = 1) -> None:
        self._names = names
        self._rules = rules or LifeRules()
        self._most_files = most_files
        files = (FIRST, SECOND)[:start_files]
        self._end = files[-1].end
        actors = tuple(Actor() for _ in names)
        self.start = Life(1, files, (), frozenset(), 0, frozenset(files), frozenset(), actors, start_files)

    def broken(self, state: Life) -> str | None:
        named = {*state.main, *state.stream, *state.past}
        gone = named - state.store
        if gone:
            return f"the file {min(gone).number} is gone, and the table names it"
        held = [record for file in (*state.main, *state.stream) for record in file.records]
        if len(held) != len(set(held)):
            return "a record is there twice"
        if state.is_erased and ERASED in {*held, *(record for file in state.past for record in file.records)}:
            return "an erased record is back"
        lost = set().union(*(file.records for file in self.start.main)) - set(held)
        lost -= {ERASED} if state.is_erased else set()
        if lost and state.left < 2:
            return f"the records {sorted(lost)} are lost"
        return None

    def broken_step(self, before: Life, after: Life) -> str | None:
        if after.snapshot < before.snapshot or after.swept < before.swept:
            return "the table, or its fence, went back"
        return None

    def steps(self, state: Life) -> Iterator[Step]:
        for at, name in enumerate(self._names):
            yield from self._acts(state, at, name)
        yield from self._sweep(state)
        for request in state.requests:
            yield from self._arrives(state, request)
        if state.past:
            yield _step("snapshots expire", state._replace(past=frozenset()))

    def _acts(self, state: Life, at: int, name: str) -> Iterator[Step]:
        actor = state.actors[at]
        if actor.is_done:
            return
        if actor.is_waiting:
            yield _step(f"{name} waits no longer", _with(state, at, actor._replace(is_waiting=False, loaded=None)))
            return
        if actor.loaded != state.snapshot:
            yield _step(f"{name} loads", _with(state, at, actor._replace(loaded=state.snapshot)))
            return
        # A state that is not the newest is refused by the assertion: what is sent is made of one that was.
        if name == "leave":
            yield from self._leaves(state, at, actor)
        elif not actor.is_written:
            yield from self._writes(state, at, name, actor)
        else:
            yield from self._sends(state, at, name, actor)

    def _writes(self, state: Life, at: int, name: str, actor: Actor) -> Iterator[Step]:
        number = state.written
        if number == self._most_files:
            return
        if name == "append":
            yield self._written(
                state, at, actor, (), File(number, state.snapshot, self._end, self._end + 1, frozenset({3}))
            )
        elif name == "merge":
            yield self._written(state, at, actor, state.main, _of(number, state.snapshot, state.main, frozenset()))
        else:
            files = (*state.main, *(state.stream if self._rules.erases_in_the_branch else ()))
            old = next((file for file in files if ERASED in file.records), None)
            if old is not None:
                new = _of(number, state.snapshot, (old,), frozenset({ERASED}))
                yield self._written(state, at, actor, (old,), new)
            else:
                # What left the stream, too, goes with its snapshots.
                told = state._replace(is_erased=state.is_erased or state.left < 2)
                yield _step("erase finds no match", _with(told, at, Actor(is_done=True)))

    def _written(self, state: Life, at: int, actor: Actor, old: tuple[File, ...], new: File) -> Step:
        written = _with(state, at, actor._replace(old=old, new=new, is_written=True))
        return _step(f"{new.number} is written", written._replace(store=state.store | {new}, written=new.number + 1))

    def _sends(self, state: Life, at: int, name: str, actor: Actor) -> Iterator[Step]:
        new = actor.new
        assert new is not None, "it was written"
        listed = (*state.main, *state.stream)
        # The ledger says so of a range, whatever its file has become.
        if new in listed or (name == "append" and any(new.records <= file.records for file in listed)):
            yield _step(f"{name} is told: committed", _with(state, at, Actor(is_done=True)))
            return
        if self._rules.fence_is_asked and not _may_commit(state.swept, state.snapshot, new.begun):
            yield _step(f"{name} is told: swept", _with(state, at, Actor()))
            return
        main, stream = state.main, state.stream
        if name == "append":
            main = (*main, new)
        else:
            is_listed = (_merges if name == "merge" else _erases)(state.main, state.stream, actor.old, new)
            if not is_listed and self._rules.replaces_what_is_listed:
                yield _step(f"{name} is told: gone", _with(state, at, Actor()))
                return
            if not is_listed:
                main = tuple(file for file in main if file.end <= new.start or file.start >= new.end)
                main = (*main, new)
            else:
                main, stream = (_instead(files, actor.old, new) for files in (main, stream))
        request = Request(name, state.snapshot, main, stream, state.swept, name == "erase")
        yield from self._sent(state, at, actor, request)

    def _leaves(self, state: Life, at: int, actor: Actor) -> Iterator[Step]:
        """The first file goes below the table's horizon, and then below the stream's too."""
        gone = state.main[:1] if state.left == 0 else state.stream[:1]
        if state.left == 2 or not gone:
            yield _step("leave is told: nothing is left", _with(state, at, Actor(is_done=True)))
            return
        main = tuple(file for file in state.main if file not in gone)
        keeps = state.left == 0 and self._rules.branch_keeps_what_leaves
        request = Request("leave", state.snapshot, main, gone if keeps else (), state.swept, leaves=state.left + 1)
        yield from self._sent(state, at, actor, request)

    def _sent(self, state: Life, at: int, actor: Actor, request: Request) -> Iterator[Step]:
        if len(state.requests) < MOST_REQUESTS:
            sent = _with(state, at, actor._replace(is_waiting=True))
            yield _step(f"{request.sender} sends", sent._replace(requests=state.requests | {request}))

    def _arrives(self, state: Life, request: Request) -> Iterator[Step]:
        without = state._replace(requests=state.requests - {request})
        yield _step(f"a request of {request.sender} is lost", without)
        if request.asserted != state.snapshot:
            yield _step(f"a request of {request.sender} meets a conflict", without)
            return
        past = state.past | {*state.main, *state.stream}
        past -= {*request.main, *request.stream}
        if request.erases and self._rules.erasure_cuts_history:
            past = frozenset()
        after = without._replace(
            snapshot=state.snapshot + 1,
            main=request.main,
            stream=request.stream,
            swept=max(state.swept, request.swept),
            past=frozenset(past),
            is_erased=state.is_erased or request.erases,
            left=max(state.left, request.leaves),
        )
        yield _step(f"a request of {request.sender} lands", after)

    def _sweep(self, state: Life) -> Iterator[Step]:
        named = self._named(state)
        if not state.seen:
            unnamed = tuple((file, state.snapshot) for file in sorted(state.store - named))
            if unnamed:
                yield _step(f"{[file.number for file, _ in unnamed]} are seen unnamed", state._replace(seen=unnamed))
            return
        fence = max(number for _, number in state.seen)
        if state.swept < fence and self._rules.fence_is_put:
            request = Request("sweep", state.snapshot, state.main, state.stream, fence)
            if len(state.requests) < MOST_REQUESTS and request not in state.requests:
                yield _step("sweep sends its fence", state._replace(requests=state.requests | {request}))
            return
        asked = named if self._rules.looks_again else set()
        going = {
            file
            for file, number in state.seen
            if _may_go(file, number, frozenset(asked), state.swept if self._rules.fence_is_put else number)
        }
        yield _step(f"{sorted(file.number for file in going)} go", state._replace(store=state.store - going, seen=()))

    def _named(self, state: Life) -> set[File]:
        named = set(state.main)
        named |= {*state.stream} if self._rules.asks_branch else set()
        return named | (state.past if self._rules.asks_history else set())


def _step(name: str, state: Any) -> Step:
    return Step(name, state)


def _with(state: Life, at: int, actor: Actor) -> Life:
    return state._replace(actors=(*state.actors[:at], actor, *state.actors[at + 1 :]))


def _of(number: int, begun: int, old: tuple[File, ...], without: frozenset[int]) -> File:
    records = frozenset[int]().union(*(file.records for file in old)) - without
    return File(number, begun, old[0].start, old[-1].end, records)


def _instead(files: tuple[File, ...], old: tuple[File, ...], new: File) -> tuple[File, ...]:
    if not set(old) <= set(files):
        return files
    return tuple(sorted((*(file for file in files if file not in old), new), key=lambda file: file.start))


class _View(NamedTuple):
    """What the checks ask of a table."""

    swept: int
    sequence_number: int
    topic: str = "orders"
    adopted: Any = {}  # noqa: RUF012 - nobody writes to it


@cache
def _may_commit(swept: int, snapshot: int, begun: int) -> bool:
    update = SnapshotUpdate(added=(_description(File(0, begun, 0, 1, frozenset())),))
    try:
        check_begun_since_swept(cast(Any, _View(swept, snapshot)), Decision(update=update))
    except Unavailable:
        return False
    return True


@cache
def _merges(main: tuple[File, ...], _: tuple[File, ...], old: tuple[File, ...], new: File) -> bool:
    verified = VerifiedFile(description=_description(new), token=VERIFIERS_TOKEN)
    asked = FileReplacement(old=tuple(map(_table_file, old)), digest=EMPTY_DIGEST, new=(verified,))
    return bool(decide_replacements(SnapshotFiles(own=tuple(sorted(map(_table_file, main)))), [asked])[1])


@cache
def _erases(main: tuple[File, ...], stream: tuple[File, ...], old: tuple[File, ...], new: File) -> bool:
    asked = VerifiedErasure(
        old=_table_file(old[0]),
        new=VerifiedFile(description=_description(new), token=VERIFIERS_TOKEN),
        offsets=np.array([ERASED], np.int64),
        before=EMPTY_DIGEST,
        after=EMPTY_DIGEST,
        token=VERIFIERS_TOKEN,
    )
    files = SnapshotFiles(own=tuple(map(_table_file, main)), stream=tuple(map(_table_file, stream)))
    return bool(decide_erasures(cast(Any, _View(0, 0)), files, [asked])[1])


@cache
def _may_go(file: File, seen: int, named: frozenset[File], swept: int) -> bool:
    hashes = hashes_of([_path(one) for one in sorted(named)])
    stored = StoredFile(path=_path(file), size_bytes=1, modified_ms=0)
    moment = TableMoment(
        own=OwnFiles.of(LOCATION, TOPIC_ID),
        named=NamedFiles(live=hashes, history=hashes_of([])),
        live=hashes,
        needed=Needed(log_starts={}, schema_ids=set()),
        swept=swept,
        sequence_number=swept + 1,
        now_ms=1,
        grace_ms=0,
        in_use=frozenset(),
        is_own_state=lambda _: True,
    )
    due = Due(file=stored, own=OwnFile(kind=FileKind.DATA), seen=Look(seen_ms=1, sequence_number=seen))
    return next(reasons_to_keep(due, moment), None) is None


def _path(file: File) -> str:
    return f"{LOCATION}/data/{TOPIC_ID}/p=0/{file.start:020d}-{file.end:020d}-e0-{file.number}a{file.begun}.parquet"


def _table_file(file: File) -> TableFile:
    return TableFile(
        partition=0,
        range=OffsetRange(start=file.start, end=file.end),
        path=_path(file),
        size_bytes=1,
        record_count=file.end - file.start,
        leader_epoch=0,
    )


def _description(file: File) -> FileDescription:
    described = describe(commit_model.File(file.start, file.end))
    return replace(described, path=_path(file), topic_id=TOPIC_ID, begun_at=file.begun)
