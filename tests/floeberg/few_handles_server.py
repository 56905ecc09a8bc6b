"""A program of its own: serves a daemon's status with no file handle left but the one kept for need."""

from __future__ import annotations

import os
import resource
import sys

from engine.clock import SystemClock
from floeberg.daemon.log_output import configure_logging
from floeberg.daemon.status_board import StatusBoard
from floeberg.http.connection import ConnectionLimits
from floeberg.http.server import HttpServer
from floeberg.settings.doors import Listen
from serving.status.daemon_status import Phase
from serving.status.routes import status_routes
from tiering.cycle_report import CycleReport
from tiering.tiering_limits import TieringLimits

HANDLES = 64


def main() -> None:
    """Prints the URL once the handles are used up; ends with its input."""
    configure_logging(log_format="json")
    board = StatusBoard(version="1", clock=SystemClock(), limits=TieringLimits())
    board.enter(Phase.RUNNING)
    board.note_cycle(CycleReport(started_ms=0, durations_ms={}))
    board.status()  # what is opened the first time
    resource.setrlimit(resource.RLIMIT_NOFILE, (HANDLES, HANDLES))
    routes = status_routes(board.status, board.metrics)
    limits = ConnectionLimits(connections=1000, idle_seconds=600)
    with HttpServer(routes, Listen(host="127.0.0.1", port=0), setting="[x] listen", limits=limits) as server:
        try:
            while True:
                os.open(os.devnull, os.O_RDONLY)
        except OSError:
            print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
