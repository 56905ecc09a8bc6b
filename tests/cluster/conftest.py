"""One cluster for all tests of this folder; each test has topics of its own and leaves every node running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster


@pytest.fixture(scope="session")
def whole_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(whole_cluster: Cluster) -> Cluster:
    """Every broker and daemon runs, whatever the test before has done to them."""
    whole_cluster.heal()
    return whole_cluster
