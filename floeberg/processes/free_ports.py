"""Ports of the loopback for servers that are started, stopped and started again."""

from __future__ import annotations

import contextlib
import random
import socket

_LOWEST = 10_000
_HIGHEST = 32_000
"""Below the ports that Linux gives to whoever asks for any (from 32768 on): while a server is down, another one of this
machine, or a connection, might be given its port."""


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens at now; all held together, so that they differ."""
    with contextlib.ExitStack() as held:
        numbers: list[int] = []
        while len(numbers) < count:
            probe = held.enter_context(socket.socket())
            number = random.randrange(_LOWEST, _HIGHEST)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", number))
                numbers.append(number)
    return numbers
