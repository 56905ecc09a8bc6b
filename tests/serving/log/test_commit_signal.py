from __future__ import annotations

import asyncio
import threading

from serving.log.commit_signal import CommitSignal


def test_ring_from_another_thread_wakes_everyone_who_waits() -> None:
    async def scene() -> list[bool]:
        signal = CommitSignal()
        waiting = [asyncio.create_task(signal.wait_past(0, 20)) for _ in range(5)]
        await asyncio.sleep(0)
        threading.Thread(target=signal.ring).start()
        return await asyncio.gather(*waiting)

    assert asyncio.run(scene()) == [True] * 5


def test_ring_between_the_look_and_the_wait_ends_the_wait_at_once() -> None:
    signal = CommitSignal()
    seen = signal.count
    signal.ring()
    assert asyncio.run(signal.wait_past(seen, 20))


def test_wait_without_a_ring_ends_with_false_and_leaves_nothing_behind() -> None:
    signal = CommitSignal()
    assert not asyncio.run(signal.wait_past(signal.count, 0.01))
    signal.ring()  # would fail if it still knew the event loop that is closed now


def test_time_that_is_up_already_is_no_wait() -> None:
    assert not asyncio.run(CommitSignal().wait_past(0, -1))
