"""Where a stream stands, as text that a consumer stores beside what it made of the rows (docs/columnar_streams.md).

    {"topic": name, "topic_id": id, "offsets": {partition: offset, …}}

JSON: of each partition all rows below the offset were given. A topic that was deleted and made again
has another id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from engine.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPosition:
    """``offsets`` by partition: the next one of each that was begun."""

    topic: str
    topic_id: str
    offsets: Mapping[int, int]

    def to_text(self) -> str:
        offsets = {str(partition): self.offsets[partition] for partition in sorted(self.offsets)}
        return json.dumps({"topic": self.topic, "topic_id": self.topic_id, "offsets": offsets})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Raises Invalid when the text is not what ``to_text`` writes."""
        try:
            value = json.loads(text)
            offsets = {int(partition): int(offset) for partition, offset in value["offsets"].items()}
            found = cls(topic=str(value["topic"]), topic_id=str(value["topic_id"]), offsets=offsets)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Invalid(
                f"the position is not what a stream gave: {error!r}", next_step="hand back what its `position` was"
            ) from error
        if any(number < 0 for place in offsets.items() for number in place):
            raise Invalid("the position has a negative number", next_step="hand back what a stream's `position` was")
        return found
