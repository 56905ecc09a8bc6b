from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.offset_range import OffsetRange

_SMALL = st.integers(0, 30)


@st.composite
def ranges(draw: st.DrawFn) -> OffsetRange:
    start, end = sorted((draw(_SMALL), draw(_SMALL)))
    return OffsetRange(start=start, end=end)


def offsets(range_: OffsetRange) -> set[int]:
    return {offset for offset in range(40) if offset in range_}


@given(ranges(), ranges())
def test_ranges_relate_as_the_sets_of_their_offsets(one: OffsetRange, other: OffsetRange) -> None:
    assert one.offset_count == len(offsets(one))
    assert one.is_empty == (not offsets(one))
    assert one.overlaps(other) == bool(offsets(one) & offsets(other))
    shared = one.intersection(other)
    assert (offsets(shared) if shared else set()) == offsets(one) & offsets(other)
    if not other.is_empty:
        assert one.covers(other) == (offsets(other) <= offsets(one))
    joined = one.joined(other)
    if joined is not None:
        assert offsets(joined) == offsets(one) | offsets(other)
    else:
        assert one.end < other.start or other.end < one.start


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (4, 3)])
def test_range_that_ends_before_it_starts_is_refused(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="0 <= start <= end"):
        OffsetRange(start=start, end=end)


def test_range_is_written_half_open() -> None:
    assert str(OffsetRange(start=3, end=9)) == "[3, 9)"
