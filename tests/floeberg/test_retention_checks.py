"""Bounds of the stream that are set for topics whose broker decides them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.clock import SystemClock
from floeberg.settings import Settings
from floeberg.setup.check_result import CheckResult, Verdict
from floeberg.setup.retention_checks import check_stream_retention
from tests.support.fake_broker import FakeBroker

BOUNDED = {"stream_ms": 1_000}


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.create_topic("watched")
    broker.create_topic("native", config={"remote.storage.enable": "true"})
    broker.create_topic("off", config={"remote.storage.enable": "true", "remote.log.copy.disable": "true"})
    broker.create_topic("__own", config={"remote.storage.enable": "true"})
    return broker


def checked(broker: FakeBroker, tmp_path: Path, *topics: dict[str, object]) -> list[CheckResult]:
    settings = Settings(broker={"bootstrap": "b:1", "log_dirs": [str(tmp_path)]}, data_dir=tmp_path, topics=topics)
    return list(check_stream_retention(broker, settings, SystemClock()))


def test_native_topics_of_a_rule_that_bounds_the_stream_are_named(broker: FakeBroker, tmp_path: Path) -> None:
    (found,) = checked(broker, tmp_path, {"retention": BOUNDED})
    assert (found.name, found.verdict) == ("retention of native", Verdict.NOTE)
    assert "count for nothing here" in found.message
    assert "retention.ms" in str(found.next_step)


@pytest.mark.parametrize(
    "topics",
    [
        [{}],
        [{"retention": {"table_ms": 1_000}}],
        [{"name": "native"}, {"retention": BOUNDED}],
        [{"name": "watched", "retention": BOUNDED}],
    ],
)
def test_others_are_not(broker: FakeBroker, tmp_path: Path, topics: list[dict[str, object]]) -> None:
    assert checked(broker, tmp_path, *topics) == []


def test_broker_is_not_asked_where_nothing_bounds_the_stream(broker: FakeBroker, tmp_path: Path) -> None:
    checked(broker, tmp_path, {"retention": {"table_ms": 1_000}})
    assert broker.call_count == 0
