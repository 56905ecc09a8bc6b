"""librdkafka goes on asking a broker that is dead, by the metadata it has; the port has it learn anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from engine import broker as seam
from engine.broker import KafkaBroker
from engine.errors import Unavailable

_NO_OFFSET = -1001


@dataclass
class _StaleAdmin:
    """What confluent-kafka 2.16 was seen to do when a broker was killed: until somebody asks for all metadata,
    describing times out for the controller, and the dead leader's offsets come without an error as -1001."""

    leader: int = 1
    is_stale: bool = False
    unlucky_refreshes: int = 0
    refreshes: int = 0
    is_away: bool = False

    def list_topics(self, *, timeout: float) -> None:
        if self.is_away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        self.refreshes += 1
        self.is_stale = self.refreshes <= self.unlucky_refreshes

    def describe_topics(self, topics: Any, *, request_timeout: float) -> dict[str, Future[Any]]:
        described = SimpleNamespace(
            topic_id="AAAAAAAAAAAAAAAAAAAAAA",
            partitions=[SimpleNamespace(id=0, leader=SimpleNamespace(id=self.leader), replicas=[], isr=[])],
        )
        return {"orders": self._future(described)}

    def describe_cluster(self, *, request_timeout: float) -> Future[Any]:
        return self._future(SimpleNamespace(cluster_id="c", nodes=[SimpleNamespace(id=1)]))

    def describe_configs(self, resources: Any, *, request_timeout: float) -> dict[Any, Future[Any]]:
        return {resource: self._future({}) for resource in resources}

    def list_offsets(self, asked: Any, *, isolation_level: Any, request_timeout: float) -> dict[Any, Future[Any]]:
        offset = _NO_OFFSET if self.is_stale else 7
        return {key: _done(SimpleNamespace(offset=offset, leader_epoch=3)) for key in asked}

    def _future(self, answer: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.is_stale:
            error = KafkaError(KafkaError._TIMED_OUT, "Failed while waiting for controller")
            future.set_exception(KafkaException(error))
            return future
        return _done(answer)


def _done(answer: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(answer)
    return future


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Iterator[_StaleAdmin]:
    admin = _StaleAdmin()
    monkeypatch.setattr(seam, "AdminClient", lambda *_args, **_options: admin)
    return admin


@pytest.mark.parametrize(
    "ask",
    [
        lambda port: port.partitions(["orders"], offsets_of=()),
        lambda port: port.topic_configs(["orders"]),
        lambda port: port.cluster_id(),
    ],
    ids=["partitions", "topic_configs", "cluster_id"],
)
def test_request_to_a_dead_broker_is_sent_again_with_new_metadata(
    admin: _StaleAdmin, ask: Callable[[KafkaBroker], object]
) -> None:
    port = KafkaBroker(bootstrap="127.0.0.1:1")
    admin.is_stale = True
    assert ask(port)
    assert admin.refreshes == 1
    ask(port)
    assert admin.refreshes == 1


def test_dead_broker_that_metadata_names_once_more_is_not_waited_for_in_full(admin: _StaleAdmin) -> None:
    port = KafkaBroker(bootstrap="127.0.0.1:1")
    admin.is_stale, admin.unlucky_refreshes = True, 2
    assert port.partitions(["orders"], offsets_of=())
    assert admin.refreshes == 3


def test_broker_that_stays_silent_is_unavailable_after_a_bounded_number_of_tries(admin: _StaleAdmin) -> None:
    port = KafkaBroker(bootstrap="127.0.0.1:1")
    admin.is_stale, admin.unlucky_refreshes = True, 1_000
    with pytest.raises(Unavailable, match="controller"):
        port.partitions(["orders"], offsets_of=())
    assert admin.refreshes == 4


def test_offsets_after_a_leader_has_changed_are_those_of_the_new_one(admin: _StaleAdmin) -> None:
    port = KafkaBroker(bootstrap="127.0.0.1:1")
    (who,) = port.partitions(["orders"], offsets_of=())
    admin.leader = 2
    port.partitions(["orders"], offsets_of=())
    # The description is of now; what librdkafka remembers of leaders is not.
    admin.is_stale = True
    asked = port._offsets({who})
    assert asked[who]["last_stable_offset"] == 7


def test_leader_that_gave_no_offset_is_looked_up_anew_before_it_is_asked_again(admin: _StaleAdmin) -> None:
    port = KafkaBroker(bootstrap="127.0.0.1:1")
    (who,) = port.partitions(["orders"], offsets_of=())
    admin.is_stale = True
    assert port._offsets({who})[who]["last_stable_offset"] == _NO_OFFSET
    assert port._offsets({who})[who]["last_stable_offset"] == 7


def test_cluster_that_is_away_is_unavailable(admin: _StaleAdmin) -> None:
    port = KafkaBroker(bootstrap="127.0.0.1:1")
    admin.is_stale = admin.is_away = True
    with pytest.raises(Unavailable):
        port.partitions(["orders"])
