from __future__ import annotations

import asyncio
import threading

from serving.log.commit_signal import CommitSignal, Watched

ORDERS, BOOKINGS = ("AAAAAAAAAAAAAAAAAAAAAQ", 0), ("AAAAAAAAAAAAAAAAAAAAAw", 0)
OTHER_PARTITION = (ORDERS[0], 1)


async def woken(signal: CommitSignal, watched: Watched, timeout_s: float = 20) -> bool:
    with signal.listening(watched) as bell:
        return await bell.rung_within(timeout_s)


def test_ring_from_another_thread_wakes_everyone_who_waits() -> None:
    async def scene() -> list[bool]:
        signal = CommitSignal()
        waiting = [asyncio.create_task(woken(signal, place)) for place in (ORDERS, ORDERS, BOOKINGS, OTHER_PARTITION)]
        await asyncio.sleep(0)
        threading.Thread(target=signal.ring).start()
        return await asyncio.gather(*waiting)

    assert asyncio.run(scene()) == [True] * 4


def test_commit_of_one_partition_wakes_nobody_who_waits_for_another() -> None:
    async def scene() -> tuple[set[bool], list[bool]]:
        signal = CommitSignal()
        waiting = [asyncio.create_task(woken(signal, ORDERS)) for _ in range(2)]
        others = [asyncio.create_task(woken(signal, place)) for place in (BOOKINGS, OTHER_PARTITION)]
        await asyncio.sleep(0)
        signal.ring([ORDERS])
        found = {await task for task in waiting}
        asleep = [not task.done() for task in others]
        signal.ring([BOOKINGS, OTHER_PARTITION])
        await asyncio.gather(*others)
        return found, asleep

    assert asyncio.run(scene()) == ({True}, [True, True])


def test_ring_between_the_look_and_the_wait_ends_the_wait_at_once() -> None:
    async def scene() -> bool:
        signal = CommitSignal()
        with signal.listening(ORDERS) as bell:
            bell.clear()
            signal.ring([ORDERS])
            return await bell.rung_within(20)

    assert asyncio.run(scene())


def test_wait_without_a_ring_ends_with_false_and_leaves_nothing_behind() -> None:
    signal = CommitSignal()
    assert not asyncio.run(woken(signal, ORDERS, 0.01))
    assert not signal._bells


def test_time_that_is_up_already_is_no_wait() -> None:
    assert not asyncio.run(woken(CommitSignal(), ORDERS, -1))


def test_waiter_of_a_server_that_ended_keeps_nobody_else_from_waking() -> None:
    signal = CommitSignal()
    dead = [asyncio.new_event_loop() for _ in range(8)]
    for loop in dead:
        # Begun, and cut off in the middle: as when a server's loop ends without its requests.
        waiting = loop.create_task(woken(signal, ORDERS, 60))
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        waiting._log_destroy_pending = False

    async def wait() -> bool:
        ringing = threading.Timer(0.1, signal.ring)
        ringing.start()
        return await woken(signal, ORDERS, 30)

    assert asyncio.run(wait())
