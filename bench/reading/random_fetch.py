"""A consumer that begins anywhere: 1 MiB of batches from a random offset, nothing of the file in any cache."""

from __future__ import annotations

import numpy as np

from bench.cpu import MIB, measured
from bench.measurement import Measurement
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.topic_table import TopicTable

FETCH_BYTES = 1 * MIB
_SEED = 20


def measure(table: TopicTable, *, fetches: int) -> tuple[Measurement, ...]:
    """CPU and bytes read of each of ``fetches`` cold reads; only the list of files is known beforehand."""
    rng = np.random.default_rng(_SEED)
    partitions = sorted(table.ledger)
    cpu_ms, read_mib = [], []
    for number in range(fetches + 1):
        partition = int(rng.choice(partitions))
        stored = table.ledger[partition].range
        start = int(rng.integers(stored.start, stored.end))
        index = FileIndex()
        index.files(table, partition)
        reader = LogReader(file_index=index)
        before = index.count.read_bytes
        with measured() as spent:
            got = sum(
                len(batch)
                for batch in reader.read(table, partition, offsets=stored, start=start, max_bytes=FETCH_BYTES)
            )
        assert got > 0, "a fetch has at least one batch"
        if number > 0:  # the first one loads the kernels
            cpu_ms.append(spent.cpu_seconds * 1000)
            read_mib.append((index.count.read_bytes - before) / MIB)
        reader.close()
    return (
        *_measurements("fetch.cold_cpu_ms", "1 MiB from a random offset, cold: CPU", "ms", cpu_ms, goal=None),
        *_measurements(
            "fetch.cold_mib_read",
            "1 MiB from a random offset, cold: read from the warehouse",
            "MiB",
            read_mib,
            goal="≤ 4",
        ),
    )


def _measurements(
    key: str, title: str, unit: str, samples: list[float], *, goal: str | None
) -> tuple[Measurement, ...]:
    """The fetches, for their median, and the one of them that only a twentieth is worse than."""
    tail = float(np.percentile(samples, 95, method="higher"))
    return (
        Measurement(key=key, title=title, unit=unit, samples=tuple(samples), higher_is_better=False, goal=goal),
        Measurement(
            key=f"{key}_p95", title=f"{title}, 95th percentile", unit=unit, samples=(tail,), higher_is_better=False
        ),
    )
