"""The sweep of one table: look, remember what is unnamed, and remove what has been so for the whole grace.

Killed at any point, it leaves files that the next one removes. Two at once, of one daemon or of two, do no harm: what
one of them removes, no state of the table can name (docs/retention.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Self

from pyiceberg.catalog import Catalog

from engine.bounded_cache import BoundedCache
from engine.clock import Clock
from engine.table.commit.writer import TableWriter
from engine.table.history import MAY_BE_UNANSWERED_MS, from_before_erasures
from engine.table.manifests import ManifestReader
from engine.table.own_files import FileKind, OwnFiles
from engine.table.reachability import hashes_of
from engine.table.topic_table import NEVER_SWEPT, TopicTable
from engine.warehouse.warehouse import FILES_A_BATCH, StoredFile
from retention.clock_jumps import ClockJumps
from retention.removal import Removal, StateCheck
from retention.sighting_store import SightingStore
from retention.sightings import Look, Sightings
from retention.sweep_limits import (
    MOST_OTHERS_STATES,
    PLAN_LASTS_MS,
    WORTH_A_COMMIT,
    SweepLimits,
)
from retention.sweep_planner import Amount, Due, Needed, Reason, SweepPlan, Verdict, plan_sweep
from retention.swept_table import SweptState, SweptTable, held_because
from retention.unreferenced import OF_ONE_COMMIT, TableMoment

_NOTHING = Amount()

_NO_FENCE = 2**63
"""Of a ``__latest`` table that is as far: one that was not there takes whatever it finds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTurn:
    """``amounts`` of files by reason, without those that were ``removed``; ``waiting``: why files whose grace is
    over are still there, with how many; ``hindered``: what the warehouse said of those it did not remove, by path.
    ``held``: why the table was not swept at all; ``latest`` the name of the topic's ``__latest`` table, where it has
    one."""

    amounts: Mapping[Reason, Amount] = field(default_factory=dict)
    removed: Amount = _NOTHING
    waiting: Mapping[str, int] = field(default_factory=dict)
    hindered: Mapping[str, str] = field(default_factory=dict)
    goes_next_ms: int | None = None
    held: str | None = None
    latest: str | None = None

    @classmethod
    def after(cls, plan: SweepPlan, removal: Removal, *, held: str | None = None, latest: str | None = None) -> Self:
        """Of a plan, and what came of it."""
        listed, removed = plan.amounts[Reason.UNREFERENCED], removal.removed
        left = Amount(files=listed.files - removed.files, size_bytes=listed.size_bytes - removed.size_bytes)
        return cls(
            amounts={**plan.amounts, Reason.UNREFERENCED: left},
            removed=removed,
            waiting=removal.waiting,
            hindered=removal.hindered,
            goes_next_ms=plan.goes_next_ms,
            held=held,
            latest=latest,
        )


