"""Who may reach the doors, as the settings have it; and whether that is too many."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from engine.errors import Invalid
from floeberg.settings import Settings
from floeberg.settings.doors import DoorSettings
from floeberg.settings.secret import TokensInClear
from serving.host_names import HostNames
from serving.status.routes import StatusAccess

_OF_THIS_MACHINE = ("localhost", "*.localhost", socket.gethostname())


def host_names(door: DoorSettings, section: str) -> HostNames:
    """Those of this machine, of the address and the certificate, and what the settings allow."""
    named = () if door.tls is None or door.tls.name is None else (door.tls.name,)
    names = frozenset((*_OF_THIS_MACHINE, door.listen.host, *named, *door.allowed_hosts))
    return HostNames(names=names, setting=f"[{section}] allowed_hosts")


def status_access(settings: Settings) -> StatusAccess:
    door, metrics = settings.table_door, settings.metrics
    may_scrape = () if metrics.access == "open" else TokensInClear(*door.tokens, *metrics.tokens)
    tokens = TokensInClear(*door.tokens)
    return StatusAccess(tokens=tokens, metrics_tokens=may_scrape, hosts=host_names(door, "table_door"))


def refuse_open_doors(settings: Settings) -> None:
    """Raises ``Invalid`` for a door that everybody on the network may use. The log door always has a token."""
    door = settings.table_door
    if not door.listen.is_loopback and not door.tokens:
        raise Invalid(
            f"The table door listens at {door.listen}, beyond this machine, and asks nobody for a token: whoever"
            " reaches it could read every table's metadata, the status and the metrics",
            next_step='set [table_door] tokens = ["…"], or listen = "127.0.0.1:…"',
        )


def exposures(settings: Settings) -> Iterator[tuple[str, str, bool]]:
    """Section of each door that other machines can reach, what that means, and whether it is worth a warning."""
    for section, door in (("log_door", settings.log_door), ("table_door", settings.table_door)):
        if not door.listen.is_loopback:
            if door.tls is None:
                told = "other machines can reach it, and without TLS tokens and records are in clear on the network"
            else:
                told = "other machines can reach it, with TLS and a token"
            yield section, f"{door.listen}: {told}", door.tls is None
