"""The results: a table for a person, ``build/bench.json`` for a program, ``docs/BENCHMARKS.md`` for a reader."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent

from bench.machine import Machine
from bench.measurement import Measurement

_TITLE = "# Benchmarks"
_KEY = re.compile(r"\{([a-z0-9_.]+)\}")

_HEADLINES = """\
**{tiering.mib_per_cpu_second} MiB of values a CPU-second** is tiered, everything included: segments read and decoded,
Parquet written, read back, compared with the log, committed. What a broker takes in, divided by this, is how many cores
it needs. Spark's structured streaming, which compares nothing, takes {tiering.times_structured_streaming} times the CPU
for the same topic.

**{warehouse.share_of_zstd_log} times the bytes of the log**, whose producers compressed it with zstd, is what the
table's files take: less than plain tiered storage would, and the table is in it.

**{least_share_exact} is the share of records** that gave their very bytes back from columns alone, at the least of ten
serializers in Python and Java. A record that doesn't keeps its bytes beside the columns.

**{replay.share_of_local_consumer} times as fast** as from local segments a consumer replays tiered history, through the
same broker. Consumers of the tail notice nothing.

**{fetch.cold_mib_read} MiB are read for a cold MiB** from a random offset, {fetch.cold_mib_read_p95} MiB at the 95th
percentile: a consumer that jumps makes nobody read whole files.

**{daemon.memory_peak_mib} MiB of memory** at the peak, Spark included, and no more with more segments: the last third
of them peaked at {daemon.memory_growth} times the second.
"""
"""What a reader should take along, with keys for figures; a paragraph with one that was not measured is left out."""

_ELSEWHERE = """\
What was measured of single parts stands with them: [how fresh tables are](tiering.md#the-active-segment-in-slices),
[what quiet partitions cost](tiering.md#what-it-costs), [files over a month](compaction.md#what-a-byte-costs),
[SQL before and after compaction](compaction.md#sql-before-and-after), [a year of commits](retention.md#what-it-costs),
[sorted windows](clustering.md#the-price-list), [the newest record of each key](latest_by_key.md#the-price),
[repair](repair.md), [erasure](erasure.md). [Cost and sizing](cost_and_sizing.md) puts all of it together.
"""

_INTRODUCTION = """\
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
        headlines(measurements),
        "## Every figure\n",
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


def headlines(measurements: Sequence[Measurement]) -> str:
    """The page's beginning: the figures that it leads with, as far as they were measured."""
    figures = {found.key: found.middle for found in measurements}
    shares = [figure for key, figure in figures.items() if ".share_exact" in key]
    if shares:
        figures["least_share_exact"] = min(shares)
    told = [text for text in _HEADLINES.split("\n\n") if set(_KEY.findall(text)) <= set(figures)]
    items = [f"1. {_KEY.sub(lambda key: _number(figures[key[1]]), text.strip())}" for text in told]
    leading = ["## Six figures, and what they mean", *(indent(item, "   ").lstrip() for item in items)] if items else []
    return "\n\n".join([_TITLE, *leading, _ELSEWHERE])


def _row(found: Measurement) -> tuple[str, str, str, str, str]:
    return found.title, _number(found.middle), _number(found.best), found.unit, found.goal or ""


def _number(value: float) -> str:
    """Three significant digits, without an exponent."""
    magnitude = abs(value)
    for bound, digits in ((100.0, 0), (10.0, 1), (1.0, 2)):
        if magnitude >= bound:
            return f"{value:.{digits}f}"
    return f"{value:.3f}"
