"""A table whose values get another format: the same records in new columns, whoever interferes and wherever it ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.types import StringType

from compaction.replacing import FileReplacer
from compaction.topic_retype import TopicRetype
from engine.errors import Invalid, Unavailable
from engine.fault_points import FaultPoint, armed
from engine.formats.format_facts import AUTO
from engine.formats.proposals import first_fields
from engine.fsck.check import fsck_table
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.commit.retype import FooterDigests
from engine.table.commit.retype_plan import RetypePlan
from engine.table.companion_folder import retype_folder
from engine.table.ledger import Outcome
from engine.table.proof.verifier import Verifier
from engine.table.seal import guards_of
from engine.table.topic_table import TopicTable
from engine.table.windows import Clustering
from tests.support.fault_hooks import once
from tests.support.repairing_daemon import RepairingDaemon
from tests.tiering.order_schemas import TEXTS, KnownSchemas, order
from tests.tiering.tiering_world import TieringWorld, ranges_of, report_of
from topics.topic_rule import TopicRule
from workers.workers import InProcessWorkers

RAW, STRING, JSON = (TopicRule(pattern="*", value_format=name) for name in ("raw", "string", "json"))

VALUES = [b'{"id": 1, "city": "Berlin"}', b"no JSON", None, b'{"city":"Rom","id":2}', b"", b"\xff\xfe"]


class Ended(Exception):
    """The process is gone."""


def end() -> None:
    raise Ended


@dataclass
class Stored:
    """A topic of two partitions with two files each, as ``rule`` keeps it."""

    world: TieringWorld
    rule: TopicRule = RAW
    values: list[bytes | None] = field(default_factory=lambda: list(VALUES))

    def __post_init__(self) -> None:
        self.partitions = self.world.broker.create_topic("orders", partitions=2)
        for _ in range(2):
            for partition in self.partitions:
                self.world.broker.append_segment(partition, self.values)
            assert self.world.loop(rules=(self.rule,)).cycle().is_good

    @property
    def table(self) -> TopicTable:
        return self.world.table(self.partitions[0])

    def retype(self, rule: TopicRule) -> TopicRetype:
        """As a new process would begin it."""
        replacer = FileReplacer(writer=self.world.writer(), workers=InProcessWorkers(), verifier=Verifier(), parallel=1)
        return TopicRetype(self.table, rule, replacer=replacer, clock=self.world.clock)

    def consumed(self) -> list[bytes]:
        """What consumers of each partition get."""
        table, reader = self.table, LogReader(file_index=FileIndex())
        found = [
            b"".join(reader.read(table, number, offsets=entry.range, start=entry.start))
            for number, entry in sorted(table.ledger.items())
        ]
        reader.close()
        return found

    def findings(self) -> object:
        return fsck_table(self.table, log_dirs=[self.world.broker.log_dir]).findings

    def column(self, name: str) -> list[object]:
        loaded = self.world.catalog.load_table(self.table.identifier)
        rows = loaded.scan().to_arrow().sort_by([("kafka_partition", "ascending"), ("kafka_offset", "ascending")])
        return list(rows[name].to_pylist())

    def kept(self) -> tuple[str, ...]:
        return self.table.warehouse.entries(retype_folder(self.table.location))


@pytest.fixture
def stored(world: TieringWorld) -> Stored:
    return Stored(world)


def test_raw_values_become_columns_and_records_stay_what_they_are(stored: Stored) -> None:
    before, old = stored.consumed(), stored.table
    forecast = stored.retype(JSON).foresee()
    assert (forecast.files, forecast.records, forecast.written_files) == (4, 24, 0)
    assert stored.table.metadata_location == old.metadata_location
    done = stored.retype(JSON).run()
    assert (done.files, done.records, done.resumed_files) == (4, 24, 0)
    assert stored.column("city")[:6] == ["Berlin", None, None, "Rom", None, None]
    assert stored.column("kafka_value_raw")[:6] == [None, b"no JSON", None, None, b"", b"\xff\xfe"]
    assert (stored.consumed(), stored.table.ledger, stored.findings()) == (before, old.ledger, ())
    assert stored.kept() == ()
    with pytest.raises(ValueError, match="value"):
        stored.table.iceberg_schema.find_field("value")
    loaded = stored.world.catalog.load_table(old.identifier)
    earlier = loaded.scan(snapshot_id=old.snapshot_id).to_arrow()
    assert sorted(filter(None, earlier["value"].to_pylist())) == sorted(filter(None, VALUES * 4)), "history has it"


def test_columns_of_the_same_name_get_ids_that_no_column_ever_had(stored: Stored) -> None:
    ids = [stored.table.iceberg_schema.find_field("value").field_id]
    for rule in (STRING, RAW):
        stored.retype(rule).run()
        ids.append(stored.table.iceberg_schema.find_field("value").field_id)
    assert ids == sorted(set(ids))
    assert stored.column("value")[:6] == VALUES
    assert stored.findings() == ()


def test_schemas_of_the_old_format_go_and_those_that_records_name_are_found(world: TieringWorld) -> None:
    source = KnownSchemas(TEXTS)
    avro = TopicRule(pattern="*", value_format="avro", schema_source=source)
    stored = Stored(
        world, RAW, [order(1, {"id": 0}), order(2, {"id": 1, "note": "gift"}), order(3 - 1, {"id": 2, "note": None})]
    )
    before = stored.consumed()
    stored.retype(avro).run()
    assert stored.column("note")[:3] == [None, "gift", None]
    assert sorted(stored.table.codec.schemas) == [1, 2]
    assert stored.column("kafka_value_raw") == [None] * 12
    stored.retype(JSON).run()
    properties = stored.world.catalog.load_table(stored.table.identifier).properties
    assert [name for name in properties if "schema." in name or "schema_order" in name] == []
    assert (stored.consumed(), stored.findings()) == (before, ())


def test_source_that_is_away_ends_it_and_what_was_written_is_kept(
    world: TieringWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(milliseconds: int) -> None:
        world.clock.unseen_ms += milliseconds

    monkeypatch.setattr(world.clock, "sleep", sleep)
    source = KnownSchemas(TEXTS)
    stored = Stored(world, RAW, [order(1, {"id": 0})])
    avro = TopicRule(pattern="*", value_format="avro", schema_source=source)
    source.away = True
    with pytest.raises(Unavailable, match="can't be had now: the registry does not answer"):
        stored.retype(avro).run()
    assert stored.table.codec.name == "raw"
    source.away = False
    stored.retype(avro).run()
    assert stored.column("id") == [0] * 4


POINTS = [
    FaultPoint.RETYPE_PLANNED,
    FaultPoint.REPLACEMENTS_WRITTEN,
    FaultPoint.RETYPE_FILES_NOTED,
    FaultPoint.COMMIT_DECIDED,
    FaultPoint.SNAPSHOT_STAGED,
    FaultPoint.METADATA_DURABLE,
    FaultPoint.CATALOG_CHANGED,
    FaultPoint.TABLE_RETYPED,
]


@pytest.mark.parametrize("point", POINTS)
def test_retype_that_ends_anywhere_leaves_one_format_or_the_other_and_goes_on(
    stored: Stored, point: FaultPoint
) -> None:
    before = stored.consumed()
    with armed(once(point, end)), pytest.raises(Ended):
        stored.retype(JSON).run()
    is_done = POINTS.index(point) >= POINTS.index(FaultPoint.CATALOG_CHANGED)
    assert stored.table.codec.name == ("json" if is_done else "raw")
    assert (stored.consumed(), stored.findings()) == (before, ())
    if not is_done:
        is_noted = POINTS.index(point) >= POINTS.index(FaultPoint.RETYPE_FILES_NOTED)
        assert stored.retype(JSON).foresee().written_files == (4 if is_noted else 0)
    done = stored.retype(JSON).run()
    assert stored.column("city")[:2] == ["Berlin", None]
    assert (stored.consumed(), stored.findings(), stored.kept()) == (before, (), ())
    assert done.records == 24


def test_schema_of_the_old_format_that_lands_under_the_commit_is_taken_out_again(stored: Stored) -> None:
    """It adds no column, so it changes properties alone, and where a catalog compares requirements only, the commit
    that was decided before it conflicts with nothing."""
    named = {"floeberg.schema.7": TEXTS[1], "floeberg.schema_order": "[7]"}
    codec = JSON.codec
    plan = RetypePlan.begin(stored.table, codec, first_fields(codec), plan_id="plan")
    stored.retype(JSON).run()
    with stored.world.catalog.load_table(stored.table.identifier).transaction() as transaction:
        transaction.set_properties({**named, **guards_of(named)})
    table = stored.table
    assert 7 in table.codec.schemas
    landed = replace(plan, columns=tuple(table.iceberg_schema.fields[-len(table.value_fields) :]), codec=codec)
    done = stored.world.writer().retype(table, landed, (), FooterDigests())
    assert done.outcomes == (Outcome.COMMITTED,)
    assert not done.table.codec.schemas
    assert done.table.foreign is None


def test_look_ahead_changes_nothing_and_what_it_proved_is_not_proven_again(stored: Stored) -> None:
    with armed(once(FaultPoint.COMMIT_DECIDED, end)), pytest.raises(Ended):
        stored.retype(JSON).run()
    kept = stored.kept()
    stored.retype(STRING).foresee()
    assert stored.kept() == kept
    work = stored.retype(JSON)
    assert work.foresee().written_files == 4
    assert work.run().resumed_files == 4


def test_plan_for_another_format_is_thrown_away(stored: Stored) -> None:
    with armed(once(FaultPoint.COMMIT_DECIDED, end)), pytest.raises(Ended):
        stored.retype(JSON).run()
    assert stored.retype(STRING).run().resumed_files == 0
    assert stored.table.codec.name == "string"


def test_files_that_were_spoiled_since_are_written_again(stored: Stored) -> None:
    with armed(once(FaultPoint.COMMIT_DECIDED, end)), pytest.raises(Ended):
        stored.retype(JSON).run()
    folder = Path(stored.table.location.removeprefix("file://")) / "data"
    newest = max(folder.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(newest.read_bytes()[:-40] + bytes(40))
    assert stored.retype(JSON).run().resumed_files == 3
    assert stored.findings() == ()


@pytest.mark.parametrize(
    "point", [FaultPoint.RETYPE_PLANNED, FaultPoint.RETYPE_FILES_NOTED, FaultPoint.REPLACEMENTS_WRITTEN]
)
def test_records_and_merges_that_come_meanwhile_are_in_it(stored: Stored, point: FaultPoint) -> None:
    daemon = RepairingDaemon(stored.world, (RAW,))

    def interfere() -> None:
        for partition in stored.partitions:
            stored.world.broker.append_segment(partition, VALUES)
        daemon.cycle()

    with armed(once(point, interfere)):
        done = stored.retype(JSON).run()
    assert done.records == 36
    assert stored.column("city")[:18] == ["Berlin", None, None, "Rom", None, None] * 3
    assert stored.findings() == ()


def test_file_that_a_daemon_began_in_the_old_format_is_refused_and_its_topic_says_why(stored: Stored) -> None:
    """The table is retyped between a daemon's rewrite and its commit."""
    partition = stored.partitions[0]
    stored.world.broker.append_segment(partition, [b'{"city": "Oslo"}'])
    loop = stored.world.loop(rules=(RAW,))

    def retype() -> None:
        stored.retype(JSON).run()

    with armed(once(FaultPoint.RANGES_VERIFIED, retype)):
        loop.cycle()
    assert stored.world.tiered_end(partition) == 12
    problem = report_of(loop.cycle(), partition).problem
    assert 'the settings say value = "raw"' in str(problem)
    assert f"floeberg table retype {partition.topic}" in str(problem)
    assert stored.world.loop(rules=(JSON,)).cycle().is_good
    assert stored.column("city")[12] == "Oslo"
    assert stored.findings() == ()


