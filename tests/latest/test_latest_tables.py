"""What ``__latest`` shows when the topic's table, its files and others change in every way that they may."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema

from engine.errors import Corrupt, FloebergError, Invalid
from engine.fault_points import FaultPoint, armed
from engine.table.commit.judge import SOMEBODY_ELSE
from engine.table.windows import Clustering
from latest.latest_limits import LatestLimits
from tests.engine.table.foreign.foreign_rewrites import rewrite_in_no_order
from tests.latest.latest_world import TOPIC, LatestWorld, Record
from tests.tiering.tiering_world import STRINGS
from topics.topic_rule import TopicRule

ABC: list[Record] = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4")]


@pytest.fixture
def world(tmp_path: Path) -> LatestWorld:
    return LatestWorld(tmp_path)


def test_newest_of_each_key_is_shown_and_neither_tombstones_nor_records_without_a_key(world: LatestWorld) -> None:
    world.append(ABC)
    world.append([(b"b", None), (None, b"6"), (b"", b""), (b"\xff", b"8"), (b"d", None), (b"d", b"10")])
    daemon = world.daemon()
    daemon.bring_up()
    world.check_current()
    assert world.shown() == [
        (0, 2, b"a", b"3"),
        (0, 3, b"c", b"4"),
        (0, 6, b"", b""),
        (0, 7, b"\xff", b"8"),
        (0, 9, b"d", b"10"),
    ]
    assert world.shown_by_duckdb() == world.shown()
    assert [(0, offset) for _, offset, _, _ in world.shown()] == world.newest_by_duckdb()
    daemon.end()


def test_data_is_not_copied_and_a_data_file_has_one_delete_file_or_is_not_named(world: LatestWorld) -> None:
    world.append(ABC)
    world.append([(b"a", b"5")])
    world.append([(b"z", b"6")])
    daemon = world.daemon()
    for records in ([(b"a", b"7")], [(b"b", b"8")], [(b"c", b"9"), (b"d", b"10")]):
        daemon.bring_up()
        world.append(records)
    daemon.bring_up()
    named = world.latest_table().inspect.data_files().to_pylist()
    stream = {file.path for file in world.files()}
    assert {file["file_path"] for file in named} < stream
    # Of the first two files no row is visible any more, of the others each is.
    assert sorted(file["record_count"] for file in named) == [1, 1, 1, 2]
    assert world.latest_table().inspect.delete_files().num_rows == 0
    world.append([(b"d", b"11")])
    daemon.bring_up()
    assert [one["record_count"] for one in world.latest_table().inspect.delete_files().to_pylist()] == [1]
    world.check_current()
    daemon.end()


def test_rows_of_clustered_files_are_found_where_they_lie(tmp_path: Path) -> None:
    world = LatestWorld(tmp_path)
    count = 70_000
    drawn = np.random.default_rng(3).integers(0, 20_000, 2 * count).tolist()
    records: list[Record] = [(b"k%d" % key, b"%05d" % (key * 7919 % 99_991)) for key in drawn]
    world.append(records[:count])
    daemon = world.daemon()
    daemon.bring_up()
    world.append(records[count:])
    world.merge(world.files(), Clustering(columns=("value",), window_rows=1 << 18))
    (file,) = world.files()
    assert file.clustering_checksum is not None
    daemon.bring_up()
    world.check_current()
    # And rows of it are superseded, and it becomes a part of another one.
    world.append([(b"k%d" % key, b"new") for key in range(0, 20_000, 3)])
    daemon.bring_up()
    world.check_current()
    world.merge(world.files(), Clustering(columns=("kafka_key",), window_rows=1 << 18))
    daemon.bring_up()
    world.check_current()
    assert world.shown_by_duckdb() == world.shown()
    daemon.end()


def test_rows_of_files_that_another_program_wrote_are_superseded_as_any_other(world: LatestWorld) -> None:
    world.append(ABC)
    world.append([(b"e", b"5"), (b"a", b"6"), (b"f", None)])
    daemon = world.daemon()
    daemon.bring_up()
    rewrite_in_no_order(world.tiering.catalog.load_table(world.stream().identifier))
    daemon.bring_up()
    world.check_current()
    world.append([(b"c", b"8"), (b"a", None), (b"g", b"9")])
    daemon.bring_up()
    world.check_current()
    assert world.shown_by_duckdb() == world.shown()
    daemon.end()
    # And all of it from nothing.
    world.tiering.catalog.drop_table(("kafka", f"{TOPIC}__latest"))
    other = world.daemon("another-index")
    other.bring_up()
    world.check_current()
    other.end()


def test_columns_follow_with_their_ids(tmp_path: Path) -> None:
    rule = TopicRule(pattern="*", value_format="json", latest_by_key=True)
    world = LatestWorld(tmp_path, rule=rule)
    world.append([(b"a", json.dumps({"n": 1}).encode()), (b"b", json.dumps({"n": 2}).encode())])
    daemon = world.daemon()
    daemon.bring_up()
    world.append([(b"a", json.dumps({"n": 3, "s": {"t": "x"}, "l": [1.5]}).encode())])
    stream = world.tiering.catalog.load_table(world.stream().identifier)
    assert len(stream.schema().fields) == len(world.latest_table().schema().fields) + 2
    daemon.bring_up()
    assert ids(world.latest_table().schema()) == ids(stream.schema())
    rows = world.latest_table().scan(selected_fields=("n", "s", "l")).to_arrow().to_pylist()
    assert sorted(rows, key=str) == [{"n": 2, "s": None, "l": None}, {"n": 3, "s": {"t": "x"}, "l": [1.5]}]
    daemon.end()


def ids(schema: Schema) -> str:
    return str(schema.as_struct())


def test_typed_keys_are_told_apart_by_their_bytes(tmp_path: Path) -> None:
    rule = TopicRule(pattern="*", value_format="string", layout=replace(STRINGS.layout, key="json"))
    world = LatestWorld(tmp_path, rule=rule)
    keys = [b'{"id":1}', b'{"id":2}', b'{"id":1}', b'{ "id": 1 }', b"no json", b"no json"]
    world.append([(key, b"%d" % at) for at, key in enumerate(keys)])
    daemon = world.daemon()
    daemon.bring_up()
    shown = world.latest_table().scan(selected_fields=("kafka_offset",)).to_arrow()["kafka_offset"].to_pylist()
    assert sorted(shown) == [1, 2, 3, 5]
    daemon.end()


def test_daemon_that_planned_on_an_older_line_gives_up_and_plans_again(world: LatestWorld) -> None:
    world.append(ABC)
    slow, quick = world.daemon("slow"), world.daemon("quick")
    slow.bring_up()
    world.append([(b"a", b"5"), (b"b", None)])
    interfered = []

    def interfere(point: FaultPoint) -> None:
        if point is FaultPoint.LATEST_DELETES_WRITTEN and not interfered:
            interfered.append(point)
            world.append([(b"c", b"7")])
            quick.bring_up()

    with armed(interfere):
        turn = slow.turn()
    assert (turn.gone, turn.committed) == (1, 0)
    world.check_current()
    slow.bring_up()
    world.append([(b"a", b"8")])
    slow.bring_up()
    world.check_current()
    slow.end()
    quick.end()


def test_daemons_of_different_partitions_meet_in_one_table(tmp_path: Path) -> None:
    world = LatestWorld(tmp_path, partitions=2)
    one, two = world.daemon("one"), world.daemon("two")
    for partition in (0, 1):
        world.append(ABC, partition)
    one.bring_up([0])
    two.bring_up([1])
    world.append([(b"a", b"5")], 0)
    world.append([(b"b", b"6")], 1)

    def interfere(point: FaultPoint) -> None:
        if point is FaultPoint.COMMIT_DECIDED and not interfered:
            interfered.append(point)
            two.bring_up([1])

    interfered: list[FaultPoint] = []
    with armed(interfere):
        assert one.turn([0]).committed == 1
    world.check_current()
    one.end()
    two.end()


def test_commit_takes_in_a_bounded_number_of_rows_and_the_next_one_begins_after_its_last_partition(
    tmp_path: Path,
) -> None:
    world = LatestWorld(tmp_path, partitions=3)
    for partition in (0, 1, 2):
        world.append(ABC, partition)
    daemon = world.daemon(limits=LatestLimits(fold_rows=len(ABC)))
    ends = []
    for _ in range(3):
        turn = daemon.turn()
        assert (turn.committed, turn.goes_on) == (1, len(ends) < 2)
        ends.append(set(world.ends()))
    assert ends == [{0}, {0, 1}, {0, 1, 2}]
    world.check_current()
    daemon.end()


def test_table_that_was_dropped_is_built_again(world: LatestWorld) -> None:
    world.append(ABC)
    daemon = world.daemon()
    daemon.bring_up()
    world.tiering.catalog.drop_table(("kafka", f"{TOPIC}__latest"))
    daemon.bring_up()
    world.check_current()
    daemon.end()


def test_index_that_was_lost_is_made_again_and_the_table_stays(world: LatestWorld) -> None:
    world.append(ABC)
    daemon = world.daemon()
    daemon.bring_up()
    daemon.end()
    snapshot = world.latest_table().current_snapshot()
    other = world.daemon("another")
    other.bring_up()
    assert world.latest_table().current_snapshot() == snapshot
    world.append([(b"a", b"5")])
    other.bring_up()
    world.check_current()
    other.end()


def test_what_another_program_wrote_or_took_away_is_put_right(world: LatestWorld) -> None:
    world.append(ABC)
    daemon = world.daemon()
    daemon.bring_up()
    table = world.latest_table()
    rows = table.scan().to_arrow()
    table.append(rows)
    table.delete("kafka_key = 'a'")
    assert world.shown() != world.expected()
    daemon.bring_up()
    world.check_current()
    table = world.latest_table()
    table.delete(AlwaysTrue())
    daemon.bring_up()
    world.check_current()
    with world.latest_table().update_schema() as change:
        change.rename_column("value", "worth")
    daemon.bring_up()
    world.check_current()
    daemon.end()


def test_table_that_somebody_partitioned_otherwise_is_reported(world: LatestWorld) -> None:
    world.append(ABC)
    daemon = world.daemon()
    daemon.bring_up()
    with world.latest_table().update_spec() as change:
        change.remove_field("kafka_partition")
    with pytest.raises(Corrupt, match=SOMEBODY_ELSE) as raised:
        daemon.turn()
    assert "drop it" in str(raised.value)
    daemon.end()


def test_topic_of_the_tables_name_keeps_it(world: LatestWorld) -> None:
    (other,) = world.tiering.broker.create_topic(f"{TOPIC}__latest")
    world.tiering.broker.append_segment(other, [b"v"])
    world.append(ABC)
    daemon = world.daemon()
    with pytest.raises(Invalid, match="belongs to the topic"):
        daemon.turn()
    assert [value for _, value in world.tiering.rows(other)] == ["v"]
    daemon.end()


def test_damaged_data_file_stops_its_partition_alone(tmp_path: Path) -> None:
    world = LatestWorld(tmp_path, partitions=2)
    daemon = world.daemon()
    for partition in (0, 1):
        world.append(ABC, partition)
    path = Path(world.files(0)[0].path.removeprefix("file://"))
    content = path.read_bytes()
    path.write_bytes(content[:40] + bytes([content[40] ^ 255]) + content[41:])
    turn = daemon.turn()
    assert [(problem.partition, type(problem)) for problem in turn.problems] == [(0, Corrupt)]
    assert world.ends() == {1: len(ABC)}
    world.check()
    path.write_bytes(content)
    daemon.bring_up()
    world.check_current()
    daemon.end()


def test_topic_that_was_created_again_has_a_table_again_and_the_older_one_stays(world: LatestWorld) -> None:
    world.append(ABC)
    daemon = world.daemon()
    daemon.bring_up()
    daemon.end()
    before, older = world.shown(), world.partitions[0]
    world.create_again()
    world.append([(b"z", b"1")])
    successor = world.daemon()
    successor.bring_up()
    world.check_current()
    retired = world.tiering.catalog.load_table(("kafka", f"{TOPIC}__latest__{older.topic_id}"))
    assert retired.scan().to_arrow().num_rows == len(before)
    successor.end()


def test_nothing_is_done_while_the_topics_table_is_not_as_it_was_proven(world: LatestWorld) -> None:
    world.append(ABC)
    daemon = world.daemon()
    daemon.bring_up()
    world.tiering.catalog.load_table(world.stream().identifier).delete("kafka_offset = 1")
    with pytest.raises(FloebergError):
        daemon.turn()
    world.check()
    daemon.end()
