"""The program: settings, command line, the daemon that wires the rooms, the demo. For Python: ``stream``.

In: ``floeberg.toml`` and the environment. Out: running loops, doors and reports. May import every other room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from floeberg.arrow_stream import stream

__all__ = ["stream"]


def __getattr__(name: str) -> Any:
    # Most of what is here needs none of it, and it takes a second to import.
    if name == "stream":
        from floeberg.arrow_stream import stream

        return stream
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
