"""Notices a second daemon on the same log directories: a mistake that costs double work, and no record."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.errors import Unavailable
from engine.file_lock import FileLock, owner_of
from tiering.spool import spool_root

_NAME = "owner"


class LogDirClaims:
    """One lock a log directory, in its spool's folder, for as long as the object lives.

    The lock is advisory: what two daemons do at once the ledger decides. It is the process's, not the object's, and
    where the folder can't be made, or files not be locked, there is none.
    """

    def __init__(self, log_dirs: Sequence[Path]) -> None:
        self._paths = [spool_root(log_dir) / _NAME for log_dir in log_dirs]
        self._held: dict[Path, FileLock] = {}

    def rivals(self) -> Iterator[Unavailable]:
        """Claim what is not claimed; a problem for each directory that another process has claimed."""
        for path in self._paths:
            if path not in self._held:
                with contextlib.suppress(OSError):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    lock = FileLock(path, is_process_wide=True)
                    if lock.take(sign=True):
                        self._held[path] = lock
                    else:
                        lock.release()
                        yield _rival(path)


def _rival(path: Path) -> Unavailable:
    return Unavailable(
        f"another Floeberg tiers the same log directory (process {owner_of(path) or 'unknown'})",
        file=str(path),
        next_step="end one of the two: no record is stored twice, but every segment is rewritten twice",
    )
