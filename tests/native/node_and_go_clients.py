"""Clients of other languages over gaps in history. `make clients` installs and runs them; `make test` does not."""

from __future__ import annotations

import base64
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.native.clients import ISOLATIONS
from tests.native.gapped_topics import GappedTopic
from tests.native.stage import NativeStage
from tests.native.transactional_topic import Kept

_ROOT = Path(__file__).parents[2]
INSTALLED = _ROOT / "build" / "clients"
TIMEOUT_S = 90.0
FETCH_BYTES = [200_000, 1 << 20]
"""The smaller one ends most answers inside a segment, and some right before a gap."""

_MARKERS = [((b"\0\0\0" + kind), b"\0" * 6) for kind in (b"\0", b"\1")]
"""Key and value of an abort's and of a commit's control record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignClient:
    """``shows_markers``: gives control records to its application as if they were records, on any Kafka."""

    command: tuple[str, ...]
    shows_markers: bool = False


CLIENTS = {
    "kafkajs": ForeignClient(command=("node", str(_ROOT / "tests/clients/node/kafkajs.js"))),
    "kafka-go": ForeignClient(command=(str(INSTALLED / "kafka_go"),), shows_markers=True),
    "franz-go": ForeignClient(command=(str(INSTALLED / "franz_go"),)),
    "sarama": ForeignClient(command=(str(INSTALLED / "sarama"),)),
}


@pytest.mark.parametrize("fetch_bytes", FETCH_BYTES)
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("client", CLIENTS)
def test_client_gets_every_committed_record_once_over_all_gaps(
    stage: NativeStage, gapped: GappedTopic, client: str, isolation: str, fetch_bytes: int
) -> None:
    found = _read(CLIENTS[client], stage.broker.bootstrap, gapped, isolation, fetch_bytes)
    # kafka-go gives null for an empty value; the bytes of values are not what this is about.
    assert found == [(offset, value or None) for offset, value in gapped.kept]


def _read(client: ForeignClient, bootstrap: str, topic: GappedTopic, isolation: str, fetch_bytes: int) -> list[Kept]:
    command = [*client.command, bootstrap, topic.name, str(topic.end), isolation, str(fetch_bytes)]
    environment = {**os.environ, "NODE_PATH": str(INSTALLED / "node" / "node_modules")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    found = []
    for line in done.stdout.splitlines():
        offset, key, value = line.split(" ")
        if not (client.shows_markers and (_bytes(key), _bytes(value)) in _MARKERS):
            found.append((int(offset), _bytes(value) or None))
    return found


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text[1:])
