"""The one seam to Kafka's wire: what is safe to read of a partition, as its broker says.

confluent-kafka's AdminClient, because it takes the security settings under the names librdkafka gives them, knows topic
ids (aiokafka 0.14 stops at Metadata v5, which has none) and keeps its connections and its one thread for good.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, OffsetSpec, ResourceType

from engine.backoff import Backoff
from engine.broker_errors import UNKNOWN_TOPIC, code_of, concerns_one_partition, text_of
from engine.errors import Invalid, Unavailable
from engine.topic_partition import TopicIdPartition

NO_LEADER = -1
UNKNOWN_OFFSET = -1
_NO_ID = "A" * 22
"""Sixteen bytes of 0: the answer of a broker that is older than topic ids (KIP-516)."""
# From the standard alphabet of base64 to the URL-safe one of Kafka's own text form.
_URL_SAFE = str.maketrans("+/", "-_")

_FIRST_TRY_MS = 1_000
"""How long the broker that librdkafka has chosen may take before the cluster's metadata is asked for again; doubled
with each try, up to the request's time-out: until its session is over, a dead broker may be chosen several times."""

_LONGEST_RECONNECT_MS = 1_000
"""Pause between attempts to connect: our own broker, which comes back from a restart, is not waited for any longer."""

_BROKER_NEXT_STEP = "check that the broker is up, [broker] bootstrap, and the security settings beside it."

_log = logging.getLogger("librdkafka")

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition as its leader sees it; offsets and epoch are -1 where the leader was not asked or gave no answer.

    ``leader_epoch`` is the newest epoch in the leader's log, which a new leader starts before it takes a write.
    ``last_stable_offset`` is the first offset that a read_committed consumer can't have (KIP-98).
    ``log_start_offset`` counts what tiered storage holds as well.
    """

    leader_id: int
    leader_epoch: int = -1
    log_start_offset: int = UNKNOWN_OFFSET
    last_stable_offset: int = UNKNOWN_OFFSET
    high_watermark: int = UNKNOWN_OFFSET

    @property
    def is_answered(self) -> bool:
        """True when the leader gave every offset and its epoch."""
        offsets = (self.leader_epoch, self.log_start_offset, self.last_stable_offset, self.high_watermark)
        return min(offsets) >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReplicas:
    """Where a partition's copies are, by node; ``leader_id`` is -1 while it has none."""

    leader_id: int
    replicas: frozenset[int]
    in_sync: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """One broker's effective settings by Kafka's names, defaults included; what is not set has no entry.

    ``chosen``: no defaults, somebody set them. ``hidden``: those among them whose value Kafka tells nobody: passwords,
    and everything that it has no definition of, so a plugin's own settings too.
    """

    values: Mapping[str, str]
    chosen: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()


