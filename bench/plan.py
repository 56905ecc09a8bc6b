"""Which benchmarks there are, what each needs, and the order that lets them share what they make."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import reference
from bench.cpu import MIB
from bench.measurement import Measurement, ratio
from bench.merging import compacted_sql, compaction
from bench.past import commit_rate, growth, history, latest
from bench.reading import consumer_replay, random_fetch, replay
from bench.round_program import RoundProgram
from bench.running import daemon_memory, freshness, quiet_partitions
from bench.running.native_stage import HISTORY_CONFIG, HISTORY_TOPIC, NativeStage
from bench.tiering import small_ranges, tiering_stages, warehouse_size
from bench.tiering.order_topic import OrderTopic, produce_orders, write_schema_folder
from bench.values import value_formats, value_shares
from bench.windows import clustering
from engine.clock import SystemClock
from engine.kafka_log.log_directory import scan_log_directories
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.commit.writer import TableWriter
from engine.table.topic_table import TopicTable
from floeberg.processes.local_broker import LocalBroker

TOPIC = "orders"
PARTITIONS = 3
GROUPS = {
    "structured_streaming": "Spark Structured Streaming into Iceberg",
    "tiering": "the tiering job, and what is read from its table: replay, fetch, size",
    "stages": "tiering in process by stage",
    "values": "value formats in process, and which values need raw bytes",
    "native": "broker, plugin and daemon: consumers, memory",
    "idle": "0, 1,000 and 5,000 partitions in which nothing happens",
    "commits": "several writers to one table, on SQLite and on a REST catalog",
    "history": "what a table's history costs after many commits: with old snapshots that go, and with all of them kept",
    "compaction": "merging files, and Spark's rewrite_data_files on the same ones; SQL before and after; growth",
    "freshness": "from produce to visible in DuckDB, by rate and freshness_ms",
    "small_ranges": "what a small range costs, in process and in Spark",
    "latest": "the table of each key's newest record: built, and brought on by updates",
    "clustering": "files in windows sorted by columns: selective SQL, replay, cold fetches, size",
}
_DROPPED_TIMEOUT_SECONDS = 300.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured: orders in each topic, bytes of a segment, repetitions, random fetches, commits a table,
    quiet partitions and for how long, MiB/s of fresh records, small files under SQL, slices after which a table's
    growth is looked at, commits after which its history is, keys of a table of newest records."""

    order_count: int
    segment_bytes: int
    repetitions: int
    fetches: int
    commits: int = 120
    quiet_partitions: tuple[int, ...] = (1_000, 5_000)
    quiet_seconds: float = 30.0
    rates_mib: tuple[int, ...] = freshness.RATES_MIB
    sql_files: int = 10_000
    growth_commits: tuple[int, ...] = growth.COMMITS
    history_commits: tuple[int, ...] = history.COMMITS
    latest_keys: tuple[int, ...] = latest.KEY_COUNTS


def run(folder: Path, scale: Scale, *, only: Collection[str] | None, say: Say) -> list[Measurement]:
    """Run the groups in ``only`` (all for None) with everything they make below ``folder``."""
    wanted = set(GROUPS if only is None else only)
    found: list[Measurement] = []
    if "values" in wanted:
        say(GROUPS["values"])
        found += value_formats.measure(repetitions=scale.repetitions)
        found += value_shares.measure(folder / "values")
    if wanted & {"structured_streaming", "tiering", "stages"}:
        found += _on_plain_broker(folder / "plain", scale, wanted, say)
    if "native" in wanted:
        say(GROUPS["native"])
        found += _on_native_stage(folder / "native", scale)
    if "freshness" in wanted:
        say(GROUPS["freshness"])
        found += freshness.measure(folder / "freshness", rates=scale.rates_mib)
    if "small_ranges" in wanted:
        say(GROUPS["small_ranges"])
        found += small_ranges.measure(folder / "small", repetitions=scale.repetitions)
    if "history" in wanted:
        say(GROUPS["history"])
        found += history.measure(folder / "history", commits=scale.history_commits, say=say)
    if "compaction" in wanted:
        say(GROUPS["compaction"])
        found += compaction.measure(folder / "compaction", repetitions=scale.repetitions, say=say)
        found += compacted_sql.measure(
            folder / "compacted", files=scale.sql_files, repetitions=scale.repetitions, say=say
        )
        found += growth.measure(folder / "growth", commits=scale.growth_commits, say=say)
    if "idle" in wanted:
        say(GROUPS["idle"])
        found += quiet_partitions.measure(folder / "idle", sizes=scale.quiet_partitions, seconds=scale.quiet_seconds)
    if "latest" in wanted:
        say(GROUPS["latest"])
        found += latest.measure(folder / "latest", key_counts=scale.latest_keys)
    if "clustering" in wanted:
        say(GROUPS["clustering"])
        clustered = clustering.Scale(repetitions=scale.repetitions, fetches=scale.fetches)
        found += clustering.measure(folder / "clustering", clustered)
    if "commits" in wanted:
        say(GROUPS["commits"])
        found += commit_rate.measure(folder / "commits", commits=scale.commits)
    return found


