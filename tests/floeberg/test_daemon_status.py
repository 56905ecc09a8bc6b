"""A whole daemon over a broker's folder: what its status and metrics say, and while its world is broken."""

from __future__ import annotations

import html
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from engine.broker import Broker
from engine.clock import SystemClock
from floeberg.cli import app
from floeberg.daemon.daemon import Daemon
from floeberg.daemon.door_token import TOKEN_FILE
from floeberg.daemon.end_request import EndRequest
from floeberg.processes.free_ports import free_ports
from floeberg.settings.file import load_settings
from tests.faults.broken_world import BrokenWorld, moved_away

PATIENCE_SECONDS = 90.0


class Running:
    """The daemon's two doors, and the folder it stands on."""

    def __init__(self, world: BrokenWorld, daemon: Daemon, log_door: str, table_door: str, *, settings: Path) -> None:
        self.world = world
        self.settings = settings
        self.daemon = daemon
        self.log_door = log_door
        self.table_door = table_door

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{self.table_door}/status", timeout=60).json()
        return found

    def ends(self) -> set[int | None]:
        return {one["tiered_end"] for one in self.status()["partitions"]}

    def page(self) -> str:
        """Up to two seconds old."""
        return httpx.get(self.table_door, timeout=60).text

    def scrape(self) -> str:
        return httpx.get(f"{self.table_door}/metrics", timeout=60).text

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.05)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    world = BrokenWorld(tmp_path / "world")

    def broker(**_: object) -> Broker:
        return world.broker.port

    monkeypatch.setattr("floeberg.daemon.assembly.KafkaBroker", broker)
    log_door, table_door = (f"127.0.0.1:{port}" for port in free_ports(2))
    file = tmp_path / "floeberg.toml"
    file.write_text(
        f'data_dir = "{world.root / "data"}"\n[broker]\nbootstrap = "unused:1"\nlog_dirs = ["{world.broker.log_dir}"]\n'
        f'[log_door]\nlisten = "{log_door}"\n[table_door]\nlisten = "{table_door}"\n'
        '[tiering]\ncycle_interval_ms = 50\n[[topics]]\nname = "*"\nvalue = "string"\nfreshness_ms = "closed"\n'
    )
    handler = signal.getsignal(signal.SIGTERM)
    with Daemon(load_settings(file), SystemClock(), in_process=True) as daemon:
        yield Running(world, daemon, f"http://{log_door}", f"http://{table_door}", settings=file)
    signal.signal(signal.SIGTERM, handler)


def test_daemon_tells_of_its_doors_its_bounds_and_a_warehouse_that_goes_and_comes(running: Running) -> None:
    world = running.world
    world.produce(world.bad, world.good)
    running.until(lambda: running.ends() == {10})
    refused = httpx.get(f"{running.log_door}/v1/log/{world.bad.topic_id}/0/records?start=0&end=10", timeout=60)
    assert refused.status_code == 401
    assert httpx.get(f"{running.table_door}/v1/namespaces", timeout=60).status_code == 200
    text = running.scrape()
    for line in (
        'floeberg_door_requests_total{door="log",request="records",status="401"} 1.0',
        'floeberg_door_requests_total{door="tables",request="list_namespaces",status="200"} 1.0',
        'floeberg_door_under_way{door="log",request="copies"} 0.0',
        'floeberg_door_under_way_limit{door="log",request="reads"} 64.0',
        "floeberg_healthy 1.0",
    ):
        assert line in text
    bounds = {bound["name"]: bound for bound in running.status()["bounds"]}
    assert {
        "spool_max_bytes",
        "warehouse_disk_bytes",
        "log_disk_bytes",
        "open_files",
        "row_group_bytes",
    } <= bounds.keys()
    assert all(0 <= bound["used"] <= bound["limit"] for bound in bounds.values())
    (good, bad) = running.status()["partitions"][:2]
    assert {(one["verified_start"], one["verified_end"]) for one in (good, bad)} == {(0, 10)}
    assert all(one["file_bytes"] > 0 and 0 < one["log_bytes"] <= one["local_log_bytes"] for one in (good, bad))
    loops = {loop["name"]: loop for loop in running.status()["loops"]}
    assert list(loops) == ["tiering", "compaction", "repair", "horizons", "sweeps", "latest"]
    assert loops["tiering"]["worked_ms"] <= loops["tiering"]["looked_ms"]
    running.until(lambda: running.status()["loops"][1]["looked_ms"] is not None)
    assert httpx.get(f"{running.table_door}/page/overview", timeout=60).json()["totals"]["stored"] == 20
    with moved_away(world.root / "data" / "warehouse"):
        world.produce(world.bad, world.good)
        running.until(lambda: not running.status()["healthy"])
        assert 'floeberg_partition_problem{topic="orders",partition="0",kind="unavailable"} 1.0' in running.scrape()
        running.until(lambda: "the warehouse does not have the table" in running.page())
    running.until(lambda: running.status()["healthy"])
    assert running.ends() == {20}


def test_damaged_file_is_named_by_status_page_and_readiness_and_once_in_the_log(running: Running) -> None:
    world = running.world
    world.produce(world.bad, world.good)
    running.until(lambda: running.ends() == {10})
    (file,) = (world.root / "data" / "warehouse").rglob("p=0/*.parquet")
    content = file.read_bytes()
    file.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    token = (world.root / "data" / TOKEN_FILE).read_text().strip()
    records = f"{running.log_door}/v1/log/{world.bad.topic_id}/0/records?start=0&end=10"
    with capture_logs() as logs:
        for _ in range(3):
            refused = httpx.get(records, headers={"Authorization": f"Bearer {token}"}, timeout=60)
            assert refused.status_code == 409
    assert [line["event"] for line in logs if file.name in str(line)] == ["damage_found"]
    status, ready = running.status(), httpx.get(f"{running.table_door}/readyz", timeout=60)
    assert (status["healthy"], status["damage_count"], len(status["damages"])) == (False, 1, 1)
    told = status["damages"][0]
    for part in ("topic orders", "partition 0", file.name, "floeberg fsck"):
        assert part in told
    assert (ready.status_code, ready.text) == (200, f"ok\n{told}\n")
    running.until(lambda: html.escape(file.name) in running.page())
    assert "floeberg_damages 1.0" in running.scrape()
    shown = CliRunner().invoke(app, ["-c", str(running.settings), "status"])
    assert shown.exit_code == 1
    assert file.name in shown.output


def test_daemon_hears_a_signal_that_the_kernel_gave_to_another_of_its_threads(running: Running) -> None:
    nobodys = signal.getsignal(signal.SIGTERM)

    def take_signal() -> None:
        running.until(lambda: signal.getsignal(signal.SIGTERM) is not nobodys)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    other = threading.Thread(target=take_signal)
    other.start()
    running.daemon.wait(EndRequest(signal.SIGTERM))
    other.join()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "a second one ends the process at once"
