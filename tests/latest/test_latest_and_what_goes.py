"""What ``__latest`` shows, and what of its files is left, when records and files go; and how it is proven."""

from __future__ import annotations

from pathlib import Path

import pytest

from compaction.replacing import FileReplacer
from compaction.topic_retype import TopicRetype
from engine.errors import Unavailable
from engine.fault_points import FaultPoint, armed
from engine.fsck.report import Damage
from engine.table.proof.verifier import Verifier
from engine.table.reachability import ReachableFiles
from floeberg.sql.duckdb_latest import latest_findings
from floeberg.tables.survey import survey_tables
from retention.sweep_limits import SweepLimits
from tests.latest.latest_world import TOPIC, LatestWorld, Record
from tests.support.fault_hooks import once
from topics.topic_rule import TopicRule
from workers.workers import InProcessWorkers

ABC: list[Record] = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4")]


@pytest.fixture
def world(tmp_path: Path) -> LatestWorld:
    return LatestWorld(tmp_path)


def test_files_that_compaction_replaced_are_named_until_the_next_turn_and_reachable(world: LatestWorld) -> None:
    world.append(ABC)
    world.append([(b"e", b"5")])
    daemon = world.daemon()
    daemon.bring_up()
    before = world.files()
    world.merge(before)
    table = world.latest_table()
    view = daemon.writer.latest_session(TOPIC, world.partitions[0].topic_id).open()
    assert view is not None
    named = ReachableFiles().of(view, table.metadata)
    assert all(named.is_live(file.path) for file in before)
    world.check()
    daemon.bring_up()
    world.check_current()
    assert {file["file_path"] for file in world.latest_table().inspect.data_files().to_pylist()} == {
        file.path for file in world.files()
    }
    assert daemon.turn().committed == 0
    daemon.end()


def test_older_record_is_the_newest_once_the_newer_ones_are_erased_and_the_index_knows_no_more(tmp_path: Path) -> None:
    world = LatestWorld(tmp_path)
    world.append(ABC)
    daemon, other = world.daemon(), world.daemon("other")
    daemon.bring_up()
    other.bring_up()
    world.append([(b"a", b"5"), (b"b", None), (b"a secret", b"7")])
    daemon.bring_up()
    world.check_current()
    # The newest of one key, the tombstone of another, all of a third.
    world.erase("kafka_offset >= 4", (0, 4), (0, 5), (0, 6))
    daemon.bring_up()
    world.check_current()
    assert [key for _, _, key, _ in world.shown()] == [b"b", b"a", b"c"]
    world.append([(b"b", b"8")])
    # And a daemon whose index is of before the erasure.
    other.bring_up()
    world.check_current()
    daemon.end()
    other.end()
    files = [path.read_bytes() for path in (tmp_path / "index").glob("*.sst")]
    assert files
    assert not any(b"a secret" in content for content in files)


def test_what_left_the_table_at_its_horizon_is_not_shown_and_the_index_lets_its_keys_go(world: LatestWorld) -> None:
    world.append(ABC)
    world.append([(b"e", b"5"), (b"a", b"6")])
    world.append([(b"f", b"7")])
    daemon = world.daemon()
    daemon.bring_up()
    world.move_horizon(len(ABC))
    daemon.bring_up()
    world.check_current()
    assert [key for _, _, key, _ in world.shown()] == [b"e", b"a", b"f"]
    world.append([(b"b", b"8"), (b"e", None)])
    daemon.bring_up()
    world.check_current()
    # As much had gone as was left, so keys went; two records more are no reason.
    world.move_horizon(len(ABC) + 2)
    daemon.bring_up()
    world.check_current()
    assert daemon.index.newest(world.partitions[0], [b"c", b"a", b"f", b"b"]).tolist() == [-1, 5, 6, 7]
    daemon.end()
    other = world.daemon("other")
    world.tiering.catalog.drop_table(("kafka", f"{TOPIC}__latest"))
    other.bring_up()
    world.check_current()
    other.end()


def test_delete_file_that_is_gone_is_written_again(world: LatestWorld) -> None:
    world.append(ABC)
    daemon = world.daemon()
    daemon.bring_up()
    (deletes,) = world.latest_table().inspect.delete_files().to_pylist()
    Path(deletes["file_path"].removeprefix("file://")).unlink()
    world.append([(b"c", b"5")])
    daemon.bring_up()
    world.check_current()
    daemon.end()


