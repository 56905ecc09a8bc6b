"""What goes wrong between a daemon and the rest of the world, and where daemons are stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ServerError,
    ServiceUnavailableError,
)
from requests.exceptions import ConnectionError as LostConnection
from requests.exceptions import ReadTimeout

from tests.simulation.clock import SimulatedTime

TIMEOUT_MS = 30_000


class Killed(BaseException):
    """The process ends here: nothing of it may go on, not even what would clean up."""


COMMIT_LIES = (
    "late",
    "twice",
    "never",
    "lost",
    "conflict",
    "500",
    "502",
    "503",
    "504",
    "500-after",
    "503-after",
    "504-after",
)
"""What may become of a commit: it lands after the client gave up; it lands, is repeated by a proxy and answered with
the repetition's conflict; it never arrives; it lands and the answer is lost; it is refused, or answered with a server's
error before or after it landed."""


def _server_error(status: str) -> Exception:
    if status == "503":
        return ServiceUnavailableError("503 Service Unavailable")
    if status == "500":
        return ServerError("500 Internal Server Error")
    return CommitStateUnknownException(f"{status} Gateway")


@dataclass(slots=True)
class CatalogFaults:
    """Stands in one daemon's way to the catalog. ``lies`` are told to the next commits, in order."""

    time: SimulatedTime
    reach: Callable[[str], None]
    note: Callable[[str], None]
    away: int = 0
    lies: list[str] = field(default_factory=list)
    in_flight: list[Callable[[], Any]] = field(default_factory=list)

    def answer(self, operation: str, work: Callable[[], Any]) -> Any:
        if self.away > 0:
            self.away -= 1
            self.note(f"catalog-away-{operation}")
            self.time.pass_by(TIMEOUT_MS)
            raise LostConnection("the catalog's connection broke")
        if operation != "commit":
            return work()
        self.reach("catalog-asked")
        lie = self.lies.pop(0) if self.lies else None
        if lie is None:
            answered = work()
        else:
            self.note(f"commit-{lie}")
            answered = self._lie(lie, work)
        self.reach("catalog-changed")
        return answered

    def deliver(self) -> int:
        """What was on its way arrives; nobody hears the answers."""
        arrived, self.in_flight = self.in_flight, []
        for work in arrived:
            with contextlib.suppress(Exception):
                work()
        return len(arrived)

    def _lie(self, lie: str, work: Callable[[], Any]) -> Any:
        if lie == "late":
            self.in_flight.append(work)
            self._time_out()
        if lie == "never":
            self._time_out()
        if lie == "conflict":
            raise CommitFailedException("Requirement failed: branch main has changed")
        if lie == "twice":
            work()
            return work()
        if lie == "lost":
            work()
            self._time_out()
        if lie.endswith("-after"):
            work()
        raise _server_error(lie.removesuffix("-after"))

    def _time_out(self) -> None:
        self.time.pass_by(TIMEOUT_MS)
        raise ReadTimeout("the catalog gave no answer in time")


@dataclass(slots=True)
class StoreFaults:
    """Stands in one daemon's way to the object store; ``state`` is what is wrong with it, as this daemon sees it."""

    time: SimulatedTime
    note: Callable[[str], None]
    state: str | None = None

    def before(self, operation: str, key: str) -> None:
        if self.state is None:
            return
        writes = operation in {"write", "delete"}
        if self.state == "slow":
            self.note("store-slow")
            self.time.pass_by(2_000)
        elif self.state == "gone":
            self.note("store-gone")
            raise OSError(5, f"{operation} of {key}: the store is not reachable")
        elif self.state == "full" and operation == "write":
            self.note("store-full")
            raise OSError(28, f"write of {key}: no space left")
        elif self.state == "read-only" and writes:
            self.note("store-read-only")
            raise PermissionError(13, f"{operation} of {key}: access denied")


@dataclass(slots=True)
class Interruption:
    """What happens to one daemon's turn: at the ``at``-th point that it reaches, ``action`` is taken, once."""

    at: int
    action: Callable[[str], None]
    reached: int = 0

    def __call__(self, point: str) -> None:
        self.reached += 1
        if self.reached == self.at:
            self.action(point)


class Stage:
    """Whose turn it is. A daemon's turn may be interrupted by others' turns, which end before it goes on: a paused
    process, as the others see it."""

    def __init__(self) -> None:
        self._turns: list[Interruption | None] = []

    @contextlib.contextmanager
    def turn(self, interruption: Interruption | None) -> Iterator[None]:
        self._turns.append(interruption)
        try:
            yield
        finally:
            self._turns.pop()

    def reach(self, point: str) -> None:
        current = self._turns[-1] if self._turns else None
        if current is not None:
            current(point)

    @property
    def depth(self) -> int:
        return len(self._turns)
