"""Which files are worth another try: by what their footers say they lacked and what is known now."""

from __future__ import annotations

import pytest

from engine.offset_range import OffsetRange
from engine.table.manifests import TableFile
from engine.table.repair.plan import Candidate, Hope, Knowledge, Lack, hope_for, plan_repair, wanted_schemas

KNOWN = Knowledge(codec_version=2, schema_ids=frozenset({1, 2}), key_codec_version=1, key_schema_ids=frozenset({50}))


def lack(
    unresolved: dict[int, int] | None = None,
    *,
    version: int = 2,
    key_version: int | None = 1,
    keys: dict[int, int] | None = None,
) -> Lack:
    return Lack(codec_version=version, unresolved=unresolved, key_codec_version=key_version, unresolved_keys=keys or {})


def candidate(start: int, found: Lack, *, partition: int = 0, size_bytes: int = 100) -> Candidate:
    span = OffsetRange(start=start, end=start + 10)
    file = TableFile(
        partition=partition,
        range=span,
        path=f"{partition}-{start}",
        size_bytes=size_bytes,
        record_count=1,
        leader_epoch=0,
    )
    return Candidate(file=file, lack=found)


@pytest.mark.parametrize(
    ("found", "hope"),
    [
        (lack({}), None),
        (lack({9: 5}), None),
        (lack({9: 5, 2: 1}), Hope.NEW_SCHEMA),
        (lack({}, keys={50: 1}), Hope.NEW_SCHEMA),
        (lack({}, keys={51: 1}), None),
        (lack({50: 1}, keys={1: 1}), None),
        (lack({}, version=1), Hope.NEW_CODEC),
        (lack({}, version=3), None),
        (lack({}, key_version=None), Hope.NEW_CODEC),
        (lack({2: 1}, version=1), Hope.NEW_SCHEMA),
        (lack(None), Hope.UNSAID),
        (lack(None, version=1), Hope.NEW_CODEC),
    ],
)
def test_file_is_worth_a_try_where_more_is_known_than_it_was_written_with(found: Lack, hope: Hope | None) -> None:
    assert hope_for(found, KNOWN) is hope


def test_table_without_typed_keys_asks_nothing_of_them() -> None:
    assert hope_for(lack({}, key_version=None), Knowledge(codec_version=2)) is None


def test_schemas_are_wanted_that_files_lack_and_the_table_has_not() -> None:
    candidates = [
        candidate(0, lack({9: 5, 2: 1}, keys={50: 3, 60: 1})),
        candidate(10, lack({9: 1, 8: 7})),
        candidate(20, lack()),
    ]
    wanted = wanted_schemas(candidates, KNOWN)
    assert (wanted.value, wanted.key) == ({9: 6, 8: 7}, {60: 1})
    assert wanted.most(1) == ([8], [60])
    assert wanted.most() == ([8, 9], [60])
    assert not wanted_schemas([candidate(0, lack({2: 1}))], KNOWN)


def test_plan_keeps_to_partition_and_offset_order_and_to_its_bounds() -> None:
    worth = lack({2: 1})
    candidates = [
        candidate(30, worth, partition=1),
        candidate(20, worth),
        candidate(10, lack({9: 1})),
        candidate(0, worth),
    ]
    whole = plan_repair(candidates, KNOWN, max_files=10, max_bytes=1000)
    assert [(one.file.path, hope) for one, hope in whole.chosen] == [
        ("0-0", Hope.NEW_SCHEMA),
        ("0-20", Hope.NEW_SCHEMA),
        ("1-30", Hope.NEW_SCHEMA),
    ]
    assert whole.left == 0
    for bounds in ({"max_files": 2, "max_bytes": 1000}, {"max_files": 10, "max_bytes": 250}):
        plan = plan_repair(candidates, KNOWN, **bounds)
        assert ([one.file.path for one, _ in plan.chosen], plan.left) == (["0-0", "0-20"], 1)


def test_file_beyond_the_bound_gets_its_turn_alone() -> None:
    plan = plan_repair([candidate(0, lack({2: 1})), candidate(10, lack({2: 1}))], KNOWN, max_files=10, max_bytes=1)
    assert ([one.file.path for one, _ in plan.chosen], plan.left) == (["0-0"], 1)
