"""Whether a table's folder still holds what was erased, and what an auditor's report says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import Corrupt, Invalid
from engine.table.history import MAY_BE_UNANSWERED_MS
from engine.table.reachability import ReachableFiles
from floeberg.sql.duckdb_condition import DuckdbCondition
from floeberg.tables.erasure import Eraser
from retention.erasure_report import ErasureReport, ErasureReports
from retention.erasure_scan import Matcher, scan
from retention.sweep_limits import SweepLimits
from retention.sweep_planner import Reason
from retention.table_sweep import TableSweep
from tests.engine.table.merge.merge_world import MergeWorld
from tests.engine.table.table_examples import TEXT, TOPIC, TOPIC_ID, catalog_in, records_of
from tests.retention.erasure_world import ErasureWorld

NAMES = ("alice.liddell", "bob.roberts", "carol.danvers")


@pytest.fixture
def world(tmp_path: Path) -> ErasureWorld:
    """Three files, in each a record of each name, which stands in key, value and headers."""
    stored = MergeWorld(tmp_path, TEXT)
    for number in range(3):
        names = [name.encode() for name in NAMES]
        values = [b"%s bought %d" % (name, number) for name in names]
        stored.append(records_of(values, start=number * 3, keys=names, headers=[[(b"who", name)] for name in names]))
    return ErasureWorld(stored)


def let_the_past_go(world: ErasureWorld) -> None:
    """The history ends once nobody's commit is unanswered; files that nothing names any more are removed."""
    world.clock.later_ms = 2 * MAY_BE_UNANSWERED_MS
    world.writer.expire(world.table)
    table = world.table
    metadata = catalog_in(world.stored.folder).load_table(table.identifier).metadata
    named = ReachableFiles().of(table, metadata)
    for file in table.warehouse.list(table.location):
        if not named.is_named(file.path):
            table.warehouse.delete(file.path)


def sweep_of(world: ErasureWorld, limits: SweepLimits) -> TableSweep:
    return TableSweep(
        topic=TOPIC,
        topic_id=TOPIC_ID,
        catalog=catalog_in(world.stored.folder),
        namespace="kafka",
        writer=world.writer,
        clock=world.clock,
        limits=limits,
        folder=world.stored.folder / "sweep",
    )


def test_scan_finds_what_is_still_there_and_nothing_once_the_past_is_gone(world: ErasureWorld) -> None:
    old = {file.path for file in world.stored.files()}
    report = world.erase("alice.liddell")
    assert report.history_until_ms is not None
    keys = [b"alice.liddell"]
    before = scan(world.table, Matcher(world.table, report), keys)
    assert before.records == dict.fromkeys(old, 1)
    assert old < set(before.bytes_in), "manifests of before have it in their bounds"
    assert any(path.endswith(".avro") for path in before.bytes_in)
    assert before.unread == {}
    let_the_past_go(world)
    after = scan(world.table, Matcher(world.table, report), keys)
    assert after.is_clean
    assert after.files > 3
    assert len(world.consumed()) == 6
    for path, content in world.bytes_below():
        assert b"alice" not in content, path
    assert scan(world.table, Matcher(world.table, report), [b"bob.roberts"]).bytes_in


def test_scan_of_a_condition_goes_by_offsets_or_by_the_condition_given_again(world: ErasureWorld) -> None:
    where = "kafka_key = 'bob.roberts' AND kafka_offset > 2"
    report = world.erase(where=where)
    table = world.table
    for matcher in (Matcher(table, report), Matcher(table, report, DuckdbCondition(table, where))):
        assert sum(scan(table, matcher).records.values()) == 2
    report.partitions[0].offsets = None
    with pytest.raises(Invalid, match="too many"):
        Matcher(table, report)
    let_the_past_go(world)
    assert scan(world.table, Matcher(world.table, report, DuckdbCondition(table, where))).is_clean


