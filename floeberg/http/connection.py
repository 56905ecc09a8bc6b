"""A door's connections: bounded in number, in how long they ask for nothing, and in how slowly they take answers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from engine.handle_share import handle_share
from serving.door import HANG_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Bounds of one door."""

    connections: int = field(default_factory=lambda: handle_share(8, most=1024))
    """Open at once. The one that has asked for nothing for longest makes room for the next; where all are being
    answered, the next is hung up on. A broker has some 30 (its reader and copier threads, its index fetches)."""
    idle_seconds: float = 15.0
    """From the connection's begin, or the end of the answer before, until a whole request's head has come. Longer than
    a JDK keeps a connection for reuse (5 s): the plugin ends its own, and never writes to one that just ended here."""
    stall_seconds: float = 10.0
    """A client takes at least ``stall_bytes`` of its answer in each such span, or is hung up on."""
    stall_bytes: int = 64 << 10


class OpenConnections:
    """Those of one server. Lives in its event loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._busy: set[Connection] = set()
        self._idle: OrderedDict[Connection, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._busy) + len(self._idle)

    def add(self, connection: Connection) -> None:
        self._idle[connection] = None
        if len(self) > self._limit:
            self.drop_idlest()

    def drop_idlest(self) -> None:
        """Hang up on who has asked for nothing for longest, a newcomer where all others are being answered."""
        if self._idle:
            connection, _ = self._idle.popitem(last=False)
            connection.hang_up()

    def note(self, connection: Connection, *, busy: bool) -> None:
        """Whether a request of it is being answered."""
        self.remove(connection)
        if busy:
            self._busy.add(connection)
        else:
            self._idle[connection] = None

    def remove(self, connection: Connection) -> None:
        self._busy.discard(connection)
        self._idle.pop(connection, None)


class Connection(H11Protocol):
    """uvicorn's, with bounds on a client that asks for nothing, or takes nothing."""

    def __init__(self, *args: Any, limits: ConnectionLimits, others: OpenConnections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._others = others
        self._idle_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self.app = _with_hang_up(self.app, self)

    def hang_up(self) -> None:
        """At once: what is still to be sent is dropped."""
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own
        super().connection_made(transport)
        self._await_request()
        self._others.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._others.remove(self)
        _cancel(self._idle_timer)
        _cancel(self._stall_timer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Bytes alone are no request: the timer runs on until a head is whole.
        if self.cycle is not None and not self.cycle.response_complete and not self.transport.is_closing():
            _cancel(self._idle_timer)
            self._others.note(self, busy=True)

    def on_response_complete(self) -> None:
        self._await_request()
        if not self.transport.is_closing():
            self._others.note(self, busy=False)
        answered = self.cycle
        super().on_response_complete()
        if self.cycle is not answered and not self.transport.is_closing():
            # The next request had come already.
            _cancel(self._idle_timer)
            self._others.note(self, busy=True)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_taking(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        _cancel(self._stall_timer)
        super().resume_writing()

    def _await_request(self) -> None:
        _cancel(self._idle_timer)
        self._idle_timer = self.loop.call_later(self._limits.idle_seconds, self._end_idle, None)

    def _end_idle(self, before_bytes: int | None) -> None:
        """The time for a request is over; not so while the client still takes the answer before it."""
        left_bytes = self.transport.get_write_buffer_size()
        if left_bytes and (before_bytes is None or left_bytes < before_bytes):
            self._idle_timer = self.loop.call_later(self._limits.idle_seconds, self._end_idle, left_bytes)
        else:
            self.hang_up()

    def _watch_taking(self, left_bytes: int) -> None:
        self._stall_timer = self.loop.call_later(self._limits.stall_seconds, self._look_at_taking, left_bytes)

    def _look_at_taking(self, before_bytes: int) -> None:
        left_bytes = self.transport.get_write_buffer_size()
        if before_bytes - left_bytes < self._limits.stall_bytes:
            self.hang_up()
        else:
            self._watch_taking(left_bytes)


def _with_hang_up(app: Any, connection: Connection) -> ASGIApp:
    """The application, told how to end the connection."""

    async def told(scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"] = {**(scope.get("extensions") or {}), HANG_UP: connection.hang_up}
        await app(scope, receive, send)

    return told


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
