"""The formats of topics whose rule leaves them open, from what lies in the log directories: no daemon is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.formats.format_guess import FormatGuess
from engine.kafka_log.log_directory import PartitionDirectory
from engine.kafka_log.segment import list_segments
from engine.kafka_log.segment_reader import read_segment
from engine.offset_range import OffsetRange
from engine.records.records import Records
from topics.format_search import find_format
from topics.topic_rule import TopicRule
from topics.value_sample import SAMPLE_BLOCK_BYTES, sample_values

_MOST_PARTITIONS = 4
"""Of a topic, looked at until one tells."""

_ALL_OFFSETS = OffsetRange(start=0, end=1 << 62)


def guess_here(rule: TopicRule, topic: str, partitions: Sequence[PartitionDirectory]) -> FormatGuess | None:
    """What the first values in a topic's directories look like now, few as they may be; None where there are none.

    The daemon waits for more where they are few. Raises Corrupt, Unavailable.
    """
    for partition in partitions[:_MOST_PARTITIONS]:
        sample = sample_values(_records(partition))
        if sample.values:
            return find_format(rule, topic, sample.values, is_all=True)
    return None


def _records(found: PartitionDirectory) -> Iterator[Records]:
    """Of all segments, transactions that were aborted among them: their values have the format, too."""
    for segment in list_segments(found.path):
        yield from read_segment(
            segment.log_path,
            partition=found.partition,
            offsets=_ALL_OFFSETS,
            aborted=(),
            block_bytes=SAMPLE_BLOCK_BYTES,
            closed=False,
            is_stable=False,
        )
