"""The story of the demo, chapter by chapter. Every chapter raises when what it tells is not so."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from engine.errors import Corrupt, Invalid, Unavailable
from floeberg.demo.options import ORDER_COUNT, DemoOptions
from floeberg.demo.orders import PARTITIONS, TOPIC, OrderProducer, ProducedOrders
from floeberg.demo.playground import SEGMENT_BYTES, Playground
from floeberg.demo.read_back import ReadBack, read_everything
from floeberg.demo.stage import Stage
from floeberg.demo.summary import Outcome, show_summary
from floeberg.java.jdk import java_command
from floeberg.java.maven_jars import ICEBERG_SPARK, KAFKA_BROKER, resolve_jars
from floeberg.kernels import compile_kernels
from floeberg.sql.answer import SqlAnswer
from floeberg.sql.answer_formats import table_lines
from floeberg.sql.duckdb_session import DuckdbSession
from serving.status.page import size_text

_FORMATS = frozenset({"avro", "string"})
"""Of the orders and their keys."""

_TIERING_TIMEOUT_SECONDS = 180.0
_LOOK_EVERY_SECONDS = 0.25

_DUCKDB_QUERY = f"""
SELECT channel, count(*) AS orders, round(sum(amount), 2) AS revenue, round(avg(len(items)), 2) AS items
FROM {TOPIC} GROUP BY channel ORDER BY revenue DESC
"""
_SPARK_QUERY = f"""
SELECT shipping.country AS country, count(*) AS orders, round(sum(amount), 2) AS revenue
FROM {TOPIC} GROUP BY 1 ORDER BY revenue DESC LIMIT 5
"""


def run_demo(options: DemoOptions, console: Console) -> None:
    """Tell the story. Raises one of our errors when a chapter does not end well; nothing is left running then."""
    directory = options.directory or Path(tempfile.mkdtemp(prefix="floeberg-demo-"))
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise Invalid("The demo needs an empty folder", file=str(directory))
    stage = Stage(console)
    console.print("[bold]Floeberg[/bold]: one copy of a Kafka topic, read by offset and by SQL")
    stage.say(f"[dim]everything happens in {directory}[/dim]")
    stage.chapter("The parts")
    with ThreadPoolExecutor(1) as beside:
        compiled = beside.submit(compile_kernels, _FORMATS, tell=lambda progress: stage.say(str(progress)))
        _fetch_parts(stage)
        compiled.result()
    playground = Playground(directory, kept=options.keep)
    producer: OrderProducer | None = None
    finished = False
    try:
        _start(stage, playground)
        producer = OrderProducer(playground.broker.bootstrap)
        outcome = _chapters(stage, playground, producer, options)
        show_summary(console, outcome)
        if options.keep:
            producer.stop()
            _keep(console, playground, producer)
        finished = True
    finally:
        if producer is not None and not finished:
            producer.abandon()
        elif producer is not None:
            producer.stop()
        playground.close(gently=finished)
        if finished and not options.keep and options.directory is None:
            shutil.rmtree(directory, ignore_errors=True)
        elif not finished:
            console.print(f"\n[dim]logs are kept in {directory}[/dim]")


def _fetch_parts(stage: Stage) -> None:
    java_command()
    for name, artifacts in (("Kafka", KAFKA_BROKER), ("Iceberg for Spark", ICEBERG_SPARK)):
        started = time.monotonic()
        jars = resolve_jars(artifacts)
        fetched = time.monotonic() - started > 1.0
        stage.say(f"{name} {artifacts[0].version}: {len(jars)} jars {'fetched' if fetched else 'in the cache'}")


def _start(stage: Stage, playground: Playground) -> None:
    stage.chapter("A stock Kafka broker with Floeberg's plugin, and the daemon beside it")
    playground.start_broker()
    stage.say(f"broker at [bold]{playground.broker.bootstrap}[/bold]; its own log directory, its own clients")
    stage.say(
        f"topic [bold]{TOPIC}[/bold]: {PARTITIONS} partitions, Avro, {size_text(SEGMENT_BYTES)} segments,"
        " remote.storage.enable=true, local.retention.ms=1000"
    )
    # It starts while orders are produced: nothing waits for it, that is the point of a log.
    playground.start_daemon()


def _chapters(stage: Stage, playground: Playground, producer: OrderProducer, options: DemoOptions) -> Outcome:
    stage.chapter("A producer writes a million orders" if options.order_count == ORDER_COUNT else "A producer writes")
    produced = _produce(stage, playground, producer, options.order_count)
    stage.chapter("Closed segments become Parquet; the broker drops what is verified")
    playground.await_daemon()
    tiering_seconds = _watch(stage, playground, produced)
    stage.chapter("An unmodified consumer reads everything, from offset 0 into the live tail")
    read = _read(stage, playground, producer)
    stage.chapter("SQL on the same files, through the Iceberg REST catalog")
    _query(stage, playground, with_spark=options.with_spark_sql)
    stage.chapter("floeberg fsck: the table is what the log was")
    report = _fsck(stage, playground, producer)
    stage.end_chapter()
    status = playground.status()
    return Outcome(
        produced=produced,
        read=read,
        tiering_seconds=tiering_seconds,
        log_bytes=playground.produced_log_bytes,
        local_log_bytes=playground.local_log().size_bytes,
        table_bytes=report["size_bytes"],
        table_records=report["record_count"],
        file_count=report["file_count"],
        commit_count=status.commit_count,
        memory_bytes=sum(status.memory_bytes.values()),
        chapter_seconds=dict(stage.chapter_seconds),
        elapsed_seconds=stage.elapsed_seconds,
    )


def _produce(stage: Stage, playground: Playground, producer: OrderProducer, count: int) -> ProducedOrders:
    with stage.progress() as bars:

        def show(done: int) -> None:
            log = playground.local_log()
            note = f"{done:,} orders, {log.segment_count} local segments, {size_text(log.size_bytes)}"
            bars.show("produced", done, count, note)

        produced = producer.burst(count, show)
    stage.say(f"{produced.record_count:,} orders in {produced.seconds:.1f} s; a trickle of new ones goes on from here")
    producer.start_trickle()
    return produced


def _watch(stage: Stage, playground: Playground, produced: ProducedOrders) -> float:
    """Until every segment closed by now is in the table and off the broker's disk; how long that took, in seconds."""
    started = time.monotonic()
    goal = playground.local_log()
    goal_records, most_segments = sum(goal.closed_end), goal.segment_count
    with stage.progress() as bars:
        while True:
            status, log = playground.status(), playground.local_log()
            ends = {part.partition: part.tiered_end or 0 for part in status.partitions if part.topic == TOPIC}
            tiered = sum(min(ends.get(number, 0), goal.closed_end[number]) for number in range(PARTITIONS))
            most_segments = max(most_segments, log.segment_count)
            dropped = sum(log.start[number] >= goal.closed_end[number] for number in range(PARTITIONS))
            bars.show("in the Iceberg table", tiered, goal_records, f"{tiered:,} records")
            bars.show(
                "dropped by the broker",
                sum(min(log.start[number], goal.closed_end[number]) for number in range(PARTITIONS)),
                goal_records,
                f"{log.segment_count} local segments, {size_text(log.size_bytes)} left",
            )
            if tiered >= goal_records and dropped == PARTITIONS:
                break
            if time.monotonic() - started > _TIERING_TIMEOUT_SECONDS:
                reasons = [str(part.problem or part.waiting) for part in status.partitions if part.topic == TOPIC]
                raise Unavailable(
                    f"{tiered:,} of {goal_records:,} records are in the table after {_TIERING_TIMEOUT_SECONDS:.0f} s,"
                    f" {log.segment_count} segments are local: {'; '.join((*status.problems, *reasons))}",
                    file=str(playground.daemon_log),
                )
            time.sleep(_LOOK_EVERY_SECONDS)
    stage.say(
        f"{goal_records:,} of {produced.record_count:,} orders live in the table alone now; open segments stay local"
    )
    return time.monotonic() - started


