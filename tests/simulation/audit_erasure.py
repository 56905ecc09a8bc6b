"""What was asked to be erased, what erasures took, and that none of it is ever seen again (docs/erasure.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pyiceberg.table.metadata import TableMetadata

from serving.log.tiered_log import VIEW_LASTS_MS
from tests.engine.kafka_log.batch_twin import Row
from tests.simulation.forgotten import Forgotten

Place = tuple[str, int]
"""A topic id and a partition."""


@dataclass(slots=True, kw_only=True)
class Asked:
    """An erasure that somebody asked for; ``up_to`` which offset of each partition it says that it is done, None while
    it does not say so."""

    topic_id: str
    forgotten: Forgotten
    up_to: Mapping[int, int] | None = None


@dataclass(slots=True)
class ErasureAudit:
    """``taken``: offsets that an erasure took, with the time (monotonic) of its commit."""

    asked: list[Asked] = field(default_factory=list)
    taken: dict[Place, dict[int, int]] = field(default_factory=dict)

    def of(self, place: Place) -> Mapping[int, int]:
        return self.taken.get(place, {})

    def still_served(self, place: Place, now_ms: int) -> set[int]:
        """What a consumer may be given by a view that is not so old."""
        return {offset for offset, at_ms in self.of(place).items() if now_ms - at_ms <= VIEW_LASTS_MS}

    def open(self, topic_id: str) -> list[Asked]:
        """Those that were not ended."""
        return [one for one in self.asked if one.topic_id == topic_id and one.up_to is None]

    def take(
        self, place: Place, gone: Iterable[Row], before: TableMetadata, after: TableMetadata, now_ms: int
    ) -> Iterator[str]:
        """A commit takes records: what is wrong with that. Nothing where it is an erasure's, of what was asked for."""
        name = f"floeberg.erased.{place[1]}"
        told = after.properties.get(name)
        rows = list(gone)
        if told is None or told == before.properties.get(name):
            if rows:
                yield f"a commit takes offsets {[row.offset for row in rows]}"
            return
        asked = [one.forgotten for one in self.asked if one.topic_id == place[0]]
        wrong = [row.offset for row in rows if not any(one.holds(row) for one in asked)]
        if wrong:
            yield f"an erasure takes offsets {wrong}, which nobody asked for"
        taken = self.taken.setdefault(place, {})
        taken |= {row.offset: now_ms for row in rows}
        value = json.loads(told)
        count = sum(one["records"] for one in value["erasures"])
        if count != len(taken):
            yield f"{len(taken)} records are erased, the table says {count}"
        unsaid = [offset for offset in sorted(taken) if not any(a <= offset < b for a, b in value["offsets"])]
        if unsaid:
            yield f"the table does not say that the offsets {unsaid} were erased"

    def seen_again(self, place: Place, rows: Iterable[Row]) -> list[int]:
        """Offsets of what is erased, and of what an erasure says that it looked for."""
        taken = self.of(place)
        done = [one for one in self.asked if one.topic_id == place[0] and one.up_to is not None]
        return [
            row.offset
            for row in rows
            if row.offset in taken
            or any(
                row.offset < one.up_to.get(place[1], 0) and one.forgotten.holds(row)
                for one in done
                if one.up_to is not None
            )
        ]
