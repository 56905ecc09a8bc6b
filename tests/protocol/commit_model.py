"""The commit protocol as a state machine small enough to visit every state: two daemons, one partition, one catalog,
and somebody who merges files.

The decisions are the program's own (``engine.table.ledger``, ``engine.table.commit.replacement``); what surrounds them
is reduced to what can interleave: loading, planning, staging, a request on its way, an answer that arrives or not,
leaders that change and daemons that do not notice, processes that end. ``Rules`` switches off one rule at a time: the
model must then find what goes wrong. A state is numbers in tuples alone, as quick to hash as can be.
docs/commit_protocol.md, "Every interleaving", reads along with this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST
from engine.table.commit.replacement import FileReplacement, decide_replacements
from engine.table.data_file import FileDescription
from engine.table.ledger import LedgerEntry, Outcome, decide, extend
from engine.table.manifests import SnapshotFiles, TableFile
from engine.table.proof.verifier import VERIFIERS_TOKEN, VerifiedFile

SEGMENT_ENDS = ((2,), (1, 2))
"""Where the closed segments of each daemon's replica end: never at the same offsets but the last."""

LOG_END = 2

MERGER = 2
"""Who merges, as the sender of a request; the daemons are 0 and 1."""

MOST_REQUESTS = 2
"""On their way at once: the one waited for, and one that nobody waits for any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the protocol asks for. Each one that is off has a trace that loses, doubles or invents something."""

    asserts_snapshot: bool = True
    """A commit lands only on the snapshot it was decided on."""
    decides_again: bool = True
    """After a conflict or no answer the range is decided on the ledger as it is then."""
    checks_epoch: bool = True
    """An older leader epoch than the ledger's commits nothing."""
    horizon_makes_snapshot: bool = True
    """A new log start is a snapshot of its own, not a change of properties alone."""
    copied_needs_ledger: bool = True
    """The broker is told "copied" only for what a loaded ledger covers."""
    replaces_what_is_listed: bool = True
    """Files are replaced only while they are those that the table has in their range."""
    replaces_on_its_snapshot: bool = True
    """What is to be listed after a replacement lands only on the snapshot that it was made of."""


class Range(NamedTuple):
    """Offsets ``start <= offset < end``."""

    start: int
    end: int

    def __str__(self) -> str:
        return str(self.offsets)

    @property
    def offsets(self) -> OffsetRange:
        return OffsetRange(start=self.start, end=self.end)


class File(NamedTuple):
    """A file of the table, ``is_merged`` or as it was appended."""

    start: int
    end: int
    is_merged: bool = False


class Line(NamedTuple):
    """The partition's line of the ledger; it starts at 0, and the records' bytes are not modelled."""

    end: int
    epoch: int
    log_start: int

    @classmethod
    def of(cls, entry: LedgerEntry) -> Line:
        assert entry.start == 0, "the first range of a partition begins at 0"
        return cls(entry.end, entry.epoch, entry.log_start)

    @property
    def entry(self) -> LedgerEntry:
        return LedgerEntry(start=0, end=self.end, epoch=self.epoch, digest=EMPTY_DIGEST, log_start=self.log_start)


class Request(NamedTuple):
    """A commit on its way to the catalog; ``added`` is None for a new log start. A replacement has the table's files as
    they are to be in ``listed``, and no ``line``: it leaves the ledger as it is."""

    sender: int
    asserted: int
    line: Line | None
    added: Range | None = None
    epoch: int = 0
    listed: tuple[File, ...] = ()


class Daemon(NamedTuple):
    """What one process holds in memory; all of it is gone when it ends."""

    epoch: int | None = None
    """The epoch it believes to lead in."""
    loaded: tuple[int, Line | None] | None = None
    planned: Range | None = None
    is_waiting: bool = False


class Merger(NamedTuple):
    """What somebody who merges files holds in memory: the snapshot and files as they were loaded, and the ``group`` of
    which a merged file is written."""

    loaded: tuple[int, tuple[File, ...]] | None = None
    group: tuple[File, ...] = ()
    is_waiting: bool = False


