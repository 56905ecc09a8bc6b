"""Tiering in this process, one thread, stage by stage: where the CPU of a rewrite goes.

The stages are those of ``tiering/rewrite.py`` and of the verifier, called in the same order on the same blocks, with a
clock between them. The peer is pyarrow alone: the rows that the stages made, written again from memory.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.cpu import GIB, MIB, measured
from bench.measurement import Measurement
from engine.formats.codec import CodecSpec, open_codec, propose_fields
from engine.kafka_log.log_directory import scan_log_directories
from engine.kafka_log.segment import list_segments
from engine.kafka_log.segment_reader import read_segment
from engine.offset_range import OffsetRange
from engine.parquet.settings import ParquetSettings, choose_settings
from engine.records.digest import EMPTY_DIGEST, digest_of
from engine.table.columns import TableLayout, arrow_schema, iceberg_schema
from engine.table.data_file import FileDescription, FileFooter, FileName
from engine.table.proof.verification import verify_file
from engine.table.proof.verifier import Verifier
from engine.table.rows.parquet_writer import ParquetFileWriter
from engine.table.rows.rows import rows_from_records
from engine.table.topic_table import TableFacts
from engine.topic_partition import TopicIdPartition
from engine.warehouse.warehouse import Warehouse
from floeberg.daemon.freed_memory import keep_freed_memory
from floeberg.demo.sample_orders import ORDER_SCHEMA, ORDER_SCHEMA_ID
from tiering.rewrite import BLOCK_BYTES

STAGES = {
    "records": "segment to records (read, CRC, zstd, record scan)",
    "digest": "digest of the log's records",
    "values": "Avro values to columns",
    "rows": "columns and records to rows",
    "parquet": "rows to Parquet",
    "verification": "the file read back, records rebuilt and digested",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentInput:
    """A closed segment of the topic and the offsets it covers."""

    partition: TopicIdPartition
    path: Path
    range: OffsetRange


def closed_segments(log_dirs: Sequence[Path], topic: str) -> tuple[SegmentInput, ...]:
    """Every closed segment of a topic in the log directories."""
    found = []
    for directory in scan_log_directories(log_dirs).live:
        if directory.partition.topic != topic:
            continue
        segments = list_segments(directory.path)
        for segment, following in itertools.pairwise(segments):
            offsets = OffsetRange(start=segment.base_offset, end=following.base_offset)
            found.append(SegmentInput(partition=directory.partition, path=segment.log_path, range=offsets))
    return tuple(found)


def order_table(location: Path, segment: SegmentInput, settings: ParquetSettings | None) -> TableFacts:
    """What a worker knows of a table of orders."""
    layout = TableLayout()
    fields = propose_fields("avro", ORDER_SCHEMA, ()).fields
    schema = iceberg_schema(layout, fields)
    return TableFacts(
        topic=segment.partition.topic,
        topic_id=segment.partition.topic_id,
        location=location.as_uri(),
        layout=layout,
        codec=CodecSpec(name="avro", schemas={ORDER_SCHEMA_ID: ORDER_SCHEMA}),
        schema=arrow_schema(schema),
        settings=settings,
        warehouse=Warehouse(),
    )


class _Stopwatch:
    """CPU-seconds of this process by stage; threads of Arrow count where they run."""

    def __init__(self) -> None:
        self.cpu_seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        before = time.process_time()
        yield
        self.cpu_seconds[name] += time.process_time() - before


@dataclass(frozen=True, slots=True, kw_only=True)
class StagesRun:
    """One pass over the segments: CPU-seconds by stage, and of pyarrow writing the same rows."""

    value_bytes: int
    settings: ParquetSettings
    cpu_seconds: dict[str, float]
    pyarrow_seconds: float
    pyarrow_default_seconds: float


def run_stages(segments: Sequence[SegmentInput], folder: Path, settings: ParquetSettings | None = None) -> StagesRun:
    """Rewrite and verify every segment; Parquet files go below ``folder``. ``settings`` None: chosen, and counted."""
    watch = _Stopwatch()
    value_bytes = 0
    alone = default = 0.0
    for number, segment in enumerate(segments):
        table = order_table(folder / "warehouse", segment, settings)
        pieces: list[pa.RecordBatch] = []
        description, settings, size = _rewrite(table, segment, f"{number:032x}", watch, pieces)
        value_bytes += size
        with watch.stage("verification"):
            Verifier().accept(description, verify_file(description.path, table))
        alone += _write_alone(pieces, folder / "alone.parquet", settings.writer_options(table.schema))
        default += _write_alone(pieces, folder / "default.parquet", {"compression": "zstd"})
    assert settings is not None, "a segment was given"
    return StagesRun(
        value_bytes=value_bytes,
        settings=settings,
        cpu_seconds=dict(watch.cpu_seconds),
        pyarrow_seconds=alone,
        pyarrow_default_seconds=default,
    )


def _rewrite(
    table: TableFacts, segment: SegmentInput, attempt: str, watch: _Stopwatch, pieces: list[pa.RecordBatch]
) -> tuple[FileDescription, ParquetSettings, int]:
    codec = open_codec(table.codec, table.value_fields)
    name = FileName(partition=segment.partition.partition, range=segment.range, leader_epoch=0, attempt=attempt)
    settings = table.settings
    writer: ParquetFileWriter | None = None
    digest, value_bytes = EMPTY_DIGEST, 0
    blocks = iter(
        read_segment(
            segment.path, partition=segment.partition, offsets=segment.range, aborted=(), block_bytes=BLOCK_BYTES
        )
    )
    while True:
        with watch.stage("records"):
            records = next(blocks, None)
        if records is None:
            break
        value_bytes += records.value.size_bytes
        with watch.stage("digest"):
            digest = digest.then(digest_of(records))
        with watch.stage("values"):
            decoded = codec.decode(records.value)
        with watch.stage("rows"):
            rows = rows_from_records(table.layout, table.schema, segment.partition.partition, records, decoded)
        pieces.append(_own_copy(rows))
        with watch.stage("parquet"):
            if settings is None:
                settings = choose_settings(pa.Table.from_batches([rows]))
            if writer is None:
                writer = ParquetFileWriter(
                    table.warehouse, path=table.data_path(name), schema=table.schema, settings=settings
                )
            writer.write(rows)
    assert writer is not None, "a closed segment of orders holds records"
    assert settings is not None, "the first block has chosen the settings"
    footer = FileFooter(
        topic=table.topic,
        topic_id=table.topic_id,
        partition=segment.partition.partition,
        range=segment.range,
        record_count=digest.record_count,
        digest=digest,
        codec=codec.name,
        codec_version=codec.version,
        schema_ids=(ORDER_SCHEMA_ID,),
    )
    with watch.stage("parquet"):
        description = writer.finish(footer, leader_epoch=0, raw_rows=0, error_rows=0)
    return description, settings, value_bytes


def _own_copy(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The codec writes over its memory at the next block; the peer writes later, from a copy."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def _write_alone(pieces: Sequence[pa.RecordBatch], path: Path, options: dict[str, object]) -> float:
    table = pa.Table.from_batches(list(pieces))
    with measured() as spent:
        pq.write_table(table, path, row_group_size=64 * 1024, **options)
    return spent.cpu_seconds


def measure(log_dirs: Sequence[Path], topic: str, folder: Path, *, repetitions: int) -> tuple[Measurement, ...]:
    """The stages in CPU-seconds per GiB of value bytes, their sum as a rate, and pyarrow alone."""
    keep_freed_memory()  # as Spark's workers do
    segments = closed_segments(log_dirs, topic)
    assert segments, f"the topic {topic} has no closed segment to measure"
    # The first segment loads the kernels and chooses the encodings, once in a topic's life; it is not counted.
    settings = run_stages(segments[:1], folder / "warm-up").settings
    runs = [run_stages(segments, folder / f"stages-{number}", settings) for number in range(repetitions)]
    gib = runs[0].value_bytes / GIB
    mib = runs[0].value_bytes / MIB
    stages = [
        Measurement(
            key=f"tiering.{stage}_cpu_seconds_per_gib",
            title=f"Tiering in process: {title}",
            unit="CPU-s/GiB",
            samples=tuple(run.cpu_seconds[stage] / gib for run in runs),
            higher_is_better=False,
        )
        for stage, title in STAGES.items()
    ]
    rates = {
        "tiering.in_process_mib_per_cpu_second": (
            "Tiering in process, all stages",
            [mib / sum(run.cpu_seconds.values()) for run in runs],
        ),
        "tiering.pyarrow_write_mib_per_cpu_second": (
            "pyarrow alone writes the same rows, same settings",
            [mib / run.pyarrow_seconds for run in runs],
        ),
        "tiering.pyarrow_default_write_mib_per_cpu_second": (
            "pyarrow alone writes the same rows, its defaults and zstd",
            [mib / run.pyarrow_default_seconds for run in runs],
        ),
    }
    return (
        *stages,
        *(
            Measurement(key=key, title=title, unit="MiB/CPU-s", samples=tuple(samples), higher_is_better=True)
            for key, (title, samples) in rates.items()
        ),
    )
