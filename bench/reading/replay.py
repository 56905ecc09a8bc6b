"""Replay in this process: every record of a topic out of the table as uncompressed record batches."""

from __future__ import annotations

from bench.cpu import bound_to_one_core, measured
from bench.measurement import Measurement
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.topic_table import TopicTable
from floeberg.daemon.freed_memory import keep_freed_memory

_MEGABYTE = 1_000_000


def replay_all(table: TopicTable) -> int:
    """Read every partition from its ledger's start to its end with nothing cached. Returns bytes of batches."""
    reader = LogReader(file_index=FileIndex())
    try:
        total = 0
        for partition, ledger in sorted(table.ledger.items()):
            batches = reader.read(table, partition, offsets=ledger.range, start=ledger.start)
            total += sum(len(batch) for batch in batches)
        return total
    finally:
        reader.close()


def measure(table: TopicTable, *, repetitions: int) -> tuple[Measurement, ...]:
    """Megabytes of uncompressed batches per CPU-second of one core, to which the process is bound meanwhile."""
    keep_freed_memory()  # as the daemon does
    replay_all(table)  # loads the kernels
    samples = []
    with bound_to_one_core():
        for _ in range(repetitions):
            with measured() as spent:
                total = replay_all(table)
            samples.append(total / _MEGABYTE / spent.cpu_seconds)
    return (
        Measurement(
            key="replay.mb_per_second_core",
            title="Replay from Parquet in process, uncompressed batches",
            unit="MB/s a core",
            samples=tuple(samples),
            higher_is_better=True,
        ),
    )
