"""A sweep of a table on an object store: listed by pages, removed by batches, states read through it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from engine.fault_points import FaultPoint, armed
from engine.table.catalog.access import open_catalog
from engine.table.commit.writer import TableWriter
from engine.table.companion_folder import auxiliary_folder
from retention.sweep_limits import SweepLimits
from retention.sweep_planner import Reason
from retention.table_sweep import TableSweep
from tests.engine.table.table_examples import TOPIC, TOPIC_ID, StillClock, append_of, ensure_table, outcomes
from tests.retention.sweep_world import GRACE_MS, MovedClock
from tests.support.s3_server import BUCKET, S3Server


class Killed(BaseException):
    """The process ends here."""


def killed(point: FaultPoint) -> None:
    if point is FaultPoint.METADATA_DURABLE:
        raise Killed


def test_what_a_killed_commit_left_goes_and_the_rest_stays(tmp_path: Path) -> None:
    with S3Server() as s3:
        properties = {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/catalog.db",
            "warehouse": f"s3://{BUCKET}/w",
            **s3.properties,
        }
        catalog, clock = open_catalog(properties), MovedClock()
        writer = TableWriter(catalog, StillClock())
        table = ensure_table(writer)
        outcomes(writer, table, append_of(table, 0, 5))
        view = writer.open(TOPIC, TOPIC_ID)
        assert view is not None
        warehouse = view.warehouse
        before = {file.path for file in warehouse.list(view.location)}
        append = append_of(view, 5, 10, attempt="killed")
        with armed(killed), suppress(Killed):
            TableWriter(open_catalog(properties), StillClock()).commit(view, [append])
        left = {file.path for file in warehouse.list(view.location)} - before
        assert len(left) == 4
        state = f"{auxiliary_folder(view.location, 0)}/{0:020d}-{5:020d}.aux"
        foreign = f"{view.location}/data/of-others.parquet"
        for path in (state, foreign):
            warehouse.write_bytes(path, b"x")

        def sweep() -> TableSweep:
            return TableSweep(
                topic=TOPIC,
                topic_id=TOPIC_ID,
                catalog=open_catalog(properties),
                namespace="kafka",
                writer=TableWriter(open_catalog(properties), StillClock()),
                clock=clock,
                limits=SweepLimits(grace_ms=GRACE_MS),
                folder=tmp_path / "sweep",
            )

        first = sweep().turn()
        assert first.amounts[Reason.GRACE].files == 4
        clock.ahead_ms += GRACE_MS
        turn = sweep().turn()
        assert (turn.removed.files, turn.hindered, turn.waiting) == (4, {}, {})
        there = {
            file.path for folder in (view.location, f"{view.location}-floeberg") for file in warehouse.list(folder)
        }
        assert there >= before | {state, foreign}
        assert not there & left
        assert turn.amounts[Reason.FOREIGN].files == 1
