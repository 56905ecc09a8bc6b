"""A topic that Kafka compacts (watch mode): its gaps are covered, and what it loses later stays in the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.native.gapped_topics import COMPACTED
from tests.native.stage import NativeStage, Sent, eventually, sample
from tests.native.transactional_topic import TransactionalTopic

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("native")]
RECORDS = 20_000
KEYS = 500


def keyed(records: Sequence[Sent], keys: int) -> list[Sent]:
    return [replace(record, key=b"key-%d" % (number % keys)) for number, record in enumerate(records)]


def test_gaps_of_a_compacted_topic_are_covered_and_later_compaction_takes_nothing_from_the_table(
    stage: NativeStage,
) -> None:
    with TransactionalTopic(stage.broker.bootstrap, "compacted") as topic:
        with stage.tiering_away():
            stage.create("compacted", COMPACTED)
            topic.idempotent().write(keyed(sample(0, RECORDS), KEYS))
            eventually(lambda: len(topic.read("read_committed")[0]) < RECORDS // 2, lambda: "Kafka compacts nothing")
            left = topic.read("read_committed")[0]
        closed_end = int(stage.local_segments("compacted")[-1])
        eventually(
            lambda: any(
                report.partition.topic == "compacted" and (report.status.tiered_end or 0) >= closed_end
                for report in stage.reports()
            ),
            lambda: stage.describe("compacted"),
        )
        first = stage.stored("compacted")
        assert first == [kept for kept in left if kept[0] < closed_end]
        assert stage.table("compacted").ledger[0].start == 0
        assert stage.fsck("compacted", may_be_compacted=True).findings == ()

        # The same keys again: Kafka now drops nearly all that was tiered, and merges segments over the ledger's end.
        topic.idempotent().write(keyed(sample(RECORDS, RECORDS), KEYS))
        eventually(
            lambda: (
                (stage.report_of("compacted").status.tiered_end or 0) > RECORDS
                and topic.read("read_committed")[0][0] > left[0]
            ),
            lambda: stage.describe("compacted"),
        )
        both = stage.stored("compacted")
        assert both[: len(first)] == first
        told = dict(topic.told())
        assert all(told[offset] == value for offset, value in both)
        assert [offset for offset, _ in both] == sorted({offset for offset, _ in both})
        assert stage.fsck("compacted", may_be_compacted=True).findings == ()
