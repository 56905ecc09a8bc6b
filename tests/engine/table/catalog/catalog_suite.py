"""What a catalog must do for the TableWriter. A subclass gives ``properties``: a catalog that may hold other tables."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from engine.clock import SystemClock
from engine.errors import Corrupt, Unavailable
from engine.formats.codec import CodecSpec
from engine.formats.proposals import first_fields
from engine.offset_range import OffsetRange
from engine.table.columns import TableLayout
from engine.table.commit.change import SnapshotUpdate
from engine.table.commit.horizon_move import MoveHorizons
from engine.table.commit.range_append import AppendRanges, RangeAppend
from engine.table.commit.replacement import FileReplacement
from engine.table.commit.retype import FooterDigests
from engine.table.commit.retype_plan import RetypePlan
from engine.table.commit.transaction import CommitConflict, TableTransaction
from engine.table.commit.writer import TableWriter
from engine.table.history_limits import HistoryLimits
from engine.table.ledger import Outcome
from engine.table.manifests import ManifestReader
from engine.table.proof.verifier import Verifier
from engine.table.sealed_snapshot import AppendFiles
from engine.table.stream_branch import STREAM_BRANCH
from engine.table.topic_table import TopicTable
from tests.engine.table.catalog.catalog_names import NamesSuite
from tests.engine.table.catalog.catalog_under_test import OTHER_ID, CatalogUnderTest
from tests.engine.table.catalog.faulty_catalog import FaultyCatalog
from tests.engine.table.table_examples import (
    CLUSTER_ID,
    TEXT,
    TEXT_FIELDS,
    TOPIC,
    TOPIC_ID,
    StillClock,
    append_of,
    empty_append,
    ensure_table,
    outcomes,
)


def staged(found: Table, view: TopicTable, append: RangeAppend) -> TableTransaction:
    transaction = TableTransaction(found, StillClock().now_ms())
    update = AppendRanges([append]).decide(view).update
    assert isinstance(update, SnapshotUpdate)
    transaction.stage_snapshot(AppendFiles, [update])
    return transaction


def expires_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's clock can't be moved on."""
    monkeypatch.setattr("engine.table.history.MAY_BE_UNANSWERED_MS", 0)
    monkeypatch.setattr("engine.table.commit.session.EXPIRY_INTERVAL_MS", 0)


