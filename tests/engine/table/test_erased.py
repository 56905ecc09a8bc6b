"""What a table remembers of erasures: bounded, and never less than what went."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.records.digest import RangeDigest
from engine.table.erased import MOST_ERASURES, MOST_RANGES, ErasedRecords, Erasure, ranges_of


def erasure(number: int, offsets: list[int]) -> Erasure:
    return Erasure(
        erasure_id=f"e{number}",
        at_ms=number,
        extent=OffsetRange(start=min(offsets), end=max(offsets) + 1),
        record_count=len(offsets),
        stored=OffsetRange(start=0, end=10_000 + number),
        before=RangeDigest(crc32c=number, length_bytes=1, record_count=1),
        after=RangeDigest(crc32c=number + 1, length_bytes=1, record_count=1),
    )


@given(st.lists(st.sets(st.integers(0, 9_999), min_size=1, max_size=300), min_size=1, max_size=40))
def test_every_erased_offset_is_remembered_within_bounds(erasures: list[set[int]]) -> None:
    known = ErasedRecords()
    for number, offsets in enumerate(erasures):
        rising = sorted(offsets)
        known = known.with_erasure(erasure(number, rising), ranges_of(np.array(rising, np.int64)))
        known = ErasedRecords.from_json(known.to_json())
    every = np.arange(10_000)
    remembered = set(every[known.at(every)].tolist())
    gone = set().union(*erasures)
    assert remembered >= gone
    assert len(known.offsets) <= MOST_RANGES
    if len(known.offsets) < MOST_RANGES:
        assert remembered == gone
    assert len(known.erasures) == min(len(erasures), MOST_ERASURES)
    assert sum(one.count for one in known.erasures) == len(erasures)
    assert known.record_count == sum(map(len, erasures))
    assert (known.erasures[0].before.crc32c, known.erasures[-1].after.crc32c) == (0, len(erasures))


def test_two_commits_of_one_erasure_are_one() -> None:
    known = ErasedRecords().with_erasure(erasure(1, [5]), [OffsetRange(start=5, end=6)])
    known = known.with_erasure(erasure(1, [7, 8]), [OffsetRange(start=7, end=9)])
    (one,) = known.erasures
    assert (one.count, one.record_count, one.extent) == (1, 3, OffsetRange(start=5, end=9))


def test_nearest_ranges_become_one_where_there_are_too_many() -> None:
    far = [OffsetRange(start=at * 100, end=at * 100 + 1) for at in range(MOST_RANGES - 1)]
    near = [OffsetRange(start=50, end=51), OffsetRange(start=53, end=54)]
    known = ErasedRecords().with_erasure(erasure(1, [0]), [*far, *near])
    assert len(known.offsets) == MOST_RANGES
    assert OffsetRange(start=50, end=54) in known.offsets
    assert not known.at(np.array([1, 49, 54, 99])).any()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"offsets": [[2, 1]], "erasures": []}', '{"offsets": 1}'])
def test_text_of_others_is_invalid(text: str) -> None:
    with pytest.raises(Invalid):
        ErasedRecords.from_json(text)
