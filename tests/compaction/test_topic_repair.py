"""Records that were stored without columns get them: bytes, offsets and digests stay, whoever interferes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from compaction import topic_repair
from compaction.repair_limits import RepairLimits
from compaction.replacing import FileReplacer
from compaction.topic_repair import RepairTurn, TopicRepair
from engine.errors import Corrupt, Unavailable
from engine.fault_points import FaultPoint, armed
from engine.formats.avro.codec import AvroCodec
from engine.formats.codec import Decoded, Verdict
from engine.fsck.check import fsck_table
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.records.digest import EMPTY_DIGEST, RangeDigest, digest_of
from engine.records.records import ByteSpans
from engine.table.data_file import FileFooter
from engine.table.proof.verifier import Verifier
from engine.table.topic_table import TopicTable
from engine.topic_partition import TopicIdPartition
from tests.compaction.damaged_file import damage
from tests.support.fault_hooks import once
from tests.tiering.order_schemas import TEXTS, KnownSchemas, avro, columns, order
from tests.tiering.tiering_world import TieringWorld
from topics.topic_schemas import TopicSchemas
from workers.workers import InProcessWorkers, Workers


@dataclass
class Lacking:
    """A topic of two partitions whose schema 2 nobody had when it was tiered; schema 1 was known."""

    world: TieringWorld
    source: KnownSchemas
    partitions: tuple[TopicIdPartition, ...]

    def repair(self, *, workers: Workers | None = None, limits: RepairLimits | None = None) -> TopicRepair:
        """As a new process would begin it."""
        writer = self.world.writer()
        schemas = TopicSchemas(
            topic="orders",
            rule=avro(self.source)[0],
            writer=writer,
            clock=self.world.clock,
            patience_ms=60_000,
            retry_ms=300_000,
        )
        repair = TopicRepair(
            self.table(),
            schemas,
            replacer=FileReplacer(
                writer=writer, workers=workers or InProcessWorkers(), verifier=Verifier(), parallel=2
            ),
            clock=self.world.clock,
            limits=limits or RepairLimits(),
        )
        repair.reopen()
        return repair

    def table(self) -> TopicTable:
        return self.world.table(self.partitions[0])

    def consumed(self) -> list[bytes]:
        """What consumers of each partition get."""
        table, reader = self.table(), LogReader(file_index=FileIndex())
        found = []
        for number, entry in sorted(table.ledger.items()):
            found.append(b"".join(reader.read(table, number, offsets=entry.range, start=entry.start)))
        reader.close()
        return found

    def digests(self) -> list[RangeDigest]:
        """Of the records that consumers of each partition get, however they are batched."""
        table, reader = self.table(), LogReader(file_index=FileIndex())
        found = []
        for number, entry in sorted(table.ledger.items()):
            digest = EMPTY_DIGEST
            for records in reader.records(table, number, entry.range):
                digest = digest.then(digest_of(records))
            found.append(digest)
        reader.close()
        return found

    def paths(self) -> set[str]:
        loaded = self.world.catalog.load_table(self.table().identifier)
        return {task.file.file_path for task in loaded.scan().plan_files()}

    def footers(self) -> list[FileFooter]:
        return [
            FileFooter.from_key_values(pq.read_metadata(path.removeprefix("file://")).metadata, file=path)
            for path in sorted(self.paths())
        ]

    def check_whole(self) -> None:
        """The table holds every record once, and is known as Floeberg's own work."""
        assert self.table().foreign is None
        assert fsck_table(self.table(), log_dirs=[self.world.broker.log_dir]).findings == ()


def note(number: int) -> bytes:
    return order(2, {"id": number, "note": f"n{number}"})


@pytest.fixture
def lacking(world: TieringWorld) -> Lacking:
    source = KnownSchemas({1: TEXTS[1]})
    partitions = world.broker.create_topic("orders", partitions=2)
    loop = world.loop(rules=avro(source))
    for partition in partitions:
        world.broker.append_segment(partition, [order(1, {"id": 0}), note(1), b"broken", note(3)])
        world.broker.append_segment(partition, [note(4), note(5)])
        world.broker.append_segment(partition, [order(1, {"id": 6})])
    assert loop.cycle().is_good
    found = Lacking(world=world, source=source, partitions=partitions)
    assert [footer.unresolved for footer in found.footers()] == [{2: 2}, {2: 2}, {}] * 2
    return found


