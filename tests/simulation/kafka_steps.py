"""What producers and brokers do. Each step has a line to say what it did, or None when there was nothing to do."""

from __future__ import annotations

import random

from engine.broker import NO_LEADER
from engine.errors import FloebergError
from engine.fault_points import FaultPoint, reach
from engine.offset_range import OffsetRange
from serving.log.auxiliary_state import AuxiliaryState
from serving.log.backend import RemoteSegment
from tests.engine.kafka_log.batch_twin import Header, Row
from tests.simulation.batches import Batch
from tests.simulation.faults import Interruption
from tests.simulation.partition import Partition
from tests.simulation.replica import LocalSegment
from tests.simulation.world import World

_KEYS: tuple[bytes | None, ...] = (b"a", b"b", b"c", b"k\xff", b"", None)
_VALUES: tuple[bytes | None, ...] = (None, b"", b"\xff\xfe", b"v" * 90)
_HEADERS: tuple[tuple[Header, ...], ...] = ((), (), (), ((b"h", None), (b"h", b"1")), ((b"\xff", b""),))
TRANSACTIONAL_PRODUCERS = (901, 902, 903)


def _rows(world: World, partition: Partition, dice: random.Random, count: int) -> tuple[Row, ...]:
    base = partition.end
    now_ms = world.cluster.nodes[partition.leader].clock.now_ms()
    append_time = dice.random() < 0.1
    rows = []
    for offset in range(base, base + count):
        world.produced += 1
        key = dice.choice(_KEYS) if dice.random() < 0.5 else b"k%d" % dice.randrange(6)
        if key is None and partition.compact:
            key = b""
        value = dice.choice(_VALUES) if dice.random() < 0.2 else b"record %d" % world.produced
        rows.append(
            Row(
                offset=offset,
                timestamp_ms=now_ms if append_time else now_ms + dice.randint(-5_000, 5_000),
                timestamp_type=int(append_time),
                leader_epoch=partition.epoch,
                key=key,
                value=value,
                headers=dice.choice(_HEADERS),
            )
        )
    return tuple(rows)


def _append(world: World, partition: Partition, dice: random.Random, *, producer_id: int, transactional: bool) -> None:
    rows = _rows(world, partition, dice, dice.randint(1, 4))
    partition.append(
        Batch(
            base_offset=rows[0].offset,
            last_offset=rows[-1].offset,
            rows=rows,
            producer_id=producer_id,
            transactional=transactional,
            epoch=partition.epoch,
            compressed=dice.random() < 0.2,
        )
    )


def _produce(world: World, dice: random.Random, *, producer_id: int, transactional: bool) -> str | None:
    """Some batches of one producer, with others' plain ones in between."""
    partition = world.partition(dice, lambda one: one.leader != NO_LEADER)
    if partition is None:
        return None
    first = partition.end
    for _ in range(dice.randint(1, 4)):
        _append(world, partition, dice, producer_id=producer_id, transactional=transactional)
        if transactional and dice.random() < 0.5:
            _append(world, partition, dice, producer_id=-1, transactional=False)
    replicated = dice.random() < 0.75
    if replicated:
        partition.replicate(world.cluster.members())
    if dice.random() < 0.35:
        partition.replicas[partition.leader].roll()
    kind = "in a transaction " if transactional else ""
    held = "" if replicated else ", not yet replicated"
    return f"producer {producer_id} writes {kind}{first}-{partition.end} to {partition.who}{held}"


def give_work(world: World, dice: random.Random, node_id: int) -> None:
    """A closed, replicated segment in some partition that the node leads."""
    partition = world.partition(dice, lambda one: one.leader == node_id)
    if partition is None:
        return
    rows = _rows(world, partition, dice, dice.randint(2, 6))
    partition.append(Batch(base_offset=rows[0].offset, last_offset=rows[-1].offset, rows=rows, epoch=partition.epoch))
    partition.replicas[node_id].roll()
    partition.replicate(world.cluster.members())
    world.trace.note(f"  {rows[0].offset}-{partition.end} are written to {partition.who} and closed on node {node_id}")


def produce(world: World, dice: random.Random) -> str | None:
    return _produce(world, dice, producer_id=-1, transactional=False)


def produce_idempotent(world: World, dice: random.Random) -> str | None:
    return _produce(world, dice, producer_id=dice.randint(1, 3), transactional=False)


def produce_transaction(world: World, dice: random.Random) -> str | None:
    return _produce(world, dice, producer_id=dice.choice(TRANSACTIONAL_PRODUCERS), transactional=True)


