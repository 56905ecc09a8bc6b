"""Another program's rewrite of files and our own merging on one table: each leaves the other's work as it is."""

from __future__ import annotations

from engine.clock import SystemClock
from engine.fault_points import FaultPoint, armed
from engine.table.commit.replacement import FileReplacement
from engine.table.ledger import Outcome
from engine.table.manifests import ManifestReader, TableFile
from engine.table.merge.merge_files import MergeTask, merge_files
from engine.table.proof.verifier import VerifiedFile, Verifier
from engine.table.topic_table import TopicTable
from tests.engine.table.foreign.foreign_rewrites import rewrite_in_no_order, rewrite_one_file
from tests.engine.table.foreign.foreign_world import SEGMENT_RECORDS, ForeignWorld
from workers.workers import ReadBackTask, proof_of, read_back


def own_files(table: TopicTable, partition: int) -> tuple[TableFile, ...]:
    return tuple(file for file in ManifestReader().files(table).own if file.partition == partition)


def merged(table: TopicTable, files: tuple[TableFile, ...]) -> FileReplacement:
    done = merge_files(MergeTask(table=table.facts, files=files, attempt=SystemClock().new_id()))
    task = ReadBackTask(table=table.facts, file=done.new[0])
    proof = proof_of(Verifier(), task, read_back(task))
    assert isinstance(proof, VerifiedFile), proof
    return FileReplacement(old=files, digest=done.digest, new=(proof,))


def test_what_each_has_merged_is_read_and_extended(foreign: ForeignWorld) -> None:
    writer = foreign.world.writer()
    table = foreign.opened(writer)
    ours = merged(table, own_files(table, 1))
    assert writer.replace(table, [ours]).outcomes == (Outcome.COMMITTED,)
    rewrite_one_file(foreign.iceberg())
    foreign.check_goes_on()
    table = foreign.opened(writer)
    assert [part.range.start for part in table.adopted[0]] == [SEGMENT_RECORDS]
    assert ours.new[0].description.path in {file.path for file in own_files(table, 1)}
    # Ours again, beside what is adopted: what was tiered since joins the merged file.
    assert writer.replace(table, [merged(table, own_files(table, 1))]).outcomes == (Outcome.COMMITTED,)
    foreign.check_goes_on()
    # And theirs over ours: the merged file is proven as any other that is gone.
    rewrite_in_no_order(foreign.iceberg())
    foreign.check_goes_on()


def test_group_into_which_an_adopted_range_reaches_is_given_up(foreign: ForeignWorld) -> None:
    writer = foreign.world.writer()
    table = foreign.opened(writer)
    first, middle, last = own_files(table, 0)
    across, beside = merged(table, (first, middle, last)), merged(table, own_files(table, 1))
    rewrite_one_file(foreign.iceberg())
    assert writer.replace(table, [across, beside]).outcomes == (Outcome.GONE, Outcome.COMMITTED)
    foreign.check_goes_on()
    # Planned on the newest state, with the adopted range left out between: not a group either.
    table = foreign.opened(writer)
    around = merged(table, tuple(file for file in own_files(table, 0) if file.path in {first.path, last.path}))
    assert writer.replace(table, [around]).outcomes == (Outcome.GONE,)
    foreign.check_goes_on()


def test_rewrite_between_decision_and_commit_is_a_conflict_after_which_the_group_is_gone(foreign: ForeignWorld) -> None:
    writer = foreign.world.writer()
    table = foreign.opened(writer)
    wanted = merged(table, own_files(table, 0))
    waiting = [lambda: rewrite_one_file(foreign.iceberg())]

    def hook(point: FaultPoint) -> None:
        if point is FaultPoint.SNAPSHOT_STAGED and waiting:
            waiting.pop()()

    with armed(hook):
        done = writer.replace(table, [wanted])
    assert (done.outcomes, done.conflicts) == ((Outcome.GONE,), 1)
    foreign.check_goes_on()
