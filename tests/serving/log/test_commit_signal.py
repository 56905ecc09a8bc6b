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
    assert not signal._waiting


def test_time_that_is_up_already_is_no_wait() -> None:
    assert not asyncio.run(CommitSignal().wait_past(0, -1))


def test_waiter_of_a_server_that_ended_keeps_nobody_else_from_waking() -> None:
    signal = CommitSignal()
    dead = [asyncio.new_event_loop() for _ in range(8)]
    for loop in dead:
        # Begun, and cut off in the middle: as when a server's loop ends without its requests.
        waiting = loop.create_task(signal.wait_past(0, 60))
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        waiting._log_destroy_pending = False

    async def wait() -> bool:
        ringing = threading.Timer(0.1, signal.ring)
        ringing.start()
        return await signal.wait_past(0, 30)

    assert asyncio.run(wait())
    assert signal.count == 1
