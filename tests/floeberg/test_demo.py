"""The demo and the daemon as processes: the whole native path, small, and what is left running afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from floeberg.demo.playground import Playground
from floeberg.java.plugin_jar import JAR_NAME
from floeberg.processes.tied_process import tied
from serving.status.daemon_status import DaemonStatus

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.xdist_group("demo"),
    pytest.mark.skipif(not (ROOT / "floeberg" / "jars" / JAR_NAME).exists(), reason="the jar is not built: make jar"),
]

SMALL_DEMO = ("demo", "--records", "30000", "--no-spark-sql", "--directory")


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    # A shell has what it runs in the background ignore interrupts, and so would all that tests start there.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "floeberg", *map(str, arguments)]
    return subprocess.Popen(tied(command), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def running_in(folder: Path) -> list[psutil.Process]:
    """Processes whose command line names the folder: broker and daemon of a demo."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(folder) in word for word in process.cmdline()) and process.pid != psutil.Process().pid:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_small_demo_tells_the_whole_story_and_leaves_nothing_running(tmp_path: Path) -> None:
    demo = start(*SMALL_DEMO, tmp_path / "demo")
    story, _ = demo.communicate(timeout=240)
    assert demo.returncode == 0, story
    for told in ("every record once, in order, byte for byte", "DuckDB", "healthy", "One copy, two doors"):
        assert told in story
    assert running_in(tmp_path) == []


def test_interrupted_demo_ends_what_it_started(tmp_path: Path) -> None:
    demo = start(*SMALL_DEMO, tmp_path / "demo")
    assert demo.stdout is not None
    for line in demo.stdout:
        if "A producer writes" in line:
            break
    assert len(running_in(tmp_path / "demo" / "broker")) == 1
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=60)
    assert demo.returncode not in {0, None}
    assert running_in(tmp_path) == []


@pytest.fixture
def playground(tmp_path: Path) -> Iterator[Playground]:
    made = Playground(tmp_path)
    try:
        made.start_broker()
        made.start_daemon()
        made.await_daemon()
        yield made
    finally:
        made.close()


def test_daemon_serves_its_doors_refuses_a_second_one_and_ends_with_its_spark(playground: Playground) -> None:
    url = playground.table_door_url
    status = DaemonStatus.from_dict(httpx.get(f"{url}/status").json())
    assert status.is_healthy
    assert status.cluster_id == "RmxvZWJlcmdMb2NhbEJyb2"
    assert {(part.topic, part.partition, part.native) for part in status.partitions} == {
        ("orders", partition, True) for partition in range(3)
    }
    assert httpx.get(f"{url}/healthz").status_code == 200
    assert "floeberg_cycle_duration_seconds_count" in httpx.get(f"{url}/metrics").text
    assert "3 partitions" in httpx.get(url).text
    assert httpx.get(f"{url}/v1/namespaces").json() == {"namespaces": [], "next-page-token": None}
    assert httpx.get(f"http://{playground.log_door}/v1/log/x/0/records?start=0&end=1").status_code == 401

    second = playground.run("run")
    assert second.returncode == 2
    assert "Another Floeberg works in this data directory" in second.stderr

    (daemon,) = (process for process in running_in(playground.settings_file) if "run" in process.cmdline())
    children = daemon.children(recursive=True)
    assert any("java" in child.name() for child in children)
    daemon.send_signal(signal.SIGTERM)
    daemon.wait(30)
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []
