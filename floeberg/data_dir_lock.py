"""One daemon a data directory: a file that its owner holds locked, with the process id in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Self

from engine.errors import Invalid, Unavailable

LOCK_FILE = "daemon.lock"


class DataDirLock:
    """Held from its making until ``release``; the kernel releases it for a process that dies. A context manager.

    Raises ``Invalid`` when another process holds it, ``Unavailable`` when the directory can't be written.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / LOCK_FILE
        try:
            data_dir.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise Unavailable(
                f"The data directory can't be written: {error.strerror}",
                file=str(data_dir),
                next_step="give the daemon's user the directory, or set another data_dir",
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = owner_of(data_dir)
            os.close(self._descriptor)
            raise Invalid(
                f"Another Floeberg works in this data directory (process {owner or 'unknown'})",
                file=str(data_dir),
                next_step="end it, or give this one a data_dir of its own",
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()


def owner_of(data_dir: Path) -> int | None:
    """Process id that the lock file names; None when there is none."""
    with contextlib.suppress(OSError, ValueError):
        return int((data_dir / LOCK_FILE).read_text())
    return None