def test_daemon_whose_settings_leave_the_format_open_goes_on_in_the_new_one(world: TieringWorld) -> None:
    rule = TopicRule(pattern="*", value_format=AUTO)
    stored = Stored(world, rule, [b"text"] * 200)
    assert stored.table.codec.name == "string"
    loop = world.loop(rules=(rule,))
    loop.cycle()
    stored.retype(RAW).run()
    world.clock.ahead_ms += 3_600_000
    world.broker.append_segment(stored.partitions[0], [b"more"])
    assert ranges_of(loop.cycle(), stored.partitions[0]) == [(400, 401)]
    assert stored.column("value")[400] == b"more"


def test_rows_are_sorted_by_what_the_settings_name(stored: Stored) -> None:
    rule = replace(JSON, clustering=Clustering(columns=("city",), window_rows=200_000))
    before = stored.consumed()
    stored.retype(rule).run()
    assert (stored.consumed(), stored.findings()) == (before, ())


def test_files_of_the_streams_own_branch_get_the_format_too(stored: Stored) -> None:
    writer = stored.world.writer()
    writer.move_horizons(writer.newest(stored.table), table_starts={0: 6})
    before = stored.consumed()
    assert stored.retype(JSON).run().files == 4
    assert stored.table.stream is not None
    assert len(stored.column("city")) == 18
    assert (stored.consumed(), stored.findings()) == (before, ())


