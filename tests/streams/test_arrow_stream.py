"""``floeberg.stream`` on a real broker: exact across the hand-over from table to topic, whatever moves meanwhile."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from engine.errors import Invalid, Unavailable
from floeberg.processes.local_broker import LocalBroker
from tests.streams.live_world import (
    WITH_COUPON,
    LiveWorld,
    all_batches,
    by_partition,
    rows_of,
    rows_until,
)

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("broker"), pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def world(broker: LocalBroker, tmp_path: Path, topic_name: str) -> LiveWorld:
    return LiveWorld(tmp_path, broker, topic_name)


async def now(world: LiveWorld, **arguments: Any) -> list[dict[str, Any]]:
    return rows_of(await all_batches(world.stream(until="now", **arguments)))


async def test_every_record_comes_once_and_in_order_while_a_producer_writes_and_tiering_commits(
    world: LiveWorld,
) -> None:
    world.produce(200)
    world.produce(200, partition=1)
    world.tier()

    def write_and_tier() -> None:
        for turn in range(6):
            world.produce(150, partition=turn % 2)
            if turn % 2:
                world.tier()

    writing = threading.Thread(target=write_and_tier)
    writing.start()
    stream = world.stream(columns=["kafka_partition", "kafka_offset", "kafka_key"])
    async with stream:
        rows = await rows_until(stream, 400 + 6 * 150)
    writing.join()
    assert by_partition(rows) == world.consumed()


async def test_rows_of_the_broker_are_those_that_the_table_has_of_them_later(world: LiveWorld) -> None:
    world.produce(50)
    world.tier()
    world.produce(50)
    live = await now(world)
    assert len(live) == 100
    world.tier()
    stored = rows_of(await all_batches(world.stream(until="table")))
    assert stored == live
    assert [row["number"] for row in stored] == list(range(100))


async def test_consumer_that_goes_on_at_its_position_has_every_row_once(world: LiveWorld) -> None:
    world.produce(100)
    world.produce(100, partition=1)
    world.tier()
    world.produce(100)
    rows: list[dict[str, Any]] = []
    position: str | None = None
    # Every batch is taken by a stream of its own: out of the table, and from the broker.
    while len(rows) < 300:
        async with world.stream(position=position) as stream:
            rows += await rows_until(stream, 1)
            position = stream.position
        if len(rows) == 200:
            world.tier()
    assert by_partition(rows) == world.consumed()
    assert await now(world, position=position) == []


async def test_batch_that_a_cancelled_consumer_did_not_get_is_the_next_one(world: LiveWorld) -> None:
    world.produce(10)
    world.tier()
    async with world.stream() as stream:
        rows = await rows_until(stream, 10)
        cancelled = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        cancelled.cancel()
        world.produce(10)
        rows += await rows_until(stream, 10)
    assert by_partition(rows) == world.consumed()


async def test_live_record_of_a_schema_that_the_table_lacks_comes_when_the_table_has_it(world: LiveWorld) -> None:
    world.produce(10)
    world.produce(10, partition=1)
    world.tier()
    async with world.stream() as stream:
        before = await rows_until(stream, 20)
        assert "coupon" not in before[0]
        world.produce(5, schema_id=WITH_COUPON)
        world.produce(5, partition=1)
        meanwhile = await rows_until(stream, 5)
        assert {row["kafka_partition"] for row in meanwhile} == {1}, "the other partition waits"
        world.tier()
        after = await rows_until(stream, 5)
    assert [row["coupon"] for row in after] == [f"coupon {row['number']}" for row in after]
    assert {row["kafka_error"] for row in after} == {None}
    both = await now(world, columns=["coupon"], start={0: 0, 1: 15})
    assert [row["coupon"] for row in both] == [None] * 10 + [row["coupon"] for row in after]


async def test_columns_and_rows_are_those_that_were_asked_for_on_both_sides(world: LiveWorld) -> None:
    world.produce(60)
    world.tier()
    world.produce(60)
    batches = await all_batches(
        world.stream(until="now", columns=["price", "kafka_offset"], where="country = 'DE' AND number >= 30")
    )
    assert {tuple(batch.schema.names) for batch in batches} == {("price", "kafka_offset")}
    assert len(batches) > 1
    assert {batch.schema.field("price").type for batch in batches} == {pa.float64()}
    wanted = [number for number in range(30, 120) if number % 3 == 0]
    assert rows_of(batches) == [{"price": number / 4, "kafka_offset": number} for number in wanted]


async def test_stream_starts_where_it_is_told_to(world: LiveWorld) -> None:
    world.produce(40)
    first = world.tier().snapshot_id
    world.produce(40)
    world.tier()
    world.produce(40)

    async def numbers(**start: Any) -> list[int]:
        return [row["number"] for row in await now(world, columns=["number"], **start)]

    assert await numbers(start={0: 70}) == list(range(70, 120))
    assert await numbers(start="end") == []
    assert await numbers(after_snapshot=first) == list(range(40, 120))
    assert await numbers(start=datetime.fromtimestamp(1000.055, UTC)) == list(range(55, 120))
    assert await numbers(start=datetime.fromtimestamp(1000.105, UTC)) == list(range(105, 120))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"columns": ["no_such"]}, "no_such"),
        ({"where": "no_such = 1"}, "no_such"),
        ({"where": "number = = 1"}, "number = = 1"),
        ({"start": {0: 1000}}, "offset 1000"),
        ({"after_snapshot": 1}, "snapshot 1"),
        ({"position": "{}"}, "position"),
        ({"start": datetime(2024, 1, 1)}, "time zone"),  # noqa: DTZ001  # what is refused
    ],
)
async def test_what_can_not_be_is_refused_by_name(world: LiveWorld, arguments: dict[str, Any], named: str) -> None:
    world.produce(5)
    world.tier()
    with pytest.raises(Invalid, match=named):
        await now(world, **arguments)


async def test_records_that_are_gone_are_an_error_or_passed_over(world: LiveWorld) -> None:
    world.produce(20)
    world.produce(1, partition=1)
    world.tier()
    async with world.stream(until="now", start={1: 1}) as stream:
        await rows_until(stream, 20)
        position = stream.position
    world.produce(20)
    gone = TopicPartition(world.topic, 0, 30)
    admin = AdminClient({"bootstrap.servers": world.broker.bootstrap})
    admin.delete_records([gone])[gone].result(30)
    with pytest.raises(Unavailable, match="offset 20"):
        await now(world, position=position)
    rest = await now(world, position=position, on_missing="skip", columns=["kafka_offset"])
    assert rest == [{"kafka_offset": offset} for offset in range(30, 40)]
