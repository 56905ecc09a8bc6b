"""A cache with a bound: least recently used goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Holds values up to a total cost (bytes, or one each). Safe to use from several threads.

    A value that alone costs more than the capacity is not kept.
    """

    def __init__(self, *, capacity: int, cost_of: Callable[[V], int] = lambda _: 1) -> None:
        self._capacity = capacity
        self._cost_of = cost_of
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._cost = 0
        self._making: dict[K, Future[V]] = {}
        self._lock = threading.Lock()

    @property
    def cost(self) -> int:
        """What the values held cost together."""
        return self._cost

    @property
    def capacity(self) -> int:
        return self._capacity

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: K) -> V | None:
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def find(self, matches: Callable[[V], bool]) -> V | None:
        """The one used last of the values that match."""
        with self._lock:
            key = next((key for key, (value, _) in reversed(self._held.items()) if matches(value)), None)
        return None if key is None else self.get(key)

    def held_keys(self) -> list[K]:
        """The one used last at the end."""
        with self._lock:
            return list(self._held)

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """The value, made if it isn't here: by the first who asks, for all who ask meanwhile.

        What ``make`` raises reaches all of them; nothing is kept then, and the next to ask tries again.
        """
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                return found[0]
            others = self._making.get(key)
            if others is None:
                own = self._making[key] = Future()
        if others is not None:
            return others.result()
        try:
            value = make()
            self.put(key, value)
        except BaseException as error:
            own.set_exception(error)
            raise
        else:
            own.set_result(value)
            return value
        finally:
            with self._lock:
                del self._making[key]

    def put(self, key: K, value: V) -> None:
        cost = self._cost_of(value)
        with self._lock:
            before = self._held.pop(key, None)
            if before is not None:
                self._cost -= before[1]
            if cost > self._capacity:
                return
            self._held[key] = (value, cost)
            self._cost += cost
            while self._cost > self._capacity:
                _, (_, dropped) = self._held.popitem(last=False)
                self._cost -= dropped

    def remove(self, key: K) -> None:
        with self._lock:
            before = self._held.pop(key, None)
            if before is not None:
                self._cost -= before[1]

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._cost = 0
