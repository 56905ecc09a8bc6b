"""Digests put together from runs that lie anywhere, and the list of adopted ranges as it is kept with a table."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.records.digest import digest_of
from engine.records.digest_runs import DigestRuns, runs_of
from engine.table.adopted_range import AdoptedRange, ForeignFile, adopted_from_json, adopted_to_json
from tests.engine.offset_table import records_of

OFFSETS = [*range(40), *range(50, 90), 95, 97, *range(100, 140)]


def headers_of(offset: int) -> list[tuple[bytes, bytes | None]]:
    return [(b"h" * (offset % 4), None if offset % 3 else b"v")] * (offset % 3)


@pytest.mark.parametrize("parts", [1, 2, 7, len(OFFSETS)])
def test_runs_of_parts_in_any_order_give_the_digest_of_the_whole(parts: int) -> None:
    whole = records_of(OFFSETS, headers=headers_of, value=lambda offset: b"x" * (offset % 11) if offset % 5 else None)
    dealt = [OFFSETS[part::parts] for part in range(parts)]
    np.random.default_rng(1).shuffle(dealt)
    held = [np.isin(whole.offset, offsets) for offsets in dealt]
    runs = []
    for keep in held:
        rows = np.flatnonzero(keep)
        runs += [runs_of(whole.slice(int(row), int(row) + 1), np.empty(0, np.int64)) for row in rows]
    joined = DigestRuns.joined(runs)
    assert joined.digest == digest_of(whole)
    assert joined.first_repeated is None
    assert DigestRuns.joined([joined, runs[0]]).first_repeated == int(runs[0].first[0])


def test_run_ends_at_a_gap_and_at_a_cut() -> None:
    found = runs_of(records_of(OFFSETS), np.array([20, 60, 200], np.int64))
    assert found.first.tolist() == [0, 20, 50, 60, 95, 97, 100]
    assert found.last.tolist() == [19, 39, 59, 89, 95, 97, 139]
    assert found.digest == digest_of(records_of(OFFSETS))
    assert found.inside(OffsetRange(start=50, end=90)).digest == digest_of(records_of(range(50, 90)))


@pytest.mark.parametrize("count", [1, 400])
def test_adopted_ranges_are_kept_as_text_whatever_their_number(count: int) -> None:
    digest = digest_of(records_of(range(10)))
    ranges = tuple(
        AdoptedRange(
            partition=3,
            range=OffsetRange(start=10 * at, end=10 * at + 10),
            digest=digest,
            files=(
                ForeignFile(path=f"file:///w/orders/data/{at}.parquet", partition=3, size_bytes=at, record_count=10),
                ForeignFile(path=f"file:/elsewhere/{at}.parquet", partition=3, size_bytes=7, record_count=1),
            ),
        )
        for at in range(count)
    )
    text = adopted_to_json(ranges, "file:///w/orders/")
    assert adopted_from_json(text, 3, "file:///w/orders") == ranges
    assert len(text) < 60 * count + 500
    with pytest.raises(Invalid):
        adopted_from_json(text[:-9], 3, "file:///w/orders")
