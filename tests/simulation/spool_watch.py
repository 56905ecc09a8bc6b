"""Sees to it that the spool lets go of nothing that is not in the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tiering.spool import SPOOL_SUFFIX

if TYPE_CHECKING:
    from tests.simulation.cluster import Node
    from tests.simulation.world import Seat, World


def spool_of(node: Node) -> Path:
    return node.log_dir.with_name(node.log_dir.name + SPOOL_SUFFIX)


class SpoolWatch:
    """``lost``: nodes whose spool somebody deleted while a turn was under way."""

    def __init__(self) -> None:
        self.lost: set[int] = set()

    @contextmanager
    def watching(self, world: World, seat: Seat) -> Iterator[None]:
        """Compare the links before a daemon's turn with those behind it, however it ends."""
        before = _links(spool_of(seat.node))
        self.lost.discard(seat.node.node_id)
        try:
            yield
        finally:
            if seat.node.node_id not in self.lost:
                self._compare(world, seat, before - _links(spool_of(seat.node)))

    def _compare(self, world: World, seat: Seat, gone: set[tuple[str, int, int, int]]) -> None:
        for topic_id, number, start, end in sorted(gone):
            partition = next(
                one for one in world.cluster.partitions if (one.who.topic_id, one.who.partition) == (topic_id, number)
            )
            ledger_end = world.auditor.ledger_end(partition)
            if ledger_end is not None and ledger_end >= end:
                continue
            replica = partition.replicas[seat.node.node_id]
            still_there = not partition.is_deleted and any(
                segment.base_offset <= start and end <= behind for segment, behind in replica.closed()
            )
            if not still_there:
                world.auditor.found("lost", partition, f"the spool let go of {start}-{end}, the ledger: {ledger_end}")


def _links(spool: Path) -> set[tuple[str, int, int, int]]:
    """(topic id, partition, start, end) of every whole link."""
    found = set()
    for path in spool.glob("*/*/*.log"):
        number, topic_id = path.parent.name.split(".", 1)
        start, end = path.stem.split("-")
        if path.with_suffix(".json").exists():
            found.add((topic_id, int(number), int(start), int(end)))
    return found
