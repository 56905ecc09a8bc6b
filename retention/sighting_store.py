"""Where sightings are kept: one file a table in the data directory.

Nothing depends on it but when a file goes: lost, or damaged, every grace begins again.
"""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from pathlib import Path

import structlog

from engine.durable_file import write_durably
from engine.errors import Unavailable
from engine.fault_points import FaultPoint, reach
from engine.file_lock import FileLock
from retention.sightings import Look, Sightings

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

    def load(self, location: str) -> Sightings:
        """Those of the table at ``location``; none where they are of another place, or not what was written."""
        try:
            kept = json.loads(self._path.read_bytes())
            if kept["location"] != location:
                return Sightings()
            return Sightings(
                (Look(seen_ms=int(seen_ms), sequence_number=int(number)), base64.b64decode(keys, validate=True))
                for seen_ms, number, keys in kept["looks"]
            )
        except FileNotFoundError:
            return Sightings()
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("sightings_lost", file=str(self._path), problem=repr(error))
            return Sightings()

    def save(self, location: str, seen: Sightings) -> None:
        """Durable when it returns. Raises Unavailable."""
        looks = [(look.seen_ms, look.sequence_number, base64.b64encode(keys).decode()) for look, keys in seen.parts()]
        try:
            write_durably(self._path, json.dumps({"location": location, "looks": looks}).encode())
        except OSError as error:
            raise Unavailable(f"the data directory can't be written: {error}", file=str(self._path)) from error
        reach(FaultPoint.SIGHTINGS_KEPT)

    def forget(self) -> None:
        """Every grace begins again."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