def end_transaction(world: World, dice: random.Random) -> str | None:
    found = [
        (partition, producer)
        for partition in world.cluster.live
        if partition.leader != NO_LEADER
        for producer in partition.open_transactions()
    ]
    if not found:
        return None
    partition, producer = dice.choice(found)
    commit = dice.random() < 0.5
    at = partition.end
    world.cluster.end_transaction(partition, producer, commit=commit)
    if dice.random() < 0.75:
        partition.replicate(world.cluster.members())
    return f"producer {producer}'s transaction in {partition.who} {'commits' if commit else 'aborts'} at {at}"


def replicate(world: World, dice: random.Random) -> str | None:
    partition = world.partition(dice, lambda one: one.leader != NO_LEADER)
    if partition is None:
        return None
    partition.replicate(world.cluster.members(), at_most=dice.choice((1, 3, None)))
    return f"followers of {partition.who} fetch: {partition.high_watermark} of {partition.end} is replicated"


def roll(world: World, dice: random.Random) -> str | None:
    partition = world.partition(dice, lambda one: one.leader != NO_LEADER)
    if partition is None:
        return None
    node = dice.choice([node for node in partition.replicas if world.cluster.nodes[node].is_member] or [0])
    if not node or not partition.replicas[node].roll():
        return None
    return f"node {node} rolls {partition.who}: the active segment begins at {partition.replicas[node].end}"


def elect(world: World, dice: random.Random) -> str | None:
    """Another in-sync replica leads, or the same one anew, as behind a broker's quick restart."""
    partition = world.partition(dice, lambda one: one.leader != NO_LEADER)
    if partition is None:
        return None
    before = partition.end
    partition.elect(dice.choice(sorted(partition.isr - {partition.leader}) or [partition.leader]))
    lost = "" if partition.end == before else f"; {partition.end}-{before} were not replicated and are gone"
    if dice.random() < 0.7:
        partition.replicate(world.cluster.members())
    return f"node {partition.leader} leads {partition.who} in epoch {partition.epoch}{lost}"


def broker_stops(world: World, dice: random.Random) -> str | None:
    members = world.cluster.members()
    if not members:
        return None
    node = dice.choice(members)
    world.cluster.leave(node)
    world.cluster.nodes[node].up = False
    return f"broker {node} stops; leaders are {_leaders(world)}"


def broker_returns(world: World, dice: random.Random) -> str | None:
    down = [node for node in world.cluster.nodes.values() if not node.up]
    if not down:
        return None
    node = dice.choice(down)
    node.up = True
    world.cluster.come_back(node.node_id)
    return f"broker {node.node_id} is back; leaders are {_leaders(world)}"


def cut_off(world: World, dice: random.Random) -> str | None:
    members = world.cluster.members()
    if not members:
        return None
    node = dice.choice(members)
    world.cluster.cut_off(node)
    return f"node {node} loses its peers and believes what it knew; leaders are {_leaders(world)}"


def rejoin(world: World, dice: random.Random) -> str | None:
    alone = [node for node in world.cluster.nodes.values() if node.cut_off is not None]
    if not alone:
        return None
    node = dice.choice(alone)
    node.cut_off = None
    world.cluster.come_back(node.node_id)
    return f"node {node.node_id} hears from its peers again; leaders are {_leaders(world)}"


def retention(world: World, dice: random.Random) -> str | None:
    """Watch mode: Kafka deletes the oldest segment whoever reads it. Native: the horizon of the whole topic moves."""
    partition = world.partition(dice, lambda one: one.leader != NO_LEADER and not one.compact)
    if partition is None:
        return None
    leader = partition.replicas[partition.leader]
    closed = leader.closed()
    if closed and closed[0][1] <= partition.log_start:
        leader.drop_oldest()
        return f"node {partition.leader} deletes {partition.who} up to {closed[0][1]}, below the log start"
    if partition.native:
        if partition.remote_end <= partition.log_start:
            return None
        partition.log_start = dice.randint(partition.log_start + 1, partition.remote_end)
        return f"retention moves the log start of {partition.who} to {partition.log_start}"
    if not closed or closed[0][1] > partition.high_watermark:
        return None
    leader.drop_oldest()
    partition.log_start = max(partition.log_start, closed[0][1])
    return f"node {partition.leader} deletes {closed[0][0].base_offset}-{closed[0][1]} of {partition.who}"


def delete_records(world: World, dice: random.Random) -> str | None:
    partition = world.partition(
        dice, lambda one: one.leader != NO_LEADER and not one.compact and one.log_start < one.high_watermark
    )
    if partition is None:
        return None
    partition.log_start = dice.randint(partition.log_start + 1, partition.high_watermark)
    leader = partition.replicas[partition.leader]
    gone = 0
    while dice.random() < 0.7 and leader.closed() and leader.closed()[0][1] <= partition.log_start:
        # deleteLogStartOffsetBreachedSegments, on every kind of topic
        leader.drop_oldest()
        gone += 1
    return f"DeleteRecords: the log of {partition.who} starts at {partition.log_start}, {gone} segments are deleted"


