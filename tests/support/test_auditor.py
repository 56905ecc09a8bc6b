"""The auditor finds each kind of wrong that is planted before it, and nothing where nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.topic_partition import TopicIdPartition
from tests.support.auditor import Dropped, Kind, ProducersLog, Record, Sight, assert_clean, audit
from tests.support.auditor_sights import dropped_by_broker, log_door_sight, table_sights
from tests.tiering.broker_on_disk import FIRST_TIMESTAMP_MS
from tests.tiering.tiering_world import TieringWorld

PLACE = ("orders", 0)
TEN = OffsetRange(start=0, end=10)


def record(number: int, **changed: object) -> Record:
    """What BrokerOnDisk writes at an offset."""
    made = Record(b"%d" % number, b"value %d" % number, FIRST_TIMESTAMP_MS + number)
    return made._replace(**changed)


def told_of(*offsets: int) -> ProducersLog:
    told = ProducersLog()
    for offset in offsets:
        told.acknowledged(PLACE, offset, record(offset))
    return told


def sight(*records: tuple[int, Record], door: str = "consumer", within: OffsetRange = TEN) -> Sight:
    return Sight(door=door, place=PLACE, within=within, records=records)


def shown(*offsets: int, door: str = "consumer", within: OffsetRange = TEN) -> Sight:
    return sight(*((offset, record(offset)) for offset in offsets), door=door, within=within)


def kinds(told: ProducersLog, *sights: Sight) -> list[tuple[Kind, int]]:
    return [(finding.kind, finding.offset) for finding in audit(told, sights)]


def test_door_that_shows_what_producers_were_told_has_no_finding() -> None:
    assert kinds(told_of(0, 1, 5), shown(0, 1, 5)) == []


def test_producers_may_go_on_while_their_earlier_records_are_looked_for() -> None:
    told = told_of(0, 1, 5)

    class WhileTheyWrite(OffsetRange):
        def __contains__(self, offset: int) -> bool:
            later = 10 + told.record_count
            told.acknowledged(PLACE, later, record(later))
            return super().__contains__(offset)

    assert kinds(told, shown(0, 5, within=WhileTheyWrite(start=0, end=10))) == [(Kind.LOST, 1)]


PLANTED: dict[str, tuple[Sight, list[tuple[Kind, int]]]] = {
    "a record is missing": (shown(0, 2), [(Kind.LOST, 1)]),
    "a record is shown twice": (shown(0, 1, 1, 2), [(Kind.DOUBLED, 1)]),
    "two records changed places": (shown(0, 2, 1), [(Kind.OUT_OF_ORDER, 1)]),
    "a record of nobody": (shown(0, 1, 2, 3), [(Kind.INVENTED, 3)]),
    "a record behind the range": (shown(0, 1, 2, 12), [(Kind.INVENTED, 12)]),
    "another key": (sight(*shown(0, 1).records, (2, record(2, key=None))), [(Kind.ALTERED, 2)]),
    "an empty value for none": (sight((0, record(0, value=b"")), *shown(1, 2).records), [(Kind.ALTERED, 0)]),
    "another timestamp": (sight(*shown(0, 1).records, (2, record(2, timestamp_ms=0))), [(Kind.ALTERED, 2)]),
    "a header too many": (sight(*shown(0, 1).records, (2, record(2, headers=(("a", b""),)))), [(Kind.ALTERED, 2)]),
    "nothing": (shown(), [(Kind.LOST, 0), (Kind.LOST, 1), (Kind.LOST, 2)]),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_planted_wrong_is_found_with_its_kind_and_offset(planted: str) -> None:
    wrong, expected = PLANTED[planted]
    assert kinds(told_of(0, 1, 2), wrong) == expected


def test_record_outside_of_what_a_door_looked_at_is_not_missing() -> None:
    assert kinds(told_of(0, 1, 12), shown(1, within=OffsetRange(start=1, end=10))) == []


def test_record_whose_outcome_is_unknown_may_be_there_once_or_not() -> None:
    told = told_of(0)
    told.unanswered(PLACE, record(1))
    assert kinds(told, shown(0)) == []
    assert kinds(told, shown(0, 1)) == []
    assert kinds(told, sight(*shown(0, 1).records, (2, record(1)))) == [(Kind.INVENTED, 2)]


def test_doors_must_agree_on_a_record_whose_outcome_is_unknown() -> None:
    told = told_of(0)
    told.unanswered(PLACE, record(1))
    assert kinds(told, shown(0, 1), shown(0, 1, door="table")) == []
    assert kinds(told, shown(0, 1), shown(0, door="table")) == [(Kind.LOST, 1)]
    # A door that has not come as far does not contradict.
    assert kinds(told, shown(0, 1), shown(0, door="table", within=OffsetRange(start=0, end=1))) == []


def test_aborted_transaction_must_not_show() -> None:
    told = told_of(0)
    transaction = told.transaction()
    transaction.acknowledged(PLACE, 1, record(1))
    transaction.aborted()
    assert kinds(told, shown(0)) == []
    assert kinds(told, shown(0, 1)) == [(Kind.INVENTED, 1)]


def test_transaction_counts_once_its_commit_is_answered() -> None:
    told = told_of(0)
    transaction = told.transaction()
    transaction.acknowledged(PLACE, 1, record(1))
    assert kinds(told, shown(0, 1)) == [(Kind.INVENTED, 1)]
    transaction.committed()
    assert kinds(told, shown(0, 1)) == []
    assert kinds(told, shown(0)) == [(Kind.LOST, 1)]


def test_transaction_whose_commit_was_not_answered_is_there_as_a_whole_or_not_at_all() -> None:
    told = told_of(0)
    transaction = told.transaction()
    transaction.acknowledged(PLACE, 1, record(1))
    transaction.acknowledged(PLACE, 3, record(3))
    transaction.acknowledged(("orders", 1), 7, record(7))
    transaction.unknown()
    assert kinds(told, shown(0)) == []
    assert kinds(told, shown(0, 1, 3)) == []
    assert kinds(told, shown(0, 1)) == [(Kind.TORN, 3)]
    assert kinds(told, shown(0, 1, within=OffsetRange(start=0, end=3))) == []
    assert kinds(told, sight((0, record(0)), (1, record(2)), (3, record(3)))) == [(Kind.ALTERED, 1)]
    other = Sight(door="consumer", place=("orders", 1), within=TEN, records=())
    assert kinds(told, shown(0, 1, 3), other) == [(Kind.TORN, 7)]


def test_two_records_at_one_offset_are_refused() -> None:
    told = told_of(0)
    with pytest.raises(AssertionError, match="given to two records"):
        told.acknowledged(PLACE, 0, record(1))


def test_delivery_reports_tell_what_was_written_and_what_is_unknown() -> None:
    told = ProducersLog()
    message = SimpleNamespace(topic=lambda: "orders", partition=lambda: 0, offset=lambda: 5)
    told.delivery(PLACE, record(5))(None, message)
    told.delivery(PLACE, record(6))("timed out", None)
    transaction = told.transaction()
    transaction.delivery(PLACE, record(7))("timed out", None)
    with pytest.raises(AssertionError, match="without 1 of its records"):
        transaction.committed()
    transaction.unknown()
    assert dict(told.written(PLACE)) == {5: record(5)}
    assert list(told.possible(PLACE)) == [record(6), record(7)]


def test_message_of_a_failed_audit_counts_kinds_and_names_coordinates() -> None:
    findings = audit(told_of(*range(20)), [shown(within=OffsetRange(start=0, end=20))])
    with pytest.raises(AssertionError, match=r"(?s)'lost': 20.*offset 3 of orders-0, seen by the consumer"):
        assert_clean(findings)
    assert_clean([])


# The same through the doors: damage is planted in a table's files, and in a log directory.


@pytest.fixture
def tiered(tmp_path: Path) -> tuple[TieringWorld, TopicIdPartition, ProducersLog]:
    world = TieringWorld(tmp_path)
    (orders,) = world.broker.create_topic("orders", native=True)
    for start in (0, 10, 20):
        world.broker.append_segment(orders, [record(number).value for number in range(start, start + 10)])
    world.loop().cycle()
    return world, orders, told_of(*range(30))


def sights(world: TieringWorld, orders: TopicIdPartition) -> list[Sight]:
    return table_sights(world.catalog, world.table(orders).identifier)


def data_files(world: TieringWorld) -> list[Path]:
    return sorted((world.root / "data").rglob("*.parquet"))


def test_table_and_log_door_of_a_tiered_topic_are_clean(
    tiered: tuple[TieringWorld, TopicIdPartition, ProducersLog],
) -> None:
    world, orders, told = tiered
    reader = LogReader(file_index=FileIndex())
    door = log_door_sight(world.table(orders), 0, reader=reader)
    reader.close()
    seen = [*sights(world, orders), door]
    assert [(item.door, item.within, len(item.records)) for item in seen] == [
        ("table", OffsetRange(start=0, end=30), 30),
        ("log door", OffsetRange(start=0, end=30), 30),
    ]
    assert_clean(audit(told, seen))
    # The two agree on what nobody was told, too.
    assert {finding.kind for finding in audit(ProducersLog(), seen)} == {Kind.INVENTED}


def replaced(rows: pa.Table, column: str, values: pa.Array) -> pa.Table:
    at = rows.schema.get_field_index(column)
    return rows.set_column(at, rows.schema.field(at), values)


FILE_DAMAGES: dict[str, tuple[Callable[[pa.Table], pa.Table], Kind, int]] = {
    "row_gone": (lambda rows: rows.slice(1), Kind.LOST, 10),
    "row_twice": (lambda rows: pa.concat_tables([rows, rows.slice(9)]), Kind.DOUBLED, 19),
    "rows_reversed": (lambda rows: rows.take([*range(8), 9, 8]), Kind.OUT_OF_ORDER, 18),
    "value_changed": (lambda rows: replaced(rows, "value", pa.array(["x"] * 10)), Kind.ALTERED, 10),
    "key_gone": (lambda rows: replaced(rows, "kafka_key", pa.nulls(10, pa.string())), Kind.ALTERED, 10),
    "value_made_null": (lambda rows: replaced(rows, "kafka_is_null", pa.array([True] * 10)), Kind.ALTERED, 10),
    "offset_moved": (
        lambda rows: replaced(rows, "kafka_offset", pc.add(rows["kafka_offset"], 20).cast(pa.int64())),
        Kind.INVENTED,
        30,
    ),
}


@pytest.mark.parametrize("damage", FILE_DAMAGES)
def test_damage_planted_in_a_data_file_is_found(
    tiered: tuple[TieringWorld, TopicIdPartition, ProducersLog], damage: str
) -> None:
    world, orders, told = tiered
    change, kind, offset = FILE_DAMAGES[damage]
    file = data_files(world)[1]
    rows = pq.ParquetFile(file).read()
    pq.write_table(change(rows), file)
    assert (kind, offset) in [(finding.kind, finding.offset) for finding in audit(told, sights(world, orders))]


def dropped(world: TieringWorld, orders: TopicIdPartition) -> list[Dropped]:
    table = world.writer().open(orders.topic, orders.topic_id)
    found = dropped_by_broker([world.broker.log_dir], PLACE, table)
    return [] if found is None else [found]


def test_what_the_broker_dropped_must_be_proven(tiered: tuple[TieringWorld, TopicIdPartition, ProducersLog]) -> None:
    world, orders, told = tiered
    assert dropped(world, orders) == []
    world.broker.delete_oldest_segment(orders)
    world.broker.delete_oldest_segment(orders)
    assert [item.range for item in dropped(world, orders)] == [OffsetRange(start=0, end=20)]
    assert_clean(audit(told, [], dropped(world, orders)))

    world.broker.append_segment(orders, [record(number).value for number in range(30, 40)])
    world.broker.delete_oldest_segment(orders)
    world.broker.delete_oldest_segment(orders)
    (found,) = audit(told, [], dropped(world, orders))
    assert (found.kind, found.offset) == (Kind.DELETED_UNPROVEN, 0)


def test_dropped_range_is_not_proven_by_a_damaged_file_or_by_no_table(
    tiered: tuple[TieringWorld, TopicIdPartition, ProducersLog],
) -> None:
    world, orders, told = tiered
    world.broker.delete_oldest_segment(orders)
    file = data_files(world)[0]
    content = bytearray(file.read_bytes())
    first_quarter = slice(4, len(content) // 4)
    content[first_quarter] = bytes(byte ^ 1 for byte in content[first_quarter])
    file.write_bytes(content)
    (found,) = audit(told, [], dropped(world, orders))
    assert found.kind is Kind.DELETED_UNPROVEN
    assert file.name in found.detail
    without = dropped_by_broker([world.broker.log_dir], PLACE, None)
    assert without is not None
    (found,) = audit(told, [], [without])
    assert "no table" in found.detail
