"""Work that never changes: how fast this machine is, measured in the run whose figures are held against it.

Zstandard decompression and CRC-32C of the same values, by the libraries: what replay and a fetch do to every byte too.
"""

from __future__ import annotations

import crc32c
import zstandard

from bench.cpu import MIB, bound_to_one_core, measured
from bench.measurement import Measurement
from floeberg.demo.sample_orders import sample_orders

_MEGABYTE = 1_000_000
_ORDERS = 160_000
"""More than a core's caches hold."""
LEAST_CPU_SECONDS = 1.0


def measure(*, repetitions: int, least_seconds: float = LEAST_CPU_SECONDS) -> tuple[Measurement, ...]:
    """The rate, and the time of a MiB, of one core to which the process is bound meanwhile."""
    whole = b"".join(value for _, value, _ in sample_orders(_ORDERS))
    frames = [zstandard.compress(whole[start : start + MIB]) for start in range(0, len(whole), MIB)]
    seconds = []
    with bound_to_one_core():
        for _ in range(repetitions):
            passes, total = 0, 0.0
            while total < least_seconds or passes == 0:
                with measured() as spent:
                    for frame in frames:
                        crc32c.crc32c(zstandard.decompress(frame))
                passes, total = passes + 1, total + spent.cpu_seconds
            seconds.append(total / passes)
    return (
        Measurement(
            key="reference.mb_per_second_core",
            title="Reference: zstd decompression and CRC-32C of orders' values",
            unit="MB/s a core",
            samples=tuple(len(whole) / _MEGABYTE / each for each in seconds),
            higher_is_better=True,
        ),
        Measurement(
            key="reference.ms_per_mib",
            title="Reference: 1 MiB",
            unit="ms",
            samples=tuple(each * 1000 / (len(whole) / MIB) for each in seconds),
            higher_is_better=False,
        ),
    )
