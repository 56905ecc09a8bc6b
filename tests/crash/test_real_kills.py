"""A daemon beside a real broker, killed at every point on its way and at moments nobody chose, under load."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.fault_points import FaultPoint
from engine.table.merge.candidates import RepairCandidates
from floeberg.sql.duckdb_session import DuckdbSession
from tests.crash.crash_stage import NATIVE, WATCHED, CrashStage, schema_of
from tests.support.auditor import assert_clean

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("crash")]

NOT_ON_THE_WAY = {
    # The stage gives the token, so that the broker knows it.
    FaultPoint.DOOR_TOKEN_WRITTEN,
    FaultPoint.DOOR_TOKEN_NAMED,
    # Nothing is deleted here, so no horizon moves.
    FaultPoint.HORIZONS_MOVED,
    FaultPoint.AUXILIARY_STATE_REMOVED,
    # Nor is anything swept within the first minute, and no topic here has a table of its newest records.
    FaultPoint.SIGHTINGS_KEPT,
    FaultPoint.SWEEP_FENCED,
    FaultPoint.SWEEP_FENCED_LATEST,
    FaultPoint.FILES_SWEPT,
    FaultPoint.LATEST_DELETES_WRITTEN,
    FaultPoint.LATEST_COMMITTED,
    FaultPoint.LATEST_INDEXED,
    # No table gets another format, and no topic is gone for a grace.
    FaultPoint.RETYPE_PLANNED,
    FaultPoint.RETYPE_FILES_NOTED,
    FaultPoint.TABLE_RETYPED,
    FaultPoint.GONE_TOPICS_NOTED,
    FaultPoint.GONE_TABLE_RENAMED,
    FaultPoint.GONE_TABLE_DROPPED,
}
ARRANGED = {
    FaultPoint.TABLE_CREATED,
    FaultPoint.OLDER_TABLE_RENAMED,
    FaultPoint.SCHEMA_FILE_WRITTEN,
    FaultPoint.SCHEMAS_COMMITTED,
    FaultPoint.SPOOL_STALE_LINK_REMOVED,
}
REPAIRS = (FaultPoint.REPLACEMENTS_WRITTEN, FaultPoint.REPLACEMENTS_VERIFIED, FaultPoint.REPLACEMENTS_TOLD)
RANDOM_KILLS = 6


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[CrashStage]:
    with CrashStage(tmp_path) as stage:
        yield stage


@pytest.mark.timeout(900)
def test_daemon_killed_at_every_point_on_its_way_and_at_random_loses_nothing(stage: CrashStage) -> None:
    stage.create("history", NATIVE)
    stage.create("orders", WATCHED)
    stage.keep_reading("history")
    kills = 0
    for point in FaultPoint:
        if point not in {*NOT_ON_THE_WAY, *ARRANGED, *REPAIRS}:
            stage.kill_at(point, "orders", "history")
            kills += 1

    stage.create("again", WATCHED)
    stage.kill_at(FaultPoint.TABLE_CREATED, "again")
    stage.live_until_tiered("again")
    stage.delete("again")
    stage.create("again", WATCHED)
    stage.kill_at(FaultPoint.OLDER_TABLE_RENAMED, "again")

    stage.create("bookings", WATCHED)
    for schema_id, point in enumerate((FaultPoint.SCHEMA_FILE_WRITTEN, FaultPoint.SCHEMAS_COMMITTED), 7):
        (stage.folder / "schemas" / f"{schema_id}.avsc").write_text(schema_of(schema_id))
        stage.kill_at(point, "bookings", schema_id=schema_id)

    stage.burst("bookings", schema_id=9)
    stage.live_until_tiered("bookings")
    (stage.folder / "schemas" / "9.avsc").write_text(schema_of(9))
    for point in REPAIRS:
        stage.kill_at(point)

    stage.kill_at(FaultPoint.RANGES_WRITTEN, "orders")
    stage.damage_spooled_facts("orders")
    stage.kill_at(FaultPoint.SPOOL_STALE_LINK_REMOVED, "orders")
    kills += len(ARRANGED) + len(REPAIRS) + 1

    chance = random.Random(4)
    for _ in range(RANDOM_KILLS):
        stage.cradle.bear()
        for topic in ("orders", "history"):
            stage.burst(topic)
        time.sleep(chance.uniform(0, 1.5))
        stage.cradle.kill()
        assert stage.cradle.death_within(10) == signal.SIGKILL
        kills += 1

    for topic in ("again", "bookings", "orders", "history"):
        stage.live_until_tiered(topic)
    stage.await_dropped("history")
    assert_clean(stage.audit())
    bookings = stage.table("bookings")
    assert bookings is not None
    assert not RepairCandidates().look(bookings).candidates, "records without columns are left"
    with DuckdbSession(stage.table_door, namespace="kafka") as sql:
        for topic in ("orders", "history"):
            table = stage.table(topic)
            assert table is not None
            end = table.ledger[0].end
            counted = sql.query(f"select count(*), count(distinct kafka_offset), max(kafka_offset) + 1 from {topic}")[1]
            assert counted == [(end, end, end)]
    print(f"{kills} kills survived, {stage.audited_records} records audited in {stage.readings} readings")
