"""The real backend, over a real table: the suite of all backends, and what only it can show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.errors import Corrupt, Unavailable
from engine.offset_range import OffsetRange
from engine.table.ledger import Outcome
from engine.table.manifests import ManifestReader
from engine.table.proof.verifier import Verifier
from serving.log.backend import NoSuchSegment
from serving.log.tiered_log import VIEW_LASTS_MS, TieredLog
from tests.serving.log.backend_suite import END, BackendSuite, coverage, sample_records
from tests.serving.log.kept_log import TOPIC_ID, segment
from tests.serving.log.stage import STATE, Stage, empty_stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with empty_stage(tmp_path) as stage:
        yield stage


@pytest.fixture
def stored(stage: Stage) -> Stage:
    stage.store_all()
    return stage


class TestTieredLog(BackendSuite):
    @pytest.fixture(scope="class")
    def backend(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredLog]:
        with empty_stage(tmp_path_factory.mktemp("tiered-log")) as stage:
            stage.store_all()
            yield stage.log


def test_commit_is_seen_by_the_next_question(stage: Stage) -> None:
    stage.store(0, 1000)
    assert stage.log.verified(segment(0, 1000)) is not None
    assert stage.log.verified(segment(1000, 2000)) is None
    stage.store(1000, 2000)
    assert stage.log.verified(segment(1000, 2000)) is not None


def test_what_the_broker_asks_for_is_noted_and_how_far_it_was_safe(stage: Stage) -> None:
    assert stage.copies.of(TOPIC_ID, 0) is None
    stage.log.verified(segment(0, 1000))
    first = stage.copies.of(TOPIC_ID, 0)
    assert first is not None
    assert first.safe is None
    stage.store(0, 1000)
    stage.log.verified(segment(0, 1000))
    stage.log.verified(segment(1000, 2000))
    later = stage.copies.of(TOPIC_ID, 0)
    assert later is not None
    assert later.safe == OffsetRange(start=0, end=1000)
    assert later.last_ms >= first.last_ms


def test_run_of_safe_segments_grows_and_after_a_gap_the_later_one_counts(stage: Stage) -> None:
    def safe_after(start: int, end: int) -> OffsetRange | None:
        stage.copies.note(segment(start, end), is_safe=True)
        asked = stage.copies.of(TOPIC_ID, 0)
        return None if asked is None else asked.safe

    assert safe_after(500, 1000) == OffsetRange(start=500, end=1000)
    assert safe_after(1000, 1500) == OffsetRange(start=500, end=1500)
    assert safe_after(2000, 2500) == OffsetRange(start=2000, end=2500)
    assert safe_after(0, 100) == OffsetRange(start=2000, end=2500)


def test_hurry_reaches_the_tiering_loop(stage: Stage) -> None:
    stage.log.hurry(segment(0, 1000))
    assert stage.tiering.hurries == 1


def test_file_damaged_after_the_commit_is_never_answered_with_copied(stored: Stage) -> None:
    path = stored.data_files()[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(Corrupt, match=path.name):
        stored.log.verified(segment(0, 1000))


def test_missing_file_is_never_answered_with_copied(stored: Stage) -> None:
    stored.data_files()[0].unlink()
    with pytest.raises(Corrupt):
        stored.log.verified(segment(0, 1000))


def test_offsets_below_the_brokers_log_start_need_no_proof(stage: Stage) -> None:
    # DeleteRecords moved the log start into the segment before anything was stored; the segment keeps its name.
    stage.store(500, 1000)
    assert stage.log.verified(segment(0, 1000)) is None
    stage.tiering.log_starts[TOPIC_ID, 0] = 500
    verified = stage.log.verified(segment(0, 1000))
    assert verified is not None
    assert verified.range == OffsetRange(start=500, end=1000)


def test_segment_cut_by_the_log_start_is_read_from_there(stage: Stage) -> None:
    stage.store(500, 1000)
    cut = segment(0, 1000)
    found = coverage(stage.log.records(cut, start=0, max_bytes=1 << 30))
    assert (found[0], found[1][0], found[-1][1]) == ((0, 499, 0), 500, 999)
    grid = stage.log.offset_grid(cut)
    assert grid[0] == 500
    assert np.all(np.diff(grid) > 0)
    assert np.all(stage.log.time_index(cut)[1] >= 500)


def test_index_of_before_the_log_start_rose_is_still_read_from(stored: Stage) -> None:
    # Brokers keep the indexes of a segment for as long as it lives.
    cut = segment(0, 1000)
    entry = int(stored.log.offset_grid(cut)[0])
    log_start = entry + 5
    stored.writer.move_horizons(stored.table(), log_starts={0: log_start})
    stored.log.release(cut)
    found = coverage(stored.log.records(cut, start=entry, max_bytes=1 << 30))
    assert [first for first, _, _ in found] == [entry, *(last + 1 for _, last, _ in found[:-1])]
    assert (found[0], found[-1][1]) == ((entry, log_start - 1, 0), 999)


def test_segment_below_the_log_start_is_gone_and_what_was_kept_for_it_released(stored: Stage) -> None:
    for start, end in ((0, 500), (500, 1000), (400, 1100)):
        stored.log.keep_auxiliary_state(segment(start, end), STATE)
    stored.writer.move_horizons(stored.table(), log_starts={0: 1000})
    # One hint makes good for another that was lost; a range that reaches above the log start stays.
    stored.log.release(segment(500, 1000))
    for start, end in ((0, 500), (500, 1000)):
        with pytest.raises(NoSuchSegment):
            stored.log.auxiliary_state(segment(start, end))
    assert stored.log.auxiliary_state(segment(400, 1100)) == STATE
    with pytest.raises(NoSuchSegment):
        stored.log.records(segment(0, 1000), start=0, max_bytes=1)
    assert coverage(stored.log.records(segment(0, 1100), start=0, max_bytes=1))[1][0] == 1000


def test_read_past_the_table_is_unavailable(stored: Stage) -> None:
    with pytest.raises(Unavailable):
        stored.log.records(segment(4000, END + 1), start=4000, max_bytes=1)


def test_reads_of_a_covered_range_load_the_table_once(stored: Stage) -> None:
    before = stored.tables.loads
    for start in range(0, 4000, 500):
        coverage(stored.log.records(segment(0, END), start=start, max_bytes=1))
    assert stored.tables.loads == before + 1


def test_damaged_auxiliary_state_is_told(stored: Stage) -> None:
    stored.log.keep_auxiliary_state(segment(0, 1000), STATE)
    (path,) = stored.folder.rglob("*.aux")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Corrupt):
        stored.log.auxiliary_state(segment(0, 1000))


def erase_first_file(stored: Stage) -> None:
    """All of its records, by another process."""
    table = stored.table()
    first = ManifestReader().files(table).own[0]
    records = sample_records().offset
    offsets = records[(records >= first.range.start) & (records < first.range.end)]
    proof = Verifier().accept_erasure(table.facts, first, offsets, None)
    assert stored.writer.erase(table, [proof], erasure_id="e", at_ms=1).outcomes == (Outcome.COMMITTED,)


def has_records(stored: Stage) -> bool:
    """Whether the first file's range is answered with any: one without is a single control batch."""
    return len(b"".join(stored.log.records(segment(0, 1000), start=0, max_bytes=1 << 30))) > 1000


def test_records_that_were_erased_are_given_to_nobody_a_minute_later(stored: Stage) -> None:
    assert has_records(stored)
    erase_first_file(stored)
    loads = stored.tables.loads
    stored.clock.sleep(VIEW_LASTS_MS - 1)
    assert has_records(stored)
    assert stored.tables.loads == loads, "a read is not a look at the catalog"
    stored.clock.sleep(1)
    assert not has_records(stored)
    assert not has_records(stored)
    assert stored.tables.loads == loads + 1


def test_old_view_does_while_the_catalog_is_away(stored: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_records(stored)

    def away(_: str) -> None:
        raise Unavailable("the catalog is away")

    with monkeypatch.context() as patch:
        patch.setattr(stored.tables, "load", away)
        stored.clock.sleep(VIEW_LASTS_MS)
        assert has_records(stored)
    erase_first_file(stored)
    stored.clock.sleep(VIEW_LASTS_MS)
    assert not has_records(stored)
