"""Horizons move: what SQL engines see, what readers by offset get, what the ledger still proves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pytest
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

from engine.errors import Corrupt
from engine.fault_points import FaultPoint, armed
from engine.fsck.check import fsck_table
from engine.fsck.report import Damage
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.commit.replacement import FileReplacement
from engine.table.commit.writer import TableWriter
from engine.table.history_limits import HistoryLimits
from engine.table.ledger import Outcome
from engine.table.manifests import ManifestReader, TableFile
from engine.table.stream_branch import NEVER_EXPIRES_MS, STREAM_BRANCH
from engine.table.topic_table import TopicTable
from floeberg.sql.duckdb_session import extension_file
from tests.engine.table.table_examples import (
    StillClock,
    append_of,
    catalog_in,
    empty_append,
    ensure_table,
    open_writer,
    outcomes,
    reopened,
    stored_offsets,
)

Ranges = list[tuple[int, int]]


@dataclass
class World:
    folder: Path
    writer: TableWriter
    table: TopicTable

    def move(self, *, log: int = 0, table: int = 0, partition: int = 0) -> TopicTable:
        log_starts, table_starts = ({partition: offset} if offset else {} for offset in (log, table))
        return self.writer.move_horizons(self.table, log_starts=log_starts, table_starts=table_starts)

    def now(self) -> TopicTable:
        return reopened(self.folder)

    def iceberg(self) -> Table:
        return catalog_in(self.folder).load_table(self.table.identifier)

    def listed(self) -> tuple[Ranges, Ranges]:
        """The ranges of partition 0's files in the table, and in the stream's branch."""
        found = ManifestReader().files(self.now())
        return ranges(found.own), ranges(found.stream)

    def sql_rows(self) -> int:
        """By an engine that reads the table as it is."""
        with duckdb.connect() as connection:
            for extension in ("avro", "iceberg"):
                connection.execute(f"LOAD '{extension_file(extension)}'")
            scan = f"SELECT count(*) FROM iceberg_scan('{self.iceberg().metadata_location}')"
            return int(connection.execute(scan).fetchall()[0][0])

    def streamed(self, start: int) -> list[int]:
        """Offsets that a reader of partition 0 gets from ``start`` on."""
        table = self.now()
        reader = LogReader(file_index=FileIndex())
        try:
            blocks = reader.records(table, 0, OffsetRange(start=start, end=table.ledger[0].end))
            return [offset for block in blocks for offset in block.offset.tolist()]
        finally:
            reader.close()

    def is_whole(self) -> bool:
        return fsck_table(self.now()).is_healthy


def ranges(files: tuple[TableFile, ...], partition: int = 0) -> Ranges:
    return [(file.range.start, file.range.end) for file in files if file.partition == partition]


class MuchLater(StillClock):
    def now_ms(self) -> int:
        return 4_000_000_000_000


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three files of ten records, and two of another partition."""
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    for start in (0, 10, 20):
        outcomes(writer, table, append_of(table, start, start + 10))
    outcomes(writer, table, append_of(table, 0, 5, partition=1), append_of(table, 5, 10, partition=1))
    return World(folder=tmp_path, writer=writer, table=table)


def test_what_only_the_stream_has_left_the_table_and_is_read_by_offset(world: World) -> None:
    before = world.sql_rows()
    moved = world.move(table=20)
    assert moved.ledger[0].table_start == 20
    assert moved.ledger[0].gone is None
    assert world.listed() == ([(20, 30)], [(0, 10), (10, 20)])
    assert stored_offsets(world.folder, world.table) == list(range(20, 30))
    assert stored_offsets(world.folder, world.table, 1) == list(range(10))
    assert (before, world.sql_rows()) == (40, 20)
    assert world.streamed(0) == list(range(30))
    assert world.is_whole()


