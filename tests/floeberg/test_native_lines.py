"""Which lines a broker needs for native mode, by what it has: a table of brokers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from engine.broker import BrokerConfig, PartitionReplicas
from floeberg.native.lines import BrokerFacts, LineState, PropertyLine, lines_of, lines_unasked, notes_of

PLUGIN = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "io.floeberg.kafka.FloebergRemoteStorageManager",
    "remote.log.storage.manager.class.path": "/opt/floeberg-plugin.jar",
    "remote.log.storage.manager.impl.prefix": "rsm.config.",
    "rsm.config.floeberg.url": "http://127.0.0.1:7810",
    "rsm.config.floeberg.token": "t",
}
DEFAULTS = {
    "remote.log.storage.system.enable": "false",
    "remote.log.storage.manager.impl.prefix": "rsm.config.",
    "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
    "security.inter.broker.protocol": "PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "GSSAPI",
    "sasl.enabled.mechanisms": "GSSAPI",
    "process.roles": "broker,controller",
    "remote.log.reader.max.pending.tasks": "100",
    "controller.listener.names": "CONTROLLER",
    "min.insync.replicas": "1",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,INSIDE:SASL_SSL",
}
LISTENER = "remote.log.metadata.manager.listener.name"
FACTOR = "rlmm.config.remote.log.metadata.topic.replication.factor"
PARTITIONS = "rlmm.config.remote.log.metadata.topic.num.partitions"
QUEUE = "remote.log.reader.max.pending.tasks"
CLIENT = "rlmm.config.remote.log.metadata.common.client."
SHIPPED = {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093", "inter.broker.listener.name": "PLAINTEXT"}


def facts(
    chosen: Mapping[str, str] = SHIPPED,
    *,
    hidden: Collection[str] = (),
    brokers: int = 1,
    metadata_partitions: int | None = None,
) -> BrokerFacts:
    one = PartitionReplicas(leader_id=1, replicas=frozenset({1}), in_sync=frozenset({1}))
    config = BrokerConfig(values={**DEFAULTS, **chosen}, chosen=frozenset({*chosen, *hidden}), hidden=frozenset(hidden))
    topic = None if metadata_partitions is None else dict.fromkeys(range(metadata_partitions), one)
    return BrokerFacts(node_id=1, broker_count=brokers, config=config, metadata_topic=topic)


def lines(about: BrokerFacts) -> dict[str, PropertyLine]:
    return {line.key: line for line in lines_of(about, PLUGIN)}


def needed(about: BrokerFacts) -> dict[str, str]:
    return {key: line.value for key, line in lines(about).items() if line.state is LineState.NEEDED}


@pytest.mark.parametrize(("brokers", "factor"), [(1, "1"), (2, "2"), (3, "3"), (7, "3")])
def test_stock_broker_needs_the_plugin_its_listener_and_a_factor_that_its_cluster_can_keep(
    brokers: int, factor: str
) -> None:
    own = {key: value for key, value in PLUGIN.items() if not key.endswith("impl.prefix")}
    assert needed(facts(brokers=brokers)) == {**own, LISTENER: "PLAINTEXT", QUEUE: "10000", FACTOR: factor}


def test_broker_with_all_lines_needs_none_and_hidden_ones_are_told_as_such() -> None:
    own = {key: value for key, value in PLUGIN.items() if not key.startswith("rsm.")}
    hidden = {key for key in PLUGIN if key.startswith("rsm.")}
    found = lines(
        facts({**SHIPPED, **own, LISTENER: "plaintext", QUEUE: "20000"}, hidden=hidden, metadata_partitions=50)
    )
    assert {key for key, line in found.items() if line.state is LineState.HIDDEN} == hidden
    assert {line.state for key, line in found.items() if key not in hidden} == {LineState.THERE}
    assert FACTOR not in found, "it counts only until the topic is made"


def test_other_values_are_named() -> None:
    found = lines(facts({**SHIPPED, "remote.log.storage.manager.class.name": "x.Other", LISTENER: "CONTROLLER"}))
    assert (
        found["remote.log.storage.manager.class.name"].state,
        found["remote.log.storage.manager.class.name"].found,
    ) == (
        LineState.OTHER,
        "x.Other",
    )
    assert (found[LISTENER].value, found[LISTENER].found) == ("PLAINTEXT", "CONTROLLER")


def test_prefix_of_the_brokers_own_stays() -> None:
    chosen = {
        **SHIPPED,
        "remote.log.storage.manager.impl.prefix": "mine.",
        "remote.log.metadata.manager.impl.prefix": "m.",
    }
    found = needed(facts(chosen))
    assert found["mine.floeberg.url"] == "http://127.0.0.1:7810"
    assert found["m.remote.log.metadata.topic.replication.factor"] == "1"
    assert not any(key.startswith(("rsm.", "rlmm.")) for key in found)


def test_metadata_topic_with_partitions_of_its_own_number_needs_that_number() -> None:
    assert needed(facts(metadata_partitions=5))[PARTITIONS] == "5"
    assert PARTITIONS not in lines(facts(metadata_partitions=50))


def test_listener_is_that_between_brokers_whatever_it_is_called() -> None:
    named = {"listeners": "OUTSIDE://:1,INSIDE://:2,CONTROLLER://:3", "inter.broker.listener.name": "inside"}
    assert needed(facts(named))[LISTENER] == "INSIDE"
    by_protocol = {"listeners": "SSL://:1,CONTROLLER://:3", "security.inter.broker.protocol": "SSL"}
    assert needed(facts(by_protocol))[LISTENER] == "SSL"


def test_client_of_a_listener_with_sasl_and_tls_needs_what_only_its_owner_knows() -> None:
    chosen = {
        "advertised.listeners": "INSIDE://h:2,OUTSIDE://h:1",
        "inter.broker.listener.name": "INSIDE",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "ssl.truststore.location": "/etc/kafka/trust.jks",
    }
    found = lines(facts(chosen))
    assert found[f"{CLIENT}sasl.mechanism"].value == "SCRAM-SHA-512"
    assert found[f"{CLIENT}ssl.truststore.location"].value == "/etc/kafka/trust.jks"
    to_fill_in = {key for key, line in found.items() if line.to_fill_in}
    assert to_fill_in == {f"{CLIENT}sasl.jaas.config", f"{CLIENT}ssl.truststore.password"}
    assert f"{CLIENT}ssl.keystore.location" not in found
    mutual = lines(facts({**chosen, "ssl.client.auth": "required"}))
    assert mutual[f"{CLIENT}ssl.keystore.location"].to_fill_in
    there = lines(facts(chosen, hidden=[f"{CLIENT}sasl.jaas.config"]))
    assert there[f"{CLIENT}sasl.jaas.config"].state is LineState.HIDDEN
    assert there[f"{CLIENT}sasl.jaas.config"].to_fill_in is None


def test_plaintext_listener_needs_no_more() -> None:
    assert not any(key.startswith(CLIENT) for key in lines(facts()))


def test_notes_tell_what_is_no_line_of_this_broker() -> None:
    assert notes_of(facts()) == ()
    (controllers,) = notes_of(facts({**SHIPPED, "process.roles": "broker"}))
    assert "remote.log.storage.system.enable=true" in controllers
    (authorizer,) = notes_of(facts({**SHIPPED, "authorizer.class.name": "x.Acl"}))
    assert "__remote_log_metadata" in authorizer
    (least,) = notes_of(facts({**SHIPPED, "min.insync.replicas": "2"}))
    assert "min.insync.replicas=2" in least


def test_without_the_broker_what_it_alone_knows_is_marked() -> None:
    unknown = {line.key for line in lines_unasked(PLUGIN) if line.to_fill_in}
    assert unknown == {LISTENER, FACTOR}
    assert {line.key for line in lines_unasked(PLUGIN)} == {*PLUGIN, LISTENER, QUEUE, FACTOR}


def test_queue_of_reads_that_is_set_but_short_is_named_with_what_it_has() -> None:
    line = lines(facts({**SHIPPED, QUEUE: "500"}))[QUEUE]
    assert (line.state, line.value, line.found) == (LineState.OTHER, "10000", "500")
