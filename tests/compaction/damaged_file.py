"""A data file with overwritten pages."""

from __future__ import annotations

from pathlib import Path


def damage(uri: str) -> bytes:
    """Overwrites pages of a file; what it is then."""
    path = Path(uri.removeprefix("file://"))
    content = path.read_bytes()
    path.write_bytes(content[:40] + bytes(100) + content[140:])
    return path.read_bytes()