def _read(stage: Stage, playground: Playground, producer: OrderProducer) -> ReadBack:
    local = playground.local_log()
    with stage.progress() as bars:

        def show(done: int, total: int) -> None:
            bars.show("read by the consumer", done, total, f"{done:,} records")

        read = read_everything(playground.broker.bootstrap, producer.sent, local.start, show)
    stage.say(
        f"[green]every record once, in order, byte for byte[/green]: {read.tiered_count:,} out of Parquet,"
        f" {read.record_count - read.tiered_count:,} from local segments, {read.live_count:,} of them as they were sent"
    )
    return read


def _query(stage: Stage, playground: Playground, *, with_spark: bool) -> None:
    with DuckdbSession(playground.table_door_url, namespace="kafka") as duckdb:
        names, rows = duckdb.query(_DUCKDB_QUERY)
    stage.say("[bold]DuckDB[/bold]: revenue by channel")
    _show_rows(stage, names, rows)
    if not with_spark:
        return
    answer = playground.run("sql", "--engine", "spark", "--json", _SPARK_QUERY)
    if answer.returncode != 0:
        raise Unavailable(f"Spark gave no result: {answer.stderr.strip()[-500:]}")
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    stage.say("[bold]Spark[/bold]: the five best countries")
    _show_rows(stage, list(found[0]), [tuple(row.values()) for row in found])


