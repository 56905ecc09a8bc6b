"""Sweeps of a real table: what nothing names goes, and nothing else, whoever else is at work and wherever it ends."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from pyiceberg.table.update import SetPropertiesUpdate

from engine.errors import Corrupt, Unavailable
from engine.fault_points import FaultPoint, armed
from engine.offset_range import OffsetRange
from engine.table.companion_folder import auxiliary_folder
from engine.table.ledger import Outcome
from engine.warehouse.warehouse import Warehouse
from retention.sweep_planner import Amount, Reason
from tests.engine.table.table_examples import TOPIC, append_of, catalog_in, ensure_table, open_writer, outcomes
from tests.retention.sweep_world import GRACE_MS, SweepWorld


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def world(tmp_path: Path) -> SweepWorld:
    world = SweepWorld(tmp_path)
    world.append()
    return world


def killed_at(point: FaultPoint) -> None:
    raise Killed(point)


def leftovers_of_a_killed_commit(world: SweepWorld) -> list[str]:
    """Everything that a commit leaves which never was: a data file, a manifest, its list, a metadata file."""
    before = set(world.on_disk())
    with armed(lambda point: killed_at(point) if point is FaultPoint.METADATA_DURABLE else None), suppress(Killed):
        start = 5 * len(world.files)
        open_writer(world.folder).commit(world.view(), [append_of(world.view(), start, start + 5, attempt="killed")])
    return sorted(set(world.on_disk()) - before)


def test_what_a_killed_commit_left_goes_after_the_grace_and_nothing_else(world: SweepWorld) -> None:
    left = leftovers_of_a_killed_commit(world)
    assert len(left) == 4
    left.append(world.put(f"{world.view().location}/metadata/floeberg-0a-m0.avro.writing"))
    world.append()
    kept = set(world.on_disk()) - set(left)
    first = world.sweep().turn()
    assert (first.removed, first.amounts[Reason.GRACE].files) == (Amount(), 5)
    world.clock.ahead_ms += GRACE_MS - 1_000
    assert world.sweep().turn().removed.files == 0
    world.append()  # so that no commit of before can land
    world.clock.ahead_ms += 1_000
    second = world.sweep().turn()
    assert (second.removed.files, second.waiting, second.hindered) == (5, {}, {})
    assert not [path for path in left if world.is_there(path)]
    assert kept <= set(world.on_disk())
    assert world.readable_offsets() == list(range(15))
    third = world.sweep().turn()
    assert {reason: third.amounts[reason].files for reason in (Reason.GRACE, Reason.UNREFERENCED, Reason.FOREIGN)} == {
        Reason.GRACE: 0,
        Reason.UNREFERENCED: 0,
        Reason.FOREIGN: 0,
    }


def test_metadata_of_a_commit_that_may_still_land_waits_for_the_next_one(world: SweepWorld) -> None:
    left = leftovers_of_a_killed_commit(world)
    turn = world.swept_after_the_grace()
    # The data file goes, for the fence stands; and the fence was a commit.
    assert turn.removed.files == 4
    assert not [path for path in left if world.is_there(path)]
    stray = world.put(f"{world.view().location}/metadata/floeberg-0a-m0.avro")
    turn = world.swept_after_the_grace()
    assert (turn.removed.files, list(turn.waiting.values())) == (0, [1])
    assert world.is_there(stray)
    world.append()
    assert world.sweep().turn().removed.files == 1


def test_quiet_table_gets_no_commit_from_sweeps_without_data_files(world: SweepWorld) -> None:
    world.put(f"{world.view().location}/metadata/floeberg-0a-m0.avro")
    before = world.view().metadata_location
    world.swept_after_the_grace()
    assert world.view().metadata_location == before


def test_file_that_is_not_ours_is_told_and_stays(world: SweepWorld) -> None:
    location = world.view().location
    names = [
        "data/kafka_partition=0/part-0.parquet",
        "metadata/other-m0.avro",
        "notes.txt",
        "metadata/snap-1-0-ab.avro",
    ]
    foreign = [world.put(f"{location}/{name}") for name in names]
    world.append()
    world.swept_after_the_grace()
    world.append()
    turn = world.sweep().turn()
    assert turn.amounts[Reason.FOREIGN] == Amount(files=4, size_bytes=4)
    assert all(map(world.is_there, foreign))
    assert {path for path, told in world.verdicts().items() if told.reason is Reason.FOREIGN} == set(foreign)


def test_table_metadata_that_another_program_left_stays(world: SweepWorld) -> None:
    location, current = world.view().location, world.view().metadata_location
    content = Warehouse().read_bytes(current)
    uuid = str(world.iceberg().metadata.table_uuid)
    unsealed = world.put(f"{location}/metadata/00001-0a.metadata.json", content.replace(b"floeberg.seal", b"other"))
    of_another = world.put(f"{location}/metadata/00001-0b.metadata.json", content.replace(uuid.encode(), b"0c"))
    damaged = world.put(f"{location}/metadata/00001-0c.metadata.json", content[:-9])
    ours = world.put(f"{location}/metadata/00001-0d.metadata.json", content)
    world.sweep().turn()
    world.append()
    world.clock.ahead_ms += GRACE_MS
    turn = world.sweep().turn()
    assert (turn.removed.files, world.is_there(ours)) == (1, False)
    assert all(map(world.is_there, (unsealed, of_another, damaged)))


def test_process_that_was_stopped_before_its_commit_can_not_commit_what_was_swept(world: SweepWorld) -> None:
    stopped, table = open_writer(world.folder), world.view()
    append = append_of(table, 5, 10, attempt="stopped")
    assert append.file is not None
    assert world.swept_after_the_grace().removed.files == 1
    with pytest.raises(Unavailable, match="may have been swept"):
        stopped.commit(table, [append])
    assert world.readable_offsets() == list(range(5))
    assert outcomes(stopped, world.view(), append_of(world.view(), 5, 10, attempt="again")) == [Outcome.COMMITTED]
    assert world.readable_offsets() == list(range(10))


def test_file_that_is_committed_right_before_the_fence_stays(world: SweepWorld) -> None:
    table = world.view()
    append = append_of(table, 5, 10, attempt="late")
    assert append.file is not None
    world.sweep().turn()
    world.clock.ahead_ms += GRACE_MS
    commits = iter([open_writer(world.folder)])

    def lands(point: FaultPoint) -> None:
        # The fence is decided; another process commits the file, and the fence meets a conflict.
        if point is FaultPoint.COMMIT_DECIDED and (late := next(commits, None)) is not None:
            assert outcomes(late, table, append) == [Outcome.COMMITTED]

    with armed(lands):
        turn = world.sweep().turn()
    assert turn.removed.files == 0
    assert turn.waiting["the table names it"] == 1
    assert world.readable_offsets() == list(range(10))


@pytest.mark.parametrize(
    "point", [FaultPoint.SIGHTINGS_KEPT, FaultPoint.SNAPSHOT_STAGED, FaultPoint.SWEEP_FENCED, FaultPoint.FILES_SWEPT]
)
def test_sweep_that_is_killed_is_finished_by_the_next(world: SweepWorld, point: FaultPoint) -> None:
    left = leftovers_of_a_killed_commit(world)
    world.sweep().turn()
    world.put(f"{world.view().location}/metadata/floeberg-0f-m0.avro")  # seen first in the next, so that it writes
    world.clock.ahead_ms += GRACE_MS
    with armed(lambda at: killed_at(at) if at is point else None), pytest.raises(Killed):
        world.sweep().turn()
    world.append()
    world.sweep().turn()
    assert not [path for path in left if world.is_there(path)]
    assert world.readable_offsets() == list(range(10))


def test_two_sweeps_of_two_daemons_do_no_harm(world: SweepWorld) -> None:
    left = leftovers_of_a_killed_commit(world)
    for daemon in ("one", "two"):
        world.sweep(data_dir=daemon).turn()
    world.clock.ahead_ms += GRACE_MS
    other = world.sweep(data_dir="two")

    def meanwhile(point: FaultPoint) -> None:
        if point is FaultPoint.SWEEP_FENCED:
            with armed(lambda _: None):
                other.turn()

    with armed(meanwhile):
        world.sweep(data_dir="one").turn()
    assert not [path for path in left if world.is_there(path)]
    assert world.readable_offsets() == list(range(5))


def test_two_sweeps_on_one_data_directory_wait_for_each_other(world: SweepWorld) -> None:
    with world.sweep()._sightings, pytest.raises(Unavailable, match="another process sweeps"):
        world.sweep().turn()


def test_table_that_the_catalog_has_in_an_earlier_state_is_held_and_its_graces_begin_again(world: SweepWorld) -> None:
    earlier = world.view().metadata_location
    for _ in range(3):
        world.append()
    world.sweep().turn()
    later = world.on_disk()
    catalog, identifier = catalog_in(world.folder), world.view().identifier
    catalog.drop_table(identifier)
    catalog.register_table(identifier, earlier)
    for _ in range(2):
        turn = world.sweep().turn()
        assert "earlier state" in (turn.held or "")
        world.clock.ahead_ms += GRACE_MS
    assert set(later) <= set(world.on_disk())


def test_table_that_another_program_changed_is_held_until_that_is_judged(world: SweepWorld) -> None:
    file = world.written()
    world.sweep().turn()
    world.clock.ahead_ms += GRACE_MS
    with world.iceberg().manage_snapshots() as refs:
        refs.create_tag(world.iceberg().metadata.current_snapshot_id or 0, "kept")
    table = world.iceberg()
    with table.transaction() as transaction:
        transaction.set_properties({"floeberg.ledger.0": table.properties["floeberg.ledger.0"].replace("5", "6")})
    assert "another program" in (world.sweep().turn().held or "")
    assert world.is_there(file.path)


def test_table_whose_files_are_not_to_be_collected_is_held(world: SweepWorld) -> None:
    file = world.written()
    table = world.iceberg()
    table.catalog.commit_table(table, (), (SetPropertiesUpdate(updates={"gc.enabled": "false"}),))
    assert "gc.enabled" in (world.swept_after_the_grace().held or "")
    assert world.is_there(file.path)


def test_file_that_a_related_table_names_stays(world: SweepWorld) -> None:
    """As ``<table>__latest`` does: no second copy of the data."""
    first = world.files[0]
    table = world.iceberg()
    catalog = catalog_in(world.folder)
    related = catalog.create_table((*world.view().identifier[:-1], f"{TOPIC}__latest"), schema=table.schema())
    related.add_files([first])
    with table.transaction() as transaction:
        transaction.delete("kafka_partition = 0")
    with table.maintenance.expire_snapshots() as expiry:
        newest = world.iceberg().metadata.current_snapshot_id
        expiry.by_ids([one.snapshot_id for one in world.iceberg().snapshots() if one.snapshot_id != newest])
    assert world.verdicts()[first].reason is Reason.LIVE
    catalog.drop_table(related.name())
    assert world.verdicts()[first].reason is Reason.GRACE


def test_topic_created_again_sweeps_each_incarnation_under_its_own_id(world: SweepWorld) -> None:
    older = world.written()
    world.sweep().turn()
    newer_table = ensure_table(open_writer(world.folder), topic_id="BBBBBBBBBBBBBBBBBBBBBQ")
    newer = append_of(newer_table, 0, 5, attempt="left").file
    assert newer is not None
    world.clock.ahead_ms += GRACE_MS
    retired = world.sweep()
    assert retired.turn().removed.files == 1
    assert not Path(older.path.removeprefix("file://")).exists()
    assert Path(newer.description.path.removeprefix("file://")).exists()
    assert world.sweep(topic_id="BBBBBBBBBBBBBBBBBBBBBQ").turn().held == "the table has no commit yet"


def test_clock_that_is_set_forward_ends_no_grace(world: SweepWorld) -> None:
    file = world.written()
    sweep = world.sweep()
    sweep.turn()
    world.clock.set_ms += 10 * GRACE_MS
    assert sweep.turn().removed.files == 0
    world.clock.ahead_ms += GRACE_MS // 2
    assert sweep.turn().removed.files == 0
    assert world.is_there(file.path)
    world.clock.ahead_ms += GRACE_MS
    assert sweep.turn().removed.files == 1


def test_clock_that_is_set_back_begins_the_grace_again(world: SweepWorld) -> None:
    world.written()
    world.sweep().turn()
    world.clock.set_ms -= 10 * GRACE_MS
    assert world.swept_after_the_grace().removed.files == 1


def test_lost_sightings_begin_the_grace_again(world: SweepWorld) -> None:
    file = world.written()
    world.sweep().turn()
    (kept,) = (world.folder / "data").glob("*.json")
    kept.write_bytes(b'{"location": 1')
    world.clock.ahead_ms += GRACE_MS
    assert world.sweep().turn().removed.files == 0
    assert world.is_there(file.path)
    world.clock.ahead_ms += GRACE_MS
    assert world.sweep().turn().removed.files == 1


def test_file_that_a_reader_has_open_stays_until_it_is_closed(world: SweepWorld) -> None:
    file = world.written()
    world.in_use = {file.path}
    assert world.swept_after_the_grace().waiting == {"a reader has it open": 1}
    world.in_use = frozenset()
    assert world.sweep().turn().removed.files == 1


def test_history_that_can_not_be_read_keeps_everything(world: SweepWorld) -> None:
    file = world.written()
    world.sweep().turn()
    (manifest,) = [path for path in world.on_disk() if path.endswith("-m0.avro")]
    content = Warehouse().read_bytes(manifest)
    Path(manifest.removeprefix("file://")).unlink()
    world.clock.ahead_ms += GRACE_MS
    with pytest.raises(Corrupt, match="missing"):
        world.sweep().turn()
    assert world.is_there(file.path)
    world.put(manifest, content)
    assert world.sweep().turn().removed.files == 1


def test_file_that_the_warehouse_does_not_remove_is_told_and_tried_again(
    world: SweepWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays, goes = world.written("stays"), world.written("goes")
    delete_batch = Warehouse.delete_batch

    def refused(warehouse: Warehouse, paths: list[str]) -> dict[str, str]:
        delete_batch(warehouse, [path for path in paths if path != stays.path])
        return {stays.path: "AccessDenied"}

    with monkeypatch.context() as patched:
        patched.setattr(Warehouse, "delete_batch", refused)
        turn = world.swept_after_the_grace()
    assert (turn.removed.files, turn.hindered) == (1, {stays.path: "AccessDenied"})
    assert (world.is_there(stays.path), world.is_there(goes.path)) == (True, False)
    assert world.sweep().turn().removed.files == 1


def test_auxiliary_state_goes_once_the_log_start_has_passed_it(world: SweepWorld) -> None:
    world.append()
    folder = auxiliary_folder(world.view().location, 0)
    states = {
        end: world.put(f"{folder}/{OffsetRange(start=end - 5, end=end).start:020d}-{end:020d}.aux") for end in (5, 10)
    }
    assert world.swept_after_the_grace().removed.files == 0
    world.writer.move_horizons(world.view(), log_starts={0: 7})
    world.swept_after_the_grace()
    assert (world.is_there(states[5]), world.is_there(states[10])) == (False, True)


def test_preview_says_what_a_turn_does_and_changes_nothing(world: SweepWorld) -> None:
    left = leftovers_of_a_killed_commit(world)
    world.append()
    before = set(world.on_disk())
    assert {world.verdicts()[path].reason for path in left} == {Reason.GRACE}
    assert not (world.folder / "data").exists()
    world.sweep().turn()
    world.append()
    world.clock.ahead_ms += GRACE_MS
    before, kept = set(world.on_disk()), (world.folder / "data" / "AAAAAAAAAAAAAAAAAAAAAQ.json").read_bytes()
    at = world.view().metadata_location
    assert {path for path, told in world.verdicts().items() if told.reason is Reason.UNREFERENCED} == set(left)
    assert world.sweep().preview(lambda _: None).waiting == {}
    assert set(world.on_disk()) == before
    assert world.view().metadata_location == at
    assert (world.folder / "data" / "AAAAAAAAAAAAAAAAAAAAAQ.json").read_bytes() == kept
