"""What ``floeberg init`` finds: which broker is beside us, where its logs lie, what its topics hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from engine.broker import Broker
from engine.errors import FloebergError, Invalid
from engine.formats.format_guess import FormatGuess
from engine.kafka_log.log_directory import scan_log_directories
from floeberg.native.broker_facts import meta_properties
from floeberg.setup.topic_formats import guess_here
from topics.topic_rule import TopicRule

MOST_TOPICS = 100
"""Topics whose records are looked at: a file is written for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBroker:
    """The one whose log directories are on this machine."""

    node_id: int
    cluster_id: str
    log_dirs: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopic:
    """``guess`` None where no record tells the format yet; ``problem``: why its records can't be read."""

    name: str
    partition_count: int
    guess: FormatGuess | None = None
    problem: str | None = None

    @property
    def told(self) -> str:
        """What its values are, in words."""
        if self.problem is not None:
            return f"can't be told: {' '.join(self.problem.split())}"
        if self.guess is None:
            return "no record tells its format yet"
        hint = "; if there is a schema registry, name it" if self.guess.has_unknown_schemas else ""
        return f"{self.guess.name} ({self.guess.why}{hint})"


def find_broker(broker: Broker, *, node_id: int | None = None) -> FoundBroker:
    """The cluster's broker beside us; ``node_id`` where there are several.

    Raises Unavailable; Invalid where none is, or several are, or the log directories can't be read.
    """
    cluster_id = broker.cluster_id()
    asked = {node: _log_dirs(broker, node) for node in sorted(broker.node_ids()) if node_id in {None, node}}
    here = [node for node, log_dirs in asked.items() if log_dirs and _is_of(log_dirs[0], node, cluster_id)]
    if len(here) == 1:
        return FoundBroker(node_id=here[0], cluster_id=cluster_id, log_dirs=asked[here[0]])
    if here:
        raise Invalid(
            f"Several brokers of the cluster have their log directories on this machine: nodes {_listed(here)}",
            next_step="name the one that this Floeberg is to stand beside, with --node",
        )
    told = "; ".join(f"node {node} has {_listed(log_dirs)}" for node, log_dirs in asked.items()) or "it has no broker"
    raise Invalid(
        f"No broker of the cluster has its log directories on this machine, for this user to read: {told}",
        next_step="run it on a broker's machine, as a user who may read the broker's files",
    )


def find_topics(log_dirs: Sequence[Path], rule: TopicRule) -> tuple[list[FoundTopic], int]:
    """The topics that lie here and are kept by default, by name; and how many more there are than were looked at."""
    live = scan_log_directories(log_dirs).live
    kept = sorted((one for one in live if rule.matches(one.partition.topic)), key=lambda one: one.partition)
    by_topic = {topic: tuple(group) for topic, group in groupby(kept, key=lambda one: one.partition.topic)}
    found = []
    for topic in list(by_topic)[:MOST_TOPICS]:
        partitions = by_topic[topic]
        try:
            guess = guess_here(rule, topic, partitions)
        except FloebergError as error:
            found.append(FoundTopic(name=topic, partition_count=len(partitions), problem=error.problem))
        else:
            found.append(FoundTopic(name=topic, partition_count=len(partitions), guess=guess))
    return found, len(by_topic) - len(found)


def _log_dirs(broker: Broker, node_id: int) -> tuple[Path, ...]:
    values: Mapping[str, str] = broker.broker_config(node_id).values
    text = values.get("log.dirs") or values.get("log.dir") or ""
    return tuple(Path(name.strip()) for name in text.split(",") if name.strip())


def _is_of(log_dir: Path, node_id: int, cluster_id: str) -> bool:
    try:
        found = meta_properties(log_dir)
    except Invalid:
        return False
    return (found.get("cluster.id"), found.get("node.id")) == (cluster_id, str(node_id))


def _listed(things: Sequence[object]) -> str:
    return ", ".join(map(str, things))
