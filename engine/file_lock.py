"""Locks between processes: files that their holders have locked. The kernel lets go for a holder that dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Self


class FileLock:
    """An open file, made when missing, that ``take`` locks until ``release``. Not for several threads at a time.

    Two objects exclude each other in one process as in two (flock(2)). With ``is_process_wide`` the lock is the
    process's (POSIX record locks): every object of it has the lock, and the first that lets go gives it up for all.
    """

    def __init__(self, path: Path, *, is_process_wide: bool = False) -> None:
        """Raises OSError when the file can't be opened."""
        self._file = path.open("a+b", buffering=0)
        self._lock = fcntl.lockf if is_process_wide else fcntl.flock
        self._is_signed = False

    def take(self, *, wait: bool = False, sign: bool = False) -> bool:
        """Whether this object holds the lock now; with ``wait`` it does, however long that takes.

        ``sign`` writes this process's id into the file (``owner_of``). Raises OSError where files can't be locked.
        """
        try:
            self._lock(self._file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # POSIX lets record locks say either
            return False
        if sign:
            self._file.truncate(0)
            self._file.write(f"{os.getpid()}\n".encode())
            self._is_signed = True
        return True

    def release(self) -> None:
        """Let go, and take the signature back."""
        with contextlib.suppress(OSError):
            if self._is_signed:
                self._file.truncate(0)
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()


def owner_of(path: Path) -> int | None:
    """The process id in a lock's file; None when there is none. Not to be asked of a process-wide lock that this
    process holds: closing the file, read or not, would let go of it."""
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_bytes())
    return None
