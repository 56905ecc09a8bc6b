"""Spark breaks under the loop: workers and JVM killed in the middle of a task, again and again, and no JVM at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.topic_partition import TopicIdPartition
from tests.faults.broken_world import BrokenWorld
from tests.faults.deadly_path import DeadlyPath
from tests.faults.jvm_killing_path import JvmKillingPath
from tiering.rewrite import RewriteTask, rewrite_segment
from workers.spark_session import SparkSettings
from workers.spark_workers import SparkWorkers

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-workers")]


@pytest.fixture
def world(tmp_path: Path) -> BrokenWorld:
    return BrokenWorld(tmp_path)


class Sabotaged:
    """Spark, with other paths given to the tasks of one partition while ``trap`` is set; counts its tries."""

    def __init__(self, spark: SparkWorkers, victim: TopicIdPartition) -> None:
        self.trap: Callable[[Path], Path] | None = None
        self.tries = 0
        self._spark = spark
        self._victim = victim

    def run(self, work: Callable[[Any], Any], tasks: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
        if work is rewrite_segment:
            self.tries += any(task.partition == self._victim for task in tasks.values())
            tasks = {key: self._trapped(task) for key, task in tasks.items()}
        return self._spark.run(work, tasks)

    def _trapped(self, task: RewriteTask) -> RewriteTask:
        if self.trap is None or task.partition != self._victim:
            return task
        return replace(task, segment_path=self.trap(task.segment_path))

    def start(self) -> None:
        self._spark.start()

    def stop(self) -> None:
        """The fixture's Spark stays."""


def test_spark_that_does_not_start_fails_the_tasks_and_not_the_loop(
    world: BrokenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for kept_by_another_test in ("_active_spark_context", "_gateway", "_jvm"):
        monkeypatch.setattr(f"pyspark.SparkContext.{kept_by_another_test}", None)
    spark = SparkWorkers(SparkSettings(master="local[1]", java_home=tmp_path / "no-jdk"))
    starts = []
    monkeypatch.setattr(spark, "start", lambda: (starts.append(1), SparkWorkers.start(spark)))
    loop = world.watched_loop(spark)
    for _ in range(3):
        world.produce(world.bad, world.good)
    world.cycle(loop)
    world.problem_is_shown(world.bad, "unavailable", "Spark does not start", "JDK 17")
    assert len(starts) == 2, "once for the first range of a new table and once for all others, not once a task"
    assert world.spooled_files()


def test_partition_that_kills_its_worker_for_ever_costs_the_others_nothing_and_itself_a_wait(
    world: BrokenWorld, spark: SparkWorkers
) -> None:
    sabotaged = Sabotaged(spark, world.bad)
    sabotaged.trap = DeadlyPath
    loop = world.watched_loop(sabotaged)
    for _ in range(4):
        world.produce(world.bad, world.good)
        world.cycle(loop)
        world.went_on(world.good)
    assert sabotaged.tries == 3
    world.problem_is_shown(world.bad, "unavailable", "a Spark job failed")
    assert world.metric("floeberg_partition_waiting", topic="orders", partition="0", reason="retry") == 1
    sabotaged.trap = None
    world.recover(loop)
    world.all_is_well()


def test_jvm_that_is_killed_in_the_middle_of_a_task_is_replaced_and_nothing_is_lost(
    world: BrokenWorld, spark: SparkWorkers
) -> None:
    sabotaged = Sabotaged(spark, world.bad)
    loop = world.watched_loop(sabotaged)
    world.produce(world.bad, world.good)
    world.cycle(loop)
    world.produce(world.bad, world.good)
    sabotaged.trap = JvmKillingPath
    world.cycle(loop)
    world.went_on(world.good)
    world.problem_is_shown(world.bad, "unavailable", "a Spark job failed")
    assert any(entry["event"] == "spark_died" for entry in world.logged)
    for path in (*world.spool_dir.glob("*/*/*.log"), *world.broker.directory(world.bad).glob("*.log")):
        path.with_name(f"{path.name}.harmless").touch()
    world.recover(loop)
    world.all_is_well()
