"""Waits between tries: they double up to a bound, and chance takes up to half of one."""

from __future__ import annotations

from engine.backoff import Backoff, some_of
from tests.engine.table.table_examples import StillClock


def test_waits_double_until_the_longest_and_stay_there() -> None:
    backoff = Backoff(first_ms=300, longest_ms=2_000)
    assert [backoff.wait_ms(retry) for retry in (0, 1, 2, 3, 4, 10**9)] == [300, 600, 1_200, 2_000, 2_000, 2_000]


def test_first_wait_is_never_longer_than_the_longest() -> None:
    assert Backoff(first_ms=1_000, longest_ms=500).wait_ms(0) == 500


def test_chance_leaves_at_least_half_of_a_wait() -> None:
    clock = StillClock()
    waits = {some_of(1_000, clock) for _ in range(100)}
    assert len(waits) > 50
    assert min(waits) >= 500
    assert max(waits) <= 1_000
