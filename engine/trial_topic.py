"""A topic that the program makes to try a broker with, and takes away again: the other half of the seam to Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from engine.errors import Unavailable

_REQUEST_TIMEOUT_S = 15.0
_BEFORE_NOW_MS = 3_600_000
_CONFIG = {
    "cleanup.policy": "delete",
    # A record that is this much younger than the segment's first one closes it.
    "segment.ms": "60000",
    "retention.ms": "-1",
    "local.retention.ms": "1",
    "message.timestamp.type": "CreateTime",
    # It has one copy, whatever the cluster asks of others.
    "min.insync.replicas": "1",
}


class TrialTopic:
    """One partition on one node, with a closed segment of ``values``. Every method raises Unavailable with the broker's
    own words."""

    def __init__(self, name: str, *, bootstrap: str, security: Mapping[str, str]) -> None:
        self.name = name
        self._conf: dict[str, Any] = {
            **security,
            "bootstrap.servers": bootstrap,
            "client.id": "floeberg",
            "log_level": 0,
        }
        self._admin = AdminClient(self._conf)

    def create(self, node_id: int) -> None:
        """Make it, with its one partition on ``node_id``."""
        topic = NewTopic(self.name, 1, replica_assignment=[[node_id]], config=_CONFIG)
        with self._told("can't be made"):
            self._admin.create_topics([topic], request_timeout=_REQUEST_TIMEOUT_S)[self.name].result()

    def write(self, values: Sequence[bytes], *, now_ms: int) -> None:
        """Write ``values`` from offset 0 on into a segment that the record after them, stamped ``now_ms``, closes."""
        producer = Producer({**self._conf, "acks": "all", "delivery.timeout.ms": int(_REQUEST_TIMEOUT_S * 1000)})
        failed: list[Any] = []

        def told(error: Any, _message: Any) -> None:
            if error is not None:
                failed.append(error)

        with self._told("can't be written to"):
            for value in values:
                producer.produce(self.name, value, None, 0, on_delivery=told, timestamp=now_ms - _BEFORE_NOW_MS)
            producer.flush(_REQUEST_TIMEOUT_S)
            producer.produce(self.name, b"closes the segment", None, 0, on_delivery=told, timestamp=now_ms)
            left = producer.flush(_REQUEST_TIMEOUT_S)
        if failed or left:
            raise self._unavailable("can't be written to", failed[0].str() if failed else "no answer")

    def keep_history_in_tiered_storage(self) -> None:
        """Turn tiered storage on: the broker looks for segments to copy at once."""
        entry = ConfigEntry("remote.storage.enable", "true", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.name, incremental_configs=[entry])
        with self._told("gets no tiered storage"):
            futures = self._admin.incremental_alter_configs([resource], request_timeout=_REQUEST_TIMEOUT_S)
            futures[resource].result()

    def read(self, count: int, *, timeout_ms: int) -> list[bytes | None]:
        """The values of the first ``count`` offsets, as a consumer gets them."""
        consumer = Consumer({**self._conf, "group.id": self.name, "enable.auto.commit": False})
        try:
            with self._told("can't be read"):
                consumer.assign([TopicPartition(self.name, 0, 0)])
                found: list[bytes | None] = []
                while len(found) < count:
                    message = consumer.poll(timeout_ms / 1000)
                    if message is None:
                        raise self._unavailable("can't be read", f"no record at offset {len(found)}")
                    if message.error():
                        raise self._unavailable("can't be read", message.error().str())
                    found.append(message.value())
                return found
        finally:
            consumer.close()

    def delete(self) -> None:
        """Also one that was never made."""
        with self._told("can't be deleted"):
            try:
                self._admin.delete_topics([self.name], request_timeout=_REQUEST_TIMEOUT_S)[self.name].result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise

    @contextmanager
    def _told(self, problem: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise self._unavailable(problem, error.args[0].str()) from error

    def _unavailable(self, problem: str, reason: str) -> Unavailable:
        return Unavailable(f"the topic {self.name} {problem}: {reason}")
