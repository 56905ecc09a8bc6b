"""Real Spark workers: the same answers as in process, a dead worker costs one task, a real broker end to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from engine.broker import KafkaBroker
from engine.clock import SystemClock
from engine.errors import Unavailable
from engine.offset_range import OffsetRange
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.commit.writer import TableWriter
from engine.table.manifests import TableFile
from engine.table.merge.merge_files import Merged, MergeTask, merge_files
from engine.table.proof.verifier import Verifier
from floeberg.processes.local_broker import LocalBroker
from tests.faults.deadly_path import DeadlyPath
from tests.faults.jvm_killing_path import is_spark
from tests.tiering.broker_on_disk import BrokerOnDisk
from tests.tiering.string_table import string_table
from tiering.loop import TieringLoop
from tiering.rewrite import RewriteTask, Rewritten, rewrite_segment
from topics.topic_rule import TopicRule
from workers.sized_workers import MOST_HERE, SizedWorkers
from workers.spark_workers import SparkWorkers
from workers.workers import Answer, Answered, InProcessWorkers, ReadBackTask, Task, Workers, read_back

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-workers")]


def answers(workers: Workers, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> list[Answered[Answer]]:
    """In the order of the tasks."""
    found = dict(workers.run(work, dict(enumerate(tasks))))
    return [found[index] for index in range(len(tasks))]


SMALL_SEGMENTS = {"segment.bytes": str(1 << 20)}


@pytest.fixture
def tasks(tmp_path: Path) -> list[RewriteTask]:
    """One task for each of four partitions, 100 text records each."""
    broker = BrokerOnDisk(tmp_path)
    made = []
    for partition in broker.create_topic("orders", partitions=4):
        broker.append_segment(partition, [f"value {number}".encode() for number in range(100)])
        made.append(
            RewriteTask(
                table=string_table(tmp_path / "warehouse", partition),
                partition=partition,
                range=OffsetRange(start=0, end=100),
                leader_epoch=0,
                segment_path=broker.directory(partition) / f"{0:020d}.log",
                closed=True,
                aborted=(),
                attempt="a1",
            )
        )
    return made


def test_workers_answer_what_this_process_would(spark: SparkWorkers, tasks: list[RewriteTask]) -> None:
    outcomes = answers(spark, rewrite_segment, tasks)
    here = answers(InProcessWorkers(), rewrite_segment, [replace(task, attempt="a2") for task in tasks])
    for there, expected in zip(outcomes, here, strict=True):
        assert isinstance(there, Rewritten)
        assert isinstance(expected, Rewritten)
        assert there.digest == expected.digest
        assert there.file is not None
        assert expected.file is not None
        assert replace(there.file, path="") == replace(expected.file, path="")
    files = [outcome.file for outcome in outcomes if isinstance(outcome, Rewritten)]
    checks = [ReadBackTask(table=task.table, file=file) for task, file in zip(tasks, files, strict=True) if file]
    assert answers(spark, read_back, checks) == answers(InProcessWorkers(), read_back, checks)


def test_workers_repair_as_this_process_would(spark: SparkWorkers, tasks: list[RewriteTask]) -> None:
    repairs = []
    for task, written in zip(tasks, answers(InProcessWorkers(), rewrite_segment, tasks), strict=True):
        assert isinstance(written, Rewritten)
        assert written.file is not None
        file = TableFile(
            partition=task.partition.partition,
            range=task.range,
            path=written.file.path,
            size_bytes=written.file.size_bytes,
            record_count=written.file.record_count,
            leader_epoch=0,
        )
        repairs.append(MergeTask(table=task.table, files=(file,), attempt="a2", redecode=True))
    Path(repairs[1].files[0].path).unlink()
    outcomes = answers(spark, merge_files, repairs)
    assert [isinstance(outcome, Merged) for outcome in outcomes] == [True, False, True, True]
    assert outcomes[::2] == answers(InProcessWorkers(), merge_files, repairs)[::2]


def test_failing_task_comes_back_with_its_coordinates_and_leaves_the_others_alone(
    spark: SparkWorkers, tasks: list[RewriteTask]
) -> None:
    tasks[1].segment_path.unlink()
    outcomes = answers(spark, rewrite_segment, tasks)
    assert [isinstance(outcome, Rewritten) for outcome in outcomes] == [True, False, True, True]
    failed = outcomes[1]
    assert isinstance(failed, Unavailable)
    assert (failed.topic, failed.partition) == ("orders", 1)


def test_killed_worker_costs_its_own_task_only(spark: SparkWorkers, tasks: list[RewriteTask]) -> None:
    tasks[2] = replace(tasks[2], segment_path=DeadlyPath(tasks[2].segment_path))
    outcomes = answers(spark, rewrite_segment, tasks)
    assert [isinstance(outcome, Rewritten) for outcome in outcomes] == [True, True, False, True]
    assert isinstance(outcomes[2], Unavailable)
    # Spark is as good as before.
    assert isinstance(answers(spark, rewrite_segment, tasks[:1])[0], Rewritten)


def test_worker_killed_by_one_of_many_small_tasks_costs_no_other(spark: SparkWorkers, tasks: list[RewriteTask]) -> None:
    many = [replace(task, attempt=f"b{turn}") for turn in range(9) for task in tasks]
    assert len(many) > MOST_HERE
    many[20] = replace(many[20], segment_path=DeadlyPath(many[20].segment_path))
    sized = SizedWorkers(here=InProcessWorkers(), elsewhere=spark, size_of=lambda task: task.size_bytes)
    outcomes = answers(sized, rewrite_segment, many)
    assert [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, Rewritten)] == [20]


def test_spark_that_was_killed_is_started_again(spark: SparkWorkers, tasks: list[RewriteTask]) -> None:
    answers(spark, rewrite_segment, tasks[:1])
    running = [child for child in psutil.Process().children() if is_spark(child)]
    assert running
    for jvm in running:
        jvm.kill()
        jvm.wait(90)
    assert all(isinstance(outcome, Rewritten) for outcome in answers(spark, rewrite_segment, tasks))


@pytest.mark.broker
def test_topic_of_a_real_broker_is_tiered_exactly_once_without_its_aborted_records(
    spark: SparkWorkers, broker: LocalBroker, topic_name: str, tmp_path: Path
) -> None:
    broker.create_topic(topic_name, partitions=2, config=SMALL_SEGMENTS)
    produced = produce_with_transactions(broker.bootstrap, topic_name)
    catalog = open_catalog(embedded_catalog_properties(tmp_path / "data"))
    clock = SystemClock()
    loop = TieringLoop(
        broker=KafkaBroker(bootstrap=broker.bootstrap),
        log_dirs=broker.log_dirs,
        writer=TableWriter(catalog, clock),
        verifier=Verifier(),
        workers=spark,
        rules=[TopicRule(pattern=topic_name, value_format="string", freshness_ms=1)],
        clock=clock,
    )
    reports = [loop.cycle() for _ in range(4)]
    assert all(report.is_good for report in reports)
    assert sum(len(ranges) for report in reports for ranges in report.committed.values()) > 2
    (name,) = catalog.list_tables("kafka")
    rows = catalog.load_table(name).scan(selected_fields=("kafka_partition", "kafka_offset", "value")).to_arrow()
    stored: dict[int, list[str]] = {0: [], 1: []}
    for row in rows.sort_by([("kafka_partition", "ascending"), ("kafka_offset", "ascending")]).to_pylist():
        stored[row["kafka_partition"]].append(row["value"])
    assert stored == produced


def produce_with_transactions(bootstrap: str, topic: str) -> dict[int, list[str]]:
    """Committed values by partition, in order: plain, committed and aborted ones mixed, over several segments."""
    committed: dict[int, list[str]] = {0: [], 1: []}
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for turn in range(12):
        producer.begin_transaction()
        is_kept = turn % 3 != 1
        for number in range(400):
            value = f"turn {turn} number {number} " + f"{number * 7919 + turn:09d}" * 100
            producer.produce(topic, value=value.encode(), partition=number % 2)
            if is_kept:
                committed[number % 2].append(value)
            if number % 100 == 0:
                producer.poll(0)
        if is_kept:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    return committed
