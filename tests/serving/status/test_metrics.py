"""What a scrape shows: totals of every topic, some partitions' own series, counters, histograms, bounds by unit."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from serving.status.copy_wait import LONGEST_COPY_WAIT_MS
from serving.status.daemon_status import BoundUse, DaemonStatus, Phase
from serving.status.exposition import Exposition, labels_text
from serving.status.metrics import DaemonLook, Metrics
from serving.status.topic_series import PartitionNow
from topics.partition_status import PartitionStatus
from topics.topic_totals import TopicTotals

STATUS = DaemonStatus(version="1.0", phase=Phase.RUNNING, started_ms=1_000, now_ms=2_000, last_cycle_ms=1_500)
QUIET = PartitionStatus(topic="orders", partition=0, tiered_end=700, stable_end=700, waiting_kind="nothing_new")
BEHIND = replace(QUIET, stable_end=1000, lag_ms=4000, behind_ms=1000, local_log_bytes=50, spool_bytes=20)
STOPPED = replace(QUIET, problem="a CRC is wrong", problem_kind="corrupt", waiting_kind="stopped")

Sample = tuple[str, frozenset[tuple[str, str]]]


def metrics_of(
    partitions: Sequence[PartitionStatus] = (),
    *,
    status: DaemonStatus = STATUS,
    totals: dict[str, TopicTotals] | None = None,
    most_partitions: int = 100,
) -> Metrics:
    look = DaemonLook(status=status, partitions=tuple(map(PartitionNow.of, partitions)), totals=totals or {})
    return Metrics(lambda: look, version="1.0", most_partitions=most_partitions)


def scraped(metrics: Metrics) -> dict[Sample, float]:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def sample(name: str, **labels: str) -> Sample:
    return name, frozenset(labels.items())


def own_series(metrics: Metrics) -> set[tuple[str, str]]:
    """The partitions that have series of their own."""
    found = (dict(labels) for name, labels in scraped(metrics) if name.startswith("floeberg_partition_"))
    return {(labels["topic"], labels["partition"]) for labels in found}


def test_topic_has_the_sums_of_its_partitions_and_the_longest_of_their_times() -> None:
    partitions = (
        QUIET,
        replace(BEHIND, partition=1, at_risk_bytes=7),
        replace(BEHIND, partition=2, lag_ms=9000, behind_ms=0, copy_wait_ms=3000),
        replace(STOPPED, partition=3),
        replace(QUIET, topic="clicks"),
    )
    found = scraped(metrics_of(partitions))
    expected = {
        "partitions": 4,
        "stopped_partitions": 1,
        "lag_records": 600,
        "lag_seconds": 9,
        "behind_records": 300,
        "behind_seconds": 1,
        "spool_bytes": 40,
        "at_risk_bytes": 7,
        "local_log_bytes": 100,
        "copy_wait_seconds": 3,
    }
    assert {name: found[sample(f"floeberg_{name}", topic="orders")] for name in expected} == expected
    assert found[sample("floeberg_partitions", topic="clicks")] == 1
    assert found[sample("floeberg_problem_partitions", topic="orders", kind="corrupt")] == 1
    assert found[sample("floeberg_waiting_partitions", topic="orders", reason="nothing_new")] == 3
    assert found[sample("floeberg_waiting_partitions", topic="orders", reason="stopped")] == 1
    assert sample("floeberg_problem_partitions", topic="clicks", kind="corrupt") not in found


def test_partition_has_series_of_its_own_while_there_are_few() -> None:
    found = scraped(metrics_of([BEHIND, replace(STOPPED, partition=1)]))
    assert found[sample("floeberg_partition_lag_records", topic="orders", partition="0")] == 300
    assert found[sample("floeberg_partition_behind_seconds", topic="orders", partition="0")] == 1
    assert found[sample("floeberg_partition_stopped", topic="orders", partition="0")] == 0
    assert found[sample("floeberg_partition_stopped", topic="orders", partition="1")] == 1
    assert found[sample("floeberg_partition_problem", topic="orders", partition="1", kind="corrupt")] == 1
    assert found[sample("floeberg_partition_waiting", topic="orders", partition="1", reason="stopped")] == 1


def test_of_many_partitions_the_worst_have_series_and_the_well_have_none() -> None:
    quiet = [replace(QUIET, topic="clicks", partition=number) for number in range(1000)]
    late = [replace(BEHIND, partition=number, behind_ms=1000 * (number + 1)) for number in range(5)]
    partitions = [*quiet, *late, replace(STOPPED, topic="payments")]
    assert own_series(metrics_of(partitions, most_partitions=3)) == {
        ("payments", "0"),
        ("orders", "4"),
        ("orders", "3"),
    }
    assert len(own_series(metrics_of(partitions))) == 6
    assert own_series(metrics_of(partitions, most_partitions=0)) == set()
    assert len(own_series(metrics_of(partitions, most_partitions=1006))) == 1006
    found = scraped(metrics_of(partitions, most_partitions=0))
    assert found[sample("floeberg_behind_seconds", topic="orders")] == 5
    assert found[sample("floeberg_partitions", topic="clicks")] == 1000


@pytest.mark.parametrize(
    "trouble",
    [STOPPED, replace(QUIET, at_risk_bytes=1), replace(QUIET, copy_wait_ms=LONGEST_COPY_WAIT_MS + 1)],
    ids=["stopped", "at risk", "not copied"],
)
def test_daemon_is_unhealthy_for_one_partition_that_is_not_well(trouble: PartitionStatus) -> None:
    status = replace(STATUS, partitions=(QUIET, trouble))
    assert not status.is_healthy
    assert scraped(metrics_of(status.partitions, most_partitions=0))[sample("floeberg_healthy")] == 0
    assert scraped(metrics_of([QUIET]))[sample("floeberg_healthy")] == 1


def test_counters_of_a_topic_begin_with_nothing_and_saved_bytes_may_be_less() -> None:
    totals = {"orders": TopicTotals(log_bytes=100, parquet_bytes=130, typed_rows=690, raw_rows=7, undecodable_rows=3)}
    found = scraped(metrics_of([QUIET, replace(QUIET, topic="clicks")], totals=totals))
    assert found[sample("floeberg_tiered_log_bytes_total", topic="orders")] == 100
    assert found[sample("floeberg_tiered_parquet_bytes_total", topic="orders")] == 130
    assert found[sample("floeberg_saved_bytes", topic="orders")] == -30
    kept = {"typed": 690, "raw": 7, "undecodable": 3}
    assert {kind: found[sample("floeberg_rows_total", topic="orders", kept=kind)] for kind in kept} == kept
    for name in ("tiered_log_bytes_total", "skipped_offsets_total", "refused_ranges_total"):
        assert found[sample(f"floeberg_{name}", topic="clicks")] == 0


def test_what_the_loops_did_is_counted_and_nothing_says_when_it_was_created() -> None:
    metrics = metrics_of()
    metrics.count_cycle(duration_ms=2, outcome="idle")
    metrics.count_cycle(duration_ms=20_000, outcome="committed")
    metrics.count_commit("append_ranges", 40)
    metrics.count_repaired(4)
    metrics.count_error("unavailable")
    found = scraped(metrics)
    assert found[sample("floeberg_cycle_duration_seconds_count", outcome="idle")] == 1
    assert found[sample("floeberg_cycle_duration_seconds_bucket", outcome="idle", le="0.003")] == 1
    assert found[sample("floeberg_cycle_duration_seconds_bucket", outcome="committed", le="10.0")] == 0
    assert found[sample("floeberg_cycle_duration_seconds_sum", outcome="committed")] == 20
    assert found[sample("floeberg_commit_duration_seconds_bucket", change="append_ranges", le="0.05")] == 1
    assert found[sample("floeberg_repaired_records_total")] == 4
    assert found[sample("floeberg_errors_total", kind="unavailable")] == 1
    assert found[sample("floeberg_errors_total", kind="corrupt")] == 0
    assert not [name for name, _ in found if name.endswith("_created")]


def test_bounds_stand_by_their_unit_and_the_process_tells_of_itself() -> None:
    bounds = (BoundUse(name="spool_max_bytes", used=90, limit=100), BoundUse(name="open_files", used=3, limit=9))
    found = scraped(metrics_of(status=replace(STATUS, bounds=bounds)))
    assert found[sample("floeberg_bound_used_bytes", bound="spool_max")] == 90
    assert found[sample("floeberg_bound_limit_bytes", bound="spool_max")] == 100
    assert (found[sample("floeberg_open_files")], found[sample("floeberg_open_files_limit")]) == (3, 9)
    assert [name for name, labels in found if ("bound", "open_files") in labels] == []
    assert found[sample("floeberg_build_info", version="1.0", python=platform.python_version())] == 1
    assert found[sample("process_cpu_seconds_total")] > 0
    assert found[sample("process_resident_memory_bytes")] > 0


def test_labels_survive_whatever_is_in_them() -> None:
    text, evil = Exposition(), 'a "quoted" \\ name\nof two lines'
    text.gauges("floeberg_test", "Nothing", [(labels_text(source=evil), 1.5)])
    (family,) = text_string_to_metric_families(text.to_bytes().decode())
    (found,) = family.samples
    assert (found.labels, found.value) == ({"source": evil}, 1.5)
