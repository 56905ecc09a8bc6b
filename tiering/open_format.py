"""The format that a topic's rule leaves open, while it is looked for; then its table is made, whose word counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import structlog

from engine.clock import Clock
from engine.errors import Unavailable
from engine.formats.format_guess import FormatGuess
from engine.records.records import Records
from engine.topic_partition import TopicIdPartition
from tiering.planner import PlannedRange
from tiering.tiering_limits import TieringLimits
from topics.format_search import find_format
from topics.topic_rule import TopicRule
from topics.value_sample import sample_values

ReadRanges: TypeAlias = Callable[[Iterable[PlannedRange]], Iterable[Records]]
"""The records of ranges that are to be tiered. Raises Corrupt, Unavailable."""

_log = structlog.get_logger(__name__)


class OpenFormat:
    """Of one topic. A partition whose values did not tell is looked at again when it has more, or when patience ends.

    ``why``: what is missing, in words.
    """

    def __init__(self, rule: TopicRule, topic: str, *, clock: Clock, limits: TieringLimits) -> None:
        self._rule = rule
        self._topic = topic
        self._clock = clock
        self._patience_ms = limits.format_patience_ms
        self._since_ms: int | None = None
        self._looked_at: dict[TopicIdPartition, int] = {}
        self.why = "no record was looked at yet"

    def find(self, ranges: Sequence[PlannedRange], read: ReadRanges) -> FormatGuess | None:
        """The format, by the values of one partition's ranges, and by what the source of schemas knows where there are
        none. Raises Corrupt, Unavailable when these can't be read."""
        now_ms = self._clock.monotonic_ms()
        self._since_ms = now_ms if self._since_ms is None else self._since_ms
        waited_ms = now_ms - self._since_ms
        is_late = waited_ms >= self._patience_ms
        if ranges and self._looked_at.get(ranges[0].partition) == ranges[-1].range.end and not is_late:
            return None
        sample = sample_values(read(ranges))
        # Tombstones alone say nothing, however old they are.
        is_all = sample.is_full or (is_late and bool(sample.values))
        try:
            guess = find_format(self._rule, self._topic, sample.values, is_all=is_all)
        except Unavailable as error:
            self.why = str(error)
            return None
        if guess is not None:
            _log.info("format_found", topic=self._topic, value=guess.name, why=guess.why)
            return guess
        if ranges:
            self._looked_at[ranges[0].partition] = ranges[-1].range.end
            self.why = self._what_is_missing(len(sample.values), self._patience_ms - waited_ms)
        return None

    def _what_is_missing(self, count: int, patience_ms: int) -> str:
        if not count:
            return "all of them are tombstones or empty"
        values = "1 value" if count == 1 else f"{count} values"
        return f"{values} so far, taken for what they look like within {max(1, patience_ms // 1000)} s"
