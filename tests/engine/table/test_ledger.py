from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST, RangeDigest
from engine.table.ledger import (
    GoneRecords,
    LedgerEntry,
    Outcome,
    decide,
    extend,
    parse_ledger,
    ranges_from_json,
    ranges_to_json,
)

DIGEST = RangeDigest(crc32c=7, length_bytes=70, record_count=3)
ENTRY = LedgerEntry(start=100, end=200, epoch=5, digest=DIGEST, log_start=150)


def offsets(start: int, end: int) -> OffsetRange:
    return OffsetRange(start=start, end=end)


@pytest.mark.parametrize(
    ("added", "epoch", "skipped", "decision"),
    [
        (offsets(200, 300), 5, None, Outcome.COMMITTED),
        (offsets(200, 300), 6, None, Outcome.COMMITTED),
        (offsets(200, 300), 4, None, Outcome.FENCED),
        (offsets(100, 200), 5, None, Outcome.ALREADY_THERE),
        (offsets(120, 130), 5, None, Outcome.ALREADY_THERE),
        (offsets(120, 130), 1, None, Outcome.ALREADY_THERE),
        (offsets(201, 300), 5, None, Outcome.GAP),
        (offsets(250, 300), 5, offsets(200, 250), Outcome.COMMITTED),
        (offsets(250, 300), 5, offsets(180, 250), Outcome.COMMITTED),
        (offsets(250, 300), 5, offsets(210, 250), Outcome.GAP),
        (offsets(250, 300), 5, offsets(200, 240), Outcome.GAP),
        (offsets(250, 300), 4, offsets(200, 250), Outcome.FENCED),
        (offsets(150, 300), 5, None, Outcome.OVERLAP),
        (offsets(50, 150), 5, None, Outcome.BEFORE_START),
        (offsets(50, 300), 5, None, Outcome.BEFORE_START),
        (offsets(10, 100), 5, None, Outcome.BEFORE_START),
    ],
)
def test_append_is_judged_by_where_it_begins_and_who_asks(
    added: OffsetRange, epoch: int, skipped: OffsetRange | None, decision: Outcome
) -> None:
    assert decide(ENTRY, added=added, leader_epoch=epoch, skipped=skipped) is decision


def test_first_range_of_a_partition_may_begin_anywhere() -> None:
    assert decide(None, added=offsets(500, 501), leader_epoch=-1) is Outcome.COMMITTED
    entry = extend(None, added=offsets(500, 501), leader_epoch=2, digest=DIGEST)
    assert entry == LedgerEntry(start=500, end=501, epoch=2, digest=DIGEST, log_start=500)


def test_range_without_offsets_is_refused() -> None:
    with pytest.raises(Invalid):
        decide(ENTRY, added=offsets(200, 200), leader_epoch=5)


def test_extended_entry_chains_the_digest_and_keeps_the_horizon() -> None:
    extended = extend(ENTRY, added=offsets(200, 260), leader_epoch=9, digest=DIGEST)
    assert extended == LedgerEntry(start=100, end=260, epoch=9, digest=DIGEST.then(DIGEST), log_start=150)
    assert extend(ENTRY, added=offsets(200, 260), leader_epoch=5, digest=EMPTY_DIGEST).digest == DIGEST


def test_entry_survives_its_json() -> None:
    assert LedgerEntry.from_json(ENTRY.to_json()) == ENTRY
    properties = {"floeberg.ledger.12": ENTRY.to_json(), "other": "x"}
    assert parse_ledger(properties) == {12: ENTRY}


def test_entry_past_its_horizons_survives_its_json_and_an_append() -> None:
    entry = replace(ENTRY, table_start=170, gone=GoneRecords(end=160, digest=DIGEST))
    assert LedgerEntry.from_json(entry.to_json()) == entry
    assert (entry.held, entry.gone_digest) == (offsets(160, 200), DIGEST)
    extended = extend(entry, added=offsets(200, 260), leader_epoch=5, digest=DIGEST)
    assert (extended.log_start, extended.table_start, extended.gone) == (150, 170, entry.gone)


def test_log_start_is_never_set_back_nor_beyond_the_end() -> None:
    assert [ENTRY.with_log_start(at).log_start for at in (0, 150, 160, 1000)] == [150, 150, 160, 200]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"start": 5, "end": 4, "epoch": 1, "digest": "00000007:70:3", "log_start": 5}']
)
def test_entry_that_nobody_wrote_is_invalid(text: str) -> None:
    with pytest.raises(Invalid):
        LedgerEntry.from_json(text)


def test_ledger_property_without_a_partition_is_invalid() -> None:
    with pytest.raises(Invalid):
        parse_ledger({"floeberg.ledger.x": ENTRY.to_json()})


ranges = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 9)).map(lambda pair: offsets(pair[0], sum(pair))), max_size=8
)


@given(ranges)
def test_list_of_ranges_keeps_its_offsets_and_merges_what_touches(given_ranges: list[OffsetRange]) -> None:
    found = ranges_from_json(ranges_to_json(given_ranges))
    assert {o for r in found for o in range(r.start, r.end)} == {o for r in given_ranges for o in range(r.start, r.end)}
    assert all(left.end < right.start for left, right in pairwise(found))


def test_list_of_ranges_that_nobody_wrote_is_invalid() -> None:
    with pytest.raises(Invalid):
        ranges_from_json("[[1]]")
    assert ranges_from_json(None) == ()
