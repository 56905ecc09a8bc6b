"""Parts that several tests of the engine share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.engine.stored_orders import StoredOrders, store_orders


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> StoredOrders:
    return store_orders(tmp_path_factory.mktemp("pristine") / "data")


@pytest.fixture
def orders(pristine: StoredOrders) -> Iterator[StoredOrders]:
    """The stored topic, put back as it was behind the test (paths in metadata are absolute: a copy has others)."""
    saved = pristine.folder.with_name("saved")
    shutil.copytree(pristine.folder, saved)
    yield pristine
    shutil.rmtree(pristine.folder)
    saved.rename(pristine.folder)
