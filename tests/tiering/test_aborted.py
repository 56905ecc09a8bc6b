"""What becomes of aborted transactions whose end comes while a cycle looks at the log."""

from __future__ import annotations

import pytest

from engine.fault_points import FaultPoint, armed
from engine.kafka_log.segment import AbortedTransaction, format_transaction_index
from engine.topic_partition import TopicIdPartition
from tests.engine.kafka_log.batch_twin import Row, batch
from tests.tiering.tiering_world import TieringWorld

PRODUCER = 7
_TRANSACTIONAL = 16


@pytest.fixture
def undecided(world: TieringWorld) -> TopicIdPartition:
    """A closed segment [0, 10) of one open transaction, and an active one [10, 15) of plain records."""
    (partition,) = world.broker.create_topic("orders")
    rows = [Row(offset=offset, value=b"undecided", leader_epoch=0) for offset in range(10)]
    segment = world.broker.directory(partition) / f"{0:020d}.log"
    segment.write_bytes(batch(rows, attributes=_TRANSACTIONAL, producer_id=PRODUCER, leader_epoch=0))
    world.broker.skip(partition, 10)
    world.broker.roll(partition)
    world.broker.append(partition, [b"plain"] * 5)
    world.broker.port.set_view(partition, last_stable_offset=0)
    return partition


def test_abort_in_a_segment_begun_after_the_look_is_seen(world: TieringWorld, undecided: TopicIdPartition) -> None:
    """The list of segments is older than the last stable offset by which they are chosen."""

    def abort(point: FaultPoint) -> None:
        if point is not FaultPoint.LOGS_SEEN or world.broker.view(undecided).last_stable_offset:
            return
        world.broker.roll(undecided)
        aborted = AbortedTransaction(producer_id=PRODUCER, first_offset=0, last_offset=15, last_stable_offset=16)
        index = world.broker.directory(undecided) / f"{15:020d}.txnindex"
        index.write_bytes(format_transaction_index([aborted]))
        world.broker.skip(undecided, 1)

    loop = world.loop()
    with armed(abort):
        loop.cycle()
        loop.cycle()
    assert world.rows(undecided) == [(offset, "plain") for offset in range(10, 15)]
    assert world.tiered_end(undecided) == 15
