"""The simulated parts, held to the suites that the real ones are held to."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from engine.broker import Broker
from engine.warehouse.warehouse import Warehouse
from tests.engine.broker_suite import BrokerConformance
from tests.engine.clock_suite import ClockSuite
from tests.engine.kafka_log.batch_twin import Row
from tests.engine.table.catalog.catalog_suite import CatalogSuite
from tests.engine.table.catalog.catalog_under_test import CatalogUnderTest
from tests.engine.warehouse.warehouse_suite import WarehouseSuite
from tests.simulation.batches import Batch
from tests.simulation.catalog import CatalogState, SimulatedCatalog
from tests.simulation.clock import SimulatedClock, SimulatedTime
from tests.simulation.cluster import SimulatedBroker, SimulatedCluster, TopicPlan
from tests.simulation.object_store import BUCKET, ObjectStore, StoreClient, endpoint_properties, mounted


class SimulatedClusterUnderTest:
    def __init__(self, root: Path) -> None:
        time = SimulatedTime(random.Random(7))
        self._cluster = SimulatedCluster(root, time, [1000, 1000])
        self.port: Broker = SimulatedBroker(self._cluster, self._cluster.nodes[1])

    def create_topic(self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        compact = (config or {}).get("cleanup.policy") == "compact"
        self._cluster.create_topic(topic, TopicPlan(partitions=partitions, compact=compact, replication=2))

    def delete_topic(self, topic: str) -> None:
        self._cluster.delete_topic(topic)

    def produce(self, topic: str, count: int) -> None:
        self._append(topic, count, transactional=False)

    def leave_transaction_open(self, topic: str, count: int) -> None:
        self._append(topic, count, transactional=True)

    def _append(self, topic: str, count: int, *, transactional: bool) -> None:
        (partition,) = [one for one in self._cluster.live if one.who.topic == topic]
        base = partition.end
        rows = tuple(Row(offset=offset) for offset in range(base, base + count))
        partition.append(
            Batch(
                base_offset=base,
                last_offset=base + count - 1,
                rows=rows,
                transactional=transactional,
                producer_id=1,
                epoch=0,
            )
        )
        partition.replicate(self._cluster.members())


class TestSimulatedBroker(BrokerConformance):
    @pytest.fixture
    def cluster(self, tmp_path: Path) -> SimulatedClusterUnderTest:
        return SimulatedClusterUnderTest(tmp_path)


class TestSimulatedClock(ClockSuite):
    @pytest.fixture
    def clock(self) -> SimulatedClock:
        return SimulatedClock(SimulatedTime(random.Random(7)))


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    store = ObjectStore()
    clock = SimulatedClock(SimulatedTime(random.Random(7)))
    with mounted({"test": StoreClient(store, now_ms=clock.now_ms)}):
        yield store


class TestSimulatedObjectStore(WarehouseSuite):
    @pytest.fixture
    def warehouse(self, store: ObjectStore) -> Warehouse:
        return Warehouse(properties=endpoint_properties("test"))

    @pytest.fixture
    def root(self) -> str:
        return f"s3://{BUCKET}/test"

    def write_half_and_die(self, warehouse: Warehouse, path: str) -> None:
        warehouse.create(path).write(b"half")  # the simulated process dies here


class SimulatedCatalogUnderTest(CatalogUnderTest):
    def __init__(self, state: CatalogState) -> None:
        super().__init__({})
        self._state = state

    def catalog(self) -> Catalog:
        return SimulatedCatalog(self._state, "test")


class TestSimulatedCatalog(CatalogSuite):
    test_namespace_may_have_levels = None  # type: ignore[assignment]  # it has one, as the settings' own namespace

    @pytest.fixture
    def under_test(self, store: ObjectStore) -> CatalogUnderTest:
        return SimulatedCatalogUnderTest(CatalogState(store))
