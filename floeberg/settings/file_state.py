"""Whether a file is another than it was."""

from __future__ import annotations

from pathlib import Path

FileState = tuple[int, int, int] | None
"""None: there is no such file, or nobody may look."""


def file_state(path: Path) -> FileState:
    """Of what ``path`` leads to, symbolic links followed: Kubernetes exchanges one to rotate a secret."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