def test_sweep_takes_what_failed_turns_left_and_nothing_that_is_named(world: LatestWorld) -> None:
    world.append(ABC)
    daemon = world.daemon()
    daemon.bring_up()
    for value in (b"5", b"6", b"7"):
        world.append([(b"a", value)])
        with armed(once(FaultPoint.LATEST_DELETES_WRITTEN, stopped)), pytest.raises(Unavailable):
            daemon.turn()
        daemon.bring_up()
    world.merge(world.files())  # what it replaces, __latest names alone
    view = daemon.writer.latest_session(TOPIC, world.partitions[0].topic_id).open()
    assert view is not None
    before = set(view.warehouse.list(f"{view.location}/data"))
    left = len(before) - world.latest_table().inspect.all_delete_files().num_rows
    assert left > 0
    for is_latest in (False, True):
        sweep = world.sweep(daemon.writer, is_latest=is_latest)
        assert sweep.turn().held is None
    world.tiering.clock.ahead_ms += SweepLimits().grace_ms
    # As long after the fence that the sweep puts up as it takes.
    removed = {is_latest: world.sweep(daemon.writer, is_latest=is_latest).turn().removed for is_latest in (False, True)}
    assert (removed[False].files, removed[True].files) == (0, left)
    world.check()
    daemon.bring_up()
    world.check_current()
    daemon.end()


def stopped() -> None:
    raise Unavailable("stopped")


def test_turn_that_was_stopped_until_its_files_may_be_swept_writes_them_again(world: LatestWorld) -> None:
    world.append(ABC)
    daemon, other = world.daemon(), world.daemon("other")
    daemon.bring_up()
    world.append([(b"a", b"5")])
    fenced: list[FaultPoint] = []

    def fence(point: FaultPoint) -> None:
        if point is FaultPoint.LATEST_DELETES_WRITTEN and not fenced:
            fenced.append(point)
            view = other.writer.latest_session(TOPIC, world.partitions[0].topic_id).open()
            assert view is not None
            other.writer.fence_sweep(view, view.sequence_number, is_latest=True)

    with armed(fence), pytest.raises(Unavailable, match="may have been swept"):
        daemon.turn()
    world.check()
    daemon.bring_up()
    world.check_current()
    daemon.end()


def test_proof_finds_what_is_shown_and_should_not_be_and_what_is_not_shown(world: LatestWorld) -> None:
    world.append(ABC)
    world.append([(b"e", b"5"), (b"a", b"6"), (b"b", None), (None, b"8"), (b"\xff", b"9")])
    assert latest_findings(world.tiering.catalog, world.stream()) == ()
    daemon = world.daemon()
    daemon.bring_up()
    world.append([(b"a", b"10")])  # not known of yet
    assert latest_findings(world.tiering.catalog, world.stream()) == ()
    table = world.latest_table()
    rows = table.scan("kafka_offset = 3").to_arrow()
    table.append(rows)
    table.delete("kafka_offset = 4")
    survey = survey_tables(lambda: world.tiering.catalog, "kafka", topic=None)
    # Its folder is no table that the catalog lost.
    assert (survey.reports, [table.topic for table in survey.tables]) == ((), [TOPIC])
    found = latest_findings(world.tiering.catalog, world.stream())
    assert [(one.damage, one.partition, str(one.range)) for one in found] == [
        (Damage.LATEST_DIFFERS, 0, "[4, 5)"),
        (Damage.LATEST_DIFFERS, 0, "[3, 4)"),
    ]
    daemon.bring_up()
    assert latest_findings(world.tiering.catalog, world.stream()) == ()
    daemon.end()


def test_table_that_got_another_format_is_followed_and_shows_the_same_keys(world: LatestWorld) -> None:
    daemon = world.daemon()
    world.append([(b"a", b'{"n": 1}'), (b"b", b'{"n": 2}'), (b"a", b'{"n": 3}')])
    daemon.bring_up()
    replacer = FileReplacer(writer=world.tiering.writer(), workers=InProcessWorkers(), verifier=Verifier(), parallel=1)
    rule = TopicRule(pattern="*", value_format="json")
    TopicRetype(world.stream(), rule, replacer=replacer, clock=world.tiering.clock).run()
    daemon.bring_up()
    rows = world.tiering.catalog.load_table(("kafka", f"{TOPIC}__latest")).scan().to_arrow().to_pydict()
    assert dict(zip(rows["kafka_key"], rows["n"], strict=True)) == {"a": 3, "b": 2}
    assert "value" not in rows
    daemon.end()
