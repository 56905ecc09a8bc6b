"""What the table takes against what the log took for the same records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.measurement import Measurement
from engine.kafka_log.log_directory import scan_log_directories
from engine.kafka_log.segment import list_segments
from engine.offset_range import OffsetRange
from engine.table.manifests import ManifestReader
from engine.table.topic_table import TopicTable


def measure(table: TopicTable, log_dirs: Sequence[Path]) -> tuple[Measurement, ...]:
    """Bytes of data files over bytes of the zstd segments whose offsets they hold, over all partitions."""
    log_bytes = 0
    compared: set[tuple[int, OffsetRange]] = set()
    for directory in scan_log_directories(log_dirs).live:
        if directory.partition.topic_id != table.topic_id:
            continue
        partition = directory.partition.partition
        segments = list_segments(directory.path)
        for index, segment in enumerate(segments[:-1]):
            compared.add((partition, OffsetRange(start=segment.base_offset, end=segments[index + 1].base_offset)))
            log_bytes += segment.size_bytes
    files = ManifestReader().files(table).own
    stored = {(file.partition, file.range) for file in files}
    assert stored == compared, "the table and the closed segments must hold the same ranges"
    share = sum(file.size_bytes for file in files) / log_bytes
    return (
        Measurement(
            key="warehouse.share_of_zstd_log",
            title="Warehouse bytes against the zstd log's",
            unit="times",
            samples=(share,),
            higher_is_better=False,
            goal="≤ 0.7",
        ),
    )
