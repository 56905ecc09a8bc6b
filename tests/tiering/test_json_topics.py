"""JSON without a schema through the loop: columns inferred, extended, fixed, and every byte back."""

from __future__ import annotations

import json
from typing import Any

from engine.formats.codec import INFER_RECORDS
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.topic_partition import TopicIdPartition
from tests.tiering.tiering_world import TieringWorld, ranges_of, report_of
from topics.topic_rule import TopicRule

JSON = (TopicRule(pattern="*", value_format="json"),)


def columns(world: TieringWorld, topic: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = (
        world.catalog.load_table(("kafka", topic)).scan().to_arrow().sort_by("kafka_offset").to_pydict()
    )
    return found


def values(world: TieringWorld, partition: TopicIdPartition) -> list[bytes | None]:
    """All values of a partition as a consumer reads them."""
    table = world.table(partition)
    wanted = OffsetRange(start=0, end=table.ledger[partition.partition].end)
    reader = LogReader(file_index=FileIndex())
    found = [value for block in reader.records(table, partition.partition, wanted) for value in block.value.to_list()]
    reader.close()
    return found


def clicks(first: int, count: int, **more: object) -> list[bytes]:
    return [
        json.dumps({"id": number, "page": f"/{number}", "at": {"x": number / 8}, **more}).encode()
        for number in range(first, first + count)
    ]


def test_columns_are_inferred_and_extended_over_segments_and_a_restart(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("clicks")
    first = clicks(0, 40)
    world.broker.append_segment(partition, first)
    assert ranges_of(world.loop(rules=JSON).cycle(), partition) == [(0, 40)]
    second = [*clicks(40, 5), *clicks(45, 5, referrer=None), *clicks(50, 5, referrer="a", tags=["x", None])]
    world.broker.append_segment(partition, second)
    report = world.loop(rules=JSON).cycle()
    assert ranges_of(report, partition) == [(40, 55)]
    assert (report_of(report, partition).status.raw_rows, report_of(report, partition).status.undecodable_rows) == (
        0,
        0,
    )
    found = columns(world, "clicks")
    assert found["id"] == list(range(55))
    assert found["at"] == [{"x": number / 8} for number in range(55)]
    assert found["tags"] == [None] * 50 + [["x", None]] * 5
    assert found["kafka_schema_id"] == [-1] * 40 + [-2] * 15
    assert found["kafka_value_raw"] == [None] * 55
    assert values(world, partition) == first + second
    # Another process knows the schemas from the table, and has nothing to add to them.
    third = clicks(55, 5, referrer="b", tags=[])
    world.broker.append_segment(partition, third)
    world.loop(rules=JSON).cycle()
    assert columns(world, "clicks")["kafka_schema_id"][55:] == [-2] * 5
    assert values(world, partition) == first + second + third


def test_member_that_comes_too_late_stays_in_the_text(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("clicks")
    rules = (TopicRule(pattern="*", value_format="json", codec_options={INFER_RECORDS: "10"}),)
    world.broker.append_segment(partition, clicks(0, 10))
    world.loop(rules=rules).cycle()
    late = clicks(10, 1, late=True)
    world.broker.append_segment(partition, late)
    report = world.loop(rules=rules).cycle()
    assert report_of(report, partition).status.raw_rows == 1
    found = columns(world, "clicks")
    assert "late" not in found
    assert (found["id"][10], found["kafka_value_raw"][10], found["kafka_rest"][10]) == (10, late[0], late[0].decode())
    assert found["kafka_rest"][:10] == [None] * 10
    assert values(world, partition) == clicks(0, 10) + late


def test_strange_record_changes_no_column_and_most_records_do(world: TieringWorld) -> None:
    (partition,) = world.broker.create_topic("clicks")
    segments = [
        [*clicks(0, 20), b'{"id": "strange"}', b"not JSON", b"", None, b"[1]"],
        [b'{"id": "all", "page": 1}'] * 9,
    ]
    for segment in segments:
        world.broker.append_segment(partition, segment)
        world.loop(rules=JSON).cycle()
    found = columns(world, "clicks")
    assert found["id"][:21] == [*range(20), None]
    assert found["id__string"][25:] == ["all"] * 9
    assert found["page__long"][25:] == [1] * 9
    assert found["kafka_rest"][20:25] == ['{"id": "strange"}', "not JSON", "", None, "[1]"]
    assert found["kafka_is_null"][23] is True
    assert values(world, partition) == segments[0] + segments[1]


def test_partitions_that_propose_at_once_make_one_schema(world: TieringWorld) -> None:
    partitions = world.broker.create_topic("clicks", partitions=3)
    loop = world.loop(rules=JSON)
    for partition in partitions:
        world.broker.append_segment(partition, clicks(0, 3))
    loop.cycle()
    for partition in partitions:
        world.broker.append_segment(partition, clicks(3, 3, **{f"only_{partition.partition}": partition.partition}))
    loop.cycle()
    assert set(world.table(partitions[0]).codec.schemas) == {-1, -2}
    for partition in partitions:
        expected = clicks(3, 3, **{f"only_{partition.partition}": partition.partition})
        assert values(world, partition) == clicks(0, 3) + expected
        assert world.loop(rules=JSON).cycle().commits == 0
