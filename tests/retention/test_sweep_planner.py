"""Values in, values out: what becomes of each file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from engine.table.own_files import OwnFiles
from engine.table.reachability import NamedFiles, hashes_of
from engine.warehouse.warehouse import StoredFile
from retention.sightings import KEY_BYTES, Look, Sightings, key_of
from retention.sweep_planner import Amount, Due, Needed, Reason, SweepPlan, Verdict, plan_sweep
from retention.unreferenced import TableMoment, Unreferenced, check, reasons_to_keep

AT = "s3://bucket/kafka/orders-ID"
OWN = OwnFiles.of(AT, "ID")
DATA = f"{AT}/data/ID/p=0/00000000000000000000-00000000000000000010-e1-a1.parquet"
MANIFEST = f"{AT}/metadata/floeberg-0a-m0.avro"
STATE = f"{AT}/metadata/00007-0a.metadata.json"
SCHEMA = f"{AT}-floeberg/schemas/8-0badcafe.txt"
AUXILIARY = f"{AT}-floeberg/log_door/p=0/00000000000000000000-00000000000000000010.aux"
UNFINISHED = f"{DATA}.writing"
FOREIGN = f"{AT}/data/kafka_partition=0/part-0.parquet"
GRACE_MS, NOW_MS = 1_000, 10_000
NOTHING = NamedFiles(live=hashes_of([]), history=hashes_of([]))
NEEDED = Needed(log_starts={0: 10}, schema_ids=frozenset({8}))


def stored(path: str, *, size_bytes: int = 5, modified_ms: int = 100) -> StoredFile:
    return StoredFile(path=path, size_bytes=size_bytes, modified_ms=modified_ms)


def seen_at(ms: int, sequence_number: int = 3) -> Look:
    return Look(seen_ms=ms, sequence_number=sequence_number)


def sightings(seen: Mapping[str, Look]) -> Sightings:
    return Sightings((look, key_of(stored(path), AT)) for path, look in seen.items())


def planned(
    *files: StoredFile,
    named: NamedFiles = NOTHING,
    needed: Needed = NEEDED,
    seen: Mapping[str, Look] = MappingProxyType({}),
    told: list[Verdict] | None = None,
) -> SweepPlan:
    return plan_sweep(
        files,
        own=OWN,
        named=named,
        needed=needed,
        seen=sightings(seen),
        now_ms=NOW_MS,
        grace_ms=GRACE_MS,
        tell=[].append if told is None else told.append,
    )


def reason_of(path: str, **given: object) -> Reason:
    told: list[Verdict] = []
    planned(stored(path), told=told, **given)  # type: ignore[arg-type]  # as ``planned`` takes them
    return told[0].reason


@pytest.mark.parametrize("path", [DATA, MANIFEST, STATE, SCHEMA, AUXILIARY, UNFINISHED])
def test_own_file_that_nothing_names_is_seen_then_waits_then_is_due(path: str) -> None:
    first = planned(stored(path))
    assert (first.due, first.goes_next_ms) == ((), NOW_MS + GRACE_MS)
    assert list(first.sightings(seen_at(NOW_MS, 7)).parts()) == [(seen_at(NOW_MS, 7), key_of(stored(path), AT))]
    waiting = planned(stored(path), seen={path: seen_at(NOW_MS - GRACE_MS + 1)})
    assert (waiting.due, waiting.goes_next_ms, waiting.new) == ((), NOW_MS + 1, b"")
    due = planned(stored(path), seen={path: seen_at(NOW_MS - GRACE_MS)})
    assert [one.file.path for one in due.due] == [path]
    assert due.amounts[Reason.UNREFERENCED] == Amount(files=1, size_bytes=5)


@pytest.mark.parametrize("path", [DATA, MANIFEST, STATE, SCHEMA, AUXILIARY, UNFINISHED, FOREIGN])
def test_named_file_is_live_or_history_and_its_sighting_is_forgotten(path: str) -> None:
    seen = {path: seen_at(0)}
    for named, reason in (
        (NamedFiles(live=hashes_of([path]), history=hashes_of([path])), Reason.LIVE),
        (NamedFiles(live=hashes_of([]), history=hashes_of([path])), Reason.HISTORY),
    ):
        plan = planned(stored(path), named=named, seen=seen)
        assert plan.amounts[reason].files == 1
        assert list(plan.sightings(seen_at(NOW_MS, 7)).parts()) == []


def test_foreign_file_is_counted_and_nothing_else() -> None:
    plan = planned(stored(FOREIGN), seen={FOREIGN: seen_at(0)})
    assert plan.amounts[Reason.FOREIGN] == Amount(files=1, size_bytes=5)
    assert (plan.due, len(plan.seen), plan.new) == ((), 0, b"")


@pytest.mark.parametrize(
    "file", [stored(DATA, size_bytes=6), stored(DATA, modified_ms=101)], ids=["another size", "changed later"]
)
def test_file_that_was_written_again_is_seen_anew(file: StoredFile) -> None:
    plan = planned(file, seen={DATA: seen_at(0)})
    assert (plan.due, plan.new) == ((), key_of(file, AT))


def test_sighting_of_a_clock_that_has_gone_back_counts_for_nothing() -> None:
    plan = planned(stored(DATA), seen={DATA: seen_at(NOW_MS + 1)})
    assert (plan.due, plan.goes_next_ms) == ((), NOW_MS + GRACE_MS)


@pytest.mark.parametrize(
    ("path", "needed"),
    [
        (AUXILIARY, replace(NEEDED, log_starts={0: 9})),
        (AUXILIARY, replace(NEEDED, log_starts={})),
        (SCHEMA, replace(NEEDED, schema_ids=frozenset({9}))),
    ],
    ids=["a follower may ask for its last offset", "no ledger line", "its schema is not in the table"],
)
def test_file_that_is_needed_without_being_named_is_live(path: str, needed: Needed) -> None:
    assert reason_of(path, needed=needed, seen={path: seen_at(0)}) is Reason.LIVE
    assert reason_of(path, seen={path: seen_at(0)}) is Reason.UNREFERENCED


def due_of(path: str) -> Due:
    own = OWN.kind_of(path)
    assert own is not None
    return Due(file=stored(path), own=own, seen=seen_at(NOW_MS - GRACE_MS))


MOMENT = TableMoment(
    own=OWN,
    named=NOTHING,
    live=hashes_of([]),
    needed=NEEDED,
    swept=3,
    sequence_number=4,
    now_ms=NOW_MS,
    grace_ms=GRACE_MS,
    in_use=frozenset(),
    is_own_state=lambda _: True,
)


@pytest.mark.parametrize("path", [DATA, MANIFEST, STATE, SCHEMA, AUXILIARY, UNFINISHED])
def test_file_goes_where_no_reason_keeps_it(path: str) -> None:
    checked = check(due_of(path), MOMENT)
    assert isinstance(checked, Unreferenced)
    assert checked.file.path == path


@pytest.mark.parametrize(
    ("path", "at", "reason"),
    [
        (DATA, replace(MOMENT, own=OwnFiles.of(AT, "OTHER")), "none of Floeberg's"),
        (DATA, replace(MOMENT, named=NamedFiles(live=hashes_of([]), history=hashes_of([DATA]))), "the table names it"),
        (DATA, replace(MOMENT, live=hashes_of([DATA])), "the newest snapshot names it"),
        (AUXILIARY, replace(MOMENT, needed=replace(NEEDED, log_starts={0: 9})), "needs it without naming it"),
        (DATA, replace(MOMENT, now_ms=NOW_MS - 1), "grace is not over"),
        (DATA, replace(MOMENT, swept=2), "a commit may take it still"),
        (DATA, replace(MOMENT, latest_swept=3, unlisted_since=4), "a commit of the __latest table may name it still"),
        (MANIFEST, replace(MOMENT, sequence_number=3), "may still land"),
        (STATE, replace(MOMENT, sequence_number=3), "may still land"),
        (SCHEMA, replace(MOMENT, sequence_number=3), "may still land"),
        (STATE, replace(MOMENT, is_own_state=lambda _: False), "content does not say"),
        (DATA, replace(MOMENT, in_use=frozenset({DATA})), "a reader has it open"),
    ],
)
def test_each_reason_alone_keeps_a_file(path: str, at: TableMoment, reason: str) -> None:
    (found,) = reasons_to_keep(due_of(path), at)
    assert reason in found
    assert check(due_of(path), at) == found


def test_sightings_of_many_looks_are_found_by_key_and_kept_by_place() -> None:
    keys = {number: key_of(stored(f"{AT}/{number}"), AT) for number in range(1_000)}
    looks = [seen_at(at, at) for at in range(10)]
    seen = Sightings((look, b"".join(keys[number] for number in range(at, 1_000, 10))) for at, look in enumerate(looks))
    places = {number: seen.place_of(key) for number, key in keys.items()}
    assert all(place is not None and seen.look_at(place) == looks[number % 10] for number, place in places.items())
    assert seen.place_of(key_of(stored(f"{AT}/1000"), AT)) is None
    marked = np.zeros(len(seen), np.bool_)
    marked[[place for number, place in places.items() if number % 10 == 3]] = True
    kept = seen.only(marked)
    assert [(look, len(part) // KEY_BYTES) for look, part in kept.parts()] == [(looks[3], 100)]
    assert [look for look, _ in kept.later_by(5).parts()] == [seen_at(8, 3)]
    again = Sightings(kept.parts())
    assert list(again.parts()) == list(kept.parts())


def test_nobody_but_the_check_makes_an_unreferenced() -> None:
    with pytest.raises(TypeError, match="only the check"):
        Unreferenced(file=stored(DATA), token=object())
