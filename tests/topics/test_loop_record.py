"""A loop says when it looked, when it changed something, and when it looks again."""

from __future__ import annotations

import pytest

from tests.tiering.tiering_world import SettableClock
from topics.loop_record import LoopRecord


def test_look_is_told_while_it_lasts_and_after_it_whether_it_failed_or_not() -> None:
    clock = SettableClock()
    record = LoopRecord("tiering", clock)
    record.next_in(500)

    def fails() -> None:
        with record.look():
            assert record.state.busy_since_ms is not None
            assert record.state.next_ms is None
            clock.ahead_ms += 3_000
            raise ValueError("the look failed")

    with pytest.raises(ValueError, match="the look failed"):
        fails()
    assert record.state.busy_since_ms is None
    assert 3_000 <= record.state.took_ms < 4_000
    assert record.state.looked_ms is not None
    assert record.state.worked_ms is None
    record.worked()
    record.next_in(-70)
    assert record.state.worked_ms is not None
    assert record.state.next_ms is not None
    assert record.state.worked_ms <= record.state.next_ms <= clock.now_ms()
    record.next_in(None)
    assert record.state.next_ms is None
