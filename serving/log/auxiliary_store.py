"""Where auxiliary states are kept: one small object a copied range, in the warehouse beside the table's folder."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

from engine.errors import Corrupt
from engine.fault_points import FaultPoint, reach
from engine.offset_range import OffsetRange
from engine.table.companion_folder import auxiliary_folder, old_auxiliary_folder
from engine.table.topic_table import TopicTable
from serving.log.auxiliary_state import AuxiliaryState
from serving.log.backend import NoSuchSegment

_NEXT_STEP = (
    "put the file back from a copy of the warehouse. Without one, remove it: a follower with an empty disk then takes "
    "its leader epochs and producers from another segment"
)

_NAME = re.compile(r"(\d{20})-(\d{20})\.aux")


class AuxiliaryStore:
    """Named by partition and range. Safe to use from several threads of one process."""

    def __init__(self) -> None:
        # A local file is written under a temporary name made of its own: two copies of one range must not meet there.
        self._writing = threading.Lock()

    def put(self, table: TopicTable, partition: int, offsets: OffsetRange, state: AuxiliaryState) -> None:
        """Durable when it returns; replaces what the same range had. Raises Unavailable."""
        with self._writing, table.warehouse.create(_path(table, partition, offsets)) as file:
            file.write(state.to_bytes())
            reach(FaultPoint.AUXILIARY_STATE_WRITTEN)
            file.commit()

    def get(self, table: TopicTable, partition: int, offsets: OffsetRange) -> AuxiliaryState:
        """Raises NoSuchSegment when nothing is kept for exactly this range, Corrupt, Unavailable."""
        path = self._place(table, partition, offsets)
        if path is None:
            raise NoSuchSegment(
                f"No leader epochs and producer snapshot are kept for {offsets}",
                topic=table.topic,
                partition=partition,
                file=_path(table, partition, offsets),
            )
        try:
            return AuxiliaryState.from_bytes(table.warehouse.read_bytes(path))
        except Corrupt as error:
            raise Corrupt(
                error.problem,
                topic=table.topic,
                partition=partition,
                offset=offsets.start,
                file=path,
                next_step=error.next_step or _NEXT_STEP,
            ) from error

    def ranges(self, table: TopicTable, partition: int) -> Iterator[OffsetRange]:
        """Every range that something is kept for, in no order."""
        for folder in (auxiliary_folder, old_auxiliary_folder):
            for file in table.warehouse.list(folder(table.location, partition)):
                match = _NAME.fullmatch(file.path.rpartition("/")[2])
                if match is not None:
                    yield OffsetRange(start=int(match[1]), end=int(match[2]))

    def delete(self, table: TopicTable, partition: int, offsets: OffsetRange) -> None:
        for path in _places(table, partition, offsets):
            table.warehouse.delete(path)
        reach(FaultPoint.AUXILIARY_STATE_REMOVED)

    def _place(self, table: TopicTable, partition: int, offsets: OffsetRange) -> str | None:
        return next((path for path in _places(table, partition, offsets) if table.warehouse.exists(path)), None)


def _places(table: TopicTable, partition: int, offsets: OffsetRange) -> tuple[str, str]:
    name = f"{offsets.start:020d}-{offsets.end:020d}.aux"
    folders = auxiliary_folder(table.location, partition), old_auxiliary_folder(table.location, partition)
    return f"{folders[0]}/{name}", f"{folders[1]}/{name}"


def _path(table: TopicTable, partition: int, offsets: OffsetRange) -> str:
    return _places(table, partition, offsets)[0]
