"""``floeberg sql --live`` on a real broker: the table and what the broker has beyond it, as one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.errors import Unavailable
from floeberg.commands.context import CommandContext
from floeberg.commands.sql import table_door
from floeberg.processes.local_broker import LocalBroker
from floeberg.sql.duckdb_session import DuckdbSession
from floeberg.sql.live_tail import LiveTails
from tests.floeberg.command import floeberg
from tests.streams.live_world import WITH_COUPON, LiveWorld

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("broker")]


@pytest.fixture
def world(broker: LocalBroker, tmp_path: Path, topic_name: str) -> LiveWorld:
    return LiveWorld(tmp_path, broker, topic_name)


@contextmanager
def session_over(world: LiveWorld, *, limit_bytes: int = 64 << 20) -> Iterator[DuckdbSession]:
    command = CommandContext(config=world.config)
    tails = LiveTails(command.settings, command.tables, limit_bytes=limit_bytes)
    with (
        table_door(command, "duckdb") as door,
        DuckdbSession(door.url, token=door.token, namespace=command.settings.namespace, live=tails) as session,
    ):
        yield session


def rows(session: DuckdbSession, world: LiveWorld, columns: str = "number") -> list[tuple[Any, ...]]:
    return session.query(f'SELECT {columns} FROM "{world.topic}" ORDER BY kafka_partition, kafka_offset')[1]


def test_command_shows_rows_of_a_second_ago_only_when_it_is_asked_to(world: LiveWorld) -> None:
    world.produce(30)
    world.tier()
    world.produce(20)
    world.produce(10, partition=1)
    query = f'SELECT count(*) AS rows, count(DISTINCT number) AS numbers, max(number) AS last FROM "{world.topic}"'

    def asked(*options: str) -> list[dict[str, int]]:
        done = floeberg("sql", query, "--json", *options, cwd=world.folder)
        assert done.returncode == 0, done.stderr
        answer: list[dict[str, int]] = json.loads(done.stdout)
        return answer

    assert asked() == [{"rows": 30, "numbers": 30, "last": 29}]
    assert asked("--live") == [{"rows": 60, "numbers": 60, "last": 59}]
    refused = floeberg("sql", query, "--live", "--engine", "spark", cwd=world.folder)
    assert refused.returncode == 2


def test_every_row_is_there_once_while_tiering_commits_between_statements(world: LiveWorld) -> None:
    world.produce(20)
    world.tier()
    with session_over(world) as session:
        for turn in range(1, 4):
            world.produce(20, partition=turn % 2)
            assert sorted(rows(session, world)) == [(number,) for number in range(20 * (turn + 1))]
            world.tier()
            assert sorted(rows(session, world)) == [(number,) for number in range(20 * (turn + 1))]


def test_statement_that_is_under_way_does_not_see_what_is_tiered_meanwhile(world: LiveWorld) -> None:
    world.produce(20)
    world.tier()
    world.produce(20)
    with session_over(world) as session, session.answer(f'SELECT count(*) FROM "{world.topic}"') as answer:
        world.tier()
        assert list(answer.rows()) == [(40,)]


def test_rows_of_the_tail_are_those_of_the_table_later(world: LiveWorld) -> None:
    world.produce(10)
    world.tier()
    world.produce(10)
    with session_over(world) as session:
        live = rows(session, world, "*")
        world.tier()
        assert rows(session, world, "*") == live


def test_record_of_a_schema_that_the_table_lacks_is_there_with_the_reason(world: LiveWorld) -> None:
    world.produce(10)
    world.tier()
    world.produce(1, schema_id=WITH_COUPON)
    with session_over(world) as session:
        *_, (number, reason) = rows(session, world, "number, kafka_error")
        assert number is None
        assert str(WITH_COUPON) in reason
        world.tier()
        assert rows(session, world, "number, coupon, kafka_error")[-1] == (10, "coupon 10", None)


def test_tail_that_passes_its_bound_is_refused(world: LiveWorld) -> None:
    world.produce(10)
    world.tier()
    world.produce(500)
    with session_over(world, limit_bytes=10_000) as session:
        with pytest.raises(Unavailable, match="--live-limit"):
            rows(session, world)
        assert session.query("SELECT 1")[1] == [(1,)]
