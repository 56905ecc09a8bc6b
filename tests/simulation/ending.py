"""The end of a run: what was wrong is mended, and then everything that is ready must be tiered, soon."""

from __future__ import annotations

import random

from engine.broker import NO_LEADER
from engine.table.data_file import parse_file_name
from tests.simulation.audit_latest import is_latest, lines_of
from tests.simulation.audit_steps import audit_doors, audit_tables
from tests.simulation.daemon_steps import deliver
from tests.simulation.erasure_steps import turn_of
from tests.simulation.kafka_steps import copy, local_retention
from tests.simulation.partition import Partition
from tests.simulation.world import Seat, World

ROUNDS = 8
"""Turns of every daemon after which nothing may be left: a stopped partition is looked at again after a minute, and a
round is longer; retries, a lost cache and a backlog of limited cycles take the rest."""

_ROUND_MS = 70_000
_CYCLES_A_ROUND = 3
_MOST_CYCLES_AT_ONCE = 60
_DAYS_MS = 3 * 86_400_000
_SWEEPS = 3
"""One cuts the history, of which the next one sees the files; what two commits left goes with the third."""


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
                if world.auditor.findings:
                    return
                world.time.pass_by(1_000)
        for _ in range(2 * len(world.cluster.live)):
            copy(world, dice)
        local_retention(world, dice)
        if not _left_undone(world):
            break
    for partition, text in _left_undone(world):
        world.auditor.found("stuck", partition, text)
    _end_erasures(world)
    for partition, text in _newest_left(world):
        world.auditor.found("stuck", partition, text)
    audit_tables(world)
    audit_doors(world, dice)
    if world.auditor.erasures.taken:
        _sweep_everything(world)


def _until_nothing_is_left_over(world: World, seat: Seat) -> None:
    """As the daemon does: at once again while a cycle left something for its size, else after a pause."""
    with world.turn(seat, None) as process:
        for _ in range(_MOST_CYCLES_AT_ONCE):
            if not process.cycle().more:
                break
        else:
            # Where the work has no end, each round of it costs more than the one before.
            audit_tables(world)
        for _ in range(_MOST_CYCLES_AT_ONCE):
            # A turn takes in the partitions that one commit has room for.
            if not any(turn.committed or turn.gone for turn in process.bring_latest_on()):
                break


def _end_erasures(world: World) -> None:
    """What was broken off is asked for again; then no table of newest records may be behind it."""
    for asked in [one for one in world.auditor.erasures.asked if one.up_to is None]:
        partitions = [one for one in world.cluster.live if one.who.topic_id == asked.topic_id]
        if partitions and not _is_hurt(world, partitions[0]):
            said = turn_of(asked)(world, world.desk, None, lambda: "")
            world.trace.note(said)
            if asked.up_to is None:
                world.auditor.found("stuck", partitions[0], said)
    # A door's view may be older than the erasure for a minute.
    world.time.pass_by(_ROUND_MS)
    for seat in world.seats:
        _until_nothing_is_left_over(world, seat)


def _newest_left(world: World) -> list[tuple[Partition, str]]:
    """Whose newest records are not shown up to the ledger's end, or as they were before an erasure."""
    found = []
    for partition in world.cluster.live:
        is_wanted = world.rule(partition).latest_by_key or partition.compact
        if is_wanted and not _is_hurt(world, partition) and (end := world.auditor.ledger_end(partition)):
            tables = world.auditor.reading.tables_of(partition.who.topic_id)
            lines = [lines_of(metadata) for _, metadata in tables if is_latest(metadata)]
            line = lines[0].get(partition.who.partition, {}) if lines else {}
            erased = len(world.auditor.erasures.of((partition.who.topic_id, partition.who.partition)))
            if (line.get("end"), line.get("erased")) != (end, erased):
                reasons = [f"{seat.name} {seat.process.latest.report()}" for seat in world.seats if seat.process]
                found.append((partition, f"newest records are at {line}, not at {end} with {erased} erased: {reasons}"))
    return found


def _sweep_everything(world: World) -> None:
    """Days later no file holds a record that was erased."""
    for node in world.cluster.nodes.values():
        node.clock.wall_error_ms = 0
    world.time.pass_by(_DAYS_MS)
    seat = world.seats[0]
    world.stop(seat)
    world.start(seat)
    with world.turn(seat, None) as process:
        for _ in range(_SWEEPS):
            for turn in process.sweep():
                world.trace.note(f"swept {turn}")
            world.time.pass_by(_ROUND_MS)
    live = {partition.who.topic_id for partition in world.cluster.live}
    # The newest records of a topic that is no more are brought on by nobody, and name what they named.
    kept = {
        topic_id
        for _, table in world.auditor.reading.tables()
        if is_latest(table) and (topic_id := table.properties["floeberg.topic_id"]) not in live
    }
    kept |= {topic_id for topic_id, _ in world.auditor.wounds}
    for key in sorted(world.store.objects):
        if not key.endswith(".parquet"):
            continue
        name = parse_file_name(f"s3://{key}")
        topic_id = next(one.who.topic_id for one in world.cluster.partitions if f"/data/{one.who.topic_id}/" in key)
        rows = world.auditor.reading.rows_of(f"s3://{key}") if "deletes" not in name.attempt else None
        again = world.auditor.erasures.seen_again((topic_id, name.partition), rows or ())
        if again and topic_id not in kept:
            world.auditor.found("erased", None, f"days later {key.rpartition('/')[2]} holds the offsets {again}")


def _mend(world: World) -> None:
    for seat in world.places:
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
        if _is_hurt(world, partition):
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


def _is_hurt(world: World, partition: Partition) -> bool:
    return any(topic_id == partition.who.topic_id for topic_id, _ in world.auditor.wounds)


def _reason(world: World, partition: Partition, name: str) -> str:
    seat = next(seat for seat in world.seats if seat.name == name)
    report = None if seat.process is None else seat.process.loop.report
    if report is None:
        return f"{name} has no report"
    found = [one for one in report.partitions if one.partition == partition.who]
    problems = [str(error) for error in report.problems]
    return f"{name}: {[(str(one.waiting), str(one.problem)) for one in found]} {problems}"
