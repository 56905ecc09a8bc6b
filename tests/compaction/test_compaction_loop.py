"""Small files become large ones while records arrive and are read: nothing is lost, doubled or answered otherwise."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import ANY

import duckdb
import pytest

from compaction.compaction_limits import CompactionLimits
from compaction.compaction_loop import CompactionLoop
from compaction.compaction_report import Backlog
from compaction.merge_limits import Demand, MergeLimits
from engine.errors import Corrupt, Unavailable
from engine.fault_points import FaultPoint, armed
from engine.fsck.check import fsck_table
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.manifests import ManifestReader, TableFile
from engine.table.proof.verifier import Verifier
from engine.table.topic_table import TopicTable
from engine.table.windows import Clustering
from engine.topic_partition import TopicIdPartition
from tests.compaction.damaged_file import damage
from tests.support.fault_hooks import once
from tests.support.repairing_daemon import RepairingDaemon
from tests.tiering.tiering_world import STRINGS, TieringWorld
from workers.workers import InProcessWorkers

EAGER = MergeLimits(newest_left=1, least_growth=4, most_growth=4, look_interval_ms=0)
"""Five files are four that become one, and the newest."""


@dataclass
class Growing:
    """A topic of one partition, in slices of two records."""

    world: TieringWorld
    partition: TopicIdPartition
    end: int = 0

    def daemon(self, limits: MergeLimits = EAGER) -> RepairingDaemon:
        """As a new process would begin it."""
        return RepairingDaemon(self.world, (STRINGS,), merge_limits=limits)

    def append(self, daemon: RepairingDaemon, slices: int = 1) -> None:
        for _ in range(slices):
            self.world.broker.append_segment(self.partition, [b"v%d" % (self.end + number) for number in (0, 1)])
            self.end += 2
        assert daemon.loop.cycle().is_good

    def files(self) -> tuple[TableFile, ...]:
        return ManifestReader().files(self.world.table(self.partition)).own

    def ranges(self) -> list[tuple[int, int]]:
        return [(file.range.start, file.range.end) for file in self.files()]

    def consumed(self) -> list[tuple[int, bytes | None]]:
        """What a consumer gets from the start on."""
        table, reader = self.world.table(self.partition), LogReader(file_index=FileIndex())
        found = list(records_of(reader, table, OffsetRange(start=0, end=self.end)))
        reader.close()
        return found

    def queried(self) -> list[tuple[int, str]]:
        """What DuckDB finds in the files that the table names."""
        names = [file.path.removeprefix("file://") for file in self.files()]
        with duckdb.connect() as connection:
            query = "SELECT kafka_offset, value FROM read_parquet(?, union_by_name=true) ORDER BY kafka_offset"
            return connection.execute(query, [names]).fetchall()

    def check_whole(self) -> None:
        expected = [(offset, f"v{offset}") for offset in range(self.end)]
        assert self.consumed() == [(offset, value.encode()) for offset, value in expected]
        assert self.queried() == expected
        assert self.world.rows(self.partition) == expected
        report = fsck_table(self.world.table(self.partition))
        assert report.is_healthy, report


def records_of(reader: LogReader, table: TopicTable, wanted: OffsetRange) -> Iterator[tuple[int, bytes | None]]:
    for records in reader.records(table, 0, wanted):
        yield from zip(records.offset.tolist(), records.value.to_list(), strict=True)


@pytest.fixture
def growing(world: TieringWorld) -> Growing:
    (partition,) = world.broker.create_topic("orders")
    return Growing(world, partition)


def test_slices_become_one_file_and_records_stay_as_they_were(growing: Growing) -> None:
    daemon = growing.daemon()
    growing.append(daemon, 5)
    before = growing.consumed()
    turn = daemon.compaction.turn()
    assert (turn.merge.merged, turn.merge.files, turn.goes_on) == (1, 4, True)
    assert growing.ranges() == [(0, 8), (8, 10)]
    assert growing.consumed() == before
    growing.check_whole()
    assert not daemon.compaction.turn().goes_on


def test_compaction_keeps_up_beside_appends(growing: Growing) -> None:
    daemon = growing.daemon()
    for _ in range(40):
        growing.append(daemon)
        while daemon.compaction.turn().goes_on:
            pass
    assert len(growing.files()) <= 9, growing.ranges()
    growing.check_whole()
    report = daemon.compaction.report()
    assert report.totals.merges >= 9
    assert report.backlog.files == 0
    amplification = report.totals.write_amplification
    assert amplification is not None
    assert 1 < amplification <= 3
    assert report.last_run_ms is not None


def test_thread_merges_while_records_arrive_and_are_read(growing: Growing) -> None:
    daemon, stop, wrong = growing.daemon(), threading.Event(), list[object]()
    thread = threading.Thread(target=daemon.compaction.run_forever, args=(stop,))
    growing.append(daemon)
    reader = LogReader(file_index=FileIndex())

    def read() -> None:
        while not stop.is_set():
            table = growing.world.table(growing.partition)
            covered = table.ledger[0].range
            found = list(records_of(reader, table, covered))
            if found != [(offset, b"v%d" % offset) for offset in range(covered.end)]:
                wrong.append(found)

    consumer = threading.Thread(target=read)
    thread.start()
    consumer.start()
    try:
        for _ in range(30):
            growing.append(daemon)
    finally:
        stop.set()
        daemon.compaction.hurry()
        thread.join(60)
        consumer.join(60)
    assert not thread.is_alive()
    assert not wrong
    assert daemon.compaction.report().totals.merges > 0
    growing.check_whole()


def test_reader_that_holds_replaced_files_finishes_with_them(growing: Growing) -> None:
    daemon = growing.daemon()
    growing.append(daemon, 5)
    table, reader = growing.world.table(growing.partition), LogReader(file_index=FileIndex())
    wanted = OffsetRange(start=0, end=10)
    begun = records_of(reader, table, wanted)
    first = next(begun)
    assert daemon.compaction.turn().merge.merged == 1
    assert [first, *begun] == [(offset, b"v%d" % offset) for offset in range(10)]
    assert len(list(records_of(reader, growing.world.table(growing.partition), wanted))) == 10
    reader.close()


def test_index_entry_handed_out_before_the_commit_is_right_after_it(growing: Growing) -> None:
    daemon = growing.daemon()
    growing.append(daemon, 5)
    reader = LogReader(file_index=FileIndex())
    for start in range(10):
        wanted = OffsetRange(start=start, end=10)
        before = list(records_of(reader, growing.world.table(growing.partition), wanted))
        assert before[0][0] == start
    daemon.compaction.turn()
    for start in range(10):
        wanted = OffsetRange(start=start, end=10)
        assert next(records_of(reader, growing.world.table(growing.partition), wanted)) == (start, b"v%d" % start)
    reader.close()


def test_append_in_between_is_kept_and_a_conflict_is_counted(growing: Growing) -> None:
    daemon, other = growing.daemon(), growing.daemon()
    growing.append(daemon, 5)
    with armed(once(FaultPoint.SNAPSHOT_STAGED, lambda: growing.append(other))):
        turn = daemon.compaction.turn()
    assert (turn.merge.merged, turn.merge.gone, turn.merge.conflicts) == (1, 0, 1)
    assert growing.ranges() == [(0, 8), (8, 10), (10, 12)]
    growing.check_whole()


@pytest.mark.parametrize(
    "point", [FaultPoint.REPLACEMENTS_WRITTEN, FaultPoint.REPLACEMENTS_VERIFIED, FaultPoint.COMMIT_DECIDED]
)
def test_two_daemons_at_once_merge_each_file_once(growing: Growing, point: FaultPoint) -> None:
    daemon, other = growing.daemon(), growing.daemon()
    growing.append(daemon, 5)
    other.loop.cycle()
    with armed(once(point, other.compaction.turn)):
        turn = daemon.compaction.turn()
    assert (turn.merge.merged, turn.merge.gone, turn.merge.failed) == (0, 1, 0)
    assert growing.ranges() == [(0, 8), (8, 10)]
    growing.check_whole()
    assert daemon.compaction.report().totals.given_up == 1
    assert daemon.compaction.report().totals.failures == 0


@pytest.mark.parametrize(
    "point", [FaultPoint.REPLACEMENTS_WRITTEN, FaultPoint.REPLACEMENTS_VERIFIED, FaultPoint.REPLACEMENTS_TOLD]
)
def test_process_that_ends_leaves_the_table_whole_and_the_next_goes_on(growing: Growing, point: FaultPoint) -> None:
    class EndedError(BaseException):
        pass

    def end() -> None:
        raise EndedError

    daemon = growing.daemon()
    growing.append(daemon, 5)
    with armed(once(point, end)), pytest.raises(EndedError):
        daemon.compaction.turn()
    growing.check_whole()
    again = growing.daemon()
    again.loop.cycle()
    again.compaction.turn()
    assert growing.ranges() == [(0, 8), (8, 10)]
    growing.check_whole()


def test_damaged_file_is_told_and_its_neighbours_are_merged_without_it(growing: Growing) -> None:
    daemon = growing.daemon()
    growing.append(daemon, 9)
    third = growing.files()[2].path
    content = Path(third.removeprefix("file://")).read_bytes()
    damage(third)
    turn = daemon.compaction.turn()
    assert (turn.merge.merged, turn.merge.failed) == (0, 1)
    (problem,) = turn.merge.problems
    assert isinstance(problem, Corrupt)
    assert (problem.file, problem.topic, problem.partition, problem.offset) == (third, "orders", 0, 4)
    assert daemon.compaction.turn().merge.merged == 1
    assert growing.ranges() == [(0, 2), (2, 4), (4, 6), (6, 16), (16, 18)]
    assert daemon.compaction.report().problems == (problem,)
    Path(third.removeprefix("file://")).write_bytes(content)
    growing.world.clock.ahead_ms += EAGER.retry_ms
    growing.append(daemon, 2)
    daemon.compaction.turn()
    assert not daemon.compaction.report().problems
    growing.check_whole()


def test_new_file_that_is_not_what_it_should_be_is_not_committed(growing: Growing) -> None:
    daemon = growing.daemon()
    growing.append(daemon, 5)
    before = {file.path for file in growing.files()}

    def flip() -> None:
        for path in growing.world.root.rglob("*.parquet"):
            if f"file://{path}" not in before:
                damage(f"file://{path}")

    with armed(once(FaultPoint.REPLACEMENTS_WRITTEN, flip)):
        turn = daemon.compaction.turn()
    assert (turn.merge.merged, turn.merge.failed) == (0, 1)
    assert {file.path for file in growing.files()} == before
    growing.check_whole()
    assert not daemon.compaction.turn().has_tried, "it is left for a while"
    growing.world.clock.ahead_ms += EAGER.retry_ms
    assert daemon.compaction.turn().merge.merged == 1


def test_commit_that_fails_is_tried_again_later(growing: Growing) -> None:
    daemon = growing.daemon()
    growing.append(daemon, 5)

    def away() -> None:
        raise Unavailable("the catalog does not answer")

    with armed(once(FaultPoint.COMMIT_DECIDED, away)):
        assert not daemon.compaction.turn().goes_on
    assert [error.problem for error in daemon.compaction.report().put_off] == ["the catalog does not answer"]
    assert daemon.compaction.report().totals.failures == 1
    growing.world.clock.ahead_ms += EAGER.retry_ms
    assert daemon.compaction.turn().merge.merged == 1
    assert not daemon.compaction.report().put_off


def test_table_that_cannot_be_read_is_asked_for_once_in_a_while(growing: Growing) -> None:
    daemon = growing.daemon()
    growing.append(daemon, 5)
    manifest_list = growing.world.table(growing.partition).manifest_list
    assert manifest_list is not None
    path = Path(manifest_list.removeprefix("file://"))
    content = path.read_bytes()
    path.unlink()
    for _ in range(5):
        daemon.loop.cycle()
        assert not daemon.compaction.turn().has_tried
    assert daemon.compaction.report().totals.failures == 2, "once for repairs, once for merges"
    assert len(daemon.compaction.report().put_off) == 1
    path.write_bytes(content)
    growing.world.clock.ahead_ms += EAGER.retry_ms
    daemon.loop.cycle()
    assert daemon.compaction.turn().merge.merged == 1
    assert not daemon.compaction.report().put_off


def test_tail_of_a_quiet_partition_is_merged_after_a_while(growing: Growing) -> None:
    limits = MergeLimits(quiet=Demand(growth=2, files=3), look_interval_ms=0)
    daemon = growing.daemon(limits)
    growing.append(daemon, 3)
    assert not daemon.compaction.turn().has_tried
    growing.world.clock.ahead_ms += limits.quiet_ms
    daemon.loop.cycle()
    assert daemon.compaction.turn().merge.merged == 1
    assert growing.ranges() == [(0, 6)]
    growing.check_whole()


def test_table_is_looked_at_once_in_an_interval_and_not_at_all_while_nothing_changes(growing: Growing) -> None:
    daemon = growing.daemon(MergeLimits(newest_left=1, least_growth=4, most_growth=4))
    growing.append(daemon, 4)
    assert not daemon.compaction.turn().has_tried
    growing.append(daemon)
    assert not daemon.compaction.turn().has_tried, "it was looked at a moment ago"
    growing.world.clock.ahead_ms += EAGER.look_interval_ms + 30_000
    assert daemon.compaction.turn().merge.merged == 1


def test_nothing_is_begun_while_tiering_is_behind(growing: Growing) -> None:
    daemon = growing.daemon()
    growing.append(daemon, 5)
    daemon.compaction.note_topics({}, may_work=False)
    assert not daemon.compaction.turn().has_tried


def test_files_stay_as_they_are_where_merging_is_off(growing: Growing) -> None:
    daemon = growing.daemon()
    off = CompactionLoop(
        writer=growing.world.writer(),
        workers=InProcessWorkers(),
        verifier=Verifier(),
        clock=growing.world.clock,
        limits=CompactionLimits(merge=EAGER, enabled=False),
    )
    daemon.loop.on_cycle(lambda report: off.note_topics(report.led, may_work=True))
    growing.append(daemon, 5)
    assert not off.turn().has_tried
    assert daemon.compaction.turn().merge.merged == 1


def test_topics_take_turns(growing: Growing) -> None:
    (notes,) = growing.world.broker.create_topic("notes")
    other = Growing(growing.world, notes)
    daemon = growing.daemon(replace(EAGER, groups_per_turn=1, files_per_group=4, least_growth=2, most_growth=2))
    growing.append(daemon, 9)
    other.append(daemon, 9)
    assert [daemon.compaction.turn().merge.merged for _ in range(2)] == [1, 1]
    assert growing.ranges()[0] == other.ranges()[0] == (0, 8)
    assert daemon.compaction.report().backlog == Backlog(groups=2, files=8, size_bytes=ANY)


def test_file_of_a_partition_led_elsewhere_is_left_to_its_leaders_daemon(growing: Growing) -> None:
    daemon = growing.daemon()
    growing.append(daemon, 5)
    growing.world.broker.port.set_view(growing.partition, leader_id=9)
    again = growing.daemon()
    again.loop.cycle()
    assert not again.compaction.turn().has_tried


def test_large_file_gets_its_windows_once(growing: Growing) -> None:
    rule = replace(STRINGS, clustering=Clustering(columns=("value",)))
    daemon = RepairingDaemon(growing.world, (rule,), merge_limits=replace(EAGER, target_file_bytes=4000))
    growing.append(daemon)
    assert growing.files()[0].clustering_checksum is None
    assert daemon.compaction.turn().merge.merged == 1
    (file,) = growing.files()
    assert (file.range.start, file.range.end) == (0, 2)
    assert file.clustering_checksum == Clustering(columns=("value",)).checksum
    assert not daemon.compaction.turn().has_tried
    growing.check_whole()


def test_work_is_followed_by_a_pause_that_keeps_the_share() -> None:
    limits = CompactionLimits(cores=4, cpu_share=0.25)
    assert limits.pause_ms(cpu_ms=1000, took_ms=1000) == 0
    assert limits.pause_ms(cpu_ms=3000, took_ms=1000) == 2000
    assert limits.pause_ms(cpu_ms=0, took_ms=5) == 0
    assert [CompactionLimits(cores=cores, max_parallel=8).parallel for cores in (1, 2, 16)] == [1, 1, 8]