def test_what_the_stream_has_no_more_leaves_its_branch_and_its_digest_stays(world: World) -> None:
    world.move(table=20)
    whole = world.now().ledger[0].digest
    line = world.move(log=15).ledger[0]
    assert (line.log_start, line.held.start, line.gone_digest.record_count) == (15, 10, 10)
    assert line.digest == whole
    assert world.listed() == ([(20, 30)], [(10, 20)])
    assert world.streamed(15) == list(range(15, 30))
    world.move(log=25)
    assert world.listed() == ([(20, 30)], [])
    line = world.now().ledger[0]
    assert (line.held.start, line.gone_digest.record_count) == (20, 20)
    assert world.is_whole()


def test_what_both_have_passed_goes_at_once(world: World) -> None:
    world.move(log=20)
    assert world.listed() == ([(0, 10), (10, 20), (20, 30)], [])
    line = world.move(table=10).ledger[0]
    assert line.gone is not None
    assert (line.gone.end, line.table_start) == (10, 10)
    assert world.listed() == ([(10, 20), (20, 30)], [])
    assert STREAM_BRANCH not in world.iceberg().metadata.refs
    assert world.is_whole()


def test_file_is_cut_at_a_horizon_only_whole(world: World) -> None:
    assert world.move(table=9).snapshot_id == world.now().snapshot_id
    assert world.move(table=19).ledger[0].table_start == 10
    assert world.listed() == ([(10, 20), (20, 30)], [(0, 10)])


def test_horizons_never_move_back_and_what_is_there_already_makes_no_commit(world: World) -> None:
    moved = world.move(log=15, table=20)
    assert world.move(log=10, table=10).snapshot_id == moved.snapshot_id
    assert world.move(log=15, table=20).snapshot_id == moved.snapshot_id
    assert (moved.ledger[0].log_start, moved.ledger[0].table_start) == (15, 20)


def test_all_partitions_of_a_table_move_in_one_commit(world: World) -> None:
    snapshots = len(world.iceberg().metadata.snapshots)
    moved = world.writer.move_horizons(world.table, log_starts={0: 7, 1: 8}, table_starts={0: 10, 1: 5})
    assert {p: (line.log_start, line.table_start) for p, line in moved.ledger.items()} == {0: (7, 10), 1: (8, 5)}
    assert len(world.iceberg().metadata.snapshots) == snapshots + 2, "one of the table, one of the stream's branch"
    found = ManifestReader().files(world.now())
    assert (ranges(found.stream, 0), ranges(found.stream, 1)) == ([(0, 10)], [])
    assert (ranges(found.own, 0), ranges(found.own, 1)) == ([(10, 20), (20, 30)], [(5, 10)])
    assert world.is_whole()


def test_last_file_may_leave_and_the_next_is_appended_after_it(world: World) -> None:
    world.move(log=30, table=30)
    assert world.listed() == ([], [])
    assert outcomes(world.writer, world.table, append_of(world.table, 30, 40)) == [Outcome.COMMITTED]
    assert world.listed() == ([(30, 40)], [])
    assert world.is_whole()


def test_ranges_without_a_record_go_with_what_lies_around_them(world: World) -> None:
    skipped = OffsetRange(start=40, end=50)
    outcomes(world.writer, world.table, empty_append(30, 40), append_of(world.table, 50, 60, skipped=skipped))
    moved = world.move(log=45, table=60)
    assert (moved.empty[0], moved.skipped[0]) == ((), (OffsetRange(start=45, end=50),))
    assert moved.ledger[0].held.start == 45
    assert world.is_whole()
    moved = world.move(log=60)
    assert moved.skipped[0] == ()
    assert world.is_whole()


def test_summary_tells_what_left_and_says_delete_only_then(world: World) -> None:
    world.move(log=5)
    assert world.iceberg().current_snapshot().summary.operation.value == "append"  # type: ignore[union-attr]
    world.move(table=20)
    summary = world.iceberg().current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    assert (summary.operation.value, summary["floeberg.left.0"]) == ("delete", "[[0, 20]]")
    assert (summary["deleted-data-files"], summary["deleted-records"]) == ("2", "20")
    world.move(log=10, table=20)
    assert world.iceberg().current_snapshot().summary.operation.value == "append"  # type: ignore[union-attr]


