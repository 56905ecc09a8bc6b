"""What every clock must do. A subclass gives ``clock``."""

from __future__ import annotations

import re

import pytest

from engine.clock import Clock

_YEAR_2020_MS = 1_577_836_800_000


class ClockSuite:
    @pytest.fixture
    def clock(self) -> Clock:
        raise NotImplementedError

    def test_monotonic_time_never_goes_back(self, clock: Clock) -> None:
        readings = [clock.monotonic_ms() for _ in range(1000)]
        assert readings == sorted(readings)

    def test_sleep_takes_at_least_as_long_as_asked(self, clock: Clock) -> None:
        began_ms = clock.monotonic_ms()
        clock.sleep(20)
        # Both readings are cut to whole milliseconds.
        assert clock.monotonic_ms() - began_ms >= 19

    def test_wall_clock_goes_on_with_monotonic_time(self, clock: Clock) -> None:
        wall_ms, monotonic_ms = clock.now_ms(), clock.monotonic_ms()
        clock.sleep(30)
        assert wall_ms > _YEAR_2020_MS
        assert clock.now_ms() - wall_ms >= 28
        assert clock.monotonic_ms() > monotonic_ms

    def test_ids_are_32_hexadecimal_digits_and_never_the_same(self, clock: Clock) -> None:
        ids = {clock.new_id() for _ in range(1000)}
        assert len(ids) == 1000
        assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)
