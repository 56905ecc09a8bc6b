"""Which files were seen unnamed, and in which look: 20 bytes a file, for a table may have as many as it had commits
within the grace. Values, without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.warehouse.warehouse import StoredFile

KEY_BYTES: Final = 16
_KEY = np.dtype([("high", "<u8"), ("low", "<u8")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """When a table's folders were looked at, by this machine's clock; ``sequence_number`` of a state of the table that
    was loaded after they were listed."""

    seen_ms: int
    sequence_number: int


def key_of(file: StoredFile, location: str) -> bytes:
    """Of a file as it is: one that was written again has another."""
    below = file.path.removeprefix(location)
    return blake2b(f"{below}\n{file.size_bytes}\n{file.modified_ms}".encode(), digest_size=KEY_BYTES).digest()


class Sightings:
    """Each key with the look in which it was seen first."""

    def __init__(self, parts: Iterable[tuple[Look, bytes]] = ()) -> None:
        """Looks, each with the keys that were new in it. Raises ValueError for what is no row of keys."""
        found = [(look, np.frombuffer(keys, _KEY)) for look, keys in parts]
        keys = np.concatenate([np.empty(0, _KEY), *(keys for _, keys in found)])
        order = np.lexsort((keys["low"], keys["high"]))
        self._looks = [look for look, _ in found]
        self._high: NDArray[np.uint64] = keys["high"][order]
        self._low: NDArray[np.uint64] = keys["low"][order]
        self._look_of = np.repeat(np.arange(len(found), dtype=np.int32), [len(keys) for _, keys in found])[order]

    def __len__(self) -> int:
        return len(self._high)

    def place_of(self, key: bytes) -> int | None:
        """Where a key stands; None where it was never seen."""
        high, low = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
        at = int(np.searchsorted(self._high, np.uint64(high)))
        while at < len(self._high) and int(self._high[at]) == high:
            if int(self._low[at]) == low:
                return at
            at += 1
        return None

    def look_at(self, place: int) -> Look:
        """The look in which the key at a place was seen first."""
        return self._looks[int(self._look_of[place])]

    def parts(self) -> Iterator[tuple[Look, bytes]]:
        """Each look that has keys, with them."""
        for number, look in enumerate(self._looks):
            chosen = self._look_of == number
            keys = np.empty(int(chosen.sum()), _KEY)
            keys["high"], keys["low"] = self._high[chosen], self._low[chosen]
            if len(keys):
                yield look, keys.tobytes()

    def only(self, kept: NDArray[np.bool_]) -> Sightings:
        """Those whose places are marked."""
        found = Sightings()
        found._looks = self._looks
        found._high, found._low, found._look_of = self._high[kept], self._low[kept], self._look_of[kept]
        return found

    def later_by(self, duration_ms: int) -> Sightings:
        """The same, all seen so much later."""
        found = self.only(np.ones(len(self), np.bool_))
        found._looks = [replace(look, seen_ms=look.seen_ms + duration_ms) for look in self._looks]
        return found
