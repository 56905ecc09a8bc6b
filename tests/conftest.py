"""What several rooms' tests share: real brokers and catalogs, and topic names that meet nobody else's."""

from __future__ import annotations

import gc
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from floeberg.java.jdk import SHORT_LIFE_OPTIONS
from floeberg.processes.local_broker import FAST_HOUSEKEEPING, LocalBroker
from floeberg.processes.tied_process import end_with_parent
from tests.support.class_archive import archive_options
from tests.support.rest_catalog import RestCatalogServer

if TYPE_CHECKING:
    from tests.engine.table.foreign.foreign_world import ForeignWorld
    from workers.spark_workers import SparkWorkers

# For every JVM that a test starts. A command line's own options win over these.
os.environ.setdefault("JDK_JAVA_OPTIONS", " ".join((*SHORT_LIFE_OPTIONS, *archive_options())))

# Imports and collected tests stay to the end: walking them again and again would be a third of a worker's start.
gc.disable()

_topic_numbers = itertools.count()

_LONGEST_FIRST = (
    *("crash", "demo", "native", "spark", "broker", "cluster"),
    *("rest-catalog", "shipped", "spark-rewriter", "foreign-spark"),
)
"""Groups of tests that one worker runs, half a minute and more each."""

_ANY_OF = re.compile(r"\w+( or \w+)*")
"""The marks of ``-m``, one of which is enough."""


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        # A worker that nobody asks any more would first finish its test.
        end_with_parent(os.getppid())
        # The width of what pytest prints is none of what the tests' programs print.
        os.environ.pop("COLUMNS", None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """``make test`` asks for some marks at a time: a file that names none of them need not be imported by each worker.

    Marks stand in the files of the tests themselves (``tests/test_tidy.py``).
    """
    wanted = config.option.markexpr
    if not _ANY_OF.fullmatch(wanted) or not collection_path.match("test_*.py"):
        return None
    text = collection_path.read_text()
    return None if any(f"mark.{mark}" in text for mark in wanted.split(" or ")) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long groups first: what is short at the end leaves no worker idle."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    group = item.get_closest_marker("xdist_group")
    name = group.args[0] if group is not None else ""
    return _LONGEST_FIRST.index(name) if name in _LONGEST_FIRST else len(_LONGEST_FIRST)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """One plain broker (no tiered storage, two log directories) for all tests of a worker; never restart it.

    A test that stops, restarts or damages a broker starts its own ``LocalBroker``.
    """
    # A password that nothing uses, for tests of what a broker tells of its settings.
    properties = {**FAST_HOUSEKEEPING, "ssl.key.password": "unused"}
    with LocalBroker(tmp_path_factory.mktemp("broker"), properties=properties, log_dir_count=2, heap_mb=384) as running:
        yield running


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalogServer]:
    """One REST catalog over a folder for all tests of a worker, each with a namespace of its own; never restart it."""
    with RestCatalogServer(tmp_path_factory.mktemp("rest-catalog")) as running:
        yield running


@pytest.fixture(scope="session")
def sql_jvm() -> None:
    """For tests with ``floeberg.sql.spark_session``: one JVM for all of a worker's, with the class path that it wants.

    The first session starts the JVM and the others find it. Whoever needs it is in the group ``spark``.
    """
    from tests.support.spark_jvm import end_jvm

    end_jvm()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name no other test uses."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:60]
    return f"{name}-{next(_topic_numbers)}"


@pytest.fixture
def foreign(tmp_path: Path) -> ForeignWorld:
    """A tiered topic whose table another program is to change."""
    from tests.engine.table.foreign.foreign_world import ForeignWorld

    return ForeignWorld(tmp_path)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkWorkers]:
    """One Spark for all tests that break it: it replaces itself. They are in the group ``spark-workers``."""
    # Most tests here need no Spark, and pyspark takes a second to import.
    from floeberg.java.jdk import java_command
    from tests.support.spark_jvm import end_jvm
    from workers.spark_session import SparkSettings
    from workers.spark_workers import SparkWorkers

    java_command()
    end_jvm()
    workers = SparkWorkers(SparkSettings(master="local[2]"))
    # As the program sets it before it starts one.
    umask = os.umask(0o077)
    workers.start()
    yield workers
    workers.stop()
    os.umask(umask)
    end_jvm()