class Broker(Protocol):
    """What the program asks a Kafka cluster. Every method raises Unavailable when no answer comes in time."""

    def cluster_id(self) -> str:
        """The cluster's id, as ``meta.properties`` of its log directories has it."""

    def node_ids(self) -> frozenset[int]:
        """Ids of the brokers that are up."""

    def partitions(
        self, topics: Collection[str] | None = None, *, offsets_of: Collection[TopicIdPartition] | None = None
    ) -> Mapping[TopicIdPartition, PartitionView]:
        """All partitions of ``topics`` (of every topic for None); topics that don't exist are left out.

        Epochs and offsets are asked only for ``offsets_of`` (for all when None; none of them costs one request). They
        are read before the topic ids are: an id that equals the log directory's proves that the offsets are not those
        of a later topic of the same name.
        """

    def topic_configs(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """Each topic's effective configuration by Kafka's names; topics that don't exist are left out."""

    def topic_names(self) -> frozenset[str]:
        """Every topic that there is, Kafka's own included. For any thread."""

    def topic_ids(self, topics: Collection[str]) -> Mapping[str, str | None]:
        """The id of each topic; None for one of which the broker says that it does not exist. One of which it says
        anything else, as that it may not be described, is left out. For any thread."""

    def broker_config(self, node_id: int) -> BrokerConfig:
        """One broker's effective configuration."""

    def replicas(self, topic: str) -> Mapping[int, PartitionReplicas]:
        """The topic's partitions by number; empty for a topic that doesn't exist."""

    def close(self) -> None:
        """Give the connections up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TopicDescription:
    topic_id: str
    partitions: Mapping[int, PartitionReplicas]

    @property
    def leaders(self) -> dict[int, int]:
        return {number: partition.leader_id for number, partition in self.partitions.items()}


class KafkaBroker:
    """A cluster reached over the network. Not for several threads at a time.

    librdkafka 2.12 sends what any broker could answer to the one that the last metadata named as controller, and
    ListOffsets to the leader it remembers; when that broker is dead it waits for it and asks for no new metadata. So
    this class does: after a request that was not answered, and when a leader has changed.
    """

    def __init__(self, *, bootstrap: str, security: Mapping[str, str] | None = None, timeout_ms: int = 10_000) -> None:
        """``security`` has librdkafka's names (``security.protocol``, ``sasl.username``, …) and is handed on as it is.

        ``timeout_ms`` bounds each request. Raises Invalid when librdkafka refuses the settings.
        """
        self._bootstrap = bootstrap
        self._timeout_s = timeout_ms / 1000
        self._patience = Backoff(first_ms=_FIRST_TRY_MS, longest_ms=timeout_ms)
        self._described: dict[str, _TopicDescription] = {}
        self._leaders_are_known = True
        conf = {
            "reconnect.backoff.max.ms": str(_LONGEST_RECONNECT_MS),
            **(security or {}),
            "bootstrap.servers": bootstrap,
            "client.id": "floeberg",
        }
        try:
            self._admin = AdminClient(conf, logger=_log)
        except (KafkaException, ValueError) as error:
            raise Invalid(
                f"the Kafka client refuses its settings: {text_of(error)}",
                next_step="correct [broker]; the names are those of librdkafka's CONFIGURATION.md.",
            ) from error

    def cluster_id(self) -> str:
        return str(self._describe_cluster().cluster_id)

    def node_ids(self) -> frozenset[int]:
        return frozenset(node.id for node in self._describe_cluster().nodes)

    def partitions(
        self, topics: Collection[str] | None = None, *, offsets_of: Collection[TopicIdPartition] | None = None
    ) -> Mapping[TopicIdPartition, PartitionView]:
        names = sorted(set(topics)) if topics is not None else self._all_topics()
        offsets: dict[TopicIdPartition, dict[str, int]] = {}
        if offsets_of is None or offsets_of:
            unknown = [name for name in names if name not in self._described]
            self._described.update(self._describe(unknown))
            known = self._led_partitions(names)
            offsets = self._offsets(known if offsets_of is None else known.intersection(offsets_of))
        described = self._describe(names)
        for name in names:
            before = self._described.pop(name, None)
            if before is not None and name in described and before.leaders != described[name].leaders:
                self._leaders_are_known = False
        self._described.update(described)
        views: dict[TopicIdPartition, PartitionView] = {}
        for name, topic in described.items():
            for partition, leader in topic.leaders.items():
                who = TopicIdPartition(topic=name, topic_id=topic.topic_id, partition=partition)
                views[who] = PartitionView(leader_id=leader, **offsets.get(who, {}))
        return views

    def topic_names(self) -> frozenset[str]:
        return frozenset(self._all_topics())

    def topic_ids(self, topics: Collection[str]) -> Mapping[str, str | None]:
        if not topics:
            return {}

        def ask(timeout_s: float) -> dict[str, str | None]:
            wanted = TopicCollection(sorted(set(topics)))
            futures = self._call(self._admin.describe_topics, wanted, request_timeout=timeout_s)
            found: dict[str, str | None] = {}
            refusal: Unavailable | None = None
            for name, future in futures.items():
                try:
                    found[name] = _id_text(self._result(future).topic_id)
                except Unavailable as error:
                    if code_of(error.__cause__) != UNKNOWN_TOPIC:
                        refusal = error
                        continue
                    found[name] = None
            if refusal is not None and not found:
                raise refusal
            return {name: topic_id for name, topic_id in found.items() if topic_id != _NO_ID}

        return self._by_any_broker(ask)

    def topic_configs(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        if not topics:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(set(topics))]

        def ask(timeout_s: float) -> dict[str, Any]:
            futures = self._call(self._admin.describe_configs, resources, request_timeout=timeout_s)
            return self._answers({resource.name: future for resource, future in futures.items()})

        return {
            name: {entry.name: entry.value for entry in entries.values() if entry.value is not None}
            for name, entries in self._by_any_broker(ask).items()
        }

    def broker_config(self, node_id: int) -> BrokerConfig:
        resource = ConfigResource(ResourceType.BROKER, str(node_id))

        def ask(timeout_s: float) -> Any:
            futures = self._call(self._admin.describe_configs, [resource], request_timeout=timeout_s)
            return self._result(futures[resource])

        entries = self._by_any_broker(ask).values()
        chosen = [entry for entry in entries if entry.source != ConfigSource.DEFAULT_CONFIG.value]
        return BrokerConfig(
            values={entry.name: entry.value for entry in entries if entry.value is not None},
            chosen=frozenset(entry.name for entry in chosen),
            hidden=frozenset(entry.name for entry in chosen if entry.value is None and entry.is_sensitive),
        )

    def replicas(self, topic: str) -> Mapping[int, PartitionReplicas]:
        described = self._describe([topic]).get(topic)
        return {} if described is None else described.partitions

    def close(self) -> None:
        # librdkafka joins its threads when the last reference goes.
        del self._admin

    def _all_topics(self) -> list[str]:
        return sorted(self._call(self._admin.list_topics, timeout=self._timeout_s).topics)

    def _by_any_broker(self, ask: Callable[[float], _Answer]) -> _Answer:
        """``ask`` with a time-out in seconds; again, with metadata of now and more patience, when no answer comes."""
        tries = 0
        while (patience_ms := self._patience.wait_ms(tries)) < self._patience.longest_ms:
            try:
                return ask(patience_ms / 1000)
            except Unavailable:
                self._refresh()
            tries += 1
        return ask(self._timeout_s)

    def _refresh(self) -> None:
        """Have librdkafka learn brokers, controller and leaders again, from whichever broker is connected."""
        self._call(self._admin.list_topics, timeout=self._timeout_s)
        self._leaders_are_known = True

    def _describe_cluster(self) -> Any:
        return self._by_any_broker(
            lambda timeout_s: self._result(self._call(self._admin.describe_cluster, request_timeout=timeout_s))
        )

    def _describe(self, topics: Collection[str]) -> dict[str, _TopicDescription]:
        if not topics:
            return {}

        def ask(timeout_s: float) -> dict[str, Any]:
            wanted = TopicCollection(list(topics))
            return self._answers(self._call(self._admin.describe_topics, wanted, request_timeout=timeout_s))

        return {
            name: _TopicDescription(
                topic_id=_id_text(topic.topic_id),
                partitions={
                    partition.id: PartitionReplicas(
                        leader_id=NO_LEADER if partition.leader is None else partition.leader.id,
                        replicas=frozenset(node.id for node in partition.replicas),
                        in_sync=frozenset(node.id for node in partition.isr),
                    )
                    for partition in topic.partitions
                },
            )
            for name, topic in self._by_any_broker(ask).items()
        }

    def _led_partitions(self, topics: Collection[str]) -> set[TopicIdPartition]:
        """The partitions of ``topics`` that had a leader when they were last described."""
        return {
            TopicIdPartition(topic=name, topic_id=self._described[name].topic_id, partition=partition)
            for name in topics
            if name in self._described
            for partition, leader in self._described[name].leaders.items()
            if leader != NO_LEADER
        }

    def _offsets(self, partitions: Collection[TopicIdPartition]) -> dict[TopicIdPartition, dict[str, int]]:
        """Fields of PartitionView, for each partition that answered all of three requests in flight together."""
        if not partitions:
            return {}
        if not self._leaders_are_known:
            self._refresh()
        asked = {who: TopicPartition(who.topic, who.partition) for who in partitions}
        committed, uncommitted = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
        stable_futures = self._list_offsets(asked.values(), OffsetSpec.latest(), committed)
        latest_futures = self._list_offsets(asked.values(), OffsetSpec.latest(), uncommitted)
        earliest_futures = self._list_offsets(asked.values(), OffsetSpec.earliest(), uncommitted)
        stable = self._answers(stable_futures)
        latest = self._answers(latest_futures)
        earliest = self._answers(earliest_futures)
        # A leader that did not answer comes as an offset of -1001 or as an error.
        answers = (found.get(key) for found in (stable, latest, earliest) for key in asked.values())
        self._leaders_are_known = all(answer is not None and answer.offset >= 0 for answer in answers)
        return {
            who: {
                "leader_epoch": -1 if stable[key].leader_epoch is None else stable[key].leader_epoch,
                "log_start_offset": earliest[key].offset,
                "last_stable_offset": stable[key].offset,
                "high_watermark": latest[key].offset,
            }
            for who, key in asked.items()
            if key in stable and key in latest and key in earliest
        }

    def _list_offsets(self, asked: Iterable[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel) -> Any:
        return self._call(
            self._admin.list_offsets,
            dict.fromkeys(asked, spec),
            isolation_level=isolation,
            request_timeout=self._timeout_s,
        )

    def _call(self, request: Any, *args: Any, **options: Any) -> Any:
        try:
            return request(*args, **options)
        except KafkaException as error:
            raise self._unavailable("the Kafka broker can't be asked", error) from error

    def _result(self, future: Future[Any]) -> Any:
        # The request's own time-out ends the future; twice that means librdkafka lost it.
        try:
            return future.result(timeout=2 * self._timeout_s)
        except (KafkaException, TimeoutError) as error:
            raise self._unavailable("the Kafka broker gave no answer", error) from error

    def _answers(self, futures: Mapping[Any, Future[Any]]) -> dict[Any, Any]:
        """The good answers; Unavailable when all of several are bad for a reason that concerns the broker itself."""
        answers: dict[Any, Any] = {}
        last_error: Unavailable | None = None
        for key, future in futures.items():
            try:
                answers[key] = self._result(future)
            except Unavailable as error:
                if concerns_one_partition(error.__cause__):
                    continue
                last_error = error
        if last_error is not None and not answers:
            raise last_error
        return answers

    def _unavailable(self, problem: str, error: BaseException) -> Unavailable:
        return Unavailable(f"{problem} at {self._bootstrap}: {text_of(error)}", next_step=_BROKER_NEXT_STEP)


def _id_text(topic_id: object) -> str:
    """librdkafka writes ids in the standard alphabet of base64, Kafka in the URL-safe one."""
    return str(topic_id).translate(_URL_SAFE)