def clean(world: World, dice: random.Random) -> str | None:
    """The cleaner of one node: of each key only the newest record, of aborted transactions none; files merged."""
    partition = world.partition(dice, lambda one: one.compact)
    if partition is None:
        return None
    nodes = [node for node in partition.replicas if world.cluster.nodes[node].is_member]
    if not nodes:
        return None
    node = dice.choice(nodes)
    replica = partition.replicas[node]
    closed = [segment for segment, end in replica.closed() if end <= partition.last_stable_offset]
    if not closed:
        return None
    cleaned = closed[: dice.randint(1, len(closed))]
    batches = [batch for segment in cleaned for batch in segment.batches]
    committed = partition.committed()
    newest = {row.key: row.offset for batch in batches for row in batch.rows if row.offset in committed}
    gone = {row.offset for batch in batches for row in batch.rows if newest.get(row.key) != row.offset}
    partition.compacted |= gone & committed.keys()
    kept = [batch.without(gone) if gone & {row.offset for row in batch.rows} else batch for batch in batches]
    kept = [
        batch
        for batch in kept
        if batch.rows or batch.kind.value != "data" or batch.base_offset == batches[-1].base_offset
    ]
    merged = LocalSegment(cleaned[0].base_offset, kept, [entry for segment in cleaned for entry in segment.aborted])
    replica.replace(cleaned, merged)
    return f"node {node} cleans {len(cleaned)} segments of {partition.who}: {sorted(gone)} are gone"


def copy(world: World, dice: random.Random) -> str | None:
    return copy_interrupted(world, dice, None)


def copy_interrupted(world: World, dice: random.Random, interruption: Interruption | None) -> str | None:
    """The leader's RemoteLogManager (KIP-405): asks for its closed, stable segments in order, until one is refused."""
    partition = world.partition(
        dice, lambda one: one.native and one.leader != NO_LEADER and world.cluster.nodes[one.leader].is_member
    )
    if partition is None:
        return None
    seat = world.seat(dice, lambda one: one.node.node_id == partition.leader)
    if seat is None:
        return None
    said: list[str] = []
    with world.turn(seat, interruption) as process:
        for segment, end in partition.replicas[partition.leader].closed():
            start = max(partition.remote_end, partition.log_start)
            if end <= start or end > partition.last_stable_offset:
                continue
            offsets = OffsetRange(start=segment.base_offset, end=end)
            asked = RemoteSegment(topic_id=partition.who.topic_id, partition=partition.who.partition, range=offsets)
            try:
                proof = process.door.verified(asked)
                if proof is None:
                    said.append(f"{offsets} not yet")
                    break
                reach(FaultPoint.COPY_PROVEN)
                state = AuxiliaryState(leader_epochs=b"0\n1\n0 0\n", producer_snapshot=None)
                process.door.keep_auxiliary_state(asked, state)
                reach(FaultPoint.AUXILIARY_STATE_KEPT)
            except FloebergError as error:
                said.append(f"{offsets} refused: {error.problem}")
                break
            world.auditor.is_safe(partition, offsets, dropped=False)
            partition.remote_end = max(partition.remote_end, end)
            world.counts["copies answered"] += 1
            said.append(f"{offsets} copied")
    return f"broker {partition.leader} asks {seat.name} about {partition.who}: {', '.join(said) or 'nothing'}"


def local_retention(world: World, dice: random.Random) -> str | None:
    """A native broker drops what it was told is copied."""
    partition = world.partition(dice, lambda one: one.native)
    if partition is None:
        return None
    dropped = []
    for node in sorted(partition.isr):
        replica = partition.replicas[node]
        while len(replica.segments) > 1 and replica.closed()[0][1] <= partition.remote_end:
            segment, end = replica.closed()[0]
            offsets = OffsetRange(start=segment.base_offset, end=end)
            world.auditor.is_safe(partition, offsets, dropped=True)
            replica.drop_oldest()
            dropped.append(f"{offsets} on {node}")
    return f"{partition.who} drops {', '.join(dropped)}" if dropped else None


def recreate_topic(world: World, dice: random.Random) -> str | None:
    topics = sorted({partition.who.topic for partition in world.cluster.live})
    if not topics or not world.cluster.members():
        return None
    topic = dice.choice(topics)
    world.cluster.delete_topic(topic)
    world.cluster.create_topic(topic, world.cluster.plans[topic])
    created = next(partition for partition in world.cluster.live if partition.who.topic == topic)
    return f"topic {topic} is deleted and created again as {created.who.topic_id[:4]}"


def _leaders(world: World) -> str:
    return ", ".join(f"{partition.who}: {partition.leader}" for partition in world.cluster.live)