def test_column_that_another_program_added_stays_and_its_name_is_taken(stored: Stored) -> None:
    def add(name: str) -> None:
        with stored.world.catalog.load_table(stored.table.identifier).update_schema() as change:
            change.add_column(name, StringType())

    add("note")
    stored.retype(JSON).run()
    assert {"note", "city", "id"} <= set(stored.table.shown_schema.column_names)
    stored.retype(RAW).run()
    add("city")
    with pytest.raises(Invalid, match="another program gave the table a column city"):
        stored.retype(JSON).run()


@given(
    values=st.lists(
        st.none()
        | st.binary(max_size=20)
        | st.text(max_size=10).map(str.encode)
        | st.dictionaries(st.sampled_from("abc"), st.integers() | st.text(max_size=3) | st.none(), max_size=3).map(
            lambda one: repr(one).replace("'", '"').replace("None", "null").encode()
        ),
        min_size=1,
        max_size=8,
    ),
    ways=st.lists(st.sampled_from([RAW, STRING, JSON]), min_size=2, max_size=3),
)
@settings(max_examples=8, deadline=None)
def test_any_records_come_back_through_any_formats(values: list[bytes | None], ways: list[TopicRule]) -> None:
    with TemporaryDirectory() as folder:
        stored = Stored(TieringWorld(Path(folder)), ways[0], values)
        before = stored.consumed()
        for rule in ways[1:]:
            stored.retype(rule).run()
            assert stored.consumed() == before
        assert stored.findings() == ()
