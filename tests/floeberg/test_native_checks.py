"""What ``floeberg check`` finds that native mode would not start for, each in a sentence with the next step."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from engine.broker import BrokerConfig, PartitionReplicas
from engine.errors import Unavailable
from floeberg.http.server import HttpServer
from floeberg.java.plugin_jar import broker_properties
from floeberg.native.broker_facts import ask_facts
from floeberg.native.checks import check_native
from floeberg.native.lines import METADATA_TOPIC
from floeberg.processes.free_ports import free_ports
from floeberg.settings import BrokerSettings, Settings
from floeberg.settings.doors import Listen, LogDoorSettings
from floeberg.setup.check_result import CheckResult, Verdict
from serving.log.commit_signal import CommitSignal
from serving.log.door import create_log_door
from tests.serving.log.backend_suite import sample_records
from tests.serving.log.kept_log import KeptLog
from tests.support.fake_broker import FakeBroker

TOKEN = "shared"


class Setup:
    """A broker with every line and the metadata topic, one native topic, and the daemon's settings."""

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.settings = Settings(
            broker=BrokerSettings(bootstrap="of the test", log_dirs=(folder,)),
            log_door=LogDoorSettings(listen=Listen(host="127.0.0.1", port=port)),
        )
        jar = folder / "floeberg-plugin.jar"
        jar.write_bytes(b"of another version")
        own = broker_properties(jar=jar, door_url=self.settings.log_door.url, token_file=jar.with_name("t"))
        self.values = {
            **{key: value for key, value in own.items() if not key.startswith("rsm.")},
            "listeners": "PLAINTEXT://:9092",
            "security.inter.broker.protocol": "PLAINTEXT",
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        }
        self.hidden = {key for key in own if key.startswith("rsm.")}
        self.jar = jar
        self.broker = FakeBroker()
        self.broker.create_topic("orders", config={"remote.storage.enable": "true"})
        self.broker.create_topic(METADATA_TOPIC, partitions=50)

    def found(self, *, without: Collection[str] = (), **changed: str) -> list[CheckResult]:
        values = {**self.values, **{key.replace("_", "."): value for key, value in changed.items()}}
        kept = {key: value for key, value in values.items() if key not in without}
        self.broker.set_broker_config(kept, self.hidden - set(without))
        facts = ask_facts(self.broker, self.settings.broker.log_dirs)
        return list(check_native(self.broker, facts, self.settings, TOKEN))

    def wrong(self, **changed: str) -> list[str]:
        return [one.message for one in self.found(**changed) if one.verdict is Verdict.WRONG]


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


def test_broker_with_every_line_is_well_and_the_canary_is_pointed_to(setup: Setup) -> None:
    found = setup.found()
    assert not any(one.verdict is Verdict.WRONG for one in found)
    assert "native mode on 1 topics (orders)" in found[-1].message
    assert "--canary" in found[-1].message


def test_cluster_without_native_topics_or_plugin_is_in_watch_mode(setup: Setup) -> None:
    setup.broker.delete_topic("orders")
    (only,) = setup.found(remote_log_storage_system_enable="false")
    assert only.verdict is Verdict.GOOD
    assert "watch mode" in only.message


@pytest.mark.parametrize(
    "key",
    [
        "remote.log.metadata.manager.listener.name",
        "remote.log.storage.manager.class.name",
        "rsm.config.floeberg.url",
        "rsm.config.floeberg.token.file",
    ],
)
def test_line_that_lacks_is_named_and_the_token_is_not_shown(setup: Setup, key: str) -> None:
    found = [one for one in setup.found(without=[key]) if one.verdict is Verdict.WRONG]
    assert [one.message.partition("=")[0] for one in found] == [f"broker 1 lacks the line {key}"]
    assert TOKEN not in found[0].message
    assert "floeberg plugin" in (found[0].next_step or "")


def test_token_itself_in_the_brokers_settings_is_as_good_as_its_file(setup: Setup) -> None:
    setup.hidden.add("rsm.config.floeberg.token")
    assert setup.found(without=["rsm.config.floeberg.token.file"])[-1].verdict is Verdict.GOOD
    assert not setup.wrong()