def test_file_that_nothing_names_is_looked_through_and_one_that_is_none_is_told(world: ErasureWorld) -> None:
    old = world.stored.files()[0]
    report = world.erase("alice.liddell")
    let_the_past_go(world)
    folder = Path(world.stored.files()[0].path.removeprefix("file://")).parent
    copied = folder / Path(old.path).name
    world.stored.append(records_of([b"x"], start=9, keys=[b"alice.liddell"]))
    found = scan(world.table, Matcher(world.table, report))
    assert list(found.records.values()) == [1], "a record of the key that came after the erasure is there"
    copied.write_bytes(b"no file of ours")
    found = scan(world.table, Matcher(world.table, report))
    assert list(found.unread) == [f"file://{copied}"]


def test_key_in_the_value_of_another_is_no_match_and_its_bytes_are_told(world: ErasureWorld) -> None:
    world.stored.append(records_of([b"a present for alice.liddell"], start=9, keys=[b"dave"]))
    report = world.erase("alice.liddell")
    let_the_past_go(world)
    found = scan(world.table, Matcher(world.table, report), [b"alice.liddell"])
    assert found.records == {}
    assert world.stored.files()[-1].path in found.bytes_in


def test_report_keeps_no_key_and_finds_it_again(world: ErasureWorld) -> None:
    world.erase("alice.liddell", "bob.roberts")
    reports = world.reports
    (erasure_id,) = reports.ids()
    text = reports.warehouse.read_bytes(reports.path(erasure_id)).decode()
    assert "alice" not in text
    report = reports.get(erasure_id[:6])
    assert report.to_json() == text
    assert report.hashed(b"alice.liddell") in report.keys
    assert report.hashed(b"carol.danvers") not in report.keys
    assert report.ended_ms is not None
    assert {file.path for file in world.stored.files()}.isdisjoint(report.files)
    second = world.erase("alice.liddell")
    assert set(report.keys).isdisjoint(second.keys), "each has a salt of its own"
    with pytest.raises(Invalid, match="begins with"):
        reports.get("nothing")


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"\xff"])
def test_report_that_is_damaged_is_told(world: ErasureWorld, text: bytes) -> None:
    report = world.erase("alice.liddell")
    world.reports.warehouse.write_bytes(world.reports.path(report.erasure_id), text)
    with pytest.raises(Corrupt, match="can't be read"):
        world.reports.get(report.erasure_id)


def test_tag_and_branch_that_keep_old_files_are_named(world: ErasureWorld) -> None:
    loaded = catalog_in(world.stored.folder).load_table(world.table.identifier)
    assert loaded.metadata.current_snapshot_id is not None
    loaded.manage_snapshots().create_tag(loaded.metadata.current_snapshot_id, "audit").commit()
    report = world.erase("alice.liddell")
    assert report.kept_by == ("the tag audit names 3 of the old files",)
    world.clock.later_ms = 2 * MAY_BE_UNANSWERED_MS
    world.writer.expire(world.table)
    named = Eraser.still_named(catalog_in(world.stored.folder), world.table, report)
    assert named == ["the tag audit names 3 of the old files", "the table's history names old files"]
    loaded = catalog_in(world.stored.folder).load_table(world.table.identifier)
    loaded.manage_snapshots().remove_tag("audit").commit()
    world.writer.expire(world.table)
    assert Eraser.still_named(catalog_in(world.stored.folder), world.table, report) == []


def test_history_is_cut_once_no_commit_can_be_unanswered(world: ErasureWorld) -> None:
    report = world.erase("alice.liddell")
    metadata = catalog_in(world.stored.folder).load_table(world.table.identifier).metadata
    assert len(metadata.snapshots) == 4
    assert report.history_until_ms == metadata.snapshots[-2].timestamp_ms + MAY_BE_UNANSWERED_MS
    world.clock.later_ms = 2 * MAY_BE_UNANSWERED_MS
    world.stored.writer = world.writer
    world.stored.append(records_of([b"x"], start=9))
    metadata = catalog_in(world.stored.folder).load_table(world.table.identifier).metadata
    assert [snapshot.summary is not None for snapshot in metadata.snapshots] == [True, True]
    assert world.erase("nobody").history_until_ms is None


