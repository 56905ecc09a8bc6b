"""Old snapshots go with the commits that come after them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyiceberg.table.statistics import PartitionStatisticsFile, StatisticsFile
from pyiceberg.table.update import SetPartitionStatisticsUpdate

from engine.errors import Corrupt
from engine.table.commit.writer import TableWriter
from engine.table.history_limits import HistoryLimits
from engine.table.ledger import Outcome
from engine.table.manifests import ManifestReader
from engine.table.topic_table import TopicTable
from tests.engine.table.table_examples import (
    StillClock,
    append_of,
    catalog_in,
    ensure_table,
    outcomes,
    reopened,
    stored_offsets,
)

HOUR_MS = 60 * 60 * 1000
LIMITS = HistoryLimits(max_age_ms=10 * HOUR_MS, min_snapshots=2, max_snapshots=5)
ROWS = 2


@dataclass
class MovedClock(StillClock):
    """Stands still until it is moved; begins after the table was made."""

    at_ms: int = 0

    def __post_init__(self) -> None:
        self.at_ms = time.time_ns() // 1_000_000 + HOUR_MS

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


@dataclass
class Stage:
    folder: Path
    clock: MovedClock
    writer: TableWriter
    table: TopicTable
    end: int = 0

    def append(self, times: int = 1, *, apart_hours: float = 1) -> None:
        for _ in range(times):
            self.clock.at_ms += int(apart_hours * HOUR_MS)
            more = append_of(self.table, self.end, self.end + ROWS)
            assert outcomes(self.writer, self.table, more) == [Outcome.COMMITTED]
            self.end += ROWS

    @property
    def loaded(self) -> Table:
        return catalog_in(self.folder).load_table(self.table.identifier)

    @property
    def numbers(self) -> list[int]:
        """Of the snapshots that the table keeps: their commits, from 1."""
        return sorted(snapshot.sequence_number or 0 for snapshot in self.loaded.metadata.snapshots)

    def id_of(self, number: int) -> int:
        return next(one.snapshot_id for one in self.loaded.metadata.snapshots if one.sequence_number == number)

    def is_whole(self) -> bool:
        view = reopened(self.folder)
        return (
            view.foreign is None
            and stored_offsets(self.folder, view) == list(range(self.end))
            and sum(file.record_count for file in ManifestReader().files(view).own) == self.end
        )


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    clock = MovedClock()
    writer = TableWriter(catalog_in(tmp_path), clock, history=LIMITS)
    return Stage(folder=tmp_path, clock=clock, writer=writer, table=ensure_table(writer))


def test_snapshots_beyond_the_most_go_with_each_commit_and_every_record_stays(stage: Stage) -> None:
    stage.append(12)
    assert stage.numbers == [8, 9, 10, 11, 12]
    assert [entry.snapshot_id for entry in stage.loaded.metadata.snapshot_log] == [
        stage.id_of(number) for number in stage.numbers
    ]
    assert stage.is_whole()


def test_snapshots_of_less_than_some_minutes_ago_stay_however_many(stage: Stage) -> None:
    stage.append(8, apart_hours=0)
    assert stage.numbers == list(range(1, 9))
    assert stage.is_whole()


def test_old_snapshots_go_with_the_first_commit_after_a_long_pause(stage: Stage) -> None:
    stage.append(4)
    stage.append(apart_hours=1000)
    assert stage.numbers == [4, 5]
    assert stage.is_whole()


def test_what_a_tag_names_stays_until_nobody_names_it(stage: Stage) -> None:
    stage.append(2)
    stage.loaded.manage_snapshots().create_tag(stage.id_of(1), "audit").commit()
    stage.append(6)
    assert stage.numbers == [1, 4, 5, 6, 7, 8]
    stage.loaded.manage_snapshots().remove_tag("audit").commit()
    stage.append(10)
    assert stage.numbers == [14, 15, 16, 17, 18]
    assert stage.is_whole()


def test_tag_that_was_made_since_the_table_was_loaded_keeps_its_snapshot(stage: Stage) -> None:
    stage.append(5)
    stage.loaded.manage_snapshots().create_tag(stage.id_of(1), "audit").commit()
    stage.append(1)
    assert stage.numbers == [1, 2, 3, 4, 5, 6]
    assert stage.loaded.metadata.refs["audit"].snapshot_id == stage.id_of(1)


def test_rules_that_main_has_of_its_own_survive_our_commits_and_count(stage: Stage) -> None:
    stage.append(1)
    update = stage.loaded.transaction()
    main = update.table_metadata.refs["main"]
    update._apply(update._set_ref_snapshot(main.snapshot_id, "main", "branch", min_snapshots_to_keep=7)[0])
    update.commit_transaction()
    stage.append(11)
    assert stage.loaded.metadata.refs["main"].min_snapshots_to_keep == 7
    assert len(stage.numbers) == 7


def test_snapshots_that_another_program_expired_first_are_no_harm(stage: Stage) -> None:
    stage.append(5)
    stage.loaded.maintenance.expire_snapshots().by_ids([stage.id_of(number) for number in (1, 2, 3)]).commit()
    stage.append(1)
    assert stage.numbers == [4, 5, 6]
    stage.append(3)
    assert stage.numbers == [5, 6, 7, 8, 9]
    assert stage.is_whole()


def test_expiry_alone_is_a_commit_only_where_something_goes(stage: Stage) -> None:
    stage.append(4)
    before = reopened(stage.folder)
    assert stage.writer.expire(before).expired == 0
    assert reopened(stage.folder).metadata_location == before.metadata_location
    stage.clock.at_ms += 1000 * HOUR_MS
    assert stage.writer.expire(before).expired == 2
    assert stage.numbers == [3, 4]
    assert reopened(stage.folder).snapshot_id == before.snapshot_id
    assert stage.writer.expire(before, HistoryLimits(max_age_ms=1, min_snapshots=1)).expired == 1
    stage.append(1)
    assert stage.is_whole()


def test_statistics_go_with_their_snapshots(stage: Stage) -> None:
    stage.append(5)
    with stage.loaded.update_statistics() as statistics:
        for number in (1, 5):
            statistics.set_statistics(_statistics_of(stage.id_of(number)))
    partition_statistics = PartitionStatisticsFile(
        snapshot_id=stage.id_of(1), statistics_path="p.parquet", file_size_in_bytes=1
    )
    update = stage.loaded.transaction()
    update._apply((SetPartitionStatisticsUpdate(partition_statistics=partition_statistics),))
    update.commit_transaction()
    stage.append(1)
    metadata = stage.loaded.metadata
    assert [one.snapshot_id for one in metadata.statistics] == [stage.id_of(5)]
    assert metadata.partition_statistics == []
    assert stage.is_whole()


def _statistics_of(snapshot_id: int) -> StatisticsFile:
    return StatisticsFile(
        snapshot_id=snapshot_id,
        statistics_path=f"{snapshot_id}.puffin",
        file_size_in_bytes=1,
        file_footer_size_in_bytes=1,
        blob_metadata=[],
    )


def test_rollback_over_expired_snapshots_is_told_as_one_and_undone(stage: Stage) -> None:
    stage.append(2)
    stage.loaded.manage_snapshots().create_tag(stage.id_of(1), "audit").commit()
    stage.append(7)
    newest = stage.id_of(9)
    stage.loaded.manage_snapshots().set_current_snapshot(snapshot_id=stage.id_of(1)).commit()
    with pytest.raises(Corrupt, match="history lacks Floeberg's newest commit: ") as raised:
        stage.writer.open(stage.table.topic, stage.table.topic_id)
    assert raised.value.next_step is not None
    assert raised.value.next_step.startswith(f"CALL system.set_current_snapshot('kafka.orders', {newest})")
    stage.loaded.manage_snapshots().set_current_snapshot(snapshot_id=newest).commit()
    stage.append(1)
    assert stage.is_whole()


def test_manifests_that_this_process_wrote_need_no_reading_of_all_once_no_summary_tells_of_them(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    proven = []
    monkeypatch.setattr("engine.table.sealed_snapshot.SealedProducer._prove_all", lambda _: proven.append(1))
    stage.append(25)
    assert stage.numbers == [21, 22, 23, 24, 25]
    assert not proven
    assert stage.is_whole()
