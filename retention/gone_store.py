"""What a daemon has noted of topics that the broker has no more, and of the tables that it dropped for that: one small
file in its data directory, written whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import structlog

from engine.durable_file import write_durably
from engine.errors import Unavailable
from engine.fault_points import FaultPoint, reach
from retention.table_drop import DroppedTable

_FILE = "gone-topics.json"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneNotes:
    """``since_ms``: by topic id, when it was noted first that the broker has it no more, by this machine's clock.
    ``dropped``: tables that were dropped or are about to be, and whose files are not all gone; by their keys."""

    since_ms: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, DroppedTable] = field(default_factory=dict)


class GoneStore:
    """For one thread of the one process that has the data directory; ``load`` for any."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE

    def load(self) -> GoneNotes:
        """None where the file is lost or damaged: each grace begins again, and the folders of dropped tables stay,
        which ``floeberg fsck`` names."""
        try:
            kept = json.loads(self._path.read_bytes())
            return GoneNotes(
                since_ms={str(topic_id): int(since_ms) for topic_id, since_ms in kept["since_ms"].items()},
                dropped={one.key: one for one in (DroppedTable(**plain) for plain in kept["dropped"])},
            )
        except FileNotFoundError:
            return GoneNotes()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning("gone_topics_lost", file=str(self._path), problem=repr(error))
            return GoneNotes()

    def save(self, notes: GoneNotes) -> None:
        """Durable when it returns. Raises Unavailable."""
        plain = {"since_ms": dict(notes.since_ms), "dropped": [asdict(one) for one in notes.dropped.values()]}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(self._path, json.dumps(plain).encode())
        except OSError as error:
            raise Unavailable(f"the data directory can't be written: {error}", file=str(self._path)) from error
        reach(FaultPoint.GONE_TOPICS_NOTED)
