"""Which lines a broker's ``server.properties`` needs for native mode: plain values in, plain values out.

What the lines mean: KIP-405, ``RemoteLogManagerConfig`` and ``TopicBasedRemoteLogMetadataManagerConfig`` of Kafka 3.9+;
docs/log_door.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from engine.broker import BrokerConfig, PartitionReplicas

METADATA_TOPIC = "__remote_log_metadata"
ENABLE = "remote.log.storage.system.enable"
STORAGE_PREFIX = "remote.log.storage.manager.impl.prefix"
LISTENER = "remote.log.metadata.manager.listener.name"
READ_QUEUE = "remote.log.reader.max.pending.tasks"
QUEUED_READS = 10_000
"""Kafka queues 100 reads of history and answers one above that with UNKNOWN_SERVER_ERROR: 50 consumers fill them in the
seconds in which a daemon starts again (docs/log_door.md)."""
_METADATA_PREFIX = "remote.log.metadata.manager.impl.prefix"
_DEFAULT_METADATA_PREFIX = "rlmm.config."
_CLIENT = "remote.log.metadata.common.client."
_DEFAULT_METADATA_FACTOR = 3
_DEFAULT_METADATA_PARTITIONS = 50


class LineState(StrEnum):
    """How a broker stands to a line."""

    NEEDED = "needed"
    THERE = "there"
    HIDDEN = "hidden"
    """Set, but Kafka tells nobody to what."""
    OTHER = "other"
    """Set to another value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyLine:
    """One line. ``found``: the other value that the broker has. ``to_fill_in``: what ``value`` stands in for, where it
    can't be known from here."""

    key: str
    value: str
    state: LineState
    found: str | None = None
    to_fill_in: str | None = None

    @property
    def text(self) -> str:
        return f"{self.key}={self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """What was asked of the cluster for one broker's lines.

    ``metadata_topic``: the partitions of ``__remote_log_metadata``, None where there is no such topic yet.
    """

    node_id: int
    broker_count: int
    config: BrokerConfig
    metadata_topic: Mapping[int, PartitionReplicas] | None

    def value(self, key: str, default: str = "") -> str:
        return self.config.values.get(key) or default

    @property
    def metadata_prefix(self) -> str:
        return self.value(_METADATA_PREFIX, _DEFAULT_METADATA_PREFIX)

    @property
    def listeners(self) -> tuple[str, ...]:
        """Names of the listeners that clients may use, the controllers' left out."""
        of_controllers = {name.strip().upper() for name in self.value("controller.listener.names").split(",")}
        text = self.value("advertised.listeners") or self.value("listeners")
        names = [listener.partition("://")[0].strip().upper() for listener in text.split(",")]
        return tuple(name for name in names if name and name not in of_controllers)

    @property
    def inter_broker_listener(self) -> str:
        """The one over which brokers reach each other, so that this one reaches itself by it too."""
        return self.value("inter.broker.listener.name", self.value("security.inter.broker.protocol", "PLAINTEXT"))

    @property
    def metadata_listener(self) -> str:
        """The one that the metadata manager should use: what is set, where it is one of the broker's."""
        found = self.value(LISTENER)
        if found.upper() in self.listeners:
            return found
        inter_broker = self.inter_broker_listener.upper()
        return inter_broker if inter_broker in self.listeners or not self.listeners else self.listeners[0]

    def protocol_of(self, listener: str) -> str:
        pairs = (pair.partition(":") for pair in self.value("listener.security.protocol.map").split(","))
        known = {name.strip().upper(): protocol.strip() for name, _, protocol in pairs}
        return known.get(listener.upper(), listener.upper())


def lines_of(facts: BrokerFacts, plugin: Mapping[str, str]) -> tuple[PropertyLine, ...]:
    """Every line that this broker needs, also those it has. ``plugin``: those of the plugin itself."""
    prefix = plugin[STORAGE_PREFIX]
    own_prefix = facts.value(STORAGE_PREFIX, prefix)
    # A prefix of the broker's own stays: its other settings under it would be lost.
    wanted = {
        (own_prefix + key.removeprefix(prefix)) if key.startswith(prefix) else key: value
        for key, value in {**plugin, STORAGE_PREFIX: own_prefix}.items()
    }
    lines = [_line(facts, key, value) for key, value in wanted.items()]
    listener = _line(facts, LISTENER, facts.metadata_listener)
    return (*lines, listener, _queue_line(facts), *_topic_lines(facts), *_client_lines(facts))


