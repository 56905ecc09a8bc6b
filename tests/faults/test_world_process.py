"""The process itself runs out of something: file handles, memory, room for its log. It says so and goes on."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from floeberg.http.server import HttpServer
from floeberg.settings.doors import Listen
from serving.status.routes import status_routes
from tests.faults.broken_world import BrokenWorld
from tests.support.world_faults import file_handles_left

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def world(tmp_path: Path) -> BrokenWorld:
    return BrokenWorld(tmp_path)


@pytest.mark.parametrize("left", [0, 1, 2, 4, 6])
def test_loop_without_file_handles_says_so_and_goes_on_when_there_are_some(world: BrokenWorld, left: int) -> None:
    loop = world.watched_loop()
    world.produce(world.bad, world.good)
    world.cycle(loop)
    world.produce(world.bad, world.good)
    world.clock.ahead_ms += 31_000
    with file_handles_left(left):
        for _ in range(3):
            report = world.cycle(loop)
            assert len(world.board.status().partitions) == 2, "no partition is out of sight"
        if left == 0:
            assert not report.commits
            assert "Too many open files" in str([*world.board.status().problems, world.status_of(world.bad).problem])
            assert world.metric("floeberg_open_files") == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    world.recover(loop)
    world.all_is_well()


def test_door_without_file_handles_answers_who_is_connected_and_the_others_later(world: BrokenWorld) -> None:
    routes = status_routes(world.board.status, world.board.metrics)
    server = HttpServer(routes, Listen(host="127.0.0.1", port=0), setting="[table_door] listen")
    with server, httpx.Client(base_url=server.url, timeout=60) as connected, socket.socket() as later:
        assert connected.get("/status").status_code == 200
        with file_handles_left(0):
            assert connected.get("/status").status_code == 200
            assert "floeberg_open_files " in connected.get("/metrics").text
            later.connect((server.listen.host, server.listen.port))
            later.sendall(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
        later.settimeout(60)
        assert later.recv(12) == b"HTTP/1.1 200"


LARGE_SEGMENT_IN_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
import psutil
from tests.faults.broken_world import BrokenWorld

world = BrokenWorld(Path(sys.argv[1]))
loop = world.watched_loop()
world.produce(world.bad, world.good)
world.cycle(loop)
world.broker.append(world.bad, [bytes([65 + number % 26]) * 1_000_000 for number in range(80)])
world.broker.roll(world.bad)
world.produce(world.good)
used_bytes = psutil.Process().memory_info().vms
resource.setrlimit(resource.RLIMIT_AS, (used_bytes + (60 << 20), resource.RLIM_INFINITY))
for _ in range(2):
    world.cycle(loop)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
problem = world.status_of(world.bad).problem
assert problem is not None and "emory" in problem, problem
assert world.status_of(world.bad).tiered_end == 10
assert world.status_of(world.good).tiered_end == 20
world.recover(loop)
assert world.board.status().is_healthy, world.board.status()
assert world.offsets(world.bad) == list(range(90))
print("survived")
"""


def test_segment_that_does_not_fit_into_memory_fails_alone_and_is_stored_when_there_is_more(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LARGE_SEGMENT_IN_LITTLE_MEMORY, str(tmp_path)],
        cwd=ROOT,
        timeout=200,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith("survived\n"), done.stderr[-3000:]


def test_log_that_cannot_be_written_ends_nothing() -> None:
    script = (
        "import structlog; from floeberg.daemon.log_output import configure_logging as told; told(log_format='json');"
        "structlog.get_logger().warning('lost'); print('went on')"
    )
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, timeout=60, stdout=subprocess.PIPE, stderr=full, check=False
        )
    assert done.stdout == b"went on\n"
