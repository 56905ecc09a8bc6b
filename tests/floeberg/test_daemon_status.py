"""A whole daemon over a broker's folder: what its status and metrics say, and while its world is broken."""

from __future__ import annotations

import html
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from floeberg.cli import app
from floeberg.daemon.door_token import TOKEN_FILE
from floeberg.daemon.end_request import EndRequest
from tests.faults.broken_world import moved_away
from tests.floeberg.running_daemon import Running, running_daemon


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    with running_daemon(tmp_path, monkeypatch) as running:
        yield running


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
    assert httpx.get(f"{running.table_door}/page/overview", timeout=60).json()["texts"]["stored"] == "20"
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
