"""Notices a second daemon on the same log directories: a mistake that costs double work, and no record."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from engine.errors import Unavailable
from tiering.spool import spool_root

_NAME = "owner"


class LogDirClaims:
    """One lock a log directory, in its spool's folder, for as long as the object lives.

    The lock is advisory: what two daemons do at once the ledger decides. It is a process's, not an
    object's (POSIX record locks), and where the folder can't be made there is none.
    """

    def __init__(self, log_dirs: Sequence[Path]) -> None:
        self._paths = [spool_root(log_dir) / _NAME for log_dir in log_dirs]
        self._held: dict[Path, IO[str]] = {}

    def rivals(self) -> Iterator[Unavailable]:
        """Claim what is not claimed; a problem for each directory that another process has claimed."""
        for path in self._paths:
            if path not in self._held:
                with contextlib.suppress(OSError):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    file = path.open("a+")
                    if not self._claim(path, file):
                        yield _rival(path, file)

    def _claim(self, path: Path, file: IO[str]) -> bool:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._held[path] = file
        return True


def _rival(path: Path, file: IO[str]) -> Unavailable:
    with file:
        file.seek(0)
        owner = file.readline().strip() or "unknown"
    return Unavailable(
        f"another Floeberg tiers the same log directory (process {owner})",
        file=str(path),
        next_step="end one of the two: no record is stored twice, but every segment is rewritten twice",
    )
