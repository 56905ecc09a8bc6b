"""A topic as its broker has it now: a consumer from given offsets on, which belongs to no group and commits nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from engine.errors import Unavailable
from engine.offset_range import OffsetRange
from engine.records.records import UNKNOWN_EPOCH, ByteSpans, Headers, Records

_REQUEST_TIMEOUT_S = 15.0
_POLL_S = 0.5
"""How long a wait for records may be: a signal is heard after it."""

_MOST_MESSAGES = 1000
"""Taken at once."""

_NO_TIMESTAMP_MS = -1

_GONE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_FOR_GOOD = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
    }
)
"""Everything else passes: librdkafka connects again by itself."""


class OffsetGone(Exception):
    """The broker no longer has what comes at ``offset`` of ``partition``: it may be in the table by now."""

    def __init__(self, partition: int, offset: int) -> None:
        super().__init__(f"partition {partition}, offset {offset}")
        self.partition = partition
        self.offset = offset


class LiveTopic:
    """Committed records only, as the table has them. Every method raises ``Unavailable`` with the broker's own words.

    confluent-kafka takes the security settings as they are, under librdkafka's names. For one thread.
    """

    def __init__(self, topic: str, *, bootstrap: str, security: Mapping[str, str]) -> None:
        self._topic = topic
        self._positions: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self._problem: Exception | None = None
        conf = {
            **security,
            "bootstrap.servers": bootstrap,
            "client.id": "floeberg",
            # It has to have one, which the broker never hears of.
            "group.id": "floeberg-cat",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            # What comes last may be no record: that there is none left has to be told.
            "enable.partition.eof": True,
            "log_level": 0,
        }
        with self._told():
            self._consumer = Consumer(conf)

    def partitions(self) -> list[int]:
        with self._told():
            described = self._consumer.list_topics(self._topic, timeout=_REQUEST_TIMEOUT_S).topics[self._topic]
            if described.error is not None:
                raise self._unavailable(described.error.str())
            return sorted(described.partitions)

    def ranges(self, partitions: Collection[int] | None = None) -> dict[int, OffsetRange]:
        """By partition, of all or of those of ``partitions`` that there are: the first offset that the broker has, and
        the one after the last committed record."""
        found = {}
        for partition in (number for number in self.partitions() if partitions is None or number in partitions):
            with self._told():
                asked = TopicPartition(self._topic, partition)
                low, high = self._consumer.get_watermark_offsets(asked, timeout=_REQUEST_TIMEOUT_S)
            found[partition] = OffsetRange(start=low, end=max(low, high))
        return found

    def first_since(self, partition: int, timestamp_ms: int) -> int | None:
        """The first offset whose record is not older; None where there is none."""
        with self._told():
            asked = [TopicPartition(self._topic, partition, timestamp_ms)]
            (found,) = self._consumer.offsets_for_times(asked, timeout=_REQUEST_TIMEOUT_S)
        return int(found.offset) if found.offset >= 0 else None

    def go_on_at(self, positions: Mapping[int, int]) -> None:
        """The offset by partition from which on ``take`` gives records."""
        self._positions, self._ended = dict(positions), {}
        with self._told():
            self._consumer.assign([TopicPartition(self._topic, *place) for place in self._positions.items()])

    def reached(self, partition: int) -> int:
        """The offset up to which ``take`` has given every record of a partition, as far as that is known."""
        return max(self._positions[partition], self._ended.get(partition, 0))

    def take(self) -> list[tuple[int, Records]]:
        """What has come: records by partition, rising and each once; none where nothing came for a while.

        Raises OffsetGone, once: the partition is to be gone on with somewhere else.
        """
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem
        with self._told():
            messages = self._consumer.consume(_MOST_MESSAGES, timeout=_POLL_S)
        by_partition: dict[int, list[Any]] = {}
        for message in messages:
            error = message.error()
            if error is None:
                by_partition.setdefault(message.partition(), []).append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended[message.partition()] = message.offset()
            elif error.code() in _GONE:
                self._problem = OffsetGone(message.partition(), self._positions[message.partition()])
            elif error.fatal() or error.code() in _FOR_GOOD:
                self._problem = self._unavailable(error.str())
        for partition, found in by_partition.items():
            self._positions[partition] = found[-1].offset() + 1
        return [(partition, _records(found)) for partition, found in by_partition.items()]

    def close(self) -> None:
        self._consumer.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise self._unavailable(error.args[0].str()) from error

    def _unavailable(self, reason: str) -> Unavailable:
        return Unavailable(
            f"The topic can't be read from the broker: {reason}", topic=self._topic, next_step="floeberg check"
        )


def _records(messages: Sequence[Any]) -> Records:
    """Of one partition."""
    stamps = [message.timestamp() for message in messages]
    times_ms = [_NO_TIMESTAMP_MS if kind == TIMESTAMP_NOT_AVAILABLE else time_ms for kind, time_ms in stamps]
    return Records(
        offset=np.array([message.offset() for message in messages], np.int64),
        timestamp_ms=np.array(times_ms, np.int64),
        timestamp_type=np.array([kind == TIMESTAMP_LOG_APPEND_TIME for kind, _ in stamps], np.int8),
        leader_epoch=np.array([_epoch(message) for message in messages], np.int32),
        key=ByteSpans.from_list([message.key() for message in messages]),
        value=ByteSpans.from_list([message.value() for message in messages]),
        headers=Headers.from_lists(
            [(name.encode(), value) for name, value in message.headers() or ()] for message in messages
        ),
    )


def _epoch(message: Any) -> int:
    epoch = message.leader_epoch()
    return UNKNOWN_EPOCH if epoch is None else int(epoch)
