"""Somebody at the desk asks for records to be erased, in a process of its own beside the daemons."""

from __future__ import annotations

import random
from collections.abc import Callable

from engine.errors import FloebergError
from engine.offset_range import OffsetRange
from tests.simulation.audit_erasure import Asked
from tests.simulation.faults import Interruption
from tests.simulation.forgotten import Forgotten
from tests.simulation.world import Seat, World

Turn = Callable[[World, Seat, Interruption | None, Callable[[], str]], str]


def erase(world: World, dice: random.Random) -> str | None:
    turn = some_erasure(world, dice)
    return None if turn is None else turn(world, world.desk, None, lambda: "")


def some_erasure(world: World, dice: random.Random) -> Turn | None:
    """An erasure of some keys of a topic, or the same again where it was not ended. None while there is no table."""
    if world.desk.busy:
        return None
    tables = {metadata.properties["floeberg.topic_id"] for _, metadata in world.auditor.reading.tables()}
    partition = world.partition(dice, lambda one: one.who.topic_id in tables)
    if partition is None:
        return None
    left = world.auditor.erasures.open(partition.who.topic_id)
    if left and dice.random() < 0.7:
        return turn_of(dice.choice(left))
    keys = sorted({row.key for row in partition.committed().values() if row.key is not None})
    if not keys:
        return None
    chosen = frozenset(dice.sample(keys, min(len(keys), dice.choice((1, 1, 2, 6)))))
    window = None
    if dice.random() < 0.4:
        start = dice.randrange(partition.end)
        window = OffsetRange(start=start, end=dice.randint(start + 1, partition.end + 1))
    asked = Asked(topic_id=partition.who.topic_id, forgotten=Forgotten(keys=chosen, window=window))
    world.auditor.erasures.asked.append(asked)
    return turn_of(asked)


def turn_of(asked: Asked) -> Turn:
    def turn(
        world: World, seat: Seat, interruption: Interruption | None, ending: Callable[[], str] = lambda: ""
    ) -> str:
        if seat.process is None:
            world.start(seat)
        said = f"{seat.name} erases {asked.forgotten} of {asked.topic_id[:4]}"
        with world.turn(seat, interruption) as process:
            try:
                report = process.erase(asked.topic_id, asked.forgotten)
                if report is None:
                    said += ": there is no table"
                else:
                    said += f": {report.record_count} records{', some are left' if report.left else ''}"
                    world.counts["records erased"] += report.record_count
                    if not report.left:
                        asked.up_to = {number: one.up_to for number, one in report.partitions.items()}
                        world.counts["erasures ended"] += 1
                        world.auditor.look_again(asked.topic_id)
            except FloebergError as error:
                said += f", problem: {error.problem}"
        return said + ending()

    return turn