class State(NamedTuple):
    """``files`` are those that the current snapshot names; ``dropped`` is what the broker let go of."""

    snapshot: int
    line: Line | None
    files: tuple[File, ...]
    requests: frozenset[Request]
    daemons: tuple[Daemon, Daemon]
    leader: int
    epoch: int
    dropped: int
    crashes_left: int
    merger: Merger = Merger()


class Step(NamedTuple):
    name: str
    state: State


START = State(
    snapshot=0,
    line=None,
    files=(),
    requests=frozenset(),
    daemons=(Daemon(), Daemon()),
    leader=0,
    epoch=0,
    dropped=0,
    crashes_left=1,
)


class CommitModel:
    """``steps`` are all that can happen next; ``broken`` says which promise a state breaks."""

    def __init__(self, rules: Rules | None = None, *, elections: int = 2, merges: bool = False) -> None:
        """``elections``: 2 are enough for a leader to lose the partition and get it back under a newer epoch. With
        ``merges``, somebody merges files beside the second daemon, and the first one does nothing."""
        self._rules = rules or Rules()
        self._elections = elections
        self._has_merges = merges

    def steps(self, state: State) -> Iterator[Step]:
        if state.epoch < self._elections:
            yield Step("the other broker is elected", state._replace(leader=1 - state.leader, epoch=state.epoch + 1))
        for who in (1,) if self._has_merges else (0, 1):
            yield from self._steps_of(state, who)
        if self._has_merges:
            yield from self._merges(state)
        for request in state.requests:
            yield from self._arrives(state, request)

    def broken(self, state: State) -> str | None:
        at = 0
        for added in sorted(state.files):
            if added.start < at:
                return f"offsets from {added.start} are in the table twice"
            if added.start > at:
                return f"offsets {at} to {added.start} are missing between files"
            at = added.end
        covered = 0 if state.line is None else state.line.end
        if covered != at:
            return f"the ledger ends at {covered}, the files at {at}"
        if state.dropped > at:
            return f"the broker dropped offsets up to {state.dropped}, the table has them up to {at}"
        return None

    def broken_step(self, before: State, after: State) -> str | None:
        """What may never go back."""
        old, new = before.line, after.line
        if old is new:
            return None
        if old is None or new is None:
            return None if old is None else "the ledger's line vanished"
        for name in ("end", "epoch", "log_start"):
            if getattr(new, name) < getattr(old, name):
                return f"the ledger's {name} went from {getattr(old, name)} back to {getattr(new, name)}"
        return None

    def _steps_of(self, state: State, who: int) -> Iterator[Step]:
        daemon = state.daemons[who]
        if state.crashes_left:
            yield Step(f"{who} ends and starts", _with(state, who, Daemon())._replace(crashes_left=0))
        if daemon.is_waiting:
            yield Step(f"{who} waits no longer", _with(state, who, self._after_no_answer(daemon)))
            return
        if state.leader == who and daemon.epoch != state.epoch:
            yield Step(f"{who} learns that it leads", _with(state, who, daemon._replace(epoch=state.epoch)))
        if daemon.loaded != (state.snapshot, state.line):
            loaded = Daemon(daemon.epoch, (state.snapshot, state.line), daemon.planned)
            yield Step(f"{who} loads the table", _with(state, who, loaded))
        if daemon.loaded is None or daemon.epoch is None:
            return
        snapshot, line = daemon.loaded
        if daemon.planned is not None:
            yield from self._decide(state, who, daemon.planned, daemon.epoch, snapshot, line)
        else:
            planned = _next_range(line, who)
            if planned is not None:
                yield Step(f"{who} plans and writes {planned}", _with(state, who, daemon._replace(planned=planned)))
            if line is not None and line.end >= 1 and not line.log_start:
                # The broker's log start moved to 1: recorded once the table reaches that far.
                request = Request(who, snapshot, line._replace(log_start=1), None, daemon.epoch)
                yield from _sends(f"{who} sends a new log start", state, request)
        yield from self._copied(state, who, line)

    def _decide(
        self, state: State, who: int, planned: Range, epoch: int, snapshot: int, line: Line | None
    ) -> Iterator[Step]:
        daemon = state.daemons[who]
        asked_as = epoch if self._rules.checks_epoch or line is None else max(epoch, line.epoch)
        entry = None if line is None else line.entry
        decision = decide(entry, added=planned.offsets, leader_epoch=asked_as)
        if decision is not Outcome.COMMITTED:
            settled = daemon._replace(planned=None, epoch=None if decision is Outcome.FENCED else epoch, loaded=None)
            yield Step(f"{who} is told: {decision.value}", _with(state, who, settled))
            return
        after = Line.of(extend(entry, added=planned.offsets, leader_epoch=epoch, digest=EMPTY_DIGEST))
        if not self._rules.checks_epoch:
            after = after._replace(epoch=epoch)
        request = Request(who, snapshot, after, planned, epoch)
        yield from _sends(f"{who} sends the commit of {planned}", state, request)

    def _merges(self, state: State) -> Iterator[Step]:
        merger = state.merger
        if merger != Merger():
            yield Step("who merges ends and starts", state._replace(merger=Merger()))
        if merger.is_waiting:
            yield Step("who merges waits no longer", state._replace(merger=Merger(group=merger.group)))
            return
        if merger.loaded != (state.snapshot, state.files):
            loaded = merger._replace(loaded=(state.snapshot, state.files))
            yield Step("who merges loads the table", state._replace(merger=loaded))
        if merger.loaded is None:
            return
        snapshot, files = merger.loaded
        if not merger.group:
            for group in _groups(files):
                yield Step(f"{_merged(group)} is written", state._replace(merger=merger._replace(group=group)))
            return
        outcome, is_accepted = _decide_replacement(files, merger.group)
        if is_accepted or not self._rules.replaces_what_is_listed:
            kept = tuple(file for file in files if file not in merger.group)
            request = Request(MERGER, snapshot, None, listed=(*kept, _merged(merger.group)))
            yield from _sends(f"who merges sends {_merged(merger.group)}", state, request)
        else:
            yield Step(f"who merges is told: {outcome.value}", state._replace(merger=Merger()))

    def _copied(self, state: State, who: int, line: Line | None) -> Iterator[Step]:
        """The broker beside the daemon asks about its next segment, and drops it when it is told "copied"."""
        daemon = state.daemons[who]
        end = next((end for end in SEGMENT_ENDS[who] if end > state.dropped), None)
        if end is None or state.leader != who:
            return
        is_covered = line is not None and line.end >= end
        is_written = daemon.planned is not None and daemon.planned.end >= end
        if is_covered or (is_written and not self._rules.copied_needs_ledger):
            yield Step(f"{who} answers copied up to {end}", state._replace(dropped=end))

    def _arrives(self, state: State, request: Request) -> Iterator[Step]:
        """A request reaches the catalog now, or never; its answer reaches the sender, or not."""
        snapshot, line, files, requests, daemons, leader, epoch, dropped, crashes_left, merger = state
        rest = daemons, leader, epoch, dropped, crashes_left, merger
        requests -= {request}
        without = State(snapshot, line, files, requests, *rest)
        yield Step(f"a request of {request.sender} is lost", without)
        is_horizon = request.added is None and not request.listed
        asserts = self._rules.asserts_snapshot and (self._rules.horizon_makes_snapshot or not is_horizon)
        asserts = asserts and (self._rules.replaces_on_its_snapshot or not request.listed)
        landed = not asserts or request.asserted == state.snapshot
        if landed:
            makes_snapshot = self._rules.horizon_makes_snapshot or not is_horizon
            files = request.listed or (files if request.added is None else (*files, File(*request.added)))
            after = State(snapshot + makes_snapshot, request.line or line, files, requests, *rest)
        else:
            after = without
        name = f"a request of {request.sender} {'lands' if landed else 'meets a conflict'}"
        yield Step(f"{name}, its answer is lost", after)
        if request.sender == MERGER:
            if merger.is_waiting:
                # Who is told that it is there has no more to do; a conflict is decided again.
                yield Step(name, after._replace(merger=Merger(group=() if landed else merger.group)))
            return
        daemon = daemons[request.sender]
        if daemon.is_waiting:
            told = Daemon(epoch=daemon.epoch, loaded=(after.snapshot, after.line))
            if not landed:
                told = self._after_no_answer(daemon)
            yield Step(name, _with(after, request.sender, told))

    def _after_no_answer(self, daemon: Daemon) -> Daemon:
        """A conflict and no answer are the same: load again, decide again. The rule off: send the same once more."""
        return Daemon(daemon.epoch, None if self._rules.decides_again else daemon.loaded, daemon.planned)


