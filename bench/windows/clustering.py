"""The dial of clustering on both sides: what SQL engines spare by it, and what those pay who read by offset."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psutil

from bench.cpu import GIB, bound_to_one_core, measured
from bench.measurement import Measurement, ratio
from bench.reading import random_fetch
from bench.reading.replay import replay_all
from bench.round_program import RoundProgram
from bench.windows.clustered_orders import COLUMNS, OrderTables, StoredLayout, order_records
from engine.records.records import Records
from engine.table.windows import Clustering
from floeberg.daemon.freed_memory import keep_freed_memory

LAYOUTS: dict[str, Clustering | None] = {
    "stream": None,
    "w256k": Clustering(columns=COLUMNS, window_rows=1 << 18),
    "w1m": Clustering(columns=COLUMNS, window_rows=1 << 20),
}
SORTED = "sorted"
"""The same rows sorted as a whole, for SQL alone."""

_SHARES = {"region": 0.02, "customer_id": 0.0001}
_LAST_OF_TIME = 0.05
_MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured."""

    order_count: int = 1 << 22
    repetitions: int = 5
    fetches: int = 20


def measure(folder: Path, scale: Scale) -> list[Measurement]:
    """Every layout of the same orders: size, writing, replay, cold fetches, and selective queries in two engines."""
    records = list(order_records(scale.order_count))
    tables = OrderTables(folder)
    stored = {name: tables.store(name, records, clustering) for name, clustering in LAYOUTS.items()}
    paths = {name: layout.path for name, layout in stored.items()}
    paths[SORTED] = tables.store_sorted(SORTED, records)
    value_bytes = sum(block.value.size_bytes for block in records)
    filters = _filters(records, paths["stream"])
    del records
    found = [*_sizes(stored, value_bytes), *_replays(stored, scale), *_fetches(stored, scale)]
    found += _queries("duckdb", _in_duckdb(paths, filters, scale))
    found += _queries("spark", _in_spark(folder, list(paths), filters, scale))
    by_key = {each.key: each for each in found}
    return [*found, *_ratios(by_key)]


