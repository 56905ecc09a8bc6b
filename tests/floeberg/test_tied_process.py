"""What a program starts ends with it, whatever ends it: servers with tests, workers with pytest, pytest with make."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from floeberg.processes.tied_process import tied

ROOT = Path(__file__).parents[2]
END_S = 60.0
SLEEPER = "import signal; print('up', flush=True); signal.pause()"

STARTER = """
import signal, sys, threading
from pathlib import Path
from floeberg.processes.child_process import start_process

def start(name, outlives):
    process = start_process([sys.executable, "-c", sys.argv[1]], log=Path(sys.argv[2], name), outlives=outlives)
    print(process.pid, flush=True)

for name, outlives in (("tied", False), ("free", True)):
    thread = threading.Thread(target=start, args=(name, outlives))
    thread.start()
    thread.join()
signal.pause()
"""
"""From a thread that ends before its process does, which the kernel would take for the end of a parent."""


def end_and_await(by: signal.Signals, pid: int, others: list[psutil.Process]) -> list[psutil.Process]:
    """Who of the others still runs."""
    os.kill(pid, by)
    return psutil.wait_procs(others, END_S)[1]


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_process_ends_with_its_starter_and_not_with_the_thread_that_asked(tmp_path: Path, by: signal.Signals) -> None:
    command = [sys.executable, "-c", STARTER, SLEEPER, tmp_path]
    with subprocess.Popen(tied(command), cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        bound, free = (psutil.Process(int(starter.stdout.readline())) for _ in range(2))
        try:
            assert end_and_await(by, starter.pid, [bound]) == []
            assert free.is_running(), "what may outlive its starter does"
        finally:
            free.kill()


def test_process_whose_starter_is_gone_already_does_not_begin(tmp_path: Path) -> None:
    command = tied([sys.executable, "-c", SLEEPER])
    nobody = str(os.getppid())
    done = subprocess.run([*command[:4], nobody, *command[5:]], timeout=END_S, check=False, stdout=subprocess.PIPE)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == b""


A_TEST = f"""
import signal, sys
from pathlib import Path
from floeberg.processes.child_process import start_process

def test_with_a_server(worker_id):
    server = start_process([sys.executable, "-c", {SLEEPER!r}], log=Path("server.log"))
    Path("unfinished").write_text(f"{{__import__('os').getpid()}} {{server.pid}}")
    Path("unfinished").rename("pids-" + worker_id)
    signal.pause()
"""


@pytest.mark.parametrize(
    ("who", "by"),
    [
        ("pytest", signal.SIGKILL),
        ("pytest", signal.SIGTERM),
        ("worker", signal.SIGKILL),
        ("starter", signal.SIGKILL),
    ],
)
def test_run_of_tests_that_is_ended_leaves_no_worker_and_no_server(
    tmp_path: Path, who: str, by: signal.Signals
) -> None:
    """``starter`` stands where make does: it knows nothing of what it starts."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_configure\n")
    (tmp_path / "test_it.py").write_text(A_TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    make = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    pytest_command = [sys.executable, "-m", "pytest", "-n", "1", "--max-worker-restart", "0", "-p", "no:cacheprovider"]
    wrapper = [*tied([])[:4], "-"]
    with subprocess.Popen(
        [sys.executable, "-c", make, *wrapper, *pytest_command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
    ) as starter:
        try:
            worker, server = await_pids(starter, tmp_path / "pids-gw0")
            main = psutil.Process(starter.pid).children()[0]
            victim = {"pytest": main, "worker": worker, "starter": psutil.Process(starter.pid)}[who]
            assert end_and_await(by, victim.pid, [main, worker, server]) == []
        finally:
            starter.kill()


EVERYTHING = """
import sys
from pathlib import Path
from floeberg.demo.playground import Playground
from tests.crash.cradle import Cradle
from tests.support.rest_catalog import RestCatalogServer

folder = Path(sys.argv[1])
playground = Playground(folder)
playground.start_broker()
playground.start_daemon()
playground.await_daemon()
with RestCatalogServer(folder / "rest"), Cradle(folder / "no-settings.toml", folder / "cradle.log"):
    print("up", flush=True)
    sys.stdin.read()
"""


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.catalog
@pytest.mark.xdist_group("demo")
def test_broker_catalog_daemon_and_its_spark_end_with_a_killed_program(tmp_path: Path) -> None:
    command = tied([sys.executable, "-c", EVERYTHING, tmp_path])
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "up\n"
        started = psutil.Process(program.pid).children(recursive=True)
        words = [" ".join(words_of(process)) for process in started]
        for part in ("kafka.Kafka", "RESTCatalogServer", "floeberg --config", "SparkSubmit", "tests.crash.cradle"):
            assert any(part in each for each in words), words
        assert end_and_await(signal.SIGKILL, program.pid, started) == []


def words_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.ZombieProcess:  # a tool that the daemon has asked something and not yet seen ended
        return []


def await_pids(starter: subprocess.Popen[bytes], told: Path) -> list[psutil.Process]:
    """Worker and server, as the test has told them."""
    while not told.exists():
        assert starter.poll() is None, "the tests began"
        psutil.wait_procs([psutil.Process(starter.pid)], timeout=0.05)
    return [psutil.Process(int(pid)) for pid in told.read_text().split()]
