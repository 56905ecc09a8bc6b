"""A real PostgreSQL server of the machine's own installation, with its data in a folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from floeberg.processes.child_process import ServerProcess
from floeberg.processes.free_ports import free_ports

_USER = "floeberg"
_START_TIMEOUT_SECONDS = 60.0


class PostgresServer(ServerProcess):
    """On a free port of the loopback, without a password; a context manager. Started again, it has the same data."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        (self.port,) = free_ports(1)

    @property
    def uri(self) -> str:
        """As SQLAlchemy names it."""
        return f"postgresql+psycopg2://{_USER}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        data = self.directory / "data"
        if not data.exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            made = [*_as_no_root(), _program("initdb"), "-D", str(data), "-U", _USER, "-A", "trust", "--no-sync"]
            subprocess.run(made, check=True, capture_output=True)
        options = ["-p", str(self.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        self._run([*_as_no_root(), _program("postgres"), "-D", str(data), *options])

    def version(self) -> str:
        asked = subprocess.run([_program("postgres"), "--version"], check=True, capture_output=True, text=True)
        return asked.stdout.split()[2]

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            if b"ready to accept connections" in self.server_log.read_bytes():
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            time.sleep(0.05)
        raise AssertionError(f"PostgreSQL does not answer:\n{self.server_log.read_text()[-3000:]}")


def _program(name: str) -> str:
    """Of the PATH, or the newest that Debian's package put aside."""
    found = shutil.which(name) or max(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), default=None)
    assert found is not None, f"there is no {name}: install PostgreSQL's server (Debian's package postgresql)"
    return found


def _as_no_root() -> list[str]:
    """The server refuses to run as root, which it then is outside its namespace alone."""
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if os.geteuid() == 0 else []
