"""A daemon that ends at any point of bringing ``__latest`` on leaves its successor everything."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from engine.fault_points import FaultPoint, armed
from tests.latest.latest_world import LatestWorld, Record

FIRST: list[Record] = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (None, b"4")]
SECOND: list[Record] = [(b"b", b"5"), (b"c", b"6"), (b"a", None)]


class _Ended(BaseException):
    pass


class _EndsAt:
    def __init__(self, point: FaultPoint, nth: int) -> None:
        self._point, self._left = point, nth

    def __call__(self, reached: FaultPoint) -> None:
        self._left -= reached is self._point
        if reached is self._point and self._left == 0:
            raise _Ended


def before_the_turn(root: Path, *, is_first: bool) -> LatestWorld:
    """A table that is to be built, or one that is there, with new records and with files that were merged."""
    world = LatestWorld(root)
    world.append(FIRST)
    world.append([(b"d", b"0")])
    if not is_first:
        daemon = world.daemon()
        daemon.bring_up()
        daemon.end()
        world.merge(world.files())
        world.append(SECOND)
    return world


@pytest.mark.parametrize("is_first", [True, False])
def test_daemon_ended_at_each_point_leaves_a_successor_everything(tmp_path: Path, is_first: bool) -> None:
    reached: Counter[FaultPoint] = Counter()
    world = before_the_turn(tmp_path / "undisturbed", is_first=is_first)
    daemon = world.daemon()
    with armed(lambda point: reached.update([point])):
        daemon.bring_up()
    daemon.end()
    assert {point for point in FaultPoint if point.startswith("latest-")} <= reached.keys()
    ends = [(point, nth) for point, count in reached.items() for nth in {1, (count + 1) // 2, count}]
    for number, (point, nth) in enumerate(ends):
        world = before_the_turn(tmp_path / str(number), is_first=is_first)
        daemon = world.daemon()
        with armed(_EndsAt(point, nth)), pytest.raises(_Ended):
            daemon.bring_up()
        daemon.end()
        if world.tiering.catalog.table_exists(("kafka", "orders__latest")):
            world.check()
        successor = world.daemon()
        successor.bring_up()
        world.check_current()
        successor.end()