def _show_rows(stage: Stage, names: list[str], rows: list[tuple[Any, ...]]) -> None:
    lines = "\n".join(table_lines(SqlAnswer(names=names, batches=iter([rows]))))
    stage.console.print(Padding(Text(lines), (0, 0, 0, 4), expand=False))


def _fsck(stage: Stage, playground: Playground, producer: OrderProducer) -> dict[str, Any]:
    answer = playground.run("fsck", TOPIC, "--json")
    if not answer.stdout:
        raise Unavailable(f"fsck gave no report: {answer.stderr.strip()[-500:]}")
    report: dict[str, Any] = json.loads(answer.stdout)["tables"][0]
    if not report["healthy"]:
        raise Corrupt(f"fsck found: {report['findings'][0]}", topic=TOPIC)
    for partition in report["partitions"]:
        start, end = partition["ledger"]
        if start != 0 or partition["record_count"] != end or end > len(producer.sent[partition["partition"]]):
            raise Corrupt(
                f"the table counts {partition['record_count']} records in [{start}, {end})",
                topic=TOPIC,
                partition=partition["partition"],
            )
    stage.say(
        f"[green]healthy[/green]: {report['record_count']:,} records in {report['file_count']} files, no gap, no"
        " overlap, every digest and bound true"
    )
    return report


def _keep(console: Console, playground: Playground, producer: OrderProducer) -> None:
    pids = playground.release(producer.next_order_id)
    # As the user started this one; a script that is not on the PATH is shown with its folder.
    program = "floeberg" if shutil.which("floeberg") else f"{sys.executable} -m floeberg"
    command = f"{escape(program)} -c {escape(str(playground.settings_file))}"
    console.print(
        f"\n[bold]Everything is still running.[/bold] Broker {playground.broker.bootstrap}, orders trickle in."
    )
    console.print(f"  status page  {playground.table_door_url}/", soft_wrap=True)
    console.print(f"  try          {command} status", soft_wrap=True)
    console.print(f"               {command} cat {TOPIC} -n 5", soft_wrap=True)
    console.print(f"               {command} sql 'SELECT count(*) FROM {TOPIC}'", soft_wrap=True)
    stop = f"kill {' '.join(map(str, pids))} && rm -r {escape(str(playground.directory))}"
    console.print(f"  stop         [bold]{stop}[/bold]", soft_wrap=True)
