"""Which files are worth another try: by what their footers say they lacked and what is known now."""

from __future__ import annotations

import pytest

from engine.offset_range import OffsetRange
from engine.table.manifests import TableFile
from engine.table.merge.plan import (
    Candidate,
    Knowledge,
    Missing,
    RetryReason,
    plan_repair,
    retry_reason,
    wanted_schemas,
)

KNOWN = Knowledge(codec_version=2, schema_ids=frozenset({1, 2}), key_codec_version=1, key_schema_ids=frozenset({50}))


def missing(
    unresolved: dict[int, int] | None = None,
    *,
    version: int = 2,
    key_version: int | None = 1,
    keys: dict[int, int] | None = None,
) -> Missing:
    return Missing(
        codec_version=version, unresolved=unresolved, key_codec_version=key_version, unresolved_keys=keys or {}
    )


def candidate(start: int, found: Missing, *, partition: int = 0, size_bytes: int = 100) -> Candidate:
    span = OffsetRange(start=start, end=start + 10)
    file = TableFile(
        partition=partition,
        range=span,
        path=f"{partition}-{start}",
        size_bytes=size_bytes,
        record_count=1,
        leader_epoch=0,
    )
    return Candidate(file=file, missing=found)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (missing({}), None),
        (missing({9: 5}), None),
        (missing({9: 5, 2: 1}), RetryReason.NEW_SCHEMA),
        (missing({}, keys={50: 1}), RetryReason.NEW_SCHEMA),
        (missing({}, keys={51: 1}), None),
        (missing({50: 1}, keys={1: 1}), None),
        (missing({}, version=1), RetryReason.NEW_CODEC),
        (missing({}, version=3), None),
        (missing({}, key_version=None), RetryReason.NEW_CODEC),
        (missing({2: 1}, version=1), RetryReason.NEW_SCHEMA),
        (missing(None), RetryReason.UNSAID),
        (missing(None, version=1), RetryReason.NEW_CODEC),
    ],
)
def test_file_is_worth_a_try_where_more_is_known_than_it_was_written_with(
    found: Missing, reason: RetryReason | None
) -> None:
    assert retry_reason(found, KNOWN) is reason


def test_table_without_typed_keys_asks_nothing_of_them() -> None:
    assert retry_reason(missing({}, key_version=None), Knowledge(codec_version=2)) is None


def test_schemas_are_wanted_that_files_lack_and_the_table_has_not() -> None:
    candidates = [
        candidate(0, missing({9: 5, 2: 1}, keys={50: 3, 60: 1})),
        candidate(10, missing({9: 1, 8: 7})),
        candidate(20, missing()),
    ]
    wanted = wanted_schemas(candidates, KNOWN)
    assert (wanted.value, wanted.key) == ({9: 6, 8: 7}, {60: 1})
    assert wanted.most(1) == ([8], [60])
    assert wanted.most() == ([8, 9], [60])
    assert not wanted_schemas([candidate(0, missing({2: 1}))], KNOWN)


def test_plan_keeps_to_partition_and_offset_order_and_to_its_bounds() -> None:
    worth = missing({2: 1})
    candidates = [
        candidate(30, worth, partition=1),
        candidate(20, worth),
        candidate(10, missing({9: 1})),
        candidate(0, worth),
    ]
    whole = plan_repair(candidates, KNOWN, max_files=10, max_bytes=1000)
    assert [(one.file.path, reason) for one, reason in whole.chosen] == [
        ("0-0", RetryReason.NEW_SCHEMA),
        ("0-20", RetryReason.NEW_SCHEMA),
        ("1-30", RetryReason.NEW_SCHEMA),
    ]
    assert whole.left == 0
    for bounds in ({"max_files": 2, "max_bytes": 1000}, {"max_files": 10, "max_bytes": 250}):
        plan = plan_repair(candidates, KNOWN, **bounds)
        assert ([one.file.path for one, _ in plan.chosen], plan.left) == (["0-0", "0-20"], 1)


def test_file_beyond_the_bound_gets_its_turn_alone() -> None:
    plan = plan_repair(
        [candidate(0, missing({2: 1})), candidate(10, missing({2: 1}))], KNOWN, max_files=10, max_bytes=1
    )
    assert ([one.file.path for one, _ in plan.chosen], plan.left) == (["0-0"], 1)
