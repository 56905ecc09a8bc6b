"""Which broker is beside us, and what is written for it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from engine.broker import BrokerConfig
from engine.errors import Invalid
from engine.formats.format_facts import AUTO
from engine.formats.format_guess import FormatGuess
from floeberg.settings import Settings
from floeberg.setup.found_setup import FoundBroker, FoundTopic, find_broker, find_topics
from floeberg.setup.written_settings import settings_text
from tests.support.fake_broker import FakeBroker
from tests.tiering.broker_on_disk import BrokerOnDisk
from topics.topic_rule import TopicRule


class Cluster(FakeBroker):
    """Nodes with log directories; ``beside`` those whose directories are on this machine."""

    def __init__(self, log_dirs: dict[int, str]) -> None:
        super().__init__(node_id=1)
        self._log_dirs = log_dirs

    def node_ids(self) -> frozenset[int]:
        return frozenset(self._log_dirs)

    def broker_config(self, node_id: int) -> BrokerConfig:
        return BrokerConfig(values={"log.dirs": self._log_dirs[node_id]})


def log_dir(folder: Path, node_id: int, cluster_id: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "meta.properties").write_text(f"version=1\nnode.id={node_id}\ncluster.id={cluster_id}\n")
    return folder


def test_broker_is_the_one_whose_directories_are_here(tmp_path: Path) -> None:
    cluster_id = FakeBroker(node_id=1).cluster_id()
    here = log_dir(tmp_path / "two", 2, cluster_id)
    found = find_broker(Cluster({1: "/nowhere/one", 2: f"{here}, {tmp_path / 'more'}", 3: str(here)}))
    assert found == FoundBroker(node_id=2, cluster_id=cluster_id, log_dirs=(here, tmp_path / "more"))


def test_directories_of_another_cluster_are_not_taken(tmp_path: Path) -> None:
    other = log_dir(tmp_path / "other", 1, "another-cluster")
    with pytest.raises(Invalid, match="No broker of the cluster has its log directories on this machine") as caught:
        find_broker(Cluster({1: str(other)}))
    assert f"node 1 has {other}" in str(caught.value)


def test_several_brokers_here_need_a_name(tmp_path: Path) -> None:
    cluster_id = FakeBroker(node_id=1).cluster_id()
    dirs = {node: str(log_dir(tmp_path / str(node), node, cluster_id)) for node in (1, 2)}
    with pytest.raises(Invalid, match="nodes 1, 2"):
        find_broker(Cluster(dirs))
    assert find_broker(Cluster(dirs), node_id=2).log_dirs == (Path(dirs[2]),)


def test_topics_are_looked_at_and_kafkas_own_left_out(tmp_path: Path) -> None:
    disk = BrokerOnDisk(tmp_path)
    for topic, values in {"clicks": [b'{"a": 1}'], "hello": [b"hello"], "__own": [b"x"], "none": []}.items():
        partition, _ = disk.create_topic(topic, partitions=2)
        disk.append(partition, values)
    damaged, _ = disk.create_topic("damaged", partitions=2)
    disk.append(damaged, [b"x"])
    segment = next(disk.directory(damaged).glob("*.log"))
    segment.write_bytes(segment.read_bytes()[:-1] + b"\xff")
    topics, more = find_topics([disk.log_dir], TopicRule(pattern="*", value_format=AUTO))
    told = {topic.name: topic.told for topic in topics}
    assert (more, told["clicks"]) == (0, "json (1 of the first 1 values are JSON objects)")
    assert told["hello"] == "string (1 of the first 1 values are text)"
    assert told["none"] == "no record tells its format yet"
    assert told["damaged"].startswith("can't be told: ")
    assert "__own" not in told


def test_what_is_written_is_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FLOEBERG_BROKER__BOOTSTRAP", "FLOEBERG_BROKER__LOG_DIRS"):
        monkeypatch.delenv(name, raising=False)
    framed = FormatGuess(name="raw", why="10 of the first 10 values may name schemas", has_unknown_schemas=True)
    text = settings_text(
        FoundBroker(node_id=1, cluster_id="c", log_dirs=(Path('/a "b"'), Path("/ü"))),
        [FoundTopic(name="orders", partition_count=1, guess=framed)],
        more_topics=7,
        bootstrap="kafka:9093",
        security={"security.protocol": "SASL_SSL", "sasl.password": 'p"\\w'},
        registry="http://registry:8081",
        doors={"log_door": 12345},
    )
    settings = Settings(**tomllib.loads(text))
    assert (settings.broker.bootstrap, settings.broker.log_dirs) == ("kafka:9093", (Path('/a "b"'), Path("/ü")))
    assert settings.broker.security == {"security.protocol": "SASL_SSL", "sasl.password": 'p"\\w'}
    assert (settings.log_door.listen.port, settings.table_door.listen.port) == (12345, 7811)
    (topic,) = settings.topics
    assert topic.registry is not None
    assert (topic.name, topic.value, topic.registry.url) == ("*", AUTO, ("http://registry:8081",))
    assert "if there is a schema registry, name it" in text
    assert "and 7 more" in text
