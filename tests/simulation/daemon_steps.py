"""What daemons do, and what is done to them and to the world around them."""

from __future__ import annotations

import random
from collections.abc import Callable

from compaction.topic_merge import MergeTurn
from engine.errors import CommitUnknown, FloebergError
from engine.offset_range import OffsetRange
from engine.table.commit.range_append import RangeAppend
from engine.table.proof.verification import verify_file
from latest.topic_latest import LatestTurn
from tests.simulation.erasure_steps import Turn, some_erasure
from tests.simulation.faults import COMMIT_LIES, Interruption, Killed
from tests.simulation.kafka_steps import copy_interrupted, give_work
from tests.simulation.world import Seat, World
from tiering.cycle_report import CycleReport
from tiering.range_work import aborted_transactions
from tiering.rewrite import RewriteTask, Rewritten, rewrite_segment
from tiering.watcher import LogWatcher
from workers.workers import answers

_TURNS = {"cycle": 8, "compact": 3, "horizons": 3, "latest": 3, "erase": 4, "sweep": 4}
"""How often each is what is interrupted."""

_FAVOURED = 4
_USUAL_POINTS = 9
"""A cycle that commits one range passes about twice as many points; each of them is met, the first ones more often."""


def cycle(world: World, dice: random.Random) -> str | None:
    seat = world.seat(dice)
    return None if seat is None else _cycle(world, seat, None)


def compact(world: World, dice: random.Random) -> str | None:
    seat = world.seat(dice)
    if seat is None:
        return None
    _give_files(world, seat, dice)
    return _compact(world, seat, None)


def move_horizons(world: World, dice: random.Random) -> str | None:
    seat = world.seat(dice)
    if seat is None:
        return None
    _give_files(world, seat, dice)
    return _move_horizons(world, seat, None)


def sweep(world: World, dice: random.Random) -> str | None:
    seat = world.seat(dice)
    return None if seat is None else _sweep(world, seat, None)


def bring_latest_on(world: World, dice: random.Random) -> str | None:
    seat = world.seat(dice)
    if seat is None:
        return None
    _give_files(world, seat, dice)
    return _bring_latest_on(world, seat, None)


def kill(world: World, dice: random.Random) -> str | None:
    """A daemon's turn that ends at some point of it, without a word."""
    seat = _seat_with_work(world, dice)
    if seat is None:
        return None
    at: list[str] = []
    who, turn = _some_turn(world, seat, dice)
    interruption = _killing(world, _some_point(dice), at)
    return turn(world, who, interruption, lambda: f", killed at {at[0]}" if at else "")


def pause(world: World, dice: random.Random, others: Callable[[], None]) -> str | None:
    """A daemon's turn that stands still at some point of it while ``others`` go on."""
    seat = _seat_with_work(world, dice)
    if seat is None:
        return None
    at: list[str] = []
    who, turn = _some_turn(world, seat, dice)

    def stand_still(point: str) -> None:
        at.append(point)
        world.note(f"pause at {point}")
        world.trace.note(f"{who.name} is paused at {point}; meanwhile:")
        others()
        if dice.random() < 0.3:
            at.append("and killed")
            world.counts[f"kill at {point}"] += 1
            raise Killed
        world.trace.note(f"{who.name} goes on")

    interruption = Interruption(_some_point(dice), stand_still)
    return turn(world, who, interruption, lambda: f", paused at {' '.join(at)}" if at else "")


def kill_copying(world: World, dice: random.Random) -> str | None:
    at: list[str] = []
    interruption = _killing(world, dice.randint(1, 4), at)
    said = copy_interrupted(world, dice, interruption)
    return None if said is None else f"{said}{f', killed at {at[0]}' if at else ''}"


def restart(world: World, dice: random.Random) -> str | None:
    seat = world.seat(dice)
    if seat is None:
        return None
    world.stop(seat)
    return f"{seat.name} is stopped; it starts with its next turn"


def record_log_start(world: World, dice: random.Random) -> str | None:
    """What the retention loop does with the broker's log start (docs/commit_protocol.md)."""
    partition = world.partition(dice, lambda one: one.log_start > 0)
    seat = world.seat(dice, lambda one: one.node.up)
    if partition is None or seat is None:
        return None
    said = "nothing"
    with world.turn(seat, None) as process:
        try:
            table = process.writer.open(partition.who.topic, partition.who.topic_id)
            entry = None if table is None else table.ledger.get(partition.who.partition)
            if table is not None and entry is not None:
                wanted = min(partition.log_start, entry.end)
                process.writer.move_horizons(table, log_starts={partition.who.partition: wanted})
                said = str(wanted)
        except FloebergError as error:
            said = error.problem
    return f"{seat.name} records the log start of {partition.who}: {said}"


