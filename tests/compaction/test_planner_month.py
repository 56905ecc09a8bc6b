"""A month of tiering at 5 seconds of freshness: each byte is written three times at most, and the files stay few."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from tests.compaction.simulated_partition import MONTH_SECONDS, SimulatedPartition, live_for

FRESHNESS_SECONDS = 5
PARQUET_SHARE = 0.5
"""Of the bytes in Kafka, what their columns take."""

DAY_SECONDS = 24 * 3600


def steady(bytes_a_second: int, days: int) -> Iterator[tuple[int, int]]:
    for second in range(0, days * DAY_SECONDS, FRESHNESS_SECONDS):
        yield second, int(bytes_a_second * FRESHNESS_SECONDS * PARQUET_SHARE)


def bursty() -> Iterator[tuple[int, int]]:
    """Ten minutes of up to 5 MB/s every two hours, and a record now and then between."""
    chance = random.Random(1)
    for second in range(0, MONTH_SECONDS, FRESHNESS_SECONDS):
        is_burst = second // 600 % 12 == 0
        rate = chance.randrange(500_000, 5_000_000) if is_burst else 300 if chance.random() < 0.2 else 0
        if rate:
            yield second, int(rate * FRESHNESS_SECONDS * PARQUET_SHARE)


def spiky() -> Iterator[tuple[int, int]]:
    """Slices of ten bytes to a megabyte, in no order."""
    chance = random.Random(2)
    for second in range(0, MONTH_SECONDS, FRESHNESS_SECONDS):
        yield second, int(10 ** chance.uniform(1, 6))


def nightly() -> Iterator[tuple[int, int]]:
    """A quarter of an hour each night."""
    for second in range(0, MONTH_SECONDS, FRESHNESS_SECONDS):
        if second % DAY_SECONDS < 900:
            yield second, 200_000


def hourly() -> Iterator[tuple[int, int]]:
    for second in range(0, MONTH_SECONDS, 3600):
        yield second, 1_000_000


@pytest.mark.parametrize(
    ("slices", "slices_a_turn", "most_small"),
    [
        pytest.param(lambda: steady(1 << 10, days=30), 120, 380, id="1 KiB/s"),
        # What is steady and fast makes whole files all day long: their number and the bytes written settle at once.
        pytest.param(lambda: steady(100 << 10, days=3), 60, 80, id="100 KiB/s"),
        pytest.param(lambda: steady(1 << 20, days=3), 20, 50, id="1 MiB/s"),
        pytest.param(lambda: steady(10 << 20, days=1), 30, 50, id="10 MiB/s"),
        pytest.param(bursty, 60, 240, id="bursty"),
        pytest.param(spiky, 60, 360, id="spiky"),
        pytest.param(nightly, 60, 100, id="nightly"),
        pytest.param(hourly, 60, 80, id="hourly"),
    ],
)
def test_month_writes_a_byte_three_times_at_most_and_keeps_few_files(
    slices: Callable[[], Iterator[tuple[int, int]]], slices_a_turn: int, most_small: int
) -> None:
    # A daemon takes a turn every half minute. What waits for one is among the files that are counted.
    partition = SimulatedPartition()
    live_for(partition, slices(), slices_a_turn=slices_a_turn)
    assert partition.write_amplification <= 3
    assert partition.most_small <= most_small
    while partition.compact(is_quiet=True):
        pass
    assert partition.write_amplification <= 3
    assert partition.small <= 80, "a quiet partition keeps no tail of small files"
    # A file that is left for good has more than half the target's bytes.
    assert partition.done <= 1 + 2 * partition.appended_bytes // partition.limits.target_file_bytes