def lines_unasked(plugin: Mapping[str, str]) -> tuple[PropertyLine, ...]:
    """As many of them as can be told without the broker."""
    listener = PropertyLine(
        key=LISTENER,
        value="<listener>",
        state=LineState.NEEDED,
        to_fill_in="the listener by which brokers reach each other, PLAINTEXT in Kafka's own server.properties",
    )
    factor = PropertyLine(
        key=_factor_key(_DEFAULT_METADATA_PREFIX),
        value="<factor>",
        state=LineState.NEEDED,
        to_fill_in=f"the number of brokers, at most {_DEFAULT_METADATA_FACTOR}",
    )
    known = tuple(PropertyLine(key=key, value=value, state=LineState.NEEDED) for key, value in plugin.items())
    queue = PropertyLine(key=READ_QUEUE, value=str(QUEUED_READS), state=LineState.NEEDED)
    return (*known, listener, queue, factor)


def metadata_factor(facts: BrokerFacts) -> int:
    """How many copies of the metadata topic there can be: Kafka's own default is 3, which fewer brokers can't keep."""
    return min(_DEFAULT_METADATA_FACTOR, facts.broker_count)


def _factor_key(prefix: str) -> str:
    return f"{prefix}remote.log.metadata.topic.replication.factor"


def _queue_line(facts: BrokerFacts) -> PropertyLine:
    found = facts.value(READ_QUEUE)
    is_enough = found.isdecimal() and int(found) >= QUEUED_READS
    return _line(facts, READ_QUEUE, found if is_enough else str(QUEUED_READS))


def _topic_lines(facts: BrokerFacts) -> Iterator[PropertyLine]:
    """The metadata topic's: its factor counts only until it is made, its number of partitions from then on."""
    if facts.metadata_topic is None:
        yield _line(facts, _factor_key(facts.metadata_prefix), str(metadata_factor(facts)))
        return
    key = f"{facts.metadata_prefix}remote.log.metadata.topic.num.partitions"
    if len(facts.metadata_topic) != _DEFAULT_METADATA_PARTITIONS or key in facts.config.hidden:
        # Kafka ends a broker whose setting is not what the topic has.
        yield _line(facts, key, str(len(facts.metadata_topic)))


def _client_lines(facts: BrokerFacts) -> Iterator[PropertyLine]:
    """How the metadata manager proves itself at its own listener; its address and protocol the broker gives it."""
    listener = facts.metadata_listener
    protocol = facts.protocol_of(listener).upper()
    client = f"{facts.metadata_prefix}{_CLIENT}"
    if protocol.startswith("SASL_"):
        is_inter_broker = listener.upper() == facts.inter_broker_listener.upper()
        offered = facts.value("sasl.enabled.mechanisms", "GSSAPI").split(",")[0]
        mechanism = facts.value("sasl.mechanism.inter.broker.protocol", offered) if is_inter_broker else offered
        yield _line(facts, f"{client}sasl.mechanism", mechanism)
        yield _line(
            facts, f"{client}sasl.jaas.config", "<login module>", to_fill_in="as in any client of this listener"
        )
    if protocol.endswith("SSL"):
        stores = ["truststore", "keystore"] if facts.value("ssl.client.auth") == "required" else ["truststore"]
        for store in stores:
            known = facts.value(f"ssl.{store}.location")
            unknown = None if known else f"the client's {store}, which trusts or names itself as this listener asks"
            yield _line(facts, f"{client}ssl.{store}.location", known or f"<{store}>", to_fill_in=unknown)
            yield _line(facts, f"{client}ssl.{store}.password", "<password>", to_fill_in=f"the {store}'s password")


def _line(facts: BrokerFacts, key: str, value: str, *, to_fill_in: str | None = None) -> PropertyLine:
    found = facts.config.values.get(key)
    if key in facts.config.hidden:
        state = LineState.HIDDEN
    elif found == value:
        state = LineState.THERE
    else:
        state = LineState.OTHER if found and key in facts.config.chosen else LineState.NEEDED
    return PropertyLine(
        key=key,
        value=value,
        state=state,
        found=found if state is LineState.OTHER else None,
        to_fill_in=None if state is LineState.HIDDEN else to_fill_in,
    )


def notes_of(facts: BrokerFacts) -> tuple[str, ...]:
    """What no line of this broker can say, in whole sentences."""
    notes = []
    if "controller" not in facts.value("process.roles", "broker,controller"):
        notes.append(f"The controllers are other nodes: each needs the line {ENABLE}=true too, and a restart.")
    if facts.value("authorizer.class.name"):
        notes.append(
            f"The brokers ask an authorizer: the user of the metadata manager needs to create, describe, write and read"
            f" the topic {METADATA_TOPIC}."
        )
    factor = metadata_factor(facts)
    least = int(facts.value("min.insync.replicas", "1"))
    if facts.metadata_topic is None and least > factor:
        notes.append(
            f"min.insync.replicas={least} is more than the {factor} copies that {METADATA_TOPIC} can have here: no copy"
            f" could be recorded. Set that topic's min.insync.replicas to {factor} once it is there."
        )
    return tuple(notes)
