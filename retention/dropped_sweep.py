"""The sweep of what a dropped table left: its own files go, once they have been nobody's for the whole grace.

Within the grace the table can be registered again: nothing is removed from a folder in which a table lies.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence, Set
from itertools import islice
from pathlib import Path

import numpy as np
import structlog
from pyiceberg.catalog import Catalog

from engine.bounded_cache import BoundedCache
from engine.clock import Clock
from engine.table.catalog import access as catalogs
from engine.table.own_files import OwnFiles
from engine.table.reachability import NamedFiles, hashes_of
from engine.warehouse.warehouse import FILES_A_BATCH, Warehouse
from retention.clock_jumps import ClockJumps
from retention.removal import Removal, StateCheck
from retention.sighting_store import SightingStore
from retention.sightings import Look, Sightings
from retention.sweep_limits import MOST_OTHERS_STATES, SweepLimits
from retention.sweep_planner import Due, Reason, SweepPlan, plan_sweep
from retention.table_drop import DroppedTable, lies_there
from retention.table_sweep import SweepTurn
from retention.unreferenced import NOT_OURS, TableMoment

_NO_STATE = 0
"""The sequence number of a table that there is not."""

_EVER = sys.maxsize
"""No commit adds a file to a table that there is not: as if a fence stood beyond all of them."""

_log = structlog.get_logger(__name__)


class DroppedSweep:
    """Of one dropped table. For one thread."""

    def __init__(
        self,
        dropped: DroppedTable,
        *,
        catalog: Catalog,
        clock: Clock,
        limits: SweepLimits,
        folder: Path,
        in_use: Callable[[], Set[str]],
        hold: Callable[[DroppedTable], str | None],
        on_gone: Callable[[DroppedTable], object],
    ) -> None:
        """``folder`` is where sightings are kept; ``in_use`` as ``TableSweep``. ``hold`` says why nothing goes
        now; ``on_gone`` is told once no file is left that would go."""
        self._dropped = dropped
        self._catalog = catalog
        self._clock = clock
        self._limits = limits
        self._in_use = in_use
        self._hold = hold
        self._on_gone = on_gone
        self._own = OwnFiles.of(dropped.location, dropped.topic_id)
        self._sightings = SightingStore(folder, f"{dropped.key}-dropped")
        self._jumps = ClockJumps(clock)
        self._others_states: BoundedCache[str, bool] = BoundedCache(capacity=MOST_OTHERS_STATES)

    def turn(self) -> SweepTurn:
        """Look, remember, remove. Raises Unavailable, Corrupt (a table can't be loaded, and may lie there)."""
        with self._sightings as sightings:
            warehouse = catalogs.warehouse_of(self._catalog)
            before, ahead_ms = sightings.load(self._dropped.location), self._jumps.ahead_ms()
            seen = before.later_by(ahead_ms) if ahead_ms else before
            plan = self._plan(warehouse, seen)
            # Asked after the listing: what is in it is not a table's that is made from now on.
            held = self._held()
            if held is not None:
                sightings.forget()
                return SweepTurn(held=held)
            if plan.new or len(plan.seen) < len(before) or ahead_ms:
                look = Look(seen_ms=self._clock.now_ms(), sequence_number=_NO_STATE)
                sightings.save(self._dropped.location, plan.sightings(look))
            removal = self._remove(plan.due, warehouse)
            turn = SweepTurn.after(plan, removal, held=removal.held)
            if _is_done(turn):
                self._end(turn, sightings)
            return turn

    def _held(self) -> str | None:
        found = lies_there(self._catalog, self._dropped)
        return self._hold(self._dropped) if found is None else f"the table {found} lies in its folder"

    def _plan(self, warehouse: Warehouse, seen: Sightings) -> SweepPlan:
        return plan_sweep(
            (file for folder in self._own.folders for file in warehouse.list(folder)),
            own=self._own,
            named=_nothing_named(),
            needed=None,
            seen=seen,
            now_ms=self._clock.now_ms(),
            grace_ms=self._limits.grace_ms,
        )

    def _remove(self, due: Sequence[Due], warehouse: Warehouse) -> Removal:
        found, waiting = Removal(), iter(due)
        is_own_state = StateCheck(warehouse, self._dropped.table_uuid, self._others_states, or_empty=True)
        while batch := list(islice(waiting, FILES_A_BATCH)):
            found.held = self._held()
            if found.held is not None:
                return found
            moment = TableMoment(
                own=self._own,
                named=_nothing_named(),
                live=hashes_of(()),
                needed=None,
                swept=_EVER,
                sequence_number=_EVER,
                now_ms=self._clock.now_ms(),
                grace_ms=self._limits.grace_ms,
                in_use=self._in_use(),
                is_own_state=is_own_state,
            )
            found.delete(warehouse, self._dropped.topic, list(found.proven(batch, moment)))
        for folder in self._own.folders if due else ():
            warehouse.remove_empty_folders(folder, unchanged_since_ms=self._clock.now_ms())
        return found

    def _end(self, turn: SweepTurn, sightings: SightingStore) -> None:
        left = turn.amounts[Reason.FOREIGN].files + turn.amounts[Reason.UNREFERENCED].files
        _log.info("dropped_table_swept", table=self._dropped.table, location=self._dropped.location, files_left=left)
        sightings.forget()
        self._on_gone(self._dropped)


def _nothing_named() -> NamedFiles:
    return NamedFiles(live=np.empty(0, np.uint64), history=np.empty(0, np.uint64))


def _is_done(turn: SweepTurn) -> bool:
    """Whether a next turn would remove nothing: what is left is another program's."""
    left = turn.amounts[Reason.GRACE].files + turn.amounts[Reason.UNREFERENCED].files
    return turn.held is None and not turn.hindered and left == turn.waiting.get(NOT_OURS, 0)
