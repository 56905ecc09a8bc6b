"""Turns at a table: one holder at a time, nobody stopped for ever, whoever lost often goes first."""

from __future__ import annotations

import threading
from pathlib import Path

from engine.clock import SystemClock
from engine.table.commit.turns import WAITS, CommitTurns
from tests.engine.table.table_examples import StillClock


def test_one_writer_at_a_time_holds_the_lock_and_everybody_gets_it(tmp_path: Path) -> None:
    inside, seen, order = 0, set[int](), []

    def write(number: int) -> None:
        nonlocal inside
        turns = CommitTurns(SystemClock(), tmp_path / "lock")
        for _ in range(10):
            with turns.turn() as is_alone:
                assert is_alone
                inside += 1
                seen.add(inside)
                order.append(number)
                inside -= 1

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(90)
    assert (seen, len(order)) == ({1}, 40)


def test_holder_that_is_stopped_keeps_nobody_waiting_for_ever(tmp_path: Path) -> None:
    clock = StillClock()
    with CommitTurns(SystemClock(), tmp_path / "lock").turn() as first:
        assert first
        with CommitTurns(clock, tmp_path / "lock").turn() as second:
            assert not second
    assert sum(clock.waited_ms) <= 10_000
    with CommitTurns(clock, tmp_path / "lock").turn() as third:
        assert third


def test_folder_that_takes_no_lock_is_left_to_the_commit(tmp_path: Path) -> None:
    with CommitTurns(StillClock(), tmp_path / "missing" / "lock").turn() as is_alone:
        assert not is_alone


def test_writer_lets_as_many_go_first_as_went_since_its_last_commit() -> None:
    clock = StillClock()
    turns = CommitTurns(clock, None)
    for number, others in ((1, 0), (2, 0), (6, 3)):
        with turns.turn():
            began_ms = clock.monotonic_ms()
            clock.sleep(100)
            turns.note_commit(began_ms=began_ms, sequence_number=number)
        before = len(clock.waited_ms)
        with turns.turn():
            polite_ms = sum(clock.waited_ms[before:])
        assert 100 * others // 2 <= polite_ms <= 100 * others


def test_attempts_lost_shorten_the_wait_and_silence_lengthens_it() -> None:
    clock = StillClock()
    turns = CommitTurns(clock, None)
    for attempt in (0, 19):
        turns.wait_after_conflict(attempt, began_ms=clock.monotonic_ms())
    for attempt in (0, 19):
        turns.wait_after_silence(attempt)
    new, veteran, first, last = clock.waited_ms
    assert new > veteran
    assert first < last <= WAITS.longest_ms
