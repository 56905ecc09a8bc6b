"""A whole daemon over a broker's folder, for a test to ask."""

from __future__ import annotations

import signal
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.broker import Broker
from engine.clock import SystemClock
from floeberg.daemon.daemon import Daemon
from floeberg.processes.free_ports import free_ports
from floeberg.settings.file import load_settings
from tests.faults.broken_world import BrokenWorld

PATIENCE_SECONDS = 90.0


class Running:
    """The daemon's two doors, and the folder it stands on. ``token``: what the table door is asked with."""

    def __init__(self, world: BrokenWorld, daemon: Daemon, *, settings: Path, trust: ssl.SSLContext | None) -> None:
        loaded = load_settings(settings)
        self.world = world
        self.settings = settings
        self.daemon = daemon
        self.log_door = loaded.log_door.url
        self.table_door = loaded.table_door.url
        self.token = next(iter(loaded.table_door.known_tokens), None)
        self._trust = trust

    def ask(self, path: str, *, token: str | None = None, door: str | None = None, **headers: str) -> httpx.Response:
        """``token`` empty: none."""
        given = self.token if token is None else token
        bearer = {"Authorization": f"Bearer {given}"} if given else {}
        trust = self._trust if self._trust is not None else True
        return httpx.get(f"{door or self.table_door}{path}", headers={**bearer, **headers}, timeout=60, verify=trust)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("/status").json()
        return found

    def ends(self) -> set[int | None]:
        return {one["tiered_end"] for one in self.status()["partitions"]}

    def page(self) -> str:
        """Up to two seconds old."""
        return self.ask("/").text

    def scrape(self) -> str:
        return self.ask("/metrics").text

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.05)


@contextmanager
def running_daemon(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    top: str = "",
    log_door: str = "",
    table_door: str = "",
    trust: ssl.SSLContext | None = None,
) -> Iterator[Running]:
    """``top``, ``log_door`` and ``table_door``: more lines of the settings, of the file and of the doors' sections."""
    world = BrokenWorld(folder / "world")

    def broker(**_: object) -> Broker:
        return world.broker.port

    monkeypatch.setattr("floeberg.daemon.assembly.KafkaBroker", broker)
    ports = free_ports(2)
    file = folder / "floeberg.toml"
    file.write_text(
        f'data_dir = "{world.root / "data"}"\n{top}\n'
        f'[broker]\nbootstrap = "unused:1"\nlog_dirs = ["{world.broker.log_dir}"]\n'
        f'[log_door]\nlisten = "127.0.0.1:{ports[0]}"\n{log_door}\n'
        f'[table_door]\nlisten = "127.0.0.1:{ports[1]}"\n{table_door}\n'
        '[tiering]\ncycle_interval_ms = 50\n[[topics]]\nname = "*"\nvalue = "string"\nfreshness_ms = "closed"\n'
    )
    handler = signal.getsignal(signal.SIGTERM)
    with Daemon(load_settings(file), SystemClock(), in_process=True) as daemon:
        yield Running(world, daemon, settings=file, trust=trust)
    signal.signal(signal.SIGTERM, handler)
