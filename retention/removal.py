"""Files leave the warehouse, each by a proof that it may, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import structlog

from engine.bounded_cache import BoundedCache
from engine.fault_points import FaultPoint, reach
from engine.table.states import is_own_state
from engine.warehouse.warehouse import Warehouse
from retention.sweep_limits import MOST_STATES
from retention.sweep_planner import Amount, Due
from retention.unreferenced import TableMoment, Unreferenced, check

_NOTHING = Amount()

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Removal:
    """What one sweep removed; ``waiting``: why other files whose grace is over stay, with how many; ``hindered``: what
    the warehouse said of those it did not remove, by path; ``held``: why the sweep ended before all were looked at."""

    removed: Amount = _NOTHING
    waiting: dict[str, int] = field(default_factory=dict)
    hindered: dict[str, str] = field(default_factory=dict)
    held: str | None = None

    def proven(self, due: Sequence[Due], moment: TableMoment) -> Iterator[Unreferenced]:
        """Those that may go; of the others, why they stay."""
        for one in due:
            checked = check(one, moment)
            if isinstance(checked, Unreferenced):
                yield checked
            else:
                self.waiting[checked] = self.waiting.get(checked, 0) + 1

    def delete(self, warehouse: Warehouse, topic: str, files: Sequence[Unreferenced]) -> None:
        """At most ``FILES_A_BATCH``. Raises Unavailable."""
        if files:
            hindered = warehouse.delete_batch([one.file.path for one in files])
            for path, problem in hindered.items():
                _log.warning("file_not_removed", topic=topic, file=path, problem=problem)
            self.hindered |= hindered
            gone = [one.file for one in files if one.file.path not in hindered]
            self.removed = Amount(
                files=self.removed.files + len(gone),
                size_bytes=self.removed.size_bytes + sum(file.size_bytes for file in gone),
            )
            _log.info("files_swept", topic=topic, files=len(gone), first=gone[0].path if gone else None)
        reach(FaultPoint.FILES_SWEPT)


class StateCheck:
    """Whether a table metadata file is of a commit of Floeberg's; so many are read at a time, the others wait."""

    def __init__(
        self, warehouse: Warehouse, table_uuid: str, others: BoundedCache[str, bool], *, or_empty: bool = False
    ) -> None:
        """``others``: those that were found to be others', which are not read again. ``or_empty``: or it names no
        snapshot."""
        self._warehouse = warehouse
        self._uuid = table_uuid
        self._others = others
        self._or_empty = or_empty
        self._left = MOST_STATES

    def __call__(self, path: str) -> bool:
        if self._left == 0 or self._others.get(path):
            return False
        self._left -= 1
        is_own = is_own_state(self._warehouse, path, self._uuid, or_empty=self._or_empty)
        if not is_own:
            self._others.put(path, True)
        return is_own
