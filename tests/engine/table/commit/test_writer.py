from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table.update import AssertRefSnapshotId

from engine.errors import CommitUnknown, Corrupt, Invalid, Unavailable
from engine.offset_range import OffsetRange
from engine.parquet.settings import ParquetSettings
from engine.records.digest import EMPTY_DIGEST
from engine.table.catalog.access import open_catalog
from engine.table.commit import session as table_session
from engine.table.commit.change import ColumnsUpdate
from engine.table.commit.range_append import RangeAppend
from engine.table.commit.schema_change import AddSchemas, stage_columns
from engine.table.commit.transaction import TableTransaction
from engine.table.commit.turns import WAITS
from engine.table.commit.writer import TableWriter
from engine.table.ledger import Outcome
from tests.engine.table.catalog.faulty_catalog import FaultyCatalog
from tests.engine.table.table_examples import (
    TOPIC,
    TOPIC_ID,
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


def test_files_and_ledger_appear_in_one_commit(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    first = append_of(table, 0, 100)
    result = writer.commit(table, [first, append_of(table, 50, 60, partition=1)])
    assert {r.outcome for r in result.results} == {Outcome.COMMITTED}
    seen = reopened(tmp_path)
    assert seen == result.table
    assert seen.ledger[0].range == OffsetRange(start=0, end=100)
    assert seen.ledger[0].digest == first.digest
    assert seen.ledger[1].range == OffsetRange(start=50, end=60)
    assert stored_offsets(tmp_path, seen) == list(range(100))
    snapshots = catalog_in(tmp_path).load_table(table.identifier).metadata.snapshots
    assert len(snapshots) == 1
    assert snapshots[0].summary["floeberg.range.0"] == "[[0, 100]]"


def test_each_append_stands_or_falls_by_itself(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    assert outcomes(writer, table, append_of(table, 0, 10, epoch=5)) == [Outcome.COMMITTED]
    found = outcomes(
        writer,
        table,
        append_of(table, 20, 30, epoch=5, attempt="later"),
        append_of(table, 10, 20, epoch=5),
        append_of(table, 0, 5, epoch=5, attempt="again"),
        append_of(table, 0, 10, partition=1),
        append_of(table, 40, 50, epoch=5),
        append_of(table, 30, 40, epoch=4),
        append_of(table, 25, 35, epoch=5),
    )
    assert found == [
        Outcome.COMMITTED,
        Outcome.COMMITTED,
        Outcome.ALREADY_THERE,
        Outcome.COMMITTED,
        Outcome.GAP,
        Outcome.FENCED,
        Outcome.OVERLAP,
    ]
    assert stored_offsets(tmp_path, table) == list(range(30))


def test_second_commit_of_a_range_adds_nothing(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    outcomes(writer, table, append_of(table, 0, 10))
    before = reopened(tmp_path)
    again = open_writer(tmp_path)
    assert outcomes(again, before, append_of(table, 0, 10, attempt="again")) == [Outcome.ALREADY_THERE]
    assert reopened(tmp_path).snapshot_id == before.snapshot_id


def test_range_without_records_is_covered_and_known_to_be_empty(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    found = outcomes(writer, table, append_of(table, 0, 10), empty_append(10, 20), empty_append(20, 25))
    assert found == [Outcome.COMMITTED] * 3
    seen = reopened(tmp_path)
    assert seen.ledger[0].end == 25
    assert seen.ledger[0].digest.record_count == 10
    assert seen.empty == {0: (OffsetRange(start=10, end=25),)}
    assert outcomes(writer, seen, empty_append(25, 26)) == [Outcome.COMMITTED]
    assert reopened(tmp_path).empty == {0: (OffsetRange(start=10, end=26),)}


def test_offsets_that_kafka_deleted_are_recorded_and_bridged(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    outcomes(writer, table, append_of(table, 0, 10))
    skipped = OffsetRange(start=10, end=40)
    assert outcomes(writer, table, append_of(table, 40, 50)) == [Outcome.GAP]
    assert outcomes(writer, table, append_of(table, 40, 50, skipped=skipped, attempt="b")) == [Outcome.COMMITTED]
    seen = reopened(tmp_path)
    assert seen.skipped == {0: (skipped,)}
    assert seen.ledger[0].range == OffsetRange(start=0, end=50)


def test_settings_of_the_first_commit_are_remembered(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    settings = ParquetSettings(encodings={"value": "PLAIN"})
    assert writer.commit(table, [append_of(table, 0, 10)], settings).table.settings == settings
    assert reopened(tmp_path).facts.settings == settings


def test_writer_with_an_old_state_decides_on_the_new_one(tmp_path: Path) -> None:
    mine, theirs = open_writer(tmp_path), open_writer(tmp_path)
    table = ensure_table(mine)
    ensure_table(theirs)
    assert outcomes(mine, table, append_of(table, 0, 10)) == [Outcome.COMMITTED]
    assert outcomes(theirs, table, append_of(table, 0, 10, attempt="b")) == [Outcome.ALREADY_THERE]
    assert outcomes(mine, table, append_of(table, 10, 20)) == [Outcome.COMMITTED]
    assert outcomes(theirs, table, append_of(table, 20, 30)) == [Outcome.COMMITTED]
    assert outcomes(mine, table, append_of(table, 0, 10, partition=1)) == [Outcome.COMMITTED]
    assert stored_offsets(tmp_path, table) == list(range(30))


def test_owner_with_an_older_epoch_is_fenced_by_a_commit_it_has_not_seen(tmp_path: Path) -> None:
    old, new = open_writer(tmp_path), open_writer(tmp_path)
    table = ensure_table(old)
    ensure_table(new)
    assert outcomes(old, table, append_of(table, 0, 10, epoch=1)) == [Outcome.COMMITTED]
    assert outcomes(new, table, empty_append(10, 20, epoch=2)) == [Outcome.COMMITTED]
    assert outcomes(old, table, append_of(table, 20, 30, epoch=1)) == [Outcome.FENCED]
    assert stored_offsets(tmp_path, table) == list(range(10))


@pytest.mark.parametrize(
    "faults",
    [
        ["conflict"],
        ["lost before"],
        ["lost after"],
        ["conflict after"],
        ["broken pipe after"],
        ["conflict", "lost before", "conflict", "lost after"],
    ],
)
def test_range_is_stored_once_whatever_becomes_of_the_answer(tmp_path: Path, faults: list[str]) -> None:
    catalog = catalog_in(tmp_path)
    clock, told = StillClock(), []
    writer = TableWriter(catalog, clock, on_commit=lambda kind, took_ms: told.append((kind, took_ms)))
    table = ensure_table(writer)
    faulty = FaultyCatalog(catalog)
    faulty.faults = list(faults)
    assert outcomes(writer, table, append_of(table, 0, 10)) == [Outcome.COMMITTED]
    assert outcomes(writer, table, append_of(table, 10, 20)) == [Outcome.COMMITTED]
    assert stored_offsets(tmp_path, table) == list(range(20))
    assert clock.waited_ms, "a failed attempt is followed by a wait"
    assert [kind for kind, _ in told] == ["append_ranges"] * 2, "each commit that landed is told once"


def test_commit_without_an_answer_and_without_a_catalog_stays_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = catalog_in(tmp_path)
    writer = TableWriter(catalog, StillClock())
    table = ensure_table(writer)
    real_commit = catalog.commit_table

    def away(*_: object) -> None:
        raise ConnectionError("planted")

    def commit_and_vanish(*arguments: Any) -> None:
        real_commit(*arguments)
        monkeypatch.setattr(catalog, "load_table", away)
        away()

    append = append_of(table, 0, 10)
    monkeypatch.setattr(catalog, "commit_table", commit_and_vanish)
    with pytest.raises(CommitUnknown):
        writer.commit(table, [append])
    monkeypatch.undo()
    assert outcomes(writer, table, append) == [Outcome.ALREADY_THERE]
    assert stored_offsets(tmp_path, table) == list(range(10))


def test_conflicts_without_end_are_given_up_with_bounded_waits(tmp_path: Path) -> None:
    catalog = catalog_in(tmp_path)
    clock = StillClock()
    writer = TableWriter(catalog, clock)
    table = ensure_table(writer)
    FaultyCatalog(catalog).faults = ["conflict"] * 1000
    with pytest.raises(Unavailable, match="20 times"):
        writer.commit(table, [append_of(table, 0, 10)])
    assert len(clock.waited_ms) == table_session.COMMIT_ATTEMPTS
    assert max(clock.waited_ms) <= WAITS.longest_ms
    assert len(set(clock.waited_ms)) > len(clock.waited_ms) / 2, "the waits of two processes must differ"


def test_log_start_moves_forward_only_and_never_beyond_what_is_stored(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    outcomes(writer, table, append_of(table, 0, 100))
    assert writer.move_horizons(table, log_starts={0: 40}).ledger[0].log_start == 40
    assert writer.move_horizons(table, log_starts={0: 30}).ledger[0].log_start == 40
    with pytest.raises(Invalid, match="partition 7"):
        writer.move_horizons(table, log_starts={7: 0})
    assert outcomes(writer, table, append_of(table, 100, 110)) == [Outcome.COMMITTED]
    assert reopened(tmp_path).ledger[0].log_start == 40
    assert writer.move_horizons(table, log_starts={0: 1000}).ledger[0].log_start == 110


def test_change_of_the_ledger_alone_is_guarded_like_an_append(tmp_path: Path) -> None:
    mine, theirs = open_writer(tmp_path), open_writer(tmp_path)
    table = ensure_table(mine)
    ensure_table(theirs)
    outcomes(mine, table, append_of(table, 0, 100))
    theirs.open(TOPIC, TOPIC_ID)
    outcomes(mine, table, append_of(table, 100, 200))
    assert theirs.move_horizons(table, log_starts={0: 50}).ledger[0].end == 200
    assert outcomes(mine, table, append_of(table, 200, 210)) == [Outcome.COMMITTED]
    assert reopened(tmp_path).ledger[0].log_start == 50


def test_schemas_are_stored_long_ones_beside_the_tables_folder(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    long = '"' + "x" * (64 << 10) + '"'
    table = writer.add_schemas(table, {7: '"string"', 8: long})
    assert table.codec.schemas == {7: '"string"', 8: long}
    assert reopened(tmp_path).codec.schemas == table.codec.schemas
    before = reopened(tmp_path).metadata_location
    assert writer.add_schemas(table, {7: '"string"'}).metadata_location == before
    with pytest.raises(Invalid, match="another text"):
        writer.add_schemas(table, {7: '"bytes"'})
    properties = catalog_in(tmp_path).load_table(table.identifier).properties
    assert "floeberg.schema.8" not in properties
    assert properties["floeberg.schema_file.8"].startswith(f"{table.location}-floeberg/schemas/8-")


def test_commit_that_names_a_schemas_file_asserts_the_snapshot_it_was_decided_on(tmp_path: Path) -> None:
    table = ensure_table(open_writer(tmp_path))
    transaction = TableTransaction(catalog_in(tmp_path).load_table(table.identifier), StillClock().now_ms())
    for text, asserted in (('"string"', 0), ('"' + "x" * (64 << 10) + '"', 1)):
        update = AddSchemas(value_format=table.codec.name, schemas={8: text}, on_conflict=None).decide(table).update
        assert isinstance(update, ColumnsUpdate)
        stage_columns(transaction, table, update)
        assert sum(isinstance(one, AssertRefSnapshotId) for one in transaction._requirements) == asserted


def test_ledger_that_somebody_spoiled_is_corrupt(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    outcomes(writer, table, append_of(table, 0, 5))
    with catalog_in(tmp_path).load_table(table.identifier).transaction() as transaction:
        transaction.set_properties({"floeberg.ledger.0": "{}"})
    with pytest.raises(Corrupt, match="fsck"):
        open_writer(tmp_path).open(TOPIC, TOPIC_ID)


def test_catalog_that_is_away_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        open_catalog({"type": "rest", "uri": "http://127.0.0.1:1/"})
    with pytest.raises(Invalid):
        open_catalog({"type": "no such thing"})
    with pytest.raises(Unavailable):
        open_catalog({"type": "sql", "uri": f"sqlite:///{tmp_path}", "warehouse": f"file://{tmp_path}"})


def test_proof_for_another_range_is_refused(tmp_path: Path) -> None:
    table = ensure_table(open_writer(tmp_path))
    append = append_of(table, 0, 5)
    for changed in ({"range": OffsetRange(start=0, end=6)}, {"partition": 1}, {"digest": EMPTY_DIGEST}, {"file": None}):
        arguments = {
            "partition": 0,
            "range": append.range,
            "leader_epoch": 3,
            "digest": append.digest,
            "file": append.file,
        }
        with pytest.raises(Invalid):
            RangeAppend(**{**arguments, **changed})
