"""What is asked of the cluster before one can say what native mode needs of the broker beside us."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from engine.broker import Broker
from engine.errors import Invalid, Unavailable
from floeberg.native.lines import METADATA_TOPIC, BrokerFacts

_META_PROPERTIES = "meta.properties"


def ask_facts(broker: Broker, log_dirs: Sequence[Path]) -> BrokerFacts:
    """Facts of the broker that the log directories belong to. Raises Unavailable and, where none of the cluster's
    brokers can be told to be it, Invalid."""
    nodes = broker.node_ids()
    node_id = _own_node(nodes, log_dirs)
    return BrokerFacts(
        node_id=node_id,
        broker_count=len(nodes),
        config=broker.broker_config(node_id),
        metadata_topic=broker.replicas(METADATA_TOPIC) or None,
    )


def meta_properties(log_dir: Path) -> dict[str, str]:
    """What a log directory says of itself. Raises Invalid when that can't be read."""
    try:
        lines = (log_dir / _META_PROPERTIES).read_text().splitlines()
    except OSError as error:
        raise Invalid(
            f"{_META_PROPERTIES} can't be read: {error.strerror}",
            file=str(log_dir / _META_PROPERTIES),
            next_step="[broker] log_dirs must be the broker's own log.dirs; give the daemon's user read access",
        ) from error
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def _own_node(nodes: Collection[int], log_dirs: Sequence[Path]) -> int:
    if len(nodes) == 1:
        return next(iter(nodes))
    node_id = int(meta_properties(log_dirs[0]).get("node.id", "-1"))
    if node_id not in nodes:
        raise Unavailable(
            f"The broker of {log_dirs[0]} is node {node_id}, which is not among those that are up: {sorted(nodes)}",
            next_step="start the broker beside this machine's log directories, or correct [broker] log_dirs",
        )
    return node_id
