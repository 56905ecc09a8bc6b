"""The lines of a ``__latest`` table: up to which offset of each partition it shows the newest record of each key.

One table property a partition, written in the commit that makes it true (docs/latest_by_key.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from engine.errors import Invalid

LATEST_PREFIX = "floeberg.latest."

NO_LINE = "{}"
"""Of a partition that is to be built again: a property that is taken away could come back with an older commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestLine:
    """``end``: records below it are looked at; ``stream_snapshot`` of the topic's table that they were looked for in;
    ``erased`` how many records had been erased from the partition by then; ``attempt`` names the commit, so that two
    lines are equal only where no other commit changed the partition."""

    end: int
    stream_snapshot: int | None
    attempt: str
    erased: int = 0

    def to_json(self) -> str:
        return json.dumps(
            {
                "end": self.end,
                "stream_snapshot": self.stream_snapshot,
                "attempt": self.attempt,
                "erased": self.erased,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises Invalid when the text is not what ``to_json`` writes."""
        try:
            value = json.loads(text)
            snapshot = value["stream_snapshot"]
            return cls(
                end=int(value["end"]),
                stream_snapshot=None if snapshot is None else int(snapshot),
                attempt=str(value["attempt"]),
                erased=int(value["erased"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise Invalid(f"a line of a __latest table is not the JSON that this program writes: {error!r}") from error


def parse_lines(properties: Mapping[str, str]) -> dict[int, LatestLine]:
    """The lines that a table has, by partition. Raises Invalid for one that this program did not write."""
    lines = {}
    for name, text in properties.items():
        if not name.startswith(LATEST_PREFIX) or text == NO_LINE:
            continue
        partition = name.removeprefix(LATEST_PREFIX)
        if not partition.isdecimal():
            raise Invalid(f"the table property {name} names no partition")
        lines[int(partition)] = LatestLine.from_json(text)
    return lines
