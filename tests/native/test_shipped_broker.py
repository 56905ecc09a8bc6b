"""Kafka's shipped settings and exactly what ``floeberg plugin`` prints: copied, dropped, and read back from 0."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from floeberg.daemon.client import ask_daemon
from floeberg.processes.local_broker import cluster_of
from tests.native.shipped_stage import ShippedNode, history_is_read_from_the_table, set_up_by_what_is_printed

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("shipped")]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShippedNode]:
    folder = tmp_path_factory.mktemp("shipped")
    (membership,) = cluster_of([1])
    node = ShippedNode(folder / "node", membership, shared=folder / "shared", with_tls=True)
    with node.broker:
        set_up_by_what_is_printed([node])
        yield node


def test_one_broker_needs_nothing_but_the_printed_lines(node: ShippedNode) -> None:
    with node.daemon():
        history_is_read_from_the_table([node], "orders")
        status = ask_daemon(node.settings())
        checked = node.checked("--canary")
    plugin = [found for found in checked if found["name"] in {"plugin", "metadata topic", "log door"}]
    assert {found["verdict"] for found in plugin} == {"good"}
    (canary,) = (found for found in checked if found["name"] == "canary")
    assert canary["verdict"] == "note"
    assert "its daemon can't stand at the log door" in canary["message"]
    assert status is not None
    (orders,) = status.partitions
    assert (orders.native, orders.copied_end, orders.copy_wait_ms) == (True, orders.tiered_end, 0)
    assert "native mode on 1 topics (orders)" in " ".join(found["message"] for found in plugin)


def test_lines_that_the_broker_has_are_not_asked_for_again(node: ShippedNode) -> None:
    lines = node.printed().splitlines()
    asked = [line.partition("=")[0] for line in lines if not line.startswith("#")]
    assert asked == ["rsm.config.floeberg.url", "rsm.config.floeberg.token.file", "rsm.config.floeberg.ca.file"], (
        "Kafka tells nobody these values"
    )
    assert "# already there: remote.log.metadata.manager.listener.name=PLAINTEXT" in lines


def test_canary_is_copied_dropped_read_and_gone(node: ShippedNode) -> None:
    found = {one["name"]: one for one in node.checked("--canary", "--patience", "90")}
    assert {name: one["verdict"] for name, one in found.items() if name.startswith("canary")} == {
        "canary write": "good",
        "canary copy": "good",
        "canary read": "good",
    }, found
    assert "dropped its own copy" in found["canary read"]["message"]
    folders = [path.name for path in node.broker.log_dirs[0].glob("__floeberg_canary*") if "-delete" not in path.name]
    assert folders == []


def test_canary_names_the_step_and_the_token_that_differs(node: ShippedNode) -> None:
    toml = node.folder / "floeberg.toml"
    right = toml.read_text()
    toml.write_text(right.replace("[log_door]\n", '[log_door]\ntoken = "another"\n'))
    try:
        found = [one for one in node.checked("--canary") if one["name"].startswith("canary")]
    finally:
        toml.write_text(right)
    assert [one["verdict"] for one in found] == ["good", "wrong"]
    assert "another token" in found[1]["message"]
    assert "floeberg plugin" in found[1]["next_step"]
