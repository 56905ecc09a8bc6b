"""The results: a table for a person, ``build/bench.json`` for a program, ``docs/BENCHMARKS.md`` for a reader."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bench.machine import Machine
from bench.measurement import Measurement

_INTRODUCTION = """\
# Benchmarks
Written by `make bench`; run it again rather than edit this page. CPU is user and system time of whole process trees
(driver, JVM, Python workers). A MiB is of value bytes as the producer sent them, a MB/s of replay is of
uncompressed Kafka batches. The figure that stands for a row is the median.

A goal is a ratio of two figures of the same run, a share, or a number of bytes or attempts: two machines of one kind
differed 1.7 times in MiB/CPU-s and agreed in these. Every figure in seconds or a second is for information only. The
two Spark jobs take turns; the reference is measured between them and what is held against it.
"""

_NOTES = """
## What is compared with what
- **Tiering** is the whole job as the daemon runs it: plan, Spark tasks that read zstd segments and write Parquet, Spark
  tasks that read the files back and compare digests, commit. The table's first segment, which finds the schema and
  chooses the encodings once in a topic's life, is not counted, nor is the first round of a session, which pays for
  class loading and for kernels from the cache.
- **Structured Streaming** reads the same topic with Spark's Kafka source, decodes with `from_avro` and writes with
  Iceberg's own writer (`availableNow`, zstd, a table made beforehand each round), in the same `local[2]`; its first
  round is left out too. It verifies nothing.
- **The reference** is work that never changes: Zstandard decompression and CRC-32C of 160 000 orders' values in frames
  of 1 MiB, by the libraries, bound to one core. It says how fast the machine was, to what reads and decodes.
- **Value formats**: a block of 10 000 records of each kind (a shop's orders, sensors' readings, a site's clicks; 120 to
  510 B a value), warm, bound to one core. The codec makes columns of the whole block, and bytes of columns. The library
  (fastavro's schemaless reader and writer, Protobuf's C runtime, orjson) makes one Python object a record and back,
  which is what a consumer in Python pays; it knows nothing of headers, schema ids or whether bytes will come back.
- **Records whose columns are enough**: values of the same kinds by the ecosystem's own serializers, in Python and Java,
  each rebuilt and compared byte by byte.
- **pyarrow alone** writes the Arrow rows that tiering made, from memory: no source to read, nothing to verify. The
  share is taken against the write with the table's own settings; pyarrow's defaults with zstd stand beside it.
- **Replay in process** rebuilds record batches from the warehouse, bound to one core, uncompressed. **By a
  consumer**: confluent-kafka with `max.partition.fetch.bytes` of 8 MiB reads the same records through the same
  broker, once from local segments and once from the table.
- **Commits**: each writer is a process that commits small ranges of its own partition to one table, one after the
  other without a pause, its files written beforehand. Every turn has a table of its own and about 120 commits; each
  commit costs more than the one before, for the table's history grows and nothing expires it here.
- **SQL on small files**: one table of 10,000 files of 50 orders, and the same table after `floeberg compact`; each
  round asks both snapshots. One thread in each engine, through Iceberg: planning is part of it. Spark counts all rows
  from the manifests alone.
- **Growth**: slices of 512 orders, each a commit by the daemon's own tiering; compaction's target is 4 MiB, so that a
  few hundred slices pass both tiers. Nothing expires: each commit carries all snapshots before it.
- **A cold fetch** has no footer, no index and no row group in any cache but the file index; its bytes are counted
  at the warehouse.
"""


def text_table(measurements: Sequence[Measurement]) -> str:
    """One line a measurement, aligned, for a terminal."""
    rows = [("", "median", "best", "unit", "goal"), *(_row(found) for found in measurements)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def write_json(path: Path, measurements: Sequence[Measurement]) -> None:
    """Each key with its median; keys that this run did not measure keep what an earlier run wrote."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = json.loads(path.read_text()) if path.exists() else {}
    values.update({found.key: round(found.middle, 4) for found in measurements})
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")


def write_page(path: Path, measurements: Sequence[Measurement], *, machine: Machine, commit: str, command: str) -> None:
    """The page with the machine, the command and every row."""
    lines = [
        _INTRODUCTION,
        f"Machine: {machine}.  ",
        f"Command: `make bench`, which is `{command}`, at {commit}.",
        "",
        "| | median | best | unit | goal | key |",
        "|---|---:|---:|---|---|---|",
    ]
    for found in measurements:
        title, middle, best, unit, goal = _row(found)
        lines.append(f"| {title} | {middle} | {best} | {unit} | {goal} | `{found.key}` |")
    path.write_text("\n".join(lines) + "\n" + _NOTES)


def _row(found: Measurement) -> tuple[str, str, str, str, str]:
    return found.title, _number(found.middle), _number(found.best), found.unit, found.goal or ""


def _number(value: float) -> str:
    """Three significant digits, without an exponent."""
    magnitude = abs(value)
    for bound, digits in ((100.0, 0), (10.0, 1), (1.0, 2)):
        if magnitude >= bound:
            return f"{value:.{digits}f}"
    return f"{value:.3f}"
