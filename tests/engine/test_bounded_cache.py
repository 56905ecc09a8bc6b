"""What is not in a cache is made once, for however many ask for it meanwhile."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.bounded_cache import BoundedCache
from engine.errors import Unavailable


def test_value_that_many_ask_for_at_once_is_made_once() -> None:
    cache: BoundedCache[str, bytes] = BoundedCache(capacity=100, cost_of=len)
    begun, go_on = threading.Event(), threading.Event()
    made: list[bytes] = []

    def make() -> bytes:
        made.append(b"footer")
        begun.set()
        assert go_on.wait(30)
        return made[-1]

    with ThreadPoolExecutor(16) as pool:
        first = pool.submit(cache.get_or_make, "a", make)
        assert begun.wait(30)
        others = [pool.submit(cache.get_or_make, "a", make) for _ in range(15)]
        assert cache.get_or_make("b", lambda: b"another") == b"another", "one value was waited for to make another"
        go_on.set()
        assert {asked.result(30) for asked in (first, *others)} == {b"footer"}
    assert made == [b"footer"]


def test_error_of_the_maker_reaches_all_who_wait_and_the_next_one_tries_again() -> None:
    cache: BoundedCache[str, bytes] = BoundedCache(capacity=100, cost_of=len)
    begun, go_on = threading.Event(), threading.Event()

    def fail() -> bytes:
        begun.set()
        assert go_on.wait(30)
        raise Unavailable("the warehouse is away")

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(cache.get_or_make, "a", fail)]
        assert begun.wait(30)
        asked.append(pool.submit(cache.get_or_make, "a", fail))
        go_on.set()
        for ask in asked:
            with pytest.raises(Unavailable):
                ask.result(30)
    assert cache.get_or_make("a", lambda: b"footer") == b"footer"


def test_value_too_large_to_keep_is_given_all_the_same() -> None:
    cache: BoundedCache[str, bytes] = BoundedCache(capacity=3, cost_of=len)
    assert cache.get_or_make("a", lambda: b"large") == b"large"
    assert (cache.get("a"), cache.cost) == (None, 0)
