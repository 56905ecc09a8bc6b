"""Health, metrics and the page of a daemon in several states."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.testclient import TestClient

from engine.errors import Invalid
from serving.status.daemon_status import (
    BoundUse,
    CompactionStatus,
    DaemonStatus,
    LatestStatus,
    Phase,
    SchemaSourceStatus,
    TableSweepStatus,
)
from serving.status.metrics import DaemonLook, Metrics
from serving.status.page import compaction_lines, duration_text, latest_lines, size_text, sweep_lines
from serving.status.routes import STUCK_AFTER_MS, status_routes
from serving.status.topic_series import PartitionNow
from topics.gone_topic_status import GoneTopicStatus
from topics.partition_status import PartitionStatus

ORDERS = PartitionStatus(
    topic="orders",
    partition=2,
    tiered_start=0,
    tiered_end=700,
    stable_end=1000,
    lag_ms=4000,
    rows=700,
    raw_rows=3,
    behind_ms=1000,
)
RUNNING = DaemonStatus(
    version="1.0",
    phase=Phase.RUNNING,
    started_ms=1_000_000,
    now_ms=1_060_000,
    uptime_ms=60_000,
    silent_ms=1_000,
    last_cycle_ms=1_059_000,
    cycle_count=5,
    partitions=(ORDERS,),
    bounds=(BoundUse(name="spool_bytes", used=90, limit=100),),
    schema_sources=(SchemaSourceStatus(name="http://registry", questions=5, failures=2),),
    memory_bytes={"daemon": 1024},
)


def client_of(status: DaemonStatus) -> TestClient:
    return TestClient(Starlette(routes=status_routes(lambda: status, metrics_of(status))))


def metrics_of(status: DaemonStatus) -> Metrics:
    partitions = tuple(map(PartitionNow.of, status.partitions))
    return Metrics(lambda: DaemonLook(status=replace(status, partitions=()), partitions=partitions))


def samples_of(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_running_daemon_is_alive_and_ready() -> None:
    client = client_of(RUNNING)
    assert [client.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (replace(RUNNING, phase=Phase.STARTING), "starting"),
        (replace(RUNNING, last_cycle_ms=None), "first tiering cycle"),
        (replace(RUNNING, problems=("the broker is away",)), "the broker is away"),
    ],
)
def test_daemon_that_does_not_work_yet_is_alive_but_not_ready(status: DaemonStatus, reason: str) -> None:
    client = client_of(status)
    answer = client.get("/readyz")
    assert (answer.status_code, client.get("/healthz").status_code) == (503, 200)
    assert reason in answer.text


def test_daemon_whose_cycle_hangs_is_not_alive() -> None:
    hung = replace(RUNNING, silent_ms=2 * STUCK_AFTER_MS)
    assert client_of(hung).get("/healthz").status_code == 503
    assert client_of(replace(hung, phase=Phase.STOPPING)).get("/healthz").status_code == 200


def test_clock_that_jumps_ends_no_daemon_and_shows_no_negative_time() -> None:
    for now_ms in (0, RUNNING.now_ms + 365 * 86_400_000):
        client = client_of(replace(RUNNING, now_ms=now_ms))
        assert client.get("/healthz").status_code == 200
        assert "running for 1 min" in client.get("/").text


def test_scrape_says_what_is_wrong_with_which_partition_and_why_it_waits() -> None:
    trouble = (
        replace(ORDERS, partition=0, problem="a CRC is wrong", problem_kind="corrupt", waiting_kind="stopped"),
        replace(ORDERS, partition=1, problem="the disk is full", problem_kind="unavailable", waiting_kind="retry"),
        replace(ORDERS, partition=2, waiting_kind="nothing_closed"),
    )
    status = replace(
        RUNNING, partitions=trouble, problems=("a disk is gone", "another too"), problem_kinds=("unavailable",) * 2
    )
    samples = samples_of(metrics_of(status).exposition().decode())
    assert samples["floeberg_partition_problem", "corrupt", "0", "orders"] == 1
    assert samples["floeberg_partition_problem", "unavailable", "1", "orders"] == 1
    assert [samples["floeberg_partition_stopped", str(number), "orders"] for number in range(3)] == [1, 0, 0]
    reasons = {name[1:] for name in samples if name[0] == "floeberg_partition_waiting"}
    assert reasons == {("0", "stopped", "orders"), ("1", "retry", "orders"), ("2", "nothing_closed", "orders")}
    assert samples["floeberg_problems", "unavailable"] == 2
    assert samples["floeberg_problems", "corrupt"] == 0
    assert samples["floeberg_silent_seconds",] == 1


def test_page_escapes_what_comes_from_outside_and_shows_the_trouble() -> None:
    evil = replace(ORDERS, topic="<script>", problem="bad & worse")
    page = client_of(replace(RUNNING, partitions=(evil,), problems=("a < b",))).get("/").text
    assert "<script>" not in page
    assert "bad &amp; worse" in page
    assert "a &lt; b" in page
    assert "needs a look" in page
    assert "healthy" in client_of(RUNNING).get("/").text


def test_status_survives_the_way_through_json() -> None:
    body = client_of(RUNNING).get("/status").text
    assert DaemonStatus.from_dict(json.loads(body)) == RUNNING
    assert json.loads(body)["partitions"][0]["lag_records"] == 300


def test_damage_that_readers_met_is_named_and_leaves_the_daemon_ready() -> None:
    status = replace(RUNNING, damages=("a <file> is missing", "another"), damage_count=5)
    client = client_of(status)
    ready = client.get("/readyz")
    assert (ready.status_code, client.get("/healthz").status_code) == (200, 200)
    first, second, third, more = ready.text.splitlines()
    assert (first, second, third) == ("ok", "a <file> is missing", "another")
    assert "3 more files or ranges" in more
    assert "a &lt;file&gt; is missing" in client.get("/").text
    assert "needs a look" in client.get("/").text
    assert not status.is_healthy
    assert samples_of(client.get("/metrics").text)["floeberg_damages",] == 5
    assert DaemonStatus.from_dict(json.loads(client.get("/status").text)) == status


@pytest.mark.parametrize("plain", [{}, {"phase": "resting"}, {"phase": "running", "partitions": 3}])
def test_json_that_is_no_status_is_invalid(plain: dict[str, object]) -> None:
    with pytest.raises(Invalid, match="not the status"):
        DaemonStatus.from_dict(plain)


def test_sizes_and_durations_read_well() -> None:
    assert [size_text(size) for size in (0, 1536, 5 << 30)] == ["0 B", "1.5 KiB", "5.0 GiB"]
    assert [duration_text(ms) for ms in (0, 59_999, 200_000, 90_000_000)] == ["0 s", "59 s", "3 min 20 s", "1 d 1 h"]


def test_schema_registry_that_is_away_is_shown_and_leaves_the_daemon_ready() -> None:
    away = SchemaSourceStatus(name="r", away_ms=90_000, problem="r does not answer: <refused>", questions=7, failures=6)
    status = replace(RUNNING, schema_sources=(*RUNNING.schema_sources, away))
    client = client_of(status)
    assert [client.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]
    assert "r does not answer: &lt;refused&gt;" in client.get("/").text
    assert (RUNNING.is_healthy, status.is_healthy) == (True, False)
    samples = samples_of(client.get("/metrics").text)
    seconds = {name[1]: value for name, value in samples.items() if name[0] == "floeberg_schema_source_away_seconds"}
    assert seconds == {"http://registry": 0, "r": 90}
    assert samples["floeberg_schema_questions_total", "failed", "r"] == 6
    assert samples["floeberg_schema_questions_total", "answered", "r"] == 1
    assert DaemonStatus.from_dict(status.to_dict()) == status


def test_tables_of_newest_records_are_shown_and_one_that_does_not_get_on_needs_a_look() -> None:
    assert not latest_lines(RUNNING.latest, now_ms=RUNNING.now_ms)
    latest = LatestStatus(tables=2, behind_offsets=1200, commits=3, rows=4000, builds=1, last_commit_ms=1_050_000)
    status = replace(RUNNING, latest=latest)
    client = client_of(status)
    told = latest_lines(latest, now_ms=RUNNING.now_ms)
    assert told == (
        "2 tables, 1,200 offsets behind",
        "4,000 rows in 3 commits, 1 partitions built whole; last 10 s ago",
    )
    found = samples_of(client.get("/metrics").text)
    assert found["floeberg_latest_behind_offsets",] == 1200
    assert found["floeberg_latest_rows_total",] == 4000
    assert found["floeberg_latest_last_commit_timestamp_seconds",] == 1050
    assert status.is_healthy
    assert DaemonStatus.from_dict(json.loads(json.dumps(status.to_dict()))) == status
    stuck = replace(status, latest=replace(latest, problems=("the index of keys can't be used",)))
    assert not stuck.is_healthy
    assert "the index of keys can&#x27;t be used" in client_of(stuck).get("/").text
    assert samples_of(client_of(stuck).get("/metrics").text)["floeberg_latest_problems",] == 1


def test_compaction_is_shown_and_what_it_met_damaged_needs_a_look() -> None:
    compaction = CompactionStatus(
        backlog_groups=2,
        backlog_files=1200,
        backlog_bytes=5 << 20,
        last_run_ms=1_050_000,
        merges=3,
        files=96,
        read_bytes=7,
        written_bytes=3 << 20,
        appended_bytes=2 << 20,
        write_amplification=2.5,
        conflicts=4,
        given_up=1,
        failures=2,
        cpu_ms=1500,
        held=("somebody else changed <the files>",),
    )
    status = replace(RUNNING, compaction=compaction)
    client = client_of(status)
    assert compaction_lines(compaction, now_ms=RUNNING.now_ms) == (
        "1,200 files, 5.0 MiB, are to be merged",
        "96 files became 3, 3.0 MiB; last 10 s ago",
        "a byte is written 2.50 times; 4 conflicts, 1 given up, 2 failed",
    )
    assert client.get("/page/overview").json()["held"] == ["somebody else changed <the files>"]
    found = samples_of(client.get("/metrics").text)
    assert found["floeberg_compaction_backlog_files",] == 1200
    assert found["floeberg_compaction_written_bytes_total",] == 3 << 20
    assert found["floeberg_compaction_cpu_seconds_total",] == 1.5
    assert found["floeberg_compaction_last_run_timestamp_seconds",] == 1050
    assert status.is_healthy
    assert DaemonStatus.from_dict(json.loads(json.dumps(status.to_dict()))) == status
    damaged = replace(status, compaction=replace(compaction, problems=("a data file can't be written again",)))
    assert not damaged.is_healthy
    assert "a data file can&#x27;t be written again" in client_of(damaged).get("/").text
    assert client_of(damaged).get("/readyz").status_code == 200


def test_files_are_shown_by_reason_and_a_sweep_that_does_not_get_on_needs_a_look() -> None:
    sweep = TableSweepStatus(
        topic="<orders>",
        table="kafka.orders",
        files={"live": 3, "history": 2, "erased": 0, "grace": 1, "unreferenced": 4, "foreign": 5},
        bytes={
            "live": 3 << 20,
            "history": 2 << 20,
            "erased": 0,
            "grace": 1 << 20,
            "unreferenced": 4 << 20,
            "foreign": 5 << 20,
        },
        removed_files=7,
        removed_bytes=7 << 20,
        last_ms=1_000_000,
        silent_ms=60_000,
        goes_next_ms=1_060_000 + 3_600_000,
        waiting={"a reader has it open": 2},
    )
    status = replace(RUNNING, sweeps=(sweep,), now_ms=1_060_000)
    assert status.is_healthy
    told = "; ".join(sweep_lines(sweep, now_ms=status.now_ms))
    assert told == ("2 files stay: a reader has it open; 7 files, 7.0 MiB, removed since the start; the next go in 1 h")
    assert client_of(status).get("/page/overview").json()["files"]["bytes"]["history"] == 2 << 20
    found = samples_of(client_of(status).get("/metrics").text)
    assert found["floeberg_table_bytes", "history", "kafka.orders", "<orders>"] == 2 << 20
    assert found["floeberg_table_files", "foreign", "kafka.orders", "<orders>"] == 5
    assert found["floeberg_swept_files_total", "kafka.orders", "<orders>"] == 7
    assert found["floeberg_sweep_silent_seconds", "kafka.orders", "<orders>"] == 60
    assert found["floeberg_sweep_problem", "kafka.orders", "<orders>"] == 0
    assert DaemonStatus.from_dict(json.loads(json.dumps(status.to_dict()))) == status
    held = replace(sweep, held="its property gc.enabled is false", put_off="the catalog does not answer")
    shown = client_of(replace(status, sweeps=(held,))).get("/page/overview").json()
    assert shown["files"]["notes"] == [
        "kafka.orders: its property gc.enabled is false",
        "kafka.orders: the catalog does not answer",
    ]
    stuck = replace(status, sweeps=(replace(sweep, problem="4 files can't be removed"),))
    assert not stuck.is_healthy
    assert samples_of(client_of(stuck).get("/metrics").text)["floeberg_sweep_problem", "kafka.orders", "<orders>"] == 1


def test_tables_of_deleted_topics_say_what_comes_of_them() -> None:
    kept = GoneTopicStatus(topic="<orders>", topic_id="a", table="kafka.orders", since_ms=1_000_000, kept="of settings")
    waiting = replace(kept, kept=None, drops_at_ms=1_060_000 + 3_600_000)
    doubted = replace(kept, since_ms=None, kept="the broker does not say")
    dropped = replace(kept, since_ms=None, kept=None, is_dropped=True)
    status = replace(RUNNING, gone_topics=(kept, waiting, doubted, dropped), now_ms=1_060_000)
    assert status.is_healthy
    assert DaemonStatus.from_dict(json.loads(json.dumps(status.to_dict()))) == status
    shown = client_of(status).get("/page/overview").text
    for words in (
        "kafka.orders, of the topic <orders> (a), gone for 1 min: kept, of settings",
        "gone for 1 min: dropped in 1 h",
        "seems to be gone: kept, the broker does not say",
        "dropped, since the topic is gone from the broker",
    ):
        assert words in shown
    found = samples_of(client_of(status).get("/metrics").text)
    counts = {state: found["floeberg_gone_topic_tables", state] for state in ("kept", "waiting", "dropped")}
    assert counts == {"kept": 2, "waiting": 1, "dropped": 1}