def _on_plain_broker(folder: Path, scale: Scale, wanted: Collection[str], say: Say) -> list[Measurement]:
    found: dict[str, Measurement] = {}
    with LocalBroker(folder / "broker") as broker:
        say(f"{scale.order_count:,} orders into a plain broker")
        topic = produce_orders(
            broker.bootstrap,
            TOPIC,
            count=scale.order_count,
            partition_count=PARTITIONS,
            config={"segment.bytes": str(scale.segment_bytes)},
        )
        if "stages" in wanted:
            say(GROUPS["stages"])
            _add(
                found, tiering_stages.measure(broker.log_dirs, TOPIC, folder / "stages", repetitions=scale.repetitions)
            )
        if "tiering" in wanted or "structured_streaming" in wanted:
            _add(found, _spark_jobs(folder, broker, topic, scale, wanted, say))
    _add(found, _ratios(found))
    return list(found.values())


def _add(found: dict[str, Measurement], more: Collection[Measurement]) -> None:
    found.update({measurement.key: measurement for measurement in more})


def _spark_jobs(
    folder: Path, broker: LocalBroker, topic: OrderTopic, scale: Scale, wanted: Collection[str], say: Say
) -> list[Measurement]:
    """The tiering job and its peer, a round of each in turn; the first of each only warms up."""
    data = folder / "tiering"
    reached = ["--bootstrap", broker.bootstrap, "--topic", TOPIC]
    log_dirs = [word for log_dir in broker.log_dirs for word in ("--log-dir", str(log_dir))]
    schemas = write_schema_folder(folder / "schemas")
    options = {
        "tiering": (
            "bench.tiering.spark_tiering_job",
            *reached,
            *log_dirs,
            *("--schemas", str(schemas), "--folder", str(data)),
        ),
        "structured_streaming": (
            "bench.tiering.spark_structured_streaming",
            *reached,
            *("--warehouse", str(folder / "structured-streaming")),
        ),
    }
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in options if name in wanted}
    with ExitStack() as running:
        programs = {
            name: running.enter_context(RoundProgram(*options[name], log=folder / f"{name}.log")) for name in rounds
        }
        for _ in range(scale.repetitions + 1):
            for name, program in programs.items():
                say(GROUPS[name])
                rounds[name].append(program.round())
    found = []
    if "tiering" in rounds:
        table = _stored_table(data / f"round-{scale.repetitions}", broker)
        found += _tiering(rounds["tiering"][1:], table, broker, scale)
    if "structured_streaming" in rounds:
        found.append(_structured_streaming(rounds["structured_streaming"][1:], topic))
    return found


