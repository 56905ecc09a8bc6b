"""Several daemons commit to one table of one catalog."""

from __future__ import annotations

import multiprocessing
import time

from engine.fsck.check import fsck_table
from engine.offset_range import OffsetRange
from engine.table.ledger import Outcome
from engine.table.proof.verifier import Verifier
from tests.engine.table.catalog.catalog_under_test import CatalogUnderTest
from tests.engine.table.table_examples import (
    StillClock,
    append_of,
    ensure_table,
)


class SeveralProcesses:
    """A suite beside the other: two daemons, each with partitions of its own and one that both claim."""

    def test_processes_that_commit_at_once_lose_and_repeat_nothing(self, properties: dict[str, str]) -> None:
        under_test = CatalogUnderTest(properties)
        table = ensure_table(under_test.writer())
        # One process pays for the imports; the others are its forks.
        forkserver = multiprocessing.get_context("forkserver")
        forkserver.set_forkserver_preload([__name__])
        workers = [forkserver.Process(target=_append_ten_ranges, args=(under_test, own)) for own in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(240)
            assert worker.exitcode == 0
        seen = under_test.reopened()
        for partition in (0, 1, 2, 9):
            assert under_test.offsets(table, partition) == list(range(50))
            assert Verifier().verified_range(seen, partition, OffsetRange(start=0, end=50)) is not None
        assert fsck_table(seen).findings == ()


class _WaitingClock(StillClock):
    def sleep(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)


def _append_ten_ranges(under_test: CatalogUnderTest, own: int) -> None:
    writer = under_test.writer(clock=_WaitingClock())
    table = ensure_table(writer)
    for at in range(0, 50, 10):
        claimed = append_of(table, at, at + 10, partition=9, attempt=f"c{own}")
        mine = append_of(table, at, at + 10, partition=own)
        result = writer.commit(table, [mine, claimed])
        assert [one.outcome for one in result.results if one.append is mine] == [Outcome.COMMITTED]
