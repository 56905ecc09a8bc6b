"""The end of a run: what was wrong is mended, and then everything that is ready must be tiered, soon."""

from __future__ import annotations

import random

from engine.broker import NO_LEADER
from tests.simulation.audit_steps import audit_doors, audit_tables
from tests.simulation.daemon_steps import deliver
from tests.simulation.kafka_steps import copy, local_retention
from tests.simulation.partition import Partition
from tests.simulation.world import Seat, World

ROUNDS = 8
"""Turns of every daemon after which nothing may be left: a stopped partition is looked at again after a minute, and a
round is longer; retries, a lost cache and a backlog of limited cycles take the rest."""

_ROUND_MS = 70_000
_CYCLES_A_ROUND = 3
_MOST_CYCLES_AT_ONCE = 60


def end_well(world: World) -> None:
    world.trace.note("everything is mended:")
    _mend(world)
    dice = random.Random(1)
    for _ in range(ROUNDS):
        world.time.pass_by(_ROUND_MS)
        for seat in world.seats:
            if seat.process is None:
                world.start(seat)
            for _ in range(_CYCLES_A_ROUND):
                _until_nothing_is_left_over(world, seat)
                world.time.pass_by(1_000)
        for _ in range(2 * len(world.cluster.live)):
            copy(world, dice)
        local_retention(world, dice)
        if not _left_undone(world):
            break
    for partition, text in _left_undone(world):
        world.auditor.found("stuck", partition, text)
    audit_tables(world)
    audit_doors(world, dice)


def _until_nothing_is_left_over(world: World, seat: Seat) -> None:
    """As the daemon does: at once again while a cycle left something for its size, else after a pause."""
    with world.turn(seat, None) as process:
        for _ in range(_MOST_CYCLES_AT_ONCE):
            if not process.cycle().more:
                break


def _mend(world: World) -> None:
    for seat in world.seats:
        seat.catalog_faults.away = 0
        seat.catalog_faults.lies = []
        seat.store_faults.state = None
        seat.damage.waiting = []
    deliver(world)
    for node in world.cluster.nodes.values():
        node.refuses = 0
        if not node.is_member:
            node.up, node.cut_off = True, None
            world.cluster.come_back(node.node_id)
    for partition in world.cluster.live:
        assert partition.leader != NO_LEADER, "every node is back, so every partition has a leader"
        partition.replicate(world.cluster.members())


def _left_undone(world: World) -> list[tuple[Partition, str]]:
    """What is ready and not tiered, or tiered and not copied; but for tables that somebody else has hurt."""
    found: list[tuple[Partition, str]] = []
    for partition in world.cluster.live:
        if any(topic_id == partition.who.topic_id for topic_id, _ in world.auditor.wounds):
            continue
        closed = partition.replicas[partition.leader].closed()
        ready = [end for _, end in closed if partition.log_start < end <= partition.last_stable_offset]
        due, tiered = max(ready, default=0), world.auditor.ledger_end(partition) or 0
        if tiered < due:
            reasons = "; ".join(_reason(world, partition, seat.name) for seat in world.seats)
            found.append((partition, f"tiered to {tiered}, ready to {due}: {reasons}"))
        elif partition.native and partition.remote_end < due:
            found.append((partition, f"tiered to {tiered}, copied only to {partition.remote_end}"))
    return found


def _reason(world: World, partition: Partition, name: str) -> str:
    seat = next(seat for seat in world.seats if seat.name == name)
    report = None if seat.process is None else seat.process.loop.report
    if report is None:
        return f"{name} has no report"
    found = [one for one in report.partitions if one.partition == partition.who]
    problems = [str(error) for error in report.problems]
    return f"{name}: {[(str(one.waiting), str(one.problem)) for one in found]} {problems}"