def _filters(records: list[Records], path: str) -> dict[str, str]:
    """Conditions by name: the values whose share of all rows is nearest to what is wanted, and the last of time."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    total = sum(map(len, records))
    found = {}
    for column, share in _SHARES.items():
        (value,) = connection.execute(
            f"SELECT {column} FROM read_parquet(?) GROUP BY 1 ORDER BY abs(count(*) - ?), 1 LIMIT 1",
            [path, share * total],
        ).fetchall()[0]
        found[column] = f"{column} = {value!r}"
    first_ms, last_ms = int(records[0].timestamp_ms[0]), int(records[-1].timestamp_ms[-1])
    at = np.datetime64(last_ms - int((last_ms - first_ms) * _LAST_OF_TIME), "ms").item()
    found["time"] = f"kafka_timestamp >= TIMESTAMP '{at.isoformat(sep=' ')}+00:00'"
    found["offset"] = f"kafka_offset = {total * 2 // 3}"
    return found


def _sizes(stored: Mapping[str, StoredLayout], value_bytes: int) -> list[Measurement]:
    found = []
    for name, layout in stored.items():
        figures = {
            ("size_mb", "file", "MB"): layout.size_bytes / _MB,
            ("write_cpu_s_gib", "decode, sort and write, of 1 GiB of values", "CPU-s"): layout.write_cpu_seconds
            / (value_bytes / GIB),
            ("proof_cpu_s_gib", "verification, of 1 GiB of values", "CPU-s"): layout.proof_cpu_seconds
            / (value_bytes / GIB),
        }
        for (key, title, unit), figure in figures.items():
            found.append(_measurement(name, key, title, unit, [figure]))
    return found


def _replays(stored: Mapping[str, StoredLayout], scale: Scale) -> list[Measurement]:
    """Layouts in turn, so that what else the machine does meets all of them."""
    keep_freed_memory()  # as the daemon does
    rates: defaultdict[str, list[float]] = defaultdict(list)
    with bound_to_one_core():
        for number in range(scale.repetitions + 1):
            for name, layout in stored.items():
                with measured() as spent:
                    total = replay_all(layout.table)
                if number:  # the first one loads the kernels
                    rates[name].append(total / _MB / spent.cpu_seconds)
    return [
        _measurement(name, "replay_mb_s", "replay, uncompressed batches", "MB/s a core", samples, higher=True)
        for name, samples in rates.items()
    ]


def _fetches(stored: Mapping[str, StoredLayout], scale: Scale) -> list[Measurement]:
    return [
        replace(
            each, key=f"clustering.{name}.{each.key.removeprefix('fetch.')}", title=f"{name}: {each.title}", goal=None
        )
        for name, layout in stored.items()
        for each in random_fetch.measure(layout.table, fetches=scale.fetches)
    ]


Answers = dict[tuple[str, str], list[dict[str, Any]]]
"""By layout and filter: what each round took."""


def _select(source: str, condition: str) -> str:
    return f"SELECT count(*), sum(amount), max(customer_name) FROM {source} WHERE {condition}"


def _in_duckdb(paths: Mapping[str, str], filters: Mapping[str, str], scale: Scale) -> Answers:
    """On the files themselves, one thread, nothing kept between two queries."""
    process, answers = psutil.Process(), defaultdict(list)
    for number in range(scale.repetitions + 1):
        for layout, path in paths.items():
            connection = duckdb.connect()
            connection.execute("SET threads = 1")
            connection.execute("SET enable_external_file_cache = false")
            for name, spark_condition in filters.items():
                condition = spark_condition.replace("TIMESTAMP '", "TIMESTAMPTZ '")
                before = process.io_counters().read_chars
                with measured() as spent:
                    rows = connection.execute(_select(f"read_parquet('{path}')", condition)).fetchall()
                read_bytes = process.io_counters().read_chars - before
                if number:
                    took = {"cpu_ms": spent.cpu_seconds * 1000, "read_bytes": read_bytes, "rows": rows}
                    answers[layout, name].append(took)
            connection.close()
    return dict(answers)


def _in_spark(folder: Path, layouts: list[str], filters: Mapping[str, str], scale: Scale) -> Answers:
    """Through Iceberg, one task at a time."""
    queries = {
        f"{layout} {name}": _select(f"floeberg.kafka.{layout}", condition)
        for name, condition in filters.items()
        for layout in layouts
    }
    options = ("--data-dir", str(folder), "--queries", json.dumps(queries))
    answers = defaultdict(list)
    with RoundProgram("bench.windows.clustering_spark", *options, log=folder / "spark.log") as program:
        for number in range(scale.repetitions + 2):
            took = program.round()
            for query, answer in took.items():
                layout, _, name = query.partition(" ")
                if number > 1:  # the first ones load and compile
                    answers[layout, name].append(answer)
    return dict(answers)


def _queries(engine: str, answers: Answers) -> list[Measurement]:
    found = []
    for (layout, name), took in answers.items():
        counts = {repr([str(value) for value in each["rows"][0]][:1]) for each in (*took, *answers["stream", name])}
        assert len(counts) == 1, f"{engine} finds other rows by {name} in {layout}: {counts}"
        cpu, read = ([each[figure] for each in took] for figure in ("cpu_ms", "read_bytes"))
        key, title = f"{engine}_{name}", f"{engine}, filter by {name}"
        found.append(_measurement(layout, f"{key}_cpu_ms", f"{title}: CPU", "ms", cpu))
        found.append(_measurement(layout, f"{key}_mb", f"{title}: read", "MB", [each / _MB for each in read]))
    return found


def _measurement(
    layout: str, key: str, title: str, unit: str, samples: list[float], *, higher: bool = False
) -> Measurement:
    return Measurement(
        key=f"clustering.{layout}.{key}",
        title=f"{layout}: {title}",
        unit=unit,
        samples=tuple(samples),
        higher_is_better=higher,
    )


def _ratios(found: Mapping[str, Measurement]) -> list[Measurement]:
    compared = {
        "replay_mb_s": ("replay against stream order", "≥ 0.91"),
        "duckdb_region_mb": ("what DuckDB reads for 2 % of the rows, against stream order", "≤ 0.25"),
        "spark_region_mb": ("what Spark reads for 2 % of the rows, against stream order", "≤ 0.25"),
    }
    return [
        ratio(
            f"clustering.w256k.{key}_of_stream",
            f"w256k: {title}",
            found[f"clustering.w256k.{key}"],
            found[f"clustering.stream.{key}"],
            goal=goal,
        )
        for key, (title, goal) in compared.items()
    ]
