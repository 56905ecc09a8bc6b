"""One daemon a data directory: a file that its owner holds locked, with the process id in it."""

from __future__ import annotations

from pathlib import Path

from engine.errors import Invalid, Unavailable
from engine.file_lock import FileLock, owner_of

LOCK_FILE = "daemon.lock"


def lock_data_dir(data_dir: Path) -> FileLock:
    """The directory's lock, held until its ``release``.

    Raises ``Invalid`` when another process holds it, ``Unavailable`` when the directory can't be written.
    """
    path = data_dir / LOCK_FILE
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        is_ours = lock.take(sign=True)
    except OSError as error:
        raise Unavailable(
            f"The data directory can't be written: {error.strerror}",
            file=str(data_dir),
            next_step="give the daemon's user the directory, or set another data_dir",
        ) from error
    if not is_ours:
        lock.release()
        raise Invalid(
            f"Another Floeberg works in this data directory (process {owner_of(path) or 'unknown'})",
            file=str(data_dir),
            next_step="end it, or give this one a data_dir of its own",
        )
    return lock