def test_log_start_goes_with_the_next_append(world: World) -> None:
    world.writer.note_log_starts(world.table, {0: 12, 1: 1000})
    snapshots = len(world.iceberg().metadata.snapshots)
    assert outcomes(world.writer, world.table, append_of(world.table, 30, 40)) == [Outcome.COMMITTED]
    ledger = world.now().ledger
    assert (ledger[0].log_start, ledger[1].log_start) == (12, 10)
    assert len(world.iceberg().metadata.snapshots) == snapshots + 1


def test_somebody_elses_append_before_it_is_a_conflict_and_both_stand(world: World) -> None:
    rival = open_writer(world.folder)
    theirs = append_of(world.table, 30, 40, attempt="rival")
    went: list[object] = []

    def first(point: FaultPoint) -> None:
        if point is FaultPoint.SNAPSHOT_STAGED and not went:
            went.append(point)
            outcomes(rival, world.table, theirs)

    with armed(first):
        moved = world.move(log=15, table=20)
    assert went
    assert (moved.ledger[0].end, moved.ledger[0].table_start) == (40, 20)
    assert world.streamed(15) == list(range(15, 40))
    assert world.is_whole()


def test_files_that_were_merged_meanwhile_leave_as_far_as_they_are_wholly_below(world: World) -> None:
    old = ManifestReader().files(world.now()).own[:2]
    new = append_of(world.table, 0, 20, attempt="merged")
    assert new.file is not None
    merge = FileReplacement(old=old, digest=new.digest, new=(new.file,))
    assert open_writer(world.folder).replace(world.table, [merge]).outcomes == (Outcome.COMMITTED,)
    world.move(table=10)
    assert world.listed() == ([(0, 20), (20, 30)], [])
    world.move(table=20)
    assert world.listed() == ([(20, 30)], [(0, 20)])


def test_what_the_stream_alone_has_is_never_replaced(world: World) -> None:
    old = ManifestReader().files(world.now()).own[:2]
    world.move(table=20)
    new = append_of(world.table, 0, 20, attempt="merged")
    assert new.file is not None
    merge = FileReplacement(old=old, digest=new.digest, new=(new.file,))
    assert world.writer.replace(world.table, [merge]).outcomes == (Outcome.GONE,)
    assert world.listed() == ([(20, 30)], [(0, 10), (10, 20)])


def test_branch_outlives_the_tables_own_age_of_refs_and_keeps_no_history_of_its_own(world: World) -> None:
    world.move(table=20)
    world.move(log=15)
    ref = world.iceberg().metadata.refs[STREAM_BRANCH]
    assert (ref.max_ref_age_ms, ref.min_snapshots_to_keep) == (NEVER_EXPIRES_MS, 1)


def test_file_whose_footer_can_not_be_read_does_not_leave(world: World) -> None:
    world.move(log=20)
    first = ManifestReader().files(world.now()).own[0]
    Path(first.path.removeprefix("file://")).unlink()
    with pytest.raises(Corrupt, match="can't leave the table"):
        world.move(table=20)
    assert world.now().ledger[0].table_start == 0


# Somebody else's hands.


def dropped(table: Table) -> None:
    table._do_commit((RemoveSnapshotRefUpdate(ref_name=STREAM_BRANCH),), ())


def set_to_main(table: Table) -> None:
    point(table, table.metadata.current_snapshot_id)


def made_a_tag(table: Table) -> None:
    left_at = table.metadata.refs[STREAM_BRANCH].snapshot_id
    dropped(table)
    point(table.refresh(), left_at, SnapshotRefType.TAG)


def point(table: Table, snapshot_id: int | None, kind: SnapshotRefType = SnapshotRefType.BRANCH) -> None:
    assert snapshot_id is not None
    table._do_commit((SetSnapshotRefUpdate(ref_name=STREAM_BRANCH, snapshot_id=snapshot_id, type=kind),), ())


