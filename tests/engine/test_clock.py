from __future__ import annotations

import pytest

from engine.clock import SystemClock
from tests.engine.clock_suite import ClockSuite


class TestSystemClock(ClockSuite):
    @pytest.fixture
    def clock(self) -> SystemClock:
        return SystemClock()
