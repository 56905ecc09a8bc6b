"""Records are erased that lie in files which another program wrote: they become ours first."""

from __future__ import annotations

import pytest

from engine.clock import SystemClock
from engine.errors import Invalid
from engine.fault_points import FaultPoint, armed
from engine.fsck.check import fsck_table
from engine.table.commit.takeover import Takeover
from engine.table.manifests import ManifestReader
from floeberg.sql.duckdb_condition import DuckdbCondition
from floeberg.tables.erasure import Eraser
from retention.erasure_report import ErasureReport
from retention.erasure_scan import Matcher, scan
from tests.engine.table.foreign.foreign_rewrites import rewrite_in_no_order, rewrite_one_file
from tests.engine.table.foreign.foreign_world import ForeignWorld
from tests.retention.erasure_world import consumed
from tests.support.fault_hooks import once

WHERE = "kafka_partition = 0 AND kafka_offset % 50 = 7"


def erase(foreign: ForeignWorld, where: str) -> ErasureReport:
    writer = foreign.world.writer()
    eraser = Eraser(catalog=foreign.world.catalog, writer=writer, clock=SystemClock())
    table = foreign.opened(writer)
    return eraser.erase(table, DuckdbCondition(table, where), where=where)


@pytest.mark.parametrize("rewrite", [rewrite_one_file, rewrite_in_no_order])
def test_records_in_files_of_another_program_go_too(foreign: ForeignWorld, rewrite: object) -> None:
    writer = foreign.world.writer()
    before = consumed(foreign.opened(writer))
    assert callable(rewrite)
    rewrite(foreign.iceberg())
    adopted = foreign.opened(writer).adopted[0]
    theirs = {file.path for part in adopted for file in part.files}
    report = erase(foreign, WHERE)
    table = foreign.opened(foreign.world.writer())
    assert (report.left, report.record_count) == ((), 12)
    assert consumed(table) == {at: record for at, record in before.items() if at % 50 != 7}
    assert (table.adopted[0], table.foreign) == ((), None)
    assert not [file for file in ManifestReader().files(table).foreign if file.partition == 0]
    assert fsck_table(table).findings == ()
    assert set(report.others_files) == theirs
    assert any("of another program" in line for line in report.kept_by)
    found = scan(table, Matcher(table, report))
    assert theirs <= found.records.keys(), "until the other program removes its orphans"
    assert found.unread == {}


def test_only_what_must_go_with_it_is_written_again(foreign: ForeignWorld) -> None:
    rewrite_one_file(foreign.iceberg())
    report = erase(foreign, "kafka_partition = 0 AND kafka_offset = 3")
    assert (report.record_count, report.others_files) == (1, {})
    assert len(foreign.opened(foreign.world.writer()).adopted[0]) == 1


def test_other_program_that_rewrites_in_between_is_proven_first(foreign: ForeignWorld) -> None:
    before = consumed(foreign.opened(foreign.world.writer()))
    rewrite_one_file(foreign.iceberg())
    hook = once(FaultPoint.REPLACEMENTS_VERIFIED, lambda: rewrite_in_no_order(foreign.iceberg()))
    with armed(hook):
        report = erase(foreign, WHERE)
    table = foreign.opened(foreign.world.writer())
    assert (report.left, report.record_count) == ((), 12)
    assert consumed(table) == {at: record for at, record in before.items() if at % 50 != 7}
    assert fsck_table(table).findings == ()


def test_takeover_that_landed_without_an_answer_is_known_again(foreign: ForeignWorld) -> None:
    def lose_the_answer() -> None:
        raise OSError("connection reset")

    rewrite_one_file(foreign.iceberg())
    assert foreign.opened(foreign.world.writer()).adopted, "which is a commit of its own"
    with armed(once(FaultPoint.CATALOG_CHANGED, lose_the_answer)):
        report = erase(foreign, WHERE)
    assert (report.record_count, report.left) == (12, ())
    assert fsck_table(foreign.opened(foreign.world.writer())).findings == ()


def test_files_of_other_records_take_over_nothing(foreign: ForeignWorld) -> None:
    rewrite_one_file(foreign.iceberg())
    table = foreign.opened(foreign.world.writer())
    with pytest.raises(Invalid, match="don't hold what"):
        Takeover(ranges=table.adopted[0], new=())
