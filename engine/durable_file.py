"""Files that are there whole or not at all, whenever the power fails: a temporary name, fsync, rename, fsync of the
folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from engine.fault_points import FaultPoint, reach

TEMPORARY_SUFFIX = ".writing"


def write_durably(
    path: Path,
    content: bytes,
    *,
    mode: int | None = None,
    replaces: bool = True,
    synced: FaultPoint | None = None,
    named: FaultPoint | None = None,
) -> None:
    """Put a small file under its name; with ``replaces`` False one that is there already stays. Raises OSError.

    ``synced`` and ``named`` are reached while the temporary name is durable, and right after the file has its own.
    Processes may write one path at once: each has a temporary name of its own. ``mode`` is the file's, whatever the
    umask; without it the umask decides.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        # In a container every start has the same process id: an earlier one may have left the name behind.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666 if mode is None else mode)
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.write(content)
            name_durably(file, temporary, path, replaces=replaces, synced=synced, named=named)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def name_durably(
    file: IO[bytes],
    temporary: Path,
    path: Path,
    *,
    replaces: bool = True,
    synced: FaultPoint | None = None,
    named: FaultPoint | None = None,
) -> None:
    """Close a file that was written under a temporary name, and give it its own, as ``write_durably`` does."""
    file.flush()
    os.fsync(file.fileno())
    file.close()
    if synced is not None:
        reach(synced)
    if replaces:
        temporary.rename(path)
        if named is not None:
            reach(named)
    else:
        # A link fails where a rename would replace.
        with suppress(FileExistsError):
            path.hardlink_to(temporary)
            if named is not None:
                reach(named)
        temporary.unlink()
    sync_folder(path.parent)


def make_durable_folder(folder: Path, *, mode: int = 0o777) -> None:
    """Make a folder and the missing ones above it, durable, with what the umask leaves of ``mode``."""
    missing = []
    at = folder
    while not at.exists():
        missing.append(at)
        at = at.parent
    for level in reversed(missing):
        level.mkdir(mode, exist_ok=True)
        sync_folder(level.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
