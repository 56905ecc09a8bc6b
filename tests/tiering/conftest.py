"""A broker's folder, a catalog and a loop over both, with the rewriting done in the test's own process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiering.tiering_world import TieringWorld

if TYPE_CHECKING:
    from tiering.spark_rewrite import SparkRewriter


@pytest.fixture
def world(tmp_path: Path) -> TieringWorld:
    return TieringWorld(tmp_path)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkRewriter]:
    """One Spark for all tests that break it: it replaces itself. They are in the group ``spark-rewriter``."""
    # Most tests here need no Spark, and pyspark takes a second to import.
    from floeberg.java.jdk import java_command
    from tests.support.spark_jvm import end_jvm
    from tiering.spark_rewrite import SparkRewriter
    from tiering.spark_session import SparkSettings

    java_command()
    end_jvm()
    rewriter = SparkRewriter(SparkSettings(master="local[2]"))
    rewriter.start()
    yield rewriter
    rewriter.close()
    end_jvm()