@pytest.mark.parametrize("change", [dropped, set_to_main, made_a_tag])
def test_branch_that_somebody_else_changed_stops_the_table_and_is_not_read(
    world: World, change: Callable[[Table], None]
) -> None:
    view = world.move(table=20)
    left_at = world.iceberg().metadata.refs[STREAM_BRANCH].snapshot_id
    change(world.iceberg())
    more = append_of(world.table, 30, 40)
    with pytest.raises(Corrupt, match=STREAM_BRANCH) as stopped:
        world.writer.commit(world.table, [more])
    assert f"AS OF VERSION {left_at}" in str(stopped.value.next_step)
    seen = open_writer(world.folder)._loader.view(world.iceberg())
    assert seen.stream is None
    index = FileIndex()
    with pytest.raises(Corrupt, match=STREAM_BRANCH):
        index.covering(seen, 0, OffsetRange(start=0, end=30))
    assert len(index.covering(seen, 0, OffsetRange(start=20, end=30))) == 1, "what the table lists goes on"
    assert len(index.covering(view, 0, OffsetRange(start=0, end=30))) == 3, "a view at hand goes on"
    report = fsck_table(seen)
    assert {finding.damage for finding in report.findings} == {Damage.FOREIGN_CHANGE, Damage.LOST_RANGE}
    if change is made_a_tag:
        dropped(world.iceberg())
    point(world.iceberg(), left_at)
    assert world.streamed(0) == list(range(30))
    assert outcomes(open_writer(world.folder), world.table, append_of(world.table, 30, 40)) == [Outcome.COMMITTED]
    assert world.is_whole()


def test_branch_of_its_name_that_somebody_made_is_not_taken_for_the_streams(world: World) -> None:
    set_to_main(world.iceberg())
    with pytest.raises(Corrupt, match="was made") as stopped:
        world.now()
    assert "DROP BRANCH" in str(stopped.value.next_step)
    dropped(world.iceberg())
    assert world.move(table=20).ledger[0].table_start == 20
    assert world.is_whole()


def test_table_that_is_adopted_keeps_the_streams_branch(world: World) -> None:
    world.move(log=10, table=20)
    theirs = world.iceberg()
    theirs.append(theirs.scan().to_arrow().slice(0, 0))
    assert world.now().foreign is None
    assert world.streamed(10) == list(range(10, 30))
    assert world.is_whole()


def test_branch_set_back_to_before_a_horizon_stops_the_table(world: World) -> None:
    earlier = world.iceberg().metadata.current_snapshot_id
    world.move(log=20, table=20)
    assert earlier is not None
    with world.iceberg().manage_snapshots() as manage:
        manage.set_current_snapshot(snapshot_id=earlier)
    with pytest.raises(Corrupt, match="there twice"):
        world.now()


def test_lines_of_before_have_no_horizon_of_the_table(world: World) -> None:
    line = world.now().ledger[0]
    assert "table_start" not in line.to_json()
    assert "gone" not in line.to_json()
    assert replace(line, table_start=0) == line


def test_ranges_that_another_program_rewrote_hold_the_tables_horizon_and_not_the_streams(world: World) -> None:
    theirs = world.iceberg()
    theirs.overwrite(theirs.scan().to_arrow())
    assert set(world.now().adopted) == {0, 1}
    moved = world.move(log=25, table=20)
    assert (moved.ledger[0].log_start, moved.ledger[0].table_start) == (25, 0)
    assert stored_offsets(world.folder, world.table) == list(range(30))
    assert world.streamed(25) == list(range(25, 30))
    assert world.is_whole()


def test_history_that_ends_takes_the_branchs_along_and_leaves_its_files(world: World) -> None:
    world.move(table=10)
    world.move(table=20)
    limits = HistoryLimits(max_age_ms=1, min_snapshots=1, max_snapshots=1)
    open_writer(world.folder, clock=MuchLater()).expire(world.table, limits)
    metadata = world.iceberg().metadata
    assert {snapshot.snapshot_id for snapshot in metadata.snapshots} == {
        ref.snapshot_id for ref in metadata.refs.values()
    }
    assert world.listed() == ([(20, 30)], [(0, 10), (10, 20)])
    assert world.streamed(0) == list(range(30))
    assert world.is_whole()
