"""What one damaged, lost or older table means to those who ask for another one, and what is no damage at all."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import Corrupt
from engine.fsck.report import Damage
from engine.offset_range import OffsetRange
from engine.table.catalog import access as catalogs
from engine.table.states import newer_state
from engine.table.topic_table import TopicTable
from floeberg.tables.survey import survey_tables
from floeberg.tables.topic_tables import TopicTables
from tests.faults.fault_world import SEGMENT, FaultWorld
from tests.faults.sights import cycle, fsck
from tiering.spool import spooled_ranges


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> FaultWorld:
    return FaultWorld(tmp_path_factory.mktemp("isolation"))


@pytest.fixture
def world(made: FaultWorld) -> FaultWorld:
    made.restore()
    return made


def test_topic_that_the_broker_knows_is_looked_up_by_name_and_no_other_table_is_loaded(
    world: FaultWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.metadata_file("orders").unlink()
    loaded: list[str] = []
    load = catalogs.load

    def noted(catalog: object, identifier: tuple[str, ...]) -> object:
        loaded.append(".".join(identifier))
        return load(catalog, identifier)  # type: ignore[arg-type]

    monkeypatch.setattr(catalogs, "load", noted)
    names = {who.topic_id: who.topic for who in world.truth}
    with closing(world.open_catalog()) as catalog:
        tables = TopicTables(catalog, "kafka", topic_of=names.get)
        found = tables.load(world.neighbour.topic_id)
        assert found is not None
        assert found.topic == "payments"
        with pytest.raises(Corrupt):
            tables.load(world.first.topic_id)
        assert tables.load("never-made") is None
    assert loaded == ["kafka.payments", "kafka.orders", "kafka.orders__" + world.first.topic_id, "kafka.orders"]


def test_topic_that_the_broker_does_not_know_is_found_beside_a_damaged_table(world: FaultWorld) -> None:
    world.metadata_file("orders").write_text("{")
    with closing(world.open_catalog()) as catalog:
        tables = TopicTables(catalog, "kafka")
        found = tables.load(world.neighbour.topic_id)
        assert found is not None
        assert [one.table is None for one in tables.listed()] == [True, False]
        assert [table.topic for table in tables.all()] == ["payments"]


def test_report_of_one_topic_leaves_the_others_damage_out(world: FaultWorld) -> None:
    world.metadata_file("orders").write_text("{")
    with closing(world.open_catalog()) as catalog:
        of_payments = survey_tables(lambda: catalog, "kafka", topic="payments")
        of_orders = survey_tables(lambda: catalog, "kafka", topic="orders")
    assert of_payments.reports == ()
    assert [table.topic for table in of_payments.tables] == ["payments"]
    assert [report.table for report in of_orders.reports] == ["kafka.orders"]
    assert of_orders.reports[0].to_dict()["findings"][0]["damage"] == "damaged_metadata"
    assert of_orders.tables == ()


def view(world: FaultWorld) -> TopicTable:
    with closing(world.open_catalog()) as catalog:
        return TopicTables(catalog, "kafka").named("orders")


def test_metadata_file_of_a_commit_that_never_was_is_no_later_state(world: FaultWorld) -> None:
    current = world.metadata_file()
    number = int(current.name.split("-")[0]) + 1
    orphan = current.with_name(f"{number:05d}-00000000-0000-4000-8000-000000000000.metadata.json")
    content = json.loads(current.read_text())
    content["metadata-log"].append({"metadata-file": current.as_uri(), "timestamp-ms": content["last-updated-ms"]})
    orphan.write_text(json.dumps(content))
    assert newer_state(view(world)) is None
    assert list(fsck(world)) == []


def test_state_that_was_put_back_shows_until_the_later_ones_are_removed(world: FaultWorld) -> None:
    newest, older = world.metadata_file(), world.older_metadata(2)
    world.sql("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'orders'", older.as_uri())
    found = newer_state(view(world))
    assert found is not None
    assert found.path == newest.as_uri()
    with closing(world.open_catalog()) as catalog:
        table = catalog.load_table("kafka.orders")
        for number in range(3):
            with table.transaction() as transaction:
                transaction.set_properties({"owner": str(number)})
    assert newer_state(view(world)) == found, "what was built on an earlier state takes no later one's place"
    newest.unlink()
    assert newer_state(view(world)) is None


def test_offsets_are_not_called_skipped_while_a_later_state_may_have_them(world: FaultWorld) -> None:
    older = world.older_metadata(2)
    world.sql("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'orders'", older.as_uri())
    # Of the second partition the log begins after what the earlier state has.
    shutil.rmtree(world.root / "kafka-logs.floeberg-spool")
    report = cycle(world)
    problems = {one.partition.partition: one.problem for one in report.partitions if one.partition.topic == "orders"}
    assert isinstance(problems[1], Corrupt)
    assert "earlier state" in problems[1].problem
    assert view(world).skipped == {}


def test_offsets_that_the_spool_holds_are_not_lost_between_table_and_log(world: FaultWorld) -> None:
    log_dir = world.world.broker.log_dir
    world.append(world.first)
    segments = sorted(world.world.broker.directory(world.first).glob("*.log"))
    end = 3 * SEGMENT
    with closing(world.open_catalog()) as catalog:
        survey = survey_tables(lambda: catalog, "kafka", topic="orders")
        (table,) = survey.tables
        assert survey.check(table, log_dirs=[log_dir]).findings == ()
        for segment in segments[:-1]:
            segment.unlink()
        (lost,) = survey.check(table, log_dirs=[log_dir]).findings
        assert (lost.damage, lost.partition) == (Damage.LOST_RANGE, 0)
        assert lost.range == OffsetRange(start=end, end=end + SEGMENT)
        _spool(log_dir, table.topic_id, end)
        held = spooled_ranges([log_dir], table.topic_id)
        assert survey.check(table, log_dirs=[log_dir], held=held).findings == ()


def _spool(log_dir: Path, topic_id: str, start: int) -> None:
    folder = log_dir.with_name(f"{log_dir.name}.floeberg-spool") / "orders" / f"0.{topic_id}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{start:020d}-{start + SEGMENT:020d}.log").touch()