def _next_range(line: Line | None, who: int) -> Range | None:
    """From the ledger's end to the end of the segment it lies in: in the middle of a segment if it must."""
    start = 0 if line is None else line.end
    end = next((end for end in SEGMENT_ENDS[who] if end > start), None)
    return None if end is None else Range(start, end)


def _groups(files: tuple[File, ...]) -> Iterator[tuple[File, ...]]:
    """What may be written again: the first file that was not yet, alone, and with all that follow it."""
    appended = tuple(file for file in sorted(files) if not file.is_merged)
    for count in {min(1, len(appended)), len(appended)} - {0}:
        yield appended[:count]


def _merged(group: tuple[File, ...]) -> File:
    return File(group[0].start, group[-1].end, is_merged=True)


@cache
def _decide_replacement(files: tuple[File, ...], group: tuple[File, ...]) -> tuple[Outcome, bool]:
    """(what becomes of it if a commit succeeds, whether there is anything to commit)"""
    new = VerifiedFile(description=_description(_merged(group)), token=VERIFIERS_TOKEN)
    asked = FileReplacement(old=tuple(map(_table_file, group)), digest=EMPTY_DIGEST, new=(new,))
    (outcome,), accepted = decide_replacements(SnapshotFiles(own=tuple(sorted(map(_table_file, files)))), [asked])
    return outcome, bool(accepted)


