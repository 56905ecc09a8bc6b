"""Which files were seen unnamed, and since when: one small file a table in the data directory.

Nothing depends on it but when a file goes: lost, or damaged, every grace begins again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import structlog

from engine.durable_file import write_durably
from engine.errors import Unavailable
from engine.fault_points import FaultPoint, reach
from engine.file_lock import FileLock
from retention.sweep_planner import Sighting

_log = structlog.get_logger(__name__)


class SightingStore:
    """Of one table, by topic id. A context manager, which is the lock: two sweeps of one table on one data directory
    would forget what the other saw named again."""

    def __init__(self, folder: Path, topic_id: str) -> None:
        self._path = folder / f"{topic_id}.json"

    def __enter__(self) -> SightingStore:
        """Raises Unavailable where another process sweeps the table."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self._path.with_suffix(".lock"))
            is_taken = self._lock.take()
        except OSError as error:
            raise Unavailable(f"the data directory can't be written: {error}", file=str(self._path)) from error
        if not is_taken:
            self._lock.release()
            raise Unavailable("another process sweeps this table now", file=str(self._path))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._lock.release()

    def load(self, location: str) -> dict[str, Sighting]:
        """By path below ``location``; none where they were kept of another place, or are not what was written."""
        try:
            kept = json.loads(self._path.read_bytes())
            if kept["location"] != location:
                return {}
            return {
                path: Sighting(
                    seen_ms=int(seen_ms),
                    sequence_number=int(sequence_number),
                    size_bytes=int(size_bytes),
                    modified_ms=int(modified_ms),
                )
                for path, (seen_ms, sequence_number, size_bytes, modified_ms) in kept["seen"].items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning("sightings_lost", file=str(self._path), problem=repr(error))
            return {}

    def save(self, location: str, seen: Mapping[str, Sighting]) -> None:
        """Durable when it returns. Raises Unavailable."""
        lines = {
            path: (one.seen_ms, one.sequence_number, one.size_bytes, one.modified_ms) for path, one in seen.items()
        }
        try:
            write_durably(self._path, json.dumps({"location": location, "seen": lines}).encode())
        except OSError as error:
            raise Unavailable(f"the data directory can't be written: {error}", file=str(self._path)) from error
        reach(FaultPoint.SIGHTINGS_KEPT)

    def forget(self) -> None:
        """Every grace begins again."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
