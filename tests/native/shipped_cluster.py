"""As test_shipped_broker.py, with three brokers and a daemon beside each (``make test-shipped-cluster``)."""

from __future__ import annotations

import contextlib
from pathlib import Path

from engine.broker import KafkaBroker
from floeberg.native.lines import METADATA_TOPIC
from floeberg.processes.local_broker import cluster_of
from tests.native.shipped_stage import (
    ShippedNode,
    history_is_read_from_the_table,
    set_up_by_what_is_printed,
    start_all,
    stop_all,
)


def test_three_brokers_need_nothing_but_the_printed_lines(tmp_path: Path) -> None:
    nodes = [
        ShippedNode(tmp_path / f"node-{membership.node_id}", membership, shared=tmp_path / "shared")
        for membership in cluster_of([1, 2, 3])
    ]
    with contextlib.ExitStack() as running:
        running.callback(stop_all, nodes)
        start_all(nodes)
        set_up_by_what_is_printed(nodes)
        seam = KafkaBroker(bootstrap=nodes[0].broker.bootstrap)
        running.callback(seam.close)
        for node in nodes:
            running.enter_context(node.daemon())
        history_is_read_from_the_table(nodes, "orders")
        assert {len(partition.replicas) for partition in seam.replicas(METADATA_TOPIC).values()} == {3}
        for node in nodes:
            wrong = [found for found in node.checked() if found["verdict"] == "wrong"]
            assert wrong == []