def _table_file(file: File) -> TableFile:
    return TableFile(
        partition=0,
        range=OffsetRange(start=file.start, end=file.end),
        path=str(file),
        size_bytes=1,
        record_count=file.end - file.start,
        leader_epoch=0,
    )


def _description(file: File) -> FileDescription:
    listed = _table_file(file)
    return FileDescription(
        path=listed.path,
        topic="orders",
        topic_id="",
        partition=0,
        range=listed.range,
        leader_epoch=0,
        record_count=listed.record_count,
        size_bytes=1,
        checksum=0,
        footer_checksum=0,
        digest=EMPTY_DIGEST,
        schema_ids=(),
        raw_rows=0,
        error_rows=0,
        columns={},
        split_offsets=(),
    )


def _sends(name: str, state: State, request: Request) -> Iterator[Step]:
    requests = state.requests | {request}
    if len(requests) > MOST_REQUESTS:
        return
    if request.sender == MERGER:
        yield Step(name, state._replace(requests=requests, merger=state.merger._replace(is_waiting=True)))
    else:
        waiting = state.daemons[request.sender]._replace(is_waiting=True)
        yield Step(name, _with(state, request.sender, waiting)._replace(requests=requests))


def _with(state: State, who: int, daemon: Daemon) -> State:
    daemons = (daemon, state.daemons[1]) if who == 0 else (state.daemons[0], daemon)
    snapshot, line, files, requests, _, leader, epoch, dropped, crashes_left, merger = state
    return State(snapshot, line, files, requests, daemons, leader, epoch, dropped, crashes_left, merger)
