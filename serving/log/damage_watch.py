"""What readers at the log door found damaged: kept, told once, and read again until it is whole."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from typing import TypeAlias, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray

from engine.errors import Corrupt, FloebergError, Invalid
from engine.table.proof.verifier import VerifiedRange
from serving.log.auxiliary_state import AuxiliaryState
from serving.log.backend import LogDoorBackend, RemoteSegment

MOST_DAMAGES = 1_000
"""Damages remembered, the newest; a disk that died has more, and one look at the first of them says so."""

SHOWN_DAMAGES = 20
"""Damages named in a status, the newest."""

LOOK_EVERY_SECONDS = 60.0
"""How often what was damaged is read again: as often as a stopped partition is looked at."""

LOOKS_AT_ONCE = 8
"""Damages read again at a time: a read may be that of a whole file."""

_log = structlog.get_logger(__name__)
_Answer = TypeVar("_Answer")
_Key: TypeAlias = tuple[object, ...]
"""What damage is known by: its file; else topic, partition, offset and problem."""


@dataclass(slots=True, kw_only=True)
class _Damage:
    """``read_again`` does what met the damage, and was tried ``looks`` times; ``file`` None where it is the table's."""

    text: str
    file: str | None
    read_again: Callable[[], object]
    looks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Damages:
    """``newest`` what is damaged now, with coordinates and the next step; ``count`` of all that are known."""

    newest: tuple[str, ...] = ()
    count: int = 0


class DamageWatch(LogDoorBackend):
    """A backend in front of another. Safe to use from several threads; a context manager, whose thread looks again.

    Damage has the name of its file, or its topic, partition and offset: however many requests meet it, it is one. It
    is over when the request that met it first succeeds again, which a thread tries once a minute. So it ends when the
    file is put back, when the table no longer names it, and when the range falls below the log start.
    """

    def __init__(
        self,
        backend: LogDoorBackend,
        *,
        topic_of: Callable[[str], str | None],
        forget: Callable[[str], None],
    ) -> None:
        """``topic_of`` a topic id is its name, None while unknown; ``forget`` drops what is cached of a file."""
        self._backend = backend
        self._topic_of = topic_of
        self._forget = forget
        self._damages: OrderedDict[_Key, _Damage] = OrderedDict()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_until_ended, name="damage-watch", daemon=True)

    def __enter__(self) -> DamageWatch:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._thread.join()

    def found(self) -> Damages:
        with self._lock:
            newest = [damage.text for damage in reversed(self._damages.values())]
        return Damages(newest=tuple(newest[:SHOWN_DAMAGES]), count=len(newest))

    def verified(self, segment: RemoteSegment) -> VerifiedRange | None:
        with self._noting(segment, partial(self._backend.verified, segment)) as verified:
            return verified()

    def hurry(self, segment: RemoteSegment) -> None:
        self._backend.hurry(segment)

    def keep_auxiliary_state(self, segment: RemoteSegment, state: AuxiliaryState) -> None:
        with self._noting(segment, partial(self._backend.verified, segment)):
            self._backend.keep_auxiliary_state(segment, state)

    def auxiliary_state(self, segment: RemoteSegment) -> AuxiliaryState:
        with self._noting(segment, partial(self._backend.auxiliary_state, segment)) as state:
            return state()

    def records(self, segment: RemoteSegment, *, start: int, max_bytes: int) -> Iterator[memoryview]:
        read = partial(self._backend.records, segment, start=start, max_bytes=max_bytes)

        def to_the_end() -> None:
            deque(read(), maxlen=0)

        with self._noting(segment, to_the_end):
            return self._passed_on(read(), segment, to_the_end)

    def offset_grid(self, segment: RemoteSegment) -> NDArray[np.int64]:
        with self._noting(segment, partial(self._backend.offset_grid, segment)) as grid:
            return grid()

    def time_index(self, segment: RemoteSegment) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        with self._noting(segment, partial(self._backend.time_index, segment)) as index:
            return index()

    def release(self, segment: RemoteSegment) -> None:
        with self._noting(segment, partial(self._backend.verified, segment)):
            self._backend.release(segment)

    def look_again(self) -> None:
        """Read some of it again, what was read again least often first."""
        with self._lock:
            due = nsmallest(LOOKS_AT_ONCE, self._damages.items(), key=lambda known: known[1].looks)
        for key, damage in due:
            if damage.file is not None:
                self._forget(damage.file)
            damage.looks += 1
            if _succeeds(damage.read_again):
                with self._lock:
                    self._damages.pop(key, None)
                _log.info("damage_over", damage=damage.text)

    def _passed_on(
        self, batches: Iterator[memoryview], segment: RemoteSegment, again: Callable[[], object]
    ) -> Iterator[memoryview]:
        with self._noting(segment, again):
            yield from batches

    @contextmanager
    def _noting(self, segment: RemoteSegment, again: Callable[[], _Answer]) -> Iterator[Callable[[], _Answer]]:
        """Remember damage that is met inside, with ``again`` to look whether it is over."""
        try:
            yield again
        except Corrupt as error:
            raise self._noted(error, segment, again) from error

    def _noted(self, error: Corrupt, segment: RemoteSegment, again: Callable[[], object]) -> Corrupt:
        """The error with all its coordinates, remembered."""
        topic = error.topic or self._topic_of(segment.topic_id) or segment.topic_id
        error = error.located(topic, segment.partition)
        if error.next_step is None:
            error = error.advised(
                f"floeberg fsck {topic}; then put the file back as it was, from a copy of the warehouse"
            )
        key: _Key = (
            (error.file,) if error.file is not None else (error.topic, error.partition, error.offset, error.problem)
        )
        with self._lock:
            is_new = key not in self._damages
            if is_new:
                self._damages[key] = _Damage(text=str(error), file=error.file, read_again=again)
                if len(self._damages) > MOST_DAMAGES:
                    self._damages.popitem(last=False)
        if is_new:
            _log.error("damage_found", damage=str(error))
        return error

    def _look_until_ended(self) -> None:
        while not self._ended.wait(LOOK_EVERY_SECONDS):
            try:
                self.look_again()
            except Exception:  # noqa: BLE001 - the outermost guard of the thread: out of memory, of file handles
                _log.exception("look_at_damage_ended_unforeseen")


def _succeeds(read: Callable[[], object]) -> bool:
    try:
        read()
    except Invalid:
        return True  # below the log start by now: nobody will read it any more
    except FloebergError:
        return False
    return True