class TableSweep:
    """Of one incarnation of a topic. For one thread."""

    def __init__(
        self,
        *,
        topic: str,
        topic_id: str,
        catalog: Catalog,
        namespace: str,
        writer: TableWriter,
        clock: Clock,
        limits: SweepLimits,
        folder: Path,
        in_use: Callable[[], Set[str]] = frozenset,
        is_latest: bool = False,
        is_alone: bool = False,
    ) -> None:
        """``folder`` is where sightings are kept; ``in_use`` names the files that readers of this process have open.
        ``is_latest``: of the topic's ``__latest`` table, whose own folder has what it does not share. ``is_alone``:
        nobody commits to the topic's table any more, so that old snapshots go with the sweep."""
        self._table = SweptTable(catalog, namespace, topic, topic_id, is_latest=is_latest)
        self._is_latest = is_latest
        self._is_alone = is_alone and not is_latest
        self._writer = writer
        self._clock = clock
        self._limits = limits
        self._sightings = SightingStore(folder, f"{topic_id}-latest" if is_latest else topic_id)
        self._in_use = in_use
        self._jumps = ClockJumps(clock)
        self._others_states: BoundedCache[str, bool] = BoundedCache(capacity=MOST_OTHERS_STATES)

    def preview(self, tell: Callable[[Verdict], object]) -> SweepTurn:
        """What a turn would find and do now; nothing is changed. Raises as ``turn``."""
        state = self._table.load()
        held = held_because(state)
        seen = self._sightings.load(state.view.location)
        plan = self._plan(state, seen, tell)
        # As if the fences stood, which a turn puts up.
        fenced = replace(state.view, swept=state.view.sequence_number)
        found = Removal()
        for _ in found.proven(plan.due, self._moment(replace(state, view=fenced), NEVER_SWEPT)):
            pass
        return SweepTurn.after(plan, found, held=held, latest=state.latest_name)

    def turn(self) -> SweepTurn:
        """Look, remember, remove. Raises Unavailable (the catalog, the warehouse or the data directory is away, or
        another process sweeps the table), Corrupt (a metadata file is damaged: nothing is known of what it named),
        Invalid (the table is gone)."""
        with self._sightings as sightings:
            state = self._table.load()
            held = held_because(state)
            if held is not None:
                # What was seen of one state means nothing to another.
                sightings.forget()
                return SweepTurn(held=held)
            if self._is_alone or self._has_erased(state):
                # Not even a table that nobody commits to keeps them for longer.
                self._writer.expire(state.view, is_latest=self._is_latest)
                state = self._table.load()
            before = sightings.load(state.view.location)
            seen = self._steady(before)
            plan = self._plan(state, seen)
            # Loaded after the files were listed: whatever is among them was begun on this state or an earlier one.
            state = self._table.load()
            look = Look(seen_ms=self._clock.now_ms(), sequence_number=state.view.sequence_number)
            if plan.new or len(plan.seen) < len(before) or seen is not before:
                sightings.save(state.view.location, plan.sightings(look))
            removal = self._remove(plan.due, state) if plan.due else Removal()
            return SweepTurn.after(plan, removal, held=removal.held, latest=state.latest_name)

    def _has_erased(self, state: SweptState) -> bool:
        """Whether snapshots from before an erasure may go."""
        old = from_before_erasures(state.metadata.snapshots, state.metadata.refs)
        return any(self._clock.now_ms() - one.timestamp_ms > MAY_BE_UNANSWERED_MS for one in old)

    def _plan(
        self, state: SweptState, seen: Sightings, tell: Callable[[Verdict], object] = lambda _: None
    ) -> SweepPlan:
        own = _own_files(state.view)
        return plan_sweep(
            _listed(state.view, own),
            own=own,
            named=self._table.named(state),
            needed=Needed.by(state.view),
            seen=seen,
            now_ms=self._clock.now_ms(),
            grace_ms=self._limits.grace_ms,
            tell=tell,
        )

    def _remove(self, due: Sequence[Due], state: SweptState) -> Removal:
        found = Removal()
        fence = _fence_for(due, state.view)
        if fence is not None:
            self._writer.fence_sweep(state.view, fence, is_latest=self._is_latest)
        unlisted, since = self._unlisted(due)
        waiting = iter(unlisted)
        moment, looked_ms = self._now(found, since)
        while moment is not None and (batch := list(islice(waiting, FILES_A_BATCH))):
            if self._clock.monotonic_ms() - looked_ms > PLAN_LASTS_MS:
                moment, looked_ms = self._now(found, since)
                if moment is None:
                    break
            found.delete(state.view.warehouse, state.view.topic, list(found.proven(batch, moment)))
        changed_before_ms = self._clock.now_ms() - self._limits.grace_ms
        for folder in _own_files(state.view).folders:
            state.view.warehouse.remove_empty_folders(folder, unchanged_since_ms=changed_before_ms)
        return found

    def _unlisted(self, due: Sequence[Due]) -> tuple[Sequence[Due], int]:
        """The files that no state of the table names from the one on that is loaded now, as the fence stands, and its
        sequence number. From now on the ``__latest`` table takes none that it found in an earlier one."""
        state = self._table.load()
        if held_because(state) is not None:
            return (), _NO_FENCE
        if state.latest_name is None:
            return due, _NO_FENCE
        named = self._table.named(state)
        unlisted = [one for one in due if not named.is_named(one.file.path)]
        if any(one.own.kind is FileKind.DATA for one in unlisted):
            self._writer.fence_latest(state.view)
        return unlisted, state.view.sequence_number

    def _now(self, found: Removal, unlisted_since: int) -> tuple[TableMoment | None, int]:
        """The table at this moment, None where it may not be swept; and when that was, monotonic."""
        looked_ms = self._clock.monotonic_ms()
        state = self._table.load()
        found.held = held_because(state)
        return (None if found.held is not None else self._moment(state, unlisted_since)), looked_ms

    def _moment(self, state: SweptState, unlisted_since: int) -> TableMoment:
        view = state.view
        files = ManifestReader().files(view)
        return TableMoment(
            own=_own_files(view),
            named=self._table.named(state),
            live=hashes_of(
                [
                    *(file.path for file in files.own),
                    *(file.path for file in files.foreign),
                    *(file.path for file in files.deletes),
                ]
            ),
            needed=Needed.by(view),
            swept=view.swept,
            sequence_number=view.sequence_number,
            latest_swept=state.latest_swept,
            unlisted_since=unlisted_since,
            now_ms=self._clock.now_ms(),
            grace_ms=self._limits.grace_ms,
            in_use=self._in_use(),
            is_own_state=StateCheck(view.warehouse, str(state.metadata.table_uuid), self._others_states),
        )

    def _steady(self, seen: Sightings) -> Sightings:
        """Sightings by the clock as it is now: time that only the wall clock knows of ends no grace."""
        ahead_ms = self._jumps.ahead_ms()
        return seen.later_by(ahead_ms) if ahead_ms else seen


def _fence_for(due: Sequence[Due], view: TopicTable) -> int | None:
    """Where the fence must stand before these go; None where it stands, or is not worth a commit."""
    data = [one.seen.sequence_number for one in due if one.own.kind is FileKind.DATA]
    # Those of commits wait for the table's next one by themselves.
    others = [one.seen.sequence_number for one in due if one.own.kind in OF_ONE_COMMIT]
    if sum(number >= view.sequence_number for number in others) >= WORTH_A_COMMIT:
        data += others
    wanted = max(data, default=NEVER_SWEPT)
    return wanted if wanted > view.swept else None


def _own_files(view: TopicTable) -> OwnFiles:
    return OwnFiles.of(view.location, view.topic_id)


def _listed(view: TopicTable, own: OwnFiles) -> Iterator[StoredFile]:
    for folder in own.folders:
        yield from view.warehouse.list(folder)
