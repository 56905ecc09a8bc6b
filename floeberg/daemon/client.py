"""What a command asks of the running daemon, at its table door."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ssl import SSLError
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from engine.errors import Unavailable
from serving.status.daemon_status import DaemonStatus

if TYPE_CHECKING:
    from floeberg.settings import Settings
    from floeberg.settings.doors import DoorSettings

_STATUS_TIMEOUT_S = 10.0
_ATTEMPT_TIMEOUT_S = 2.0
"""Where nobody answers in that time, a command has a way of its own."""


def ask_daemon(settings: Settings) -> DaemonStatus | None:
    """The running daemon's status; None when nothing listens at the table door's address.

    Raises ``Unavailable`` when something listens there that gives no status.
    """
    try:
        answer = _answer(settings, "/status", timeout_s=_STATUS_TIMEOUT_S)
        return None if answer is None else DaemonStatus.from_dict(json.loads(answer))
    except (OSError, HTTPException, ValueError) as error:
        raise Unavailable(
            f"What listens at {settings.table_door.listen} gives no status: {error}",
            next_step="see whether it is a Floeberg daemon, or set another [table_door] listen",
        ) from error


def table_door_answers(settings: Settings) -> bool:
    """Whether SQL engines are served there."""
    try:
        return _answer(settings, "/v1/config", timeout_s=_ATTEMPT_TIMEOUT_S) is not None
    except (OSError, HTTPException, ValueError):
        return False


def _answer(settings: Settings, path: str, *, timeout_s: float) -> bytes | None:
    """The body; None when nobody listens. Raises ValueError for an answer of another status than 200."""
    connection = _connection(settings.table_door, timeout_s=timeout_s)
    try:
        connection.connect()
    except (TimeoutError, SSLError):
        raise
    except OSError:
        return None
    try:
        tokens = settings.table_door.known_tokens
        connection.request("GET", path, headers={"Authorization": f"Bearer {tokens[0]}"} if tokens else {})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise ValueError(f"HTTP status {answer.status}")
    return content


def _connection(door: DoorSettings, *, timeout_s: float) -> HTTPConnection:
    at = urlsplit(door.url)
    if door.tls is None:
        return HTTPConnection(str(at.hostname), at.port, timeout=timeout_s)
    from floeberg.http.certificate import client_trust

    return HTTPSConnection(str(at.hostname), at.port, timeout=timeout_s, context=client_trust(door))
