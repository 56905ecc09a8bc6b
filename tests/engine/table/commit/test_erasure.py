"""Records taken out of a table for good: what is left, what the table remembers, conflicts, and what is refused."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table

from engine.errors import Corrupt
from engine.fault_points import FaultPoint, armed
from engine.formats.codec import CodecSpec
from engine.fsck.check import fsck_table
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.records.records import Records
from engine.table.commit.change import Committed
from engine.table.history import erases
from engine.table.ledger import Outcome
from engine.table.manifests import ManifestReader, TableFile
from engine.table.merge.merge_files import merge_files
from engine.table.proof.verifier import VerifiedErasure, VerifiedFile
from engine.table.stream_branch import STREAM_BRANCH
from engine.table.windows import Clustering
from tests.engine.table.merge.merge_world import MergeWorld
from tests.engine.table.table_examples import TEXT, TOPIC, TOPIC_ID, catalog_in, open_writer, records_of, reopened
from tests.support.fault_hooks import once
from workers.workers import ReadBackTask, proof_of, read_back

COMMITTED, GONE = Outcome.COMMITTED, Outcome.GONE


def proven(world: MergeWorld, file: TableFile, offsets: Collection[int]) -> VerifiedErasure:
    """A file written without some offsets, and what proves it."""
    without = np.array(sorted(offsets), np.int64)
    task = replace(world.task([file]), without=without)
    new = None
    for description in merge_files(task).new:
        back = ReadBackTask(table=task.table, file=description)
        found = proof_of(world.verifier, back, read_back(back))
        assert isinstance(found, VerifiedFile), found
        new = found
    return world.verifier.accept_erasure(task.table, file, without, new)


def erase(world: MergeWorld, *erasures: VerifiedErasure, erasure_id: str = "e1") -> Committed:
    done = world.writer.erase(world.table, erasures, erasure_id=erasure_id, at_ms=5)
    world.table = done.table
    return done


def consumed(world: MergeWorld) -> dict[int, tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]]:
    """By offset what a consumer of the whole partition gets."""
    found = {}
    reader = LogReader(file_index=FileIndex())
    for records in reader.records(world.table, 0, world.table.ledger[0].range):
        for row, offset in enumerate(records.offset.tolist()):
            headers = [] if records.headers is None else records.headers.of_record(row)
            found[offset] = (records.key[row], records.value[row], headers)
    reader.close()
    return found


def loaded(world: MergeWorld) -> Table:
    return catalog_in(world.folder).load_table(world.table.identifier)


@pytest.fixture
def world(tmp_path: Path) -> MergeWorld:
    """Three files of ten records."""
    world = MergeWorld(tmp_path, TEXT)
    for start in (0, 10, 20):
        world.append(records_of([b"v%d" % at for at in range(start, start + 10)], start=start))
    return world


def test_records_go_offsets_stay_covered_and_the_ledger_has_the_digest_of_what_is_left(world: MergeWorld) -> None:
    before, was = world.table.ledger[0], consumed(world)
    assert erase(world, proven(world, world.files()[1], [10, 13, 14])).outcomes == (COMMITTED,)
    seen = reopened(world.folder)
    left = {offset: record for offset, record in was.items() if offset not in {10, 13, 14}}
    assert consumed(world) == left
    assert seen.foreign is None
    assert (seen.ledger[0].range, seen.ledger[0].digest.record_count) == (before.range, 27)
    assert seen.ledger[0].digest == world.digest()
    assert fsck_table(seen).findings == ()
    (erasure,) = seen.erased[0].erasures
    assert (erasure.before, erasure.after, erasure.record_count) == (before.digest, seen.ledger[0].digest, 3)
    assert (erasure.erasure_id, erasure.at_ms, erasure.stored) == ("e1", 5, before.range)
    assert [str(item) for item in seen.erased[0].offsets] == ["[10, 11)", "[13, 15)"]
    assert world.rows()["kafka_offset"].to_pylist() == sorted(left)


def test_snapshot_is_an_overwrite_and_its_manifests_have_no_bound_of_what_went(world: MergeWorld) -> None:
    erase(world, proven(world, world.files()[1], [10]))
    table = loaded(world)
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation.value == "overwrite"
    assert (snapshot.summary["deleted-records"], snapshot.summary["added-records"]) == ("10", "9")
    entries = [
        entry
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    ]
    gone = [entry for entry in entries if entry.status == ManifestEntryStatus.DELETED]
    assert len(gone) == 1
    assert not gone[0].data_file.lower_bounds
    assert not gone[0].data_file.upper_bounds
    assert all(entry.data_file.lower_bounds for entry in entries if entry not in gone)


def test_file_of_which_nothing_is_left_leaves_its_range_as_empty(world: MergeWorld) -> None:
    gone = proven(world, world.files()[1], range(10, 20))
    assert gone.new is None
    assert erase(world, gone, proven(world, world.files()[2], [29])).outcomes == (COMMITTED, COMMITTED)
    seen = reopened(world.folder)
    assert seen.empty[0] == (OffsetRange(start=10, end=20),)
    assert sorted(consumed(world)) == [*range(10), *range(20, 29)]
    assert fsck_table(seen).findings == ()
    world.append(records_of([b"more"], start=30))
    world.merge()
    assert sorted(consumed(world)) == [*range(10), *range(20, 29), 30]
    assert fsck_table(reopened(world.folder)).findings == ()


def test_everything_may_go(world: MergeWorld) -> None:
    erase(world, *(proven(world, file, range(file.range.start, file.range.end)) for file in world.files()))
    assert consumed(world) == {}
    assert world.files() == ()
    assert fsck_table(reopened(world.folder)).findings == ()
    world.append(records_of([b"again"], start=30))
    assert sorted(consumed(world)) == [30]


def test_append_in_between_is_a_conflict_that_is_decided_again(world: MergeWorld) -> None:
    rival = other_writer(world)
    gone = proven(world, world.files()[0], [3])

    def append() -> None:
        beside = MergeWorld.__new__(MergeWorld)
        beside.__dict__ |= world.__dict__ | {"writer": rival, "table": reopened(world.folder)}
        beside.append(records_of([b"more"], start=30))

    with armed(once(FaultPoint.SNAPSHOT_STAGED, append)):
        done = erase(world, gone)
    assert (done.outcomes, done.conflicts) == ((COMMITTED,), 1)
    assert sorted(consumed(world)) == [0, 1, 2, *range(4, 31)]
    assert fsck_table(reopened(world.folder)).findings == ()


def test_merge_in_between_leaves_the_erasure_nothing_to_do(world: MergeWorld) -> None:
    rival = other_writer(world)
    gone = proven(world, world.files()[0], [3])
    task = world.task()
    merged = world.proven(task, merge_files(task))
    with armed(once(FaultPoint.COMMIT_DECIDED, lambda: rival.replace(reopened(world.folder), [merged]))):
        assert erase(world, gone).outcomes == (GONE,)
    world.table = reopened(world.folder)
    assert (len(world.files()), len(consumed(world))) == (1, 30)
    assert world.table.erased == {}
    assert erase(world, proven(world, world.files()[0], [3])).outcomes == (COMMITTED,)
    assert sorted(consumed(world)) == [0, 1, 2, *range(4, 30)]


def test_merge_of_files_as_they_were_before_an_erasure_brings_nothing_back(world: MergeWorld) -> None:
    task = world.task()
    merged = world.proven(task, merge_files(task))
    erase(world, proven(world, world.files()[0], [3]))
    assert world.replace(merged).outcomes == (GONE,)
    assert 3 not in consumed(world)


def test_commit_that_landed_without_an_answer_is_known_again(world: MergeWorld) -> None:
    def lose_the_answer() -> None:
        raise OSError("connection reset")

    with armed(once(FaultPoint.CATALOG_CHANGED, lose_the_answer)):
        outcomes = erase(world, proven(world, world.files()[0], range(10))).outcomes
    assert outcomes == (COMMITTED,)
    assert len(reopened(world.folder).erased[0].erasures) == 1


def test_nothing_is_erased_where_the_files_are_not_what_the_ledger_says(world: MergeWorld) -> None:
    gone = proven(world, world.files()[0], [3])
    table = loaded(world)
    with table.transaction() as transaction:  # without a seal: only the decision is asked
        transaction.set_properties({"note": "x"})
    entry = world.table.ledger[0]
    damaged = replace(world.table, ledger={0: replace(entry, digest=entry.digest.then(entry.digest))})
    from engine.table.commit.erasure import EraseRecords

    with pytest.raises(Corrupt, match="nothing is erased where something is missing"):
        EraseRecords([gone], erasure_id="e", at_ms=1).decide(damaged)


def test_what_was_erased_is_sealed(world: MergeWorld) -> None:
    erase(world, proven(world, world.files()[0], [3]))
    told = world.table.erased[0]
    more = replace(told, offsets=(*told.offsets, OffsetRange(start=7, end=8)))
    with loaded(world).transaction() as transaction:
        transaction.set_properties({"floeberg.erased.0": more.to_json()})
    with pytest.raises(Corrupt, match=r"properties were edited: floeberg\.erased\.0"):
        reopened(world.folder)


def test_file_that_is_not_what_is_left_of_the_old_one_is_refused(world: MergeWorld) -> None:
    file, facts = world.files()[0], world.table.facts
    good = proven(world, file, [3])
    for offsets, new in (([4], good.new), ([3, 4], good.new), ([3], None), ([], None), ([3, 99], good.new)):
        with pytest.raises(Corrupt, match="is not what is left of the old one"):
            world.verifier.accept_erasure(facts, file, np.array(offsets, np.int64), new)
    with pytest.raises(Corrupt):
        world.verifier.accept_erasure(facts, world.files()[1], np.array([13], np.int64), good.new)


def test_clustered_file_stays_clustered(world: MergeWorld) -> None:
    by_value = Clustering(columns=("value",), window_rows=8)
    world.merge(clustering=by_value)
    (file,) = world.files()
    task = replace(world.task([file], clustering=by_value), without=np.array([2, 17], np.int64))
    (description,) = merge_files(task).new
    back = ReadBackTask(table=task.table, file=description)
    new = proof_of(world.verifier, back, read_back(back))
    assert isinstance(new, VerifiedFile)
    assert task.without is not None
    erase(world, world.verifier.accept_erasure(task.table, file, task.without, new))
    assert world.files()[0].clustering_checksum == by_value.checksum
    assert sorted(consumed(world)) == [at for at in range(30) if at not in {2, 17}]
    assert fsck_table(reopened(world.folder)).findings == ()


RECORD = st.tuples(
    st.none() | st.binary(max_size=3),
    st.none() | st.binary(max_size=3),
    st.lists(st.tuples(st.binary(max_size=2), st.none() | st.binary(max_size=2)), max_size=2),
)


@given(
    files=st.lists(st.lists(RECORD, min_size=1, max_size=12), min_size=1, max_size=3),
    step=st.integers(1, 3),
    erased=st.sets(st.integers(0, 40)),
    codec=st.sampled_from(["string", "raw"]),
)
@settings(max_examples=25, deadline=None)
def test_what_is_left_is_what_was_there_without_the_erased(
    files: list[list[tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]]],
    step: int,
    erased: set[int],
    codec: str,
) -> None:
    with TemporaryDirectory() as folder:
        world = MergeWorld(Path(folder), CodecSpec(name=codec))
        for rows in files:
            entry = world.table.ledger.get(0)
            world.append(_records(rows, 0 if entry is None else entry.end, step))
        was, covered = consumed(world), world.table.ledger[0].range
        erasures = []
        for file in world.files():
            inside = [at for at in was if at in erased and at in file.range]
            if inside:
                erasures.append(proven(world, file, inside))
        if erasures:
            erase(world, *erasures)
        assert consumed(world) == {at: record for at, record in was.items() if at not in erased}
        assert world.table.ledger[0].range == covered
        assert world.table.ledger[0].digest == world.digest()
        assert fsck_table(reopened(world.folder)).findings == ()


def _records(
    rows: list[tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]], start: int, step: int
) -> Records:
    keys, values, headers = zip(*rows, strict=True)
    return records_of(values, start=start, step=step, keys=keys, headers=headers)


def other_writer(world: MergeWorld):  # type: ignore[no-untyped-def]
    """Another process's; neither waits for the other's turn."""
    rival = open_writer(world.folder)
    for one in (rival, world.writer):
        one.session(TOPIC, TOPIC_ID)._turns._lock_file = None
    return rival


def test_records_that_only_the_stream_has_leave_its_branch_and_the_rest_is_still_proven(world: MergeWorld) -> None:
    first, second, _ = world.files()
    world.writer.move_horizons(world.table, log_starts={0: 10}, table_starts={0: 20})
    world.table = reopened(world.folder)
    assert erase(world, proven(world, first, [3]), proven(world, second, [12])).outcomes == (GONE, COMMITTED)
    assert sorted(consumed(world)) == [10, 11, *range(13, 30)]
    found = ManifestReader().files(reopened(world.folder))
    assert [(file.range.start, file.record_count) for file in found.stream] == [(10, 9)]
    assert [(file.range.start, file.record_count) for file in found.own] == [(20, 10)]
    seen = reopened(world.folder)
    assert (seen.foreign, seen.ledger[0].digest.record_count) == (None, 29)
    assert fsck_table(seen).findings == ()
    metadata = loaded(world).metadata
    head = metadata.snapshot_by_name(STREAM_BRANCH)
    assert head is not None
    assert erases(head), "what the branch had before goes with the history"