def rogue_commit(world: World, dice: random.Random) -> str | None:
    """Somebody hands the writer a true and verified range at the wrong place, or under an older epoch."""
    seat = world.seat(dice)
    if seat is None:
        return None
    if seat.node.is_member and dice.random() < 0.8:
        give_work(world, dice, seat.node.node_id)
    logs = LogWatcher([seat.node.log_dir], seat.node.clock).observe().logs
    found = [
        (partition, closed)
        for partition in world.cluster.live
        if partition.who in logs and partition.leader == seat.node.node_id and seat.node.is_member
        for closed in logs[partition.who].closed()
        if partition.log_start <= closed.range.start and closed.range.end <= partition.last_stable_offset
    ]
    if not found:
        return None
    partition, closed = dice.choice(found[-3:])
    who, first, behind = partition.who, closed.range.start, closed.range.end
    around = (world.auditor.ledger_end(partition) or 0) + dice.randint(-2, 2)
    near = min(max(around, first), behind - 1)
    start = dice.choice((first, near, near, dice.randrange(first, behind)))
    offsets = OffsetRange(start=start, end=dice.choice((behind, dice.randint(start + 1, behind))))
    epoch = dice.choice((partition.epoch, max(0, partition.epoch - 1)))
    said = ""
    with world.turn(seat, None) as process:
        try:
            table = process.writer.open(who.topic, who.topic_id)
            if table is None or (table.ledger.get(who.partition) is None and offsets.start != partition.log_start):
                return None
            task = RewriteTask(
                table=table.facts,
                partition=who,
                range=offsets,
                leader_epoch=epoch,
                segment_path=closed.path,
                closed=True,
                aborted=aborted_transactions(closed.path, offsets),
                attempt=seat.node.clock.new_id(),
            )
            ((_, outcome),) = answers(rewrite_segment, [(0, task)])
            if not isinstance(outcome, Rewritten):
                return None
            file = None
            if outcome.file is not None:
                evidence = verify_file(outcome.file.path, table.facts)
                file = process.verifier.accept(outcome.file, evidence)
            append = RangeAppend(
                partition=who.partition, range=offsets, leader_epoch=epoch, digest=outcome.digest, file=file
            )
            said = process.writer.commit(table, [append]).results[0].outcome.value
        except FloebergError as error:
            said = error.problem
    world.counts[f"rogue {said}" if len(said) < 20 else "rogue failed"] += 1
    return f"{seat.name} is made to commit {offsets} of {who} under epoch {epoch}: {said}"


def pass_time(world: World, dice: random.Random) -> str | None:
    duration_ms = dice.choice((200, 1_000, 6_000, 40_000, 70_000))
    world.time.pass_by(duration_ms)
    return f"{duration_ms} ms go by"


def catalog_lies(world: World, dice: random.Random) -> str | None:
    seat = dice.choice(world.places)
    lies = [dice.choice(COMMIT_LIES) for _ in range(dice.choice((1, 1, 2, 25)))]
    seat.catalog_faults.lies = lies
    return f"the next commits of {seat.name} are answered: {', '.join(lies)}"


def catalog_away(world: World, dice: random.Random) -> str | None:
    seat = dice.choice(world.places)
    seat.catalog_faults.away = dice.randint(1, 6)
    return f"{seat.name} can't reach the catalog for {seat.catalog_faults.away} requests"


def late_arrival(world: World, dice: random.Random) -> str | None:
    if not world.in_flight:
        return None
    return f"{deliver(world)} commits that nobody waits for arrive at the catalog"


def deliver(world: World) -> int:
    return world.seats[0].catalog_faults.deliver()


def store_fails(world: World, dice: random.Random) -> str | None:
    seat = dice.choice(world.places)
    seat.store_faults.state = dice.choice(("gone", "full", "read-only", "slow"))
    return f"for {seat.name} the object store is {seat.store_faults.state}"


def store_heals(world: World, dice: random.Random) -> str | None:
    ill = [seat for seat in world.places if seat.store_faults.state is not None]
    if not ill:
        return None
    seat = dice.choice(ill)
    seat.store_faults.state = None
    return f"for {seat.name} the object store is well again"


def broker_away(world: World, dice: random.Random) -> str | None:
    node = dice.choice(sorted(world.cluster.nodes.values(), key=lambda node: node.node_id))
    node.refuses = dice.randint(1, 4)
    world.note("broker-away")
    return f"broker {node.node_id} does not answer {node.refuses} requests"


def _seat_with_work(world: World, dice: random.Random) -> Seat | None:
    """A daemon whose turn is worth interrupting, most of the time."""
    seat = world.seat(dice)
    if seat is not None and dice.random() < 0.7:
        give_work(world, dice, seat.node.node_id)
    return seat


def _some_point(dice: random.Random) -> int:
    return 1 + int(dice.expovariate(1 / _USUAL_POINTS))


