"""When a broker that asks for no copies is a problem, and when it is none."""

from __future__ import annotations

import pytest

from serving.status.copy_wait import LONGEST_COPY_WAIT_MS, awaits_copy, copy_problems, copy_wait_ms
from serving.status.daemon_status import DaemonStatus, Phase
from topics.partition_status import PartitionStatus

LATE = LONGEST_COPY_WAIT_MS + 1


@pytest.mark.parametrize(
    ("native", "leads_here", "closed_end", "committed_here", "safe_end", "expected"),
    [
        (True, True, 100, True, None, True),
        (True, True, 100, True, 60, True),
        (True, True, 100, True, 100, False),
        (True, True, 100, True, 130, False),
        # An earlier process may have been asked.
        (True, True, 100, False, None, False),
        (True, True, None, True, None, False),
        (False, True, 100, True, None, False),
        (True, False, 100, True, None, False),
    ],
)
def test_closed_segments_in_the_table_wait_until_the_broker_has_asked_for_the_last(
    native: bool, leads_here: bool, closed_end: int | None, committed_here: bool, safe_end: int | None, expected: bool
) -> None:
    found = awaits_copy(
        native=native,
        leads_here=leads_here,
        closed_end=closed_end,
        committed_here=committed_here,
        safe_end=safe_end,
    )
    assert found is expected


@pytest.mark.parametrize(
    ("since", "asked", "expected"), [(None, None, 0), (1_000, None, 9_000), (1_000, 500, 9_000), (1_000, 8_000, 2_000)]
)
def test_wait_begins_anew_with_each_request(since: int | None, asked: int | None, expected: int) -> None:
    assert copy_wait_ms(waits_since_ms=since, last_asked_ms=asked, now_ms=10_000) == expected


def waiting(topic: str, partition: int, wait_ms: int) -> PartitionStatus:
    return PartitionStatus(topic=topic, partition=partition, native=True, copy_wait_ms=wait_ms)


def test_one_sentence_a_topic_names_its_partitions_and_the_next_step() -> None:
    partitions = [waiting("orders", number, LATE) for number in range(7)]
    (problem,) = copy_problems([*partitions, waiting("other", 0, LONGEST_COPY_WAIT_MS)])
    assert problem.startswith("the broker has asked for no copy of orders for 5 min")
    assert "0, 1, 2, 3, 4, …" in problem
    assert "floeberg check" in problem


def test_daemon_whose_broker_asks_for_nothing_is_not_healthy_and_says_so() -> None:
    status = DaemonStatus(
        version="1", phase=Phase.RUNNING, started_ms=0, now_ms=0, partitions=(waiting("orders", 0, LATE),)
    )
    assert not status.is_healthy
    assert "no copy of orders" in status.all_problems[0]
    assert DaemonStatus.from_dict(status.to_dict()) == status
