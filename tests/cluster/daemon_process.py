"""A daemon as a process of its own: ``floeberg run`` without Spark, and, where a test says so, asleep in mid-work.

``python -m tests.cluster.daemon_process <settings file>``. When it has files that are verified and not committed and
finds the file ``pause`` in its data directory, the process removes that and stops itself (SIGSTOP, all threads).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from engine import fault_points
from engine.clock import SystemClock
from engine.fault_points import FaultPoint
from floeberg.daemon.daemon import Daemon
from floeberg.daemon.end_request import EndRequest
from floeberg.daemon.log_output import configure_logging
from floeberg.settings.file import load_settings

PAUSE_FILE = "pause"


def main() -> None:
    configure_logging(log_format="json")
    settings = load_settings(Path(sys.argv[1]))
    fault_points.arm(_pause_when_wanted(settings.data_dir / PAUSE_FILE))
    with Daemon(settings, SystemClock(), in_process=True) as daemon:
        daemon.wait(EndRequest(signal.SIGTERM))


def _pause_when_wanted(wanted: Path) -> Callable[[FaultPoint], None]:
    def pause(reached: FaultPoint) -> None:
        if reached is FaultPoint.RANGES_VERIFIED and wanted.exists():
            wanted.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)

    return pause


if __name__ == "__main__":
    main()
