"""By which names a door may be called: the guard against DNS rebinding.

A page of a stranger's in a browser on this network may have its own name resolved to a door's address, and then ask the
door as if it were its own server. What gives it away is that name, in the ``Host`` header. An address in there can't
come of that, and is always good.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from fnmatch import fnmatchcase

from starlette.requests import Request

_SHOWN_CHARACTERS = 100


class Misdirected(Exception):
    """The request was meant for a server of another name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNames:
    """``names``: without ports, ``*`` in them stands for any text. ``setting``: what a user can add to."""

    names: frozenset[str]
    setting: str

    def check(self, request: Request) -> None:
        """Raises ``Misdirected``."""
        given = request.headers.get("host", "")
        name = _without_port(given).lower().rstrip(".")
        if _is_address(name) or any(fnmatchcase(name, known.lower()) for known in self.names):
            return
        raise Misdirected(
            f"This door is not called {given[:_SHOWN_CHARACTERS]!r}. Next: call it by its address, or add the name to"
            f" {self.setting}"
        )


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