def _tiering(rounds: list[dict[str, Any]], table: TopicTable, broker: LocalBroker, scale: Scale) -> list[Measurement]:
    return [
        Measurement(
            key="tiering.mib_per_cpu_second",
            title="Tiering, whole Spark job with verification and commit",
            unit="MiB/CPU-s",
            samples=tuple(each["value_bytes"] / MIB / each["cpu_seconds"] for each in rounds),
            higher_is_better=True,
        ),
        Measurement(
            key="cycle.commit_ms",
            title="Commit of a cycle",
            unit="ms",
            samples=tuple(ms for each in rounds for ms in each["commit_ms"]),
            higher_is_better=False,
        ),
        Measurement(
            key="cycle.idle_ms",
            title="Cycle with nothing to do",
            unit="ms",
            samples=tuple(ms for each in rounds for ms in each["idle_ms"]),
            higher_is_better=False,
        ),
        *reference.measure(repetitions=scale.repetitions),
        *replay.measure(table, repetitions=scale.repetitions),
        *random_fetch.measure(table, fetches=scale.fetches),
        *warehouse_size.measure(table, broker.log_dirs),
    ]


def _stored_table(data_dir: Path, broker: LocalBroker) -> TopicTable:
    live = scan_log_directories(broker.log_dirs).live
    topic_id = next(found.partition.topic_id for found in live if found.partition.topic == TOPIC)
    table = TableWriter(open_catalog(embedded_catalog_properties(data_dir)), SystemClock()).open(TOPIC, topic_id)
    assert table is not None, "the tiering job has made the table"
    return table


def _structured_streaming(rounds: list[dict[str, Any]], topic: OrderTopic) -> Measurement:
    assert all(each["rows"] == topic.order_count for each in rounds), "the peer must have written every order"
    return Measurement(
        key="structured_streaming.mib_per_cpu_second",
        title="Spark Structured Streaming into Iceberg",
        unit="MiB/CPU-s",
        samples=tuple(topic.value_bytes / MIB / each["cpu_seconds"] for each in rounds),
        higher_is_better=True,
    )


def _ratios(found: dict[str, Measurement]) -> list[Measurement]:
    """What is held against what of the same run; the goals are these, for they stay true on another machine."""
    compared = {
        "tiering.times_structured_streaming": (
            *("Tiering against Structured Streaming", "≥ 3.5"),
            *("tiering.mib_per_cpu_second", "structured_streaming.mib_per_cpu_second"),
        ),
        "tiering.share_of_parquet_write": (
            *("Tiering against pyarrow writing the rows", None),
            *("tiering.mib_per_cpu_second", "tiering.pyarrow_write_mib_per_cpu_second"),
        ),
        "replay.share_of_reference": (
            *("Replay in process against the reference", "≥ 0.2"),
            *("replay.mb_per_second_core", "reference.mb_per_second_core"),
        ),
        "fetch.cold_times_reference": (
            *("1 MiB from a random offset, cold: CPU, against 1 MiB of the reference", "≤ 25"),
            *("fetch.cold_cpu_ms", "reference.ms_per_mib"),
        ),
        "cycle.commit_times_reference": (
            *("Commit of a cycle, against 1 MiB of the reference", "≤ 100"),
            *("cycle.commit_ms", "reference.ms_per_mib"),
        ),
        "cycle.idle_times_reference": (
            *("Cycle with nothing to do, against 1 MiB of the reference", "≤ 10"),
            *("cycle.idle_ms", "reference.ms_per_mib"),
        ),
    }
    return [
        ratio(key, title, found[of], found[to], goal=goal)
        for key, (title, goal, of, to) in compared.items()
        if of in found and to in found
    ]


def _on_native_stage(folder: Path, scale: Scale) -> list[Measurement]:
    # Half the size: memory is watched over twice the segments.
    segment = {"segment.bytes": str(scale.segment_bytes // 2)}
    with NativeStage(folder) as stage:
        watch = daemon_memory.MemoryWatch(stage)
        bootstrap = stage.broker.bootstrap
        for topic, config in ((HISTORY_TOPIC, {**segment, **HISTORY_CONFIG}), (consumer_replay.LOCAL_TOPIC, segment)):
            produce_orders(bootstrap, topic, count=scale.order_count, partition_count=PARTITIONS, config=config)
        stage.await_dropped(HISTORY_TOPIC, timeout_seconds=_DROPPED_TIMEOUT_SECONDS)
        memory = daemon_memory.measure(watch.stop())
        return [*consumer_replay.measure(stage, repetitions=scale.repetitions), *memory]
