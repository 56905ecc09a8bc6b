"""SQL on a table of many small files, and on the same table once ``floeberg compact`` has been there.

The table as it was stays readable as a snapshot, so each round asks both, one after the other.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from bench.cpu import measured
from bench.measurement import Measurement, ratio
from bench.merging.small_files import TOPIC, Shape, make_table, open_table, writer_in
from bench.round_program import RoundProgram
from compaction.merge_limits import MergeLimits
from compaction.replacing import FileReplacer
from compaction.topic_merge import TopicMerge
from engine.clock import SystemClock
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.manifests import ManifestReader
from engine.table.proof.verifier import Verifier
from floeberg.sql.duckdb_session import extension_file
from topics.topic_rule import TopicRule
from topics.topic_schemas import TopicSchemas
from workers.workers import InProcessWorkers

ROWS_A_FILE = 50
QUERIES = {
    "count": "SELECT count(*) FROM {}",
    "filter": "SELECT count(*), sum(order_id), max(amount) FROM {} WHERE status = 'CANCELLED' AND discount > 0",
    "aggregate": "SELECT status, count(*), sum(order_id), max(amount) FROM {} GROUP BY status ORDER BY status",
}
"""Whole numbers are added and others compared, so that answers are the same in whatever order rows are read."""

_STATES = ("before", "after")
_ENGINES = {"duckdb": "DuckDB", "spark": "Spark"}
_NO_PATIENCE_MS = 0

Answers = dict[str, dict[str, Any]]
"""By ``<state> <query>``: CPU and wall time in ms, and the rows as texts."""


def measure(folder: Path, *, files: int, repetitions: int, say: Callable[[str], None]) -> list[Measurement]:
    """CPU and wall time of each query by engine, before and after, the ratios of the CPU, and what compaction took.

    Asserts that both engines answer the same on both.
    """
    say(f"compaction: SQL on {files:,} files of {ROWS_A_FILE} orders")
    make_table(folder, Shape(name="sql", title="", files=files, rows=ROWS_A_FILE), partitions=1)
    snapshots = {"before": _snapshot_id(folder)}
    with measured() as spent:
        left = compact(folder)
    snapshots["after"] = _snapshot_id(folder)
    rounds = {"duckdb": _in_duckdb(folder, snapshots, repetitions), "spark": _in_spark(folder, snapshots, repetitions)}
    check_answers(rounds)
    found = [_figure("files_after", "Files that are left", "files", (left,))]
    found.append(_figure("compact_cpu_ms_a_file", "Compaction of a file", "CPU-ms", (spent.cpu_seconds * 1e3 / files,)))
    for engine, answers in rounds.items():
        for query in QUERIES:
            found += _figures(engine, query, answers)
    return found


def compact(folder: Path) -> int:
    """As ``floeberg compact``: turns until one finds nothing to merge. Files that are left."""
    clock, writer = SystemClock(), writer_in(folder)
    rule = TopicRule(pattern=TOPIC, value_format="avro")
    schemas = TopicSchemas(
        topic=TOPIC, rule=rule, writer=writer, clock=clock, patience_ms=_NO_PATIENCE_MS, retry_ms=_NO_PATIENCE_MS
    )
    replacer = FileReplacer(writer=writer, workers=InProcessWorkers(), verifier=Verifier(), parallel=1)
    table = open_table(folder)
    work = TopicMerge(table, schemas, replacer=replacer, clock=clock, limits=MergeLimits(), is_asked=True)
    while (turn := work.turn()).tried:
        assert turn.merged == turn.tried, turn.problems
    return len(ManifestReader().files(work.table).own)


def _snapshot_id(folder: Path) -> int:
    snapshot = open_catalog(embedded_catalog_properties(folder)).load_table(f"kafka.{TOPIC}").current_snapshot()
    assert snapshot is not None, "files were committed"
    return int(snapshot.snapshot_id)


def _queries(sources: Mapping[str, str]) -> dict[str, str]:
    return {f"{state} {name}": query.format(sources[state]) for name, query in QUERIES.items() for state in _STATES}


def _in_duckdb(folder: Path, snapshots: Mapping[str, int], repetitions: int) -> list[Answers]:
    """One thread, and a connection of its own for each query: nothing is kept from one to the next."""
    location = open_table(folder).metadata_location.removeprefix("file://")
    sources = {name: f"iceberg_scan('{location}', snapshot_from_id={at})" for name, at in snapshots.items()}
    rounds = []
    for _ in range(repetitions + 1):
        answers: Answers = {}
        for name, query in _queries(sources).items():
            with duckdb.connect(config={"autoinstall_known_extensions": "false", "threads": 1}) as connection:
                for extension in ("avro", "iceberg"):
                    connection.execute(f"LOAD '{extension_file(extension)}'")
                with measured() as spent:
                    rows = [[str(value) for value in row] for row in connection.execute(query).fetchall()]
            took = {"cpu_ms": spent.cpu_seconds * 1000, "wall_ms": spent.wall_seconds * 1000}
            answers[name] = {**took, "rows": rows}
        rounds.append(answers)
    return rounds


def _in_spark(folder: Path, snapshots: Mapping[str, int], repetitions: int) -> list[Answers]:
    """One task at a time."""
    sources = {name: f"floeberg.kafka.{TOPIC} VERSION AS OF {at}" for name, at in snapshots.items()}
    options = ("--data-dir", str(folder), "--queries", json.dumps(_queries(sources)))
    with RoundProgram("bench.windows.clustering_spark", *options, log=folder / "spark.log") as program:
        return [program.round() for _ in range(repetitions + 1)]


def check_answers(rounds: Mapping[str, list[Answers]]) -> None:
    """That all rounds of all engines answered each query alike, before and after."""
    seen: defaultdict[str, set[str]] = defaultdict(set)
    for answers in (each for engine in rounds.values() for each in engine):
        for name, answer in answers.items():
            seen[name.partition(" ")[2]].add(json.dumps(answer["rows"]))
    assert all(len(answers) == 1 for answers in seen.values()), f"the answers differ: {dict(seen)}"


def _figures(engine: str, query: str, rounds: list[Answers]) -> list[Measurement]:
    counted = rounds[1:]  # the first one loads and compiles
    title = f"{_ENGINES[engine]}, {query}"
    found = {
        (kind, state): _figure(
            f"{engine}_{query}_{kind}_{state}",
            f"{title}, {state} compaction: {'CPU' if kind == 'cpu_ms' else 'time'}",
            "ms",
            tuple(answers[f"{state} {query}"][kind] for answers in counted),
        )
        for kind in ("cpu_ms", "wall_ms")
        for state in _STATES
    }
    against = ratio(
        f"compaction.sql_{engine}_{query}_times",
        f"{title}: CPU before compaction over that after",
        found["cpu_ms", "before"],
        found["cpu_ms", "after"],
        goal="≥ 1",
    )
    return [*found.values(), against]


def _figure(key: str, title: str, unit: str, samples: tuple[float, ...]) -> Measurement:
    return Measurement(
        key=f"compaction.sql_{key}",
        title=f"SQL on small files: {title}",
        unit=unit,
        samples=samples,
        higher_is_better=False,
    )