def test_report_of_two_commits_adds_up(world: ErasureWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retention.erasure.FILES_A_COMMIT", 1)
    before = world.table.ledger[0].digest.to_text()
    report = world.erase("alice.liddell")
    (partition,) = report.partitions.values()
    assert (partition.records, len(partition.files), partition.before) == (3, 3, before)
    assert partition.after == world.table.ledger[0].digest.to_text()
    (erasure,) = world.table.erased[0].erasures
    assert (erasure.record_count, erasure.count, erasure.before.to_text()) == (3, 1, before)


def test_reports_lie_beside_the_tables_folder(world: ErasureWorld) -> None:
    report = world.erase("alice.liddell")
    path = world.reports.path(report.erasure_id)
    assert not path.startswith(f"{world.table.location.rstrip('/')}/")
    moved = replace(world.reports, location="file:///nowhere")
    assert isinstance(moved, ErasureReports)
    assert moved.ids() == ()
    assert isinstance(report, ErasureReport)


def test_records_that_only_the_stream_has_go_with_their_past(world: ErasureWorld) -> None:
    table = world.table
    world.writer.move_horizons(table, log_starts={0: 0}, table_starts={0: 6})
    assert len(world.consumed()) == 9
    report = world.erase("alice.liddell")
    assert (report.record_count, report.left, report.kept_by) == (3, (), ())
    assert len(world.consumed()) == 6
    let_the_past_go(world)
    assert scan(world.table, Matcher(world.table, report), [b"alice.liddell"]).is_clean
    metadata = catalog_in(world.stored.folder).load_table(world.table.identifier).metadata
    assert len(metadata.snapshots) == 2, "the newest of the table, and that of the stream's branch"


def test_sweep_of_a_quiet_table_cuts_the_history_and_removes_the_files(world: ErasureWorld) -> None:
    """By the time that the report says, with nobody committing."""
    limits = SweepLimits()
    report = world.erase("alice.liddell")
    assert report.gone_by_ms is not None
    begin_ms = world.clock.now_ms()

    while begin_ms + world.clock.later_ms < report.gone_by_ms:
        world.clock.later_ms += limits.interval_ms
        sweep_of(world, limits).turn()
    table = world.table
    left = {file.path for file in table.warehouse.list(table.location)}
    assert left.isdisjoint(report.files)
    found = scan(table, Matcher(table, report), [b"alice.liddell"])
    assert found.is_clean
    assert len(world.consumed()) == 6


def test_files_that_only_a_past_from_before_an_erasure_names_are_told_apart(world: ErasureWorld) -> None:
    def by_reason() -> dict[Reason, set[str]]:
        told: dict[Reason, set[str]] = {reason: set() for reason in Reason}
        sweep_of(world, SweepLimits()).preview(lambda one: told[one.reason].add(one.file.path))
        return told

    assert by_reason()[Reason.ERASED] == set()
    loaded = catalog_in(world.stored.folder).load_table(world.table.identifier)
    assert loaded.metadata.current_snapshot_id is not None
    loaded.manage_snapshots().create_tag(loaded.metadata.current_snapshot_id, "audit").commit()
    report = world.erase("alice.liddell")
    world.stored.writer = world.writer
    world.stored.append(records_of([b"x"], start=9))
    told = by_reason()
    assert set(report.files) <= told[Reason.ERASED], "they hold what was erased"
    assert all(path.endswith((".parquet", ".avro")) for path in told[Reason.ERASED])
    assert {file.path for file in world.stored.files()} <= told[Reason.LIVE]
    assert any(path.endswith(".avro") for path in told[Reason.HISTORY]), "the list of the erasure's own snapshot"
    world.clock.later_ms = 2 * MAY_BE_UNANSWERED_MS
    world.writer.expire(world.table)
    assert set(report.files) <= by_reason()[Reason.ERASED], "the tag keeps them"
