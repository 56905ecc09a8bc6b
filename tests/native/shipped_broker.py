"""A broker that is started as Kafka ships it: with the settings of its own ``config/server.properties``."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path

from floeberg.processes.local_broker import LocalBroker, Membership, cluster_of

SHIPPED = Path(__file__).parent / "shipped" / "server.properties"


def properties_of(text: str) -> dict[str, str]:
    """Settings of a ``server.properties``; comments left out."""
    lines = (line.strip() for line in text.splitlines())
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


class ShippedBroker(LocalBroker):
    """Kafka's shipped settings; only ids, addresses and paths are the test's. ``more`` is what somebody appended to the
    file, and may be changed before a start."""

    def __init__(self, directory: Path, *, membership: Membership | None = None) -> None:
        (alone,) = cluster_of([1])
        self.membership = membership or alone
        super().__init__(directory, heap_mb=384, membership=self.membership)
        self.more: Mapping[str, str] = {}

    def _settings(self, membership: Membership) -> dict[str, str]:
        own = membership.own
        controllers = ",".join(f"localhost:{ports.controller}" for ports in membership.ports.values())
        own_place = {
            "node.id": str(membership.node_id),
            "controller.quorum.bootstrap.servers": controllers,
            "listeners": f"PLAINTEXT://:{own.client},CONTROLLER://:{own.controller}",
            "advertised.listeners": f"PLAINTEXT://localhost:{own.client},CONTROLLER://localhost:{own.controller}",
            "log.dirs": ",".join(map(str, self.log_dirs)),
        }
        shipped = properties_of(SHIPPED.read_text())
        assert own_place.keys() <= shipped.keys(), "every one of these is a line of the shipped file"
        return {**shipped, **own_place, **self.more}

    def _format_options(self) -> tuple[str, ...]:
        nodes = self.membership.ports.items()
        voters = (f"{node}@localhost:{ports.controller}:{_directory_id(node)}" for node, ports in nodes)
        return ("--initial-controllers", ",".join(voters))


def _directory_id(node: int) -> str:
    """Any id that all nodes agree on, in Kafka's text form."""
    return base64.urlsafe_b64encode(hashlib.blake2b(b"%d" % node, digest_size=16).digest()).decode().rstrip("=")