def test_records_get_their_columns_and_keep_their_bytes(lacking: Lacking) -> None:
    before, ledger, paths = lacking.consumed(), lacking.table().ledger, lacking.paths()
    lacking.source.texts = TEXTS
    turn = lacking.repair().turn()
    assert (turn.found, turn.tried, turn.replaced, turn.gained, turn.left) == (4, 4, 4, 8, 0)
    assert turn.problems == ()
    found = columns(lacking.world, "orders")
    one = sorted(zip(found["kafka_partition"], found["kafka_offset"], found["id"], found["note"], strict=True))
    expected = [(0, None), (1, "n1"), (None, None), (3, "n3"), (4, "n4"), (5, "n5"), (6, None)]
    assert [row[2:] for row in one] == expected * 2
    assert [raw for raw in found["kafka_value_raw"] if raw is not None] == [b"broken"] * 2
    assert (lacking.consumed(), lacking.table().ledger) == (before, ledger)
    assert len(lacking.paths() & paths) == 2, "files that lacked nothing stay"
    assert [footer.unresolved for footer in lacking.footers()] == [{}] * 6
    lacking.check_whole()


def test_second_repair_finds_nothing_to_do(lacking: Lacking) -> None:
    lacking.source.texts = TEXTS
    lacking.repair().turn()
    paths = lacking.paths()
    again = lacking.repair().turn()
    assert (again.found, again.tried, again.left) == (2, 0, 0)
    assert lacking.paths() == paths


def test_schema_that_is_still_missing_leaves_everything_as_it_is(lacking: Lacking) -> None:
    paths = lacking.paths()
    repair = lacking.repair()
    turn = repair.turn()
    assert (turn.found, turn.tried, dict(turn.wanted.value)) == (4, 0, {2: 8})
    assert repair.turn().tried == 0
    assert lacking.source.asked.count(2) == 2, (
        "once by tiering, once by the first turn; then it is given up for a while"
    )
    assert lacking.paths() == paths


def test_schemas_are_asked_for_a_few_a_turn_until_all_were(
    world: TieringWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_repair, "SCHEMAS_A_TURN", 2)
    source = KnownSchemas({})
    partitions = world.broker.create_topic("orders")
    strange = [b"\x00\x00\x00\x00" + bytes([schema_id]) for schema_id in (10, 11, 11, 12, 12, 12)]
    world.broker.append_segment(partitions[0], [*strange, note(1)])
    assert world.loop(rules=avro(source)).cycle().commits == 1
    source.texts, source.asked = TEXTS, []
    repair = Lacking(world=world, source=source, partitions=partitions).repair()
    first, second, third = repair.turn(), repair.turn(), repair.turn()
    assert source.asked == [11, 12, 2, 10], "in the order of ids within a turn, those of the most records first"
    assert [(turn.unasked, turn.replaced) for turn in (first, second, third)] == [(2, 0), (0, 1), (0, 0)]


def test_source_that_is_away_is_a_problem_of_the_turn(lacking: Lacking) -> None:
    lacking.source.away = True
    turn = lacking.repair().turn()
    assert turn.tried == 0
    assert isinstance(turn.source_problem, Unavailable)


def test_turns_keep_to_their_bounds_and_come_to_an_end(lacking: Lacking) -> None:
    lacking.source.texts = TEXTS
    repair = lacking.repair(limits=RepairLimits(files_per_turn=1, footers_per_turn=3))
    turns: list[RepairTurn] = []
    while not turns or turns[-1].left:
        turns.append(repair.turn())
    assert [turn.replaced for turn in turns] == [1, 1, 1, 1]
    assert sum(turn.gained for turn in turns) == 8
    lacking.check_whole()


def test_only_the_partitions_asked_for_are_repaired(lacking: Lacking) -> None:
    lacking.source.texts = TEXTS
    assert lacking.repair().turn({1}).replaced == 2
    assert lacking.repair().turn().replaced == 2