def _killing(world: World, point: int, at: list[str]) -> Interruption:
    def end(name: str) -> None:
        at.append(name)
        world.counts[f"kill at {name}"] += 1
        raise Killed

    return Interruption(point, end)


def _some_turn(world: World, seat: Seat, dice: random.Random) -> tuple[Seat, Turn]:
    """What is to be interrupted, and whose turn it is: the daemon's, or that of somebody at the desk."""
    weights = {
        kind: weight * (_FAVOURED if kind in world.profile.favoured else 1)
        for kind, weight in _TURNS.items()
        if kind in world.profile.allowed
    }
    (kind,) = dice.choices(list(weights), list(weights.values()))
    if kind in {"erase", "compact", "horizons", "latest"}:
        _give_files(world, seat, dice)
    if kind == "erase":
        erasure = some_erasure(world, dice)
        return (seat, _cycle) if erasure is None else (world.desk, erasure)
    turns: dict[str, Turn] = {
        "compact": _compact,
        "horizons": _move_horizons,
        "latest": _bring_latest_on,
        "sweep": _sweep,
    }
    return seat, turns.get(kind, _cycle)


def _give_files(world: World, seat: Seat, dice: random.Random) -> None:
    """Files that may become one, most of the time; where the daemon is killed on its way there, one starts again."""
    for _ in range(dice.choice((0, 2, 3))):
        if seat.process is not None and seat.node.is_member:
            give_work(world, dice, seat.node.node_id)
            _cycle(world, seat, None)
    if seat.process is None:
        world.start(seat)


def _compact(
    world: World, seat: Seat, interruption: Interruption | None, ending: Callable[[], str] = lambda: ""
) -> str:
    turn = MergeTurn()
    with world.turn(seat, interruption) as process:
        turn = process.compact()
    world.counts["merges"] += turn.merged
    world.counts["files merged"] += turn.files
    said = [f"merges {turn.files} files into {turn.merged}"]
    said += [f"{turn.gone} groups are gone"] if turn.gone else []
    said += [f"problem: {problem.problem}" for problem in turn.problems]
    return f"{seat.name}: {', '.join(said)}{ending()}"


def _move_horizons(
    world: World, seat: Seat, interruption: Interruption | None, ending: Callable[[], str] = lambda: ""
) -> str:
    moved = 0
    with world.turn(seat, interruption) as process:
        moved = process.move_horizons()
    world.counts["horizons moved"] += moved
    return f"{seat.name}: the horizons of {moved} tables move{ending()}"


def _bring_latest_on(
    world: World, seat: Seat, interruption: Interruption | None, ending: Callable[[], str] = lambda: ""
) -> str:
    turns: list[LatestTurn] = []
    with world.turn(seat, interruption) as process:
        turns = process.bring_latest_on()
    world.counts["partitions of __latest brought on"] += sum(turn.committed for turn in turns)
    said = [f"{turn.committed} partitions, {turn.built} of them built, {turn.gone} gone" for turn in turns]
    said += [f"problem: {problem.problem}" for turn in turns for problem in turn.problems]
    return f"{seat.name} brings __latest on: {', '.join(said) or 'nothing'}{ending()}"


def _sweep(world: World, seat: Seat, interruption: Interruption | None, ending: Callable[[], str] = lambda: "") -> str:
    said = "sweeps"
    with world.turn(seat, interruption) as process:
        try:
            turns = process.sweep()
            removed = sum(turn.removed.files for turn in turns)
            world.counts["files swept"] += removed
            said += f" {removed} files"
            said += "".join(f", held: {turn.held}" for turn in turns if turn.held is not None)
        except FloebergError as error:
            said += f", problem: {error.problem}"
    return f"{seat.name} {said}{ending()}"


def _cycle(world: World, seat: Seat, interruption: Interruption | None, ending: Callable[[], str] = lambda: "") -> str:
    report: CycleReport | None = None
    with world.turn(seat, interruption) as process:
        report = process.cycle()
        world.counts["cycles"] += 1
    return f"{seat.name}: {_told(report)}{ending()}"


def _told(report: CycleReport | None) -> str:
    if report is None:
        return "cycle"
    committed = [f"{who} {', '.join(map(str, ranges))}" for who, ranges in sorted(report.committed.items())]
    problems = [
        *(error.problem for error in report.problems),
        *(one.problem.problem for one in report.partitions if one.problem is not None),
    ]
    unknown = any(isinstance(one.problem, CommitUnknown) for one in report.partitions)
    parts = [f"commits {'; '.join(committed)}" if committed else "commits nothing"]
    parts += [f"problem: {problem}" for problem in dict.fromkeys(problems)]
    return ", ".join(parts) + (" (unknown)" if unknown else "")
