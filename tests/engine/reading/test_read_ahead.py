"""Blocks decoded ahead: kept within a bound, decoded once, and never a reason to wait for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.bounded_cache import BoundedCache
from engine.errors import Corrupt
from engine.offset_range import OffsetRange
from engine.reading.block_source import BlockPlace, RowBlock
from engine.reading.read_ahead import ReadAhead, ReadAheadLimits
from tests.engine.offset_table import records_of


def place(path: str, first_row: int, *, rows: int = 10) -> BlockPlace:
    end_row = first_row + rows
    return BlockPlace(path=path, offsets=OffsetRange(start=first_row, end=end_row))


def block(path: str, first_row: int, *, rows: int = 10, size_bytes: int = 100) -> RowBlock:
    records = records_of(range(first_row, first_row + rows))
    return RowBlock(place=place(path, first_row, rows=rows), pieces=(records,), size_bytes=size_bytes)


def makes(made: RowBlock) -> Callable[[], RowBlock]:
    return lambda: made


class HeldUp:
    """A decoding that has ``begun`` and waits until it may ``go_on``; it gives a block, or fails."""

    def __init__(self, outcome: RowBlock | Corrupt) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.calls = 0
        self._outcome = outcome

    def __call__(self) -> RowBlock:
        self.calls += 1
        self.begun.set()
        assert self.go_on.wait(30)
        if isinstance(self._outcome, Corrupt):
            raise self._outcome
        return self._outcome


@pytest.fixture
def limits() -> ReadAheadLimits:
    return ReadAheadLimits(decoded_bytes=350, prefetch_threads=1, prefetches=2)


def test_block_is_found_by_any_of_its_rows(limits: ReadAheadLimits) -> None:
    ahead = ReadAhead(limits)
    made = ahead.decode(place("f", 20), makes(block("f", 20)))
    assert ahead.find(("f", 29)) is made
    assert ahead.find(("f", 30)) is None
    assert ahead.find(("g", 25)) is None
    ahead.close()


def test_blocks_used_least_lately_make_room(limits: ReadAheadLimits) -> None:
    ahead = ReadAhead(limits)
    for first_row in (0, 10, 20):
        ahead.decode(place("f", first_row), makes(block("f", first_row)))
    assert ahead.find(("f", 0)) is not None
    ahead.decode(place("f", 30), makes(block("f", 30)))
    assert ahead.memory_use == (300, 350)
    assert ahead.find(("f", 10)) is None
    assert ahead.find(("f", 0)) is not None
    ahead.close()


def test_prefetched_block_is_waited_for(limits: ReadAheadLimits) -> None:
    ahead = ReadAhead(limits)
    slow = HeldUp(block("f", 0))
    ahead.prefetch(place("f", 0), slow)
    assert slow.begun.wait(30)
    threading.Timer(0.01, slow.go_on.set).start()
    found = ahead.find(("f", 0))
    assert found is not None
    assert found.place.offsets.end == 10
    ahead.close()


def test_prefetch_that_has_not_begun_is_left_to_its_reader(limits: ReadAheadLimits) -> None:
    ahead = ReadAhead(limits)
    slow = HeldUp(block("f", 0))
    ahead.prefetch(place("f", 0), slow)
    assert slow.begun.wait(30)
    ahead.prefetch(place("f", 10), makes(block("f", 10)))
    assert ahead.find(("f", 10)) is None
    slow.go_on.set()
    ahead.close()


def test_error_of_a_prefetch_reaches_the_reader_that_waits(limits: ReadAheadLimits) -> None:
    ahead = ReadAhead(limits)
    fails = HeldUp(Corrupt("the page is damaged", file="f"))
    ahead.prefetch(place("f", 0), fails)
    assert fails.begun.wait(30)
    threading.Timer(0.01, fails.go_on.set).start()
    with pytest.raises(Corrupt):
        ahead.find(("f", 0))
    ahead.close()


def test_readers_side_by_side_get_smaller_shares(limits: ReadAheadLimits) -> None:
    ahead = ReadAhead(limits)
    alone = ahead.share_bytes("f")
    ahead.decode(place("f", 0), makes(block("f", 0)))
    ahead.decode(place("g", 0), makes(block("g", 0)))
    assert ahead.share_bytes("f") * 2 <= alone
    assert ahead.share_bytes("h") * 3 <= alone
    ahead.close()


def test_prefetch_after_close_does_nothing(limits: ReadAheadLimits) -> None:
    ahead = ReadAhead(limits)
    ahead.close()
    ahead.prefetch(place("f", 0), makes(block("f", 0)))
    assert ahead.find(("f", 0)) is None


def test_cache_keeps_within_its_capacity_and_refuses_what_is_larger() -> None:
    cache: BoundedCache[str, bytes] = BoundedCache(capacity=10, cost_of=len)
    cache.put("a", b"12345")
    cache.put("b", b"12345")
    assert cache.get("a") == b"12345"
    cache.put("c", b"1")
    assert cache.get("b") is None
    cache.put("d", b"12345678901")
    assert cache.get("d") is None
    cache.put("a", b"12345678901")
    assert (cache.get("a"), cache.cost) == (None, 1)


def test_readers_of_one_cold_place_have_it_decoded_once(limits: ReadAheadLimits) -> None:
    ahead = ReadAhead(limits)
    decode = HeldUp(block("f", 0))
    with ThreadPoolExecutor(16) as pool:
        first = pool.submit(ahead.decode, place("f", 0), decode)
        assert decode.begun.wait(30)
        # One of them begins further on, within the rows that are being decoded.
        others = [pool.submit(ahead.decode, place("f", row), decode) for row in (0,) * 14 + (7,)]
        decode.go_on.set()
        assert {reading.result(30) for reading in (first, *others)} == {first.result()}
    assert decode.calls == 1
    ahead.close()


def test_block_that_can_not_be_decoded_fails_for_all_who_wait_and_is_tried_again(limits: ReadAheadLimits) -> None:
    ahead = ReadAhead(limits)
    fail = HeldUp(Corrupt("the page is damaged", file="f"))
    with ThreadPoolExecutor(2) as pool:
        readings = [pool.submit(ahead.decode, place("f", 0), fail)]
        assert fail.begun.wait(30)
        readings.append(pool.submit(ahead.decode, place("f", 0), fail))
        fail.go_on.set()
        for reading in readings:
            with pytest.raises(Corrupt):
                reading.result(30)
    assert ahead.decode(place("f", 0), makes(block("f", 0))).place.offsets.end == 10
    ahead.close()