def test_newer_version_of_a_codec_tries_again_and_replaces_only_what_gains(
    lacking: Lacking, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = lacking.paths()
    monkeypatch.setattr(AvroCodec, "version", AvroCodec.version + 1)
    repair = lacking.repair()
    turn = repair.turn()
    assert (turn.tried, turn.replaced, turn.left) == (4, 0, 0)
    assert lacking.paths() == paths
    assert repair.turn().tried == 0, "what gained nothing is not tried again by the same process"


def test_file_whose_records_would_lose_something_is_not_replaced(
    lacking: Lacking, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking.source.texts = TEXTS
    paths, decode = lacking.paths(), AvroCodec.decode

    def worse(self: AvroCodec, values: ByteSpans) -> Decoded:
        """The first record of a block is never exact."""
        decoded = decode(self, values)
        verdict = decoded.verdict.copy()
        verdict[0] = Verdict.KEEP_RAW
        return replace(decoded, verdict=verdict)

    monkeypatch.setattr(AvroCodec, "decode", worse)
    turn = lacking.repair().turn()
    assert (turn.tried, turn.replaced) == (4, 2), "those whose first record kept its bytes before"
    assert len(lacking.paths() & paths) == 4


def test_file_that_does_not_say_what_it_lacked_is_looked_into(
    lacking: Lacking, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking.source.texts = TEXTS
    told = FileFooter.from_key_values

    def without(metadata: dict[bytes, bytes], *, file: str) -> FileFooter:
        return told({key: value for key, value in metadata.items() if b"unresolved" not in key}, file=file)

    repair = lacking.repair()
    with monkeypatch.context() as older:
        older.setattr(FileFooter, "from_key_values", without)
        first = repair.turn()
    assert (first.tried, first.replaced) == (4, 0), "the ids were not known to be wanted"
    assert repair.turn().replaced == 4
    lacking.check_whole()


def test_damaged_old_file_is_kept_and_told_and_the_others_go_on(lacking: Lacking) -> None:
    lacking.source.texts = TEXTS
    damaged = min(lacking.paths())
    content = damage(damaged)
    repair = lacking.repair()
    turn = repair.turn()
    assert turn.replaced == 3
    assert [type(problem) for problem in turn.problems] == [Corrupt]
    assert turn.problems[0].file == damaged
    assert damaged in lacking.paths()
    assert Path(damaged.removeprefix("file://")).read_bytes() == content
    assert repair.turn().tried == 0


def test_missing_old_file_is_told(lacking: Lacking) -> None:
    lacking.source.texts = TEXTS
    Path(min(lacking.paths()).removeprefix("file://")).unlink()
    turn = lacking.repair().turn()
    assert (turn.replaced, [type(problem) for problem in turn.problems]) == (3, [Corrupt])


def test_new_file_that_does_not_verify_is_never_committed(lacking: Lacking) -> None:
    lacking.source.texts = TEXTS
    paths = lacking.paths()

    def flip(point: FaultPoint) -> None:
        if point is not FaultPoint.REPLACEMENTS_WRITTEN:
            return
        for path in lacking.world.root.rglob("*.parquet"):
            if f"file://{path}" not in paths:
                damage(f"file://{path}")

    with armed(flip):
        turn = lacking.repair().turn()
    assert (turn.tried, turn.replaced) == (4, 0)
    assert [type(problem) for problem in turn.problems] == [Corrupt] * 4
    assert lacking.paths() == paths
    lacking.check_whole()
    assert lacking.repair().turn().replaced == 4


def test_tiering_that_commits_in_between_loses_nothing(lacking: Lacking) -> None:
    lacking.source.texts = TEXTS
    for partition in lacking.partitions:
        lacking.world.broker.append_segment(partition, [note(7), note(8)])
    tiering = lacking.world.loop(rules=avro(lacking.source))
    with armed(once(FaultPoint.REPLACEMENTS_VERIFIED, tiering.cycle)):
        assert lacking.repair().turn().replaced == 4
    assert {entry.range for entry in lacking.table().ledger.values()} == {OffsetRange(start=0, end=9)}
    lacking.check_whole()


def test_two_repairs_at_once_replace_each_file_once(lacking: Lacking) -> None:
    lacking.source.texts = TEXTS
    other = lacking.repair(limits=RepairLimits(files_per_turn=2))
    with armed(once(FaultPoint.REPLACEMENTS_WRITTEN, other.turn)):
        turn = lacking.repair().turn()
    assert (turn.replaced, turn.gone, turn.gained) == (2, 2, 4)
    lacking.check_whole()


def test_foreign_compaction_in_between_is_left_as_it_is(lacking: Lacking) -> None:
    lacking.source.texts = TEXTS
    before = lacking.digests()

    def compact() -> None:
        table = lacking.world.catalog.load_table(lacking.table().identifier)
        table.overwrite(table.scan().to_arrow())

    with armed(once(FaultPoint.REPLACEMENTS_WRITTEN, compact)):
        turn = lacking.repair().turn()
    assert (turn.tried, turn.replaced, turn.gone) == (4, 0, 4)
    assert lacking.digests() == before
    again = lacking.repair().turn()
    assert (again.found, again.tried) == (0, 0)
    assert again.adopted == 2, "what another program wrote is not ours to write again"


def test_old_files_stay_for_whoever_reads_them(lacking: Lacking) -> None:
    table, reader, before = lacking.table(), LogReader(file_index=FileIndex()), lacking.consumed()
    wanted = table.ledger[0].range
    begun = reader.read(table, 0, offsets=wanted, start=0)
    first = bytes(next(begun))
    lacking.source.texts = TEXTS
    lacking.repair().turn()
    assert first + b"".join(begun) == before[0]
    assert b"".join(reader.read(lacking.table(), 0, offsets=wanted, start=0)) == before[0]
    reader.close()