def test_line_with_another_value_is_named_with_both(setup: Setup) -> None:
    (message,) = setup.wrong(remote_log_metadata_manager_listener_name="ELSEWHERE")
    assert "listener.name=ELSEWHERE" in message
    assert "listener.name=PLAINTEXT" in message


def test_metadata_topic_that_was_never_made_names_the_factor(setup: Setup) -> None:
    setup.broker.delete_topic(METADATA_TOPIC)
    lacking, missing = setup.wrong()
    assert "remote.log.metadata.topic.replication.factor=1" in lacking
    assert f"there is no topic {METADATA_TOPIC}" in missing


def test_jar_that_is_gone_would_keep_the_broker_from_starting(setup: Setup) -> None:
    setup.jar.unlink()
    (message,) = setup.wrong()
    assert str(setup.jar) in message


@pytest.mark.parametrize(
    ("partition", "least", "told"),
    [
        (PartitionReplicas(leader_id=-1, replicas=frozenset({2}), in_sync=frozenset()), 1, "have no leader"),
        (PartitionReplicas(leader_id=1, replicas=frozenset({1}), in_sync=frozenset({1})), 2, "takes no record"),
        (PartitionReplicas(leader_id=1, replicas=frozenset({1, 2, 3}), in_sync=frozenset({1})), 2, "in sync"),
    ],
)
def test_metadata_topic_that_takes_no_records_is_wrong(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, partition: PartitionReplicas, least: int, told: str
) -> None:
    setup.broker.delete_topic(METADATA_TOPIC)
    setup.broker.create_topic(METADATA_TOPIC, config={"min.insync.replicas": str(least)})
    monkeypatch.setattr(setup.broker, "replicas", lambda _topic: dict.fromkeys(range(50), partition))
    (message,) = setup.wrong()
    assert told in message


def test_other_broker_without_the_plugin_is_named(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    setup.found()
    facts = ask_facts(setup.broker, setup.settings.broker.log_dirs)
    own = facts.config

    def config_of(node_id: int) -> BrokerConfig:
        return own if node_id == 1 else replace(own, values={})

    monkeypatch.setattr(setup.broker, "broker_config", config_of)
    monkeypatch.setattr(setup.broker, "node_ids", lambda: frozenset({1, 2}))
    found = list(check_native(setup.broker, facts, setup.settings, TOKEN))
    assert [one.message for one in found if one.verdict is Verdict.WRONG] == [
        "broker 2 has no plugin: partitions that it leads are not copied"
    ]


def answers(listen: Listen, token: str) -> HttpServer:
    routes = create_log_door(KeptLog(sample_records()), tokens=[token], commits=CommitSignal())
    return HttpServer(routes, listen, setting="[log_door] listen")


def test_door_is_the_daemons_only_with_its_token(setup: Setup) -> None:
    with answers(setup.settings.log_door.listen, TOKEN):
        assert [one.verdict for one in setup.found() if one.name == "log door"] == [Verdict.GOOD]
    with answers(setup.settings.log_door.listen, "other"):
        (message,) = setup.wrong()
    assert "another token" in message
    with HttpServer(
        [Route("/{rest:path}", lambda _: PlainTextResponse("shop"))], setup.settings.log_door.listen, setting="x"
    ):
        (message,) = setup.wrong()
    assert "no log door" in message


def test_facts_are_those_of_the_broker_beside_the_log_directories(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "meta.properties").write_text("#\nversion=1\nnode.id=3\ncluster.id=x\n")
    monkeypatch.setattr(setup.broker, "node_ids", lambda: frozenset({1, 2, 3}))
    facts = ask_facts(setup.broker, [tmp_path])
    assert (facts.node_id, facts.broker_count) == (3, 3)
    assert len(facts.metadata_topic or ()) == 50
    (tmp_path / "meta.properties").write_text("#\nversion=1\nnode.id=4\n")
    with pytest.raises(Unavailable, match="node 4"):
        ask_facts(setup.broker, [tmp_path])