class CatalogSuite(NamesSuite):
    @pytest.fixture
    def under_test(self, properties: dict[str, str]) -> CatalogUnderTest:
        return CatalogUnderTest(properties)

    def test_horizon_that_files_pass_moves_two_branches_at_once_and_asserts_both(
        self, under_test: CatalogUnderTest
    ) -> None:
        writer, rival = under_test.writer(), under_test.writer()
        table = ensure_table(writer)
        for start in (0, 10, 20):
            table = writer.commit(table, [append_of(table, start, start + 10)]).table
        rival.open(TOPIC, TOPIC_ID)
        writer.move_horizons(table, table_starts={0: 10})
        seen = rival.move_horizons(table, log_starts={0: 15}, table_starts={0: 20})
        files = ManifestReader().files(under_test.reopened())
        assert [[file.range.start for file in listed] for listed in (files.own, files.stream)] == [[20], [10]]
        assert (seen.ledger[0].held.start, under_test.reopened().foreign) == (10, None)
        assert under_test.offsets(seen) == list(range(20, 30))
        loaded = under_test.loaded(table)
        late = TableTransaction(loaded, StillClock().now_ms())
        update = MoveHorizons(log_starts={0: 20}).decide(seen).update
        assert isinstance(update, SnapshotUpdate)
        late.stage_snapshot(AppendFiles, [update])
        loaded.manage_snapshots().remove_branch(STREAM_BRANCH).commit()
        with pytest.raises(CommitConflict):
            late.commit_once()

    def test_file_takes_the_place_of_another_and_a_second_one_comes_too_late(
        self, under_test: CatalogUnderTest
    ) -> None:
        writer = under_test.writer()
        table = writer.commit(ensure_table(writer), [append_of(ensure_table(writer), 0, 10)]).table
        (old,) = ManifestReader().files(table).own
        mine, theirs = (append_of(table, 0, 10, attempt=attempt) for attempt in ("mine", "theirs"))
        assert mine.file is not None
        assert theirs.file is not None
        rival = under_test.writer()
        other = FileReplacement(old=(old,), digest=theirs.digest, new=(theirs.file,))
        found = rival.replace(under_test.reopened(), [other])
        assert found.outcomes == (Outcome.COMMITTED,)
        result = writer.replace(table, [FileReplacement(old=(old,), digest=mine.digest, new=(mine.file,))])
        assert result.outcomes == (Outcome.GONE,)
        seen = under_test.reopened()
        assert (seen.ledger, seen.foreign) == (table.ledger, None)
        assert [file.path for file in ManifestReader().files(seen).own] == [theirs.file.description.path]
        assert under_test.offsets(seen) == list(range(10))
        current = under_test.catalog().load_table(seen.identifier).metadata.current_snapshot()
        assert current is not None
        assert current.summary is not None
        assert current.summary.operation.value == "replace"

    def test_files_and_ledger_appear_in_one_commit(self, under_test: CatalogUnderTest) -> None:
        writer = under_test.writer()
        table = ensure_table(writer)
        first = append_of(table, 0, 100)
        result = writer.commit(table, [first, empty_append(50, 60, partition=1)])
        assert {item.outcome for item in result.results} == {Outcome.COMMITTED}
        seen = under_test.reopened()
        assert seen == result.table
        assert (seen.ledger[0].range, seen.ledger[0].digest) == (OffsetRange(start=0, end=100), first.digest)
        assert seen.empty == {1: (OffsetRange(start=50, end=60),)}
        assert under_test.offsets(seen) == list(range(100))
        assert len(under_test.catalog().load_table(seen.identifier).metadata.snapshots) == 1
        assert Verifier().verified_range(seen, 0, OffsetRange(start=0, end=100)) is not None

    def test_writer_with_an_old_state_decides_on_the_new_one(self, under_test: CatalogUnderTest) -> None:
        mine, theirs = under_test.writer(), under_test.writer()
        table = ensure_table(mine)
        ensure_table(theirs)
        assert outcomes(mine, table, append_of(table, 0, 10)) == [Outcome.COMMITTED]
        assert outcomes(theirs, table, append_of(table, 0, 10, attempt="b")) == [Outcome.ALREADY_THERE]
        assert outcomes(mine, table, append_of(table, 10, 20)) == [Outcome.COMMITTED]
        assert outcomes(theirs, table, append_of(table, 20, 30)) == [Outcome.COMMITTED]
        assert outcomes(mine, table, append_of(table, 30, 40, epoch=2)) == [Outcome.FENCED]
        assert under_test.offsets(table) == list(range(30))

    @pytest.mark.parametrize("start", [0, 10], ids=["first_snapshot", "later_snapshot"])
    def test_of_two_commits_on_one_state_the_second_is_a_conflict(
        self, under_test: CatalogUnderTest, start: int
    ) -> None:
        writer = under_test.writer()
        table = ensure_table(writer)
        if start:
            writer.commit(table, [append_of(table, 0, start)])
        view = under_test.reopened()
        loaded = [under_test.catalog().load_table(view.identifier) for _ in range(2)]
        appends = [append_of(table, start, start + 5, attempt=attempt) for attempt in ("b", "c")]
        first, second = (staged(found, view, append) for found, append in zip(loaded, appends, strict=True))
        first.commit_once()
        with pytest.raises(CommitConflict):
            second.commit_once()
        assert under_test.offsets(table) == list(range(start + 5))
        assert under_test.reopened().metadata_location == loaded[0].metadata_location

    def test_commit_never_reaches_another_table_of_the_same_name(self, under_test: CatalogUnderTest) -> None:
        table = ensure_table(under_test.writer())
        catalog = under_test.catalog()
        stale = catalog.load_table(table.identifier)
        late = staged(stale, table, append_of(table, 0, 5))
        catalog.rename_table(table.identifier, (*table.identifier[:-1], "aside"))
        with pytest.raises(CommitConflict):
            late.commit_once()
        ensure_table(under_test.writer(), topic_id=OTHER_ID)
        with pytest.raises(CommitConflict):
            late.commit_once()
        assert under_test.reopened(OTHER_ID).ledger == {}

    def test_change_of_properties_alone_is_laid_over_no_ledger(self, under_test: CatalogUnderTest) -> None:
        mine, theirs = under_test.writer(), under_test.writer()
        table = ensure_table(mine)
        theirs.open(TOPIC, TOPIC_ID)
        mine.commit(table, [append_of(table, 0, 100)])
        long = '"' + "x" * (64 << 10) + '"'
        theirs.add_schemas(table, {7: '"string"', 8: long})
        assert mine.move_horizons(table, log_starts={0: 40}).codec.schemas == {7: '"string"', 8: long}
        seen = under_test.reopened()
        assert (seen.ledger[0].end, seen.ledger[0].log_start) == (100, 40)
        assert seen.codec.schemas == {7: '"string"', 8: long}

    def test_old_snapshots_go_with_commits_and_a_tag_keeps_its_own(
        self, under_test: CatalogUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expires_at_once(monkeypatch)
        writer = under_test.writer(history=HistoryLimits(max_age_ms=1, min_snapshots=2), clock=SystemClock())
        table = ensure_table(writer)
        writer.commit(table, [append_of(table, 0, 10)])
        for start in (10, 20, 30):
            writer.commit(table, [append_of(table, start, start + 10)])
        assert len(under_test.loaded(table).snapshots()) == 2
        older = under_test.loaded(table).snapshots()[0].snapshot_id
        under_test.loaded(table).manage_snapshots().create_tag(older, "audit").commit()
        for start in (40, 50):
            assert outcomes(writer, table, append_of(table, start, start + 10)) == [Outcome.COMMITTED]
        found = under_test.loaded(table).metadata
        # Where a look costs a request, the one that a commit makes too many goes with the next.
        assert [one.sequence_number for one in found.snapshots] in ([3, 5, 6], [3, 4, 5, 6])
        assert found.refs["audit"].snapshot_id == older
        assert {entry.snapshot_id for entry in found.snapshot_log} == {one.snapshot_id for one in found.snapshots}
        assert under_test.reopened().foreign is None
        assert under_test.offsets(table) == list(range(60))

    def test_snapshot_that_was_expired_or_named_in_between_is_no_harm(
        self, under_test: CatalogUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expires_at_once(monkeypatch)
        writer = under_test.writer(history=HistoryLimits(max_age_ms=1, min_snapshots=3), clock=SystemClock())
        table = ensure_table(writer)
        for start in (0, 10, 20):
            writer.commit(table, [append_of(table, start, start + 10)])
        oldest = under_test.loaded(table).snapshots()[0].snapshot_id
        under_test.loaded(table).maintenance.expire_snapshots().by_id(oldest).commit()
        assert outcomes(writer, table, append_of(table, 30, 40)) == [Outcome.COMMITTED]
        assert len(under_test.loaded(table).snapshots()) == 3
        assert under_test.offsets(table) == list(range(40))

    def test_columns_are_added_at_every_level_by_whoever_comes_first(self, under_test: CatalogUnderTest) -> None:
        writers = [under_test.writer(), under_test.writer()]
        table = ensure_table(writers[0])
        writers[0].commit(table, [append_of(table, 0, 5)])
        ensure_table(writers[1])
        inner = [pa.field("a", pa.int32()), pa.field("b", pa.string())]
        for depth in (1, 2):
            fields = [*TEXT_FIELDS, pa.field("n", pa.struct(inner[:depth]))]
            for writer in writers:
                table = writer.ensure(
                    topic=TOPIC,
                    topic_id=TOPIC_ID,
                    cluster_id=CLUSTER_ID,
                    layout=TableLayout(),
                    codec=TEXT,
                    value_fields=fields,
                )
                assert list(table.value_fields) == fields
        assert under_test.offsets(under_test.reopened()) == list(range(5))

    def test_table_gets_another_format_at_once_and_nothing_lands_that_was_begun_in_the_old_one(
        self, under_test: CatalogUnderTest
    ) -> None:
        writer, stale = under_test.writer(), under_test.writer()
        table = writer.commit(ensure_table(writer), [append_of(ensure_table(writer), 0, 10)]).table
        raw = CodecSpec(name="raw")
        plan = RetypePlan.begin(table, raw, first_fields(raw), plan_id="plan")
        new = append_of(plan.view(table), 0, 10, attempt="new").file
        late = append_of(table, 10, 20, attempt="late")
        assert new is not None
        done = writer.retype(table, plan, [new], FooterDigests())
        assert done.outcomes == (Outcome.COMMITTED,)
        seen = under_test.reopened()
        assert (seen.codec, seen.ledger, seen.foreign, seen.swept) == (raw, table.ledger, None, table.sequence_number)
        assert seen.last_column_id >= plan.first_id > table.last_column_id
        loaded = under_test.loaded(seen)
        assert sorted(loaded.scan().to_arrow()["value"].to_pylist()) == sorted(b"v%d" % number for number in range(10))
        earlier = loaded.scan(snapshot_id=table.snapshot_id).to_arrow()["value"].to_pylist()
        assert sorted(earlier) == sorted(f"v{number}" for number in range(10))
        with pytest.raises(Unavailable, match="columns that are the table's no more"):
            stale.commit(table, [late])
        with pytest.raises(Unavailable, match="values are raw now, and were string"):
            stale.add_schemas(table, {7: "schema"})
        assert outcomes(stale, seen, append_of(seen, 10, 20)) == [Outcome.COMMITTED]
        assert writer.retype(seen, plan, [new], FooterDigests()).outcomes == (Outcome.COMMITTED,)
        assert len(under_test.loaded(seen).metadata.snapshots) == 3, "what has landed is not committed again"

    def test_table_whose_ledger_somebody_spoiled_is_corrupt(self, under_test: CatalogUnderTest) -> None:
        table = ensure_table(under_test.writer())
        with under_test.catalog().load_table(table.identifier).transaction() as transaction:
            transaction.set_properties({"floeberg.ledger.0": "{}"})
        with pytest.raises(Corrupt, match="fsck"):
            under_test.reopened()

    @pytest.mark.parametrize("fault", ["conflict", "lost before", "lost after", "conflict after"])
    def test_range_is_stored_once_whatever_becomes_of_the_answer(
        self, under_test: CatalogUnderTest, fault: str
    ) -> None:
        catalog = under_test.catalog()
        writer = TableWriter(catalog, StillClock(), namespace=under_test.namespace)
        table = ensure_table(writer)
        FaultyCatalog(catalog).faults = [fault]
        for start in (0, 10):
            assert outcomes(writer, table, append_of(table, start, start + 10)) == [Outcome.COMMITTED]
        assert under_test.offsets(table) == list(range(20))
        assert len(under_test.loaded(table).metadata.snapshots) == 2
