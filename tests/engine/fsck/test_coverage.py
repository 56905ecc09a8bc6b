"""Coverage of a partition as a pure question: ranges and digests in, findings out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.fsck.coverage import FileCoverage, PartitionCoverage, check_coverage, combined_digest
from engine.fsck.report import Damage
from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST, RangeDigest
from engine.table.ledger import GoneRecords, LedgerEntry


def offsets(start: int, end: int) -> OffsetRange:
    return OffsetRange(start=start, end=end)


def file(start: int, end: int, *, records: int | None = None, path: str | None = None) -> FileCoverage:
    count = end - start if records is None else records
    digest = RangeDigest(crc32c=start * 7919 + end, length_bytes=count * 10, record_count=count)
    return FileCoverage(path=path or f"{start}-{end}", range=offsets(start, end), record_count=count, digest=digest)


def unreadable(of: FileCoverage) -> FileCoverage:
    return FileCoverage(path=of.path, range=of.range, record_count=of.record_count, digest=None)


def coverage(
    stored: list[FileCoverage],
    found: list[FileCoverage],
    *,
    skipped: tuple[OffsetRange, ...] = (),
    empty: tuple[OffsetRange, ...] = (),
    end: int = 30,
) -> PartitionCoverage:
    """``stored`` is what the ledger was written from, ``found`` what the table names now."""
    digest = EMPTY_DIGEST
    for item in stored:
        assert item.digest is not None
        digest = digest.then(item.digest)
    ledger = LedgerEntry(start=0, end=end, epoch=1, digest=digest, log_start=0)
    return PartitionCoverage(
        topic="orders", partition=2, ledger=ledger, skipped=skipped, empty=empty, files=tuple(found)
    )


THREE = [file(0, 10), file(10, 20), file(20, 30)]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(coverage(THREE, THREE), [], id="whole"),
        pytest.param(coverage(THREE, THREE[::-1]), [], id="listed_in_any_order"),
        pytest.param(coverage(THREE, [THREE[0], THREE[2]]), [(Damage.LOST_RANGE, 10, 20)], id="lost_middle"),
        pytest.param(coverage(THREE, THREE[1:]), [(Damage.LOST_RANGE, 0, 10)], id="lost_head"),
        pytest.param(coverage(THREE, THREE[:2]), [(Damage.LOST_RANGE, 20, 30)], id="lost_tail"),
        pytest.param(coverage(THREE, []), [(Damage.LOST_RANGE, 0, 30)], id="lost_everything"),
        pytest.param(
            coverage(THREE, [*THREE, file(10, 20, path="again")]),
            [(Damage.DUPLICATED_RANGE, 10, 20)],
            id="same_range_twice",
        ),
        pytest.param(
            coverage(THREE, [*THREE, file(5, 12, path="astride")]),
            [(Damage.DUPLICATED_RANGE, 5, 10), (Damage.DUPLICATED_RANGE, 10, 12)],
            id="overlap_with_two",
        ),
        pytest.param(
            coverage(THREE, [*THREE, file(30, 40)]), [(Damage.LEDGER_MISMATCH, 30, 40)], id="file_beyond_the_ledger"
        ),
        pytest.param(
            coverage(THREE, [THREE[0], THREE[1], file(20, 30, records=9)]),
            [(Damage.LEDGER_MISMATCH, 0, 30)],
            id="other_digest",
        ),
        pytest.param(
            coverage([THREE[0], THREE[2]], [THREE[0], THREE[2]], empty=(offsets(10, 20),)),
            [],
            id="range_without_records",
        ),
        pytest.param(
            coverage([THREE[0], THREE[2]], [THREE[0], THREE[2]]),
            [(Damage.LEDGER_MISMATCH, 10, 20)],
            id="unrecorded_range_without_records",
        ),
        pytest.param(coverage(THREE, [*THREE[:2], unreadable(THREE[2])]), [], id="unreadable_file_is_no_lost_range"),
        pytest.param(
            coverage([THREE[0], THREE[2]], [THREE[0], THREE[2]], skipped=(offsets(10, 20),)), [], id="skipped_offsets"
        ),
        pytest.param(
            coverage(THREE, THREE, skipped=(offsets(18, 22),)),
            [(Damage.LEDGER_MISMATCH, 18, 20), (Damage.LEDGER_MISMATCH, 20, 22)],
            id="skipped_offsets_that_a_file_holds",
        ),
        pytest.param(coverage([], [], end=0), [], id="nothing_stored_yet"),
    ],
)
def test_coverage_and_what_is_wrong_with_it(case: PartitionCoverage, expected: list[tuple[Damage, int, int]]) -> None:
    findings = check_coverage(case)
    named = [(finding.damage, finding.range.start, finding.range.end) for finding in findings if finding.range]
    assert named == expected
    assert all(finding.topic == "orders" and finding.partition == 2 and finding.next_step for finding in findings)


def test_files_without_a_ledger_are_named() -> None:
    case = PartitionCoverage(topic="orders", partition=2, ledger=None, skipped=(), empty=(), files=(THREE[0],))
    (finding,) = check_coverage(case)
    assert finding.damage is Damage.LEDGER_MISMATCH
    assert finding.file == THREE[0].path


def test_combined_digest_follows_offset_order_and_needs_every_file() -> None:
    assert combined_digest(THREE) == combined_digest(THREE[::-1])
    assert combined_digest([THREE[0], unreadable(THREE[1])]) is None


def past_horizons(found: list[FileCoverage], *, table_start: int = 0, gone: int = 0) -> list[tuple[Damage, int, int]]:
    """Findings of three files of which those below ``gone`` are in no list any more."""
    case = coverage(THREE, found)
    assert case.ledger is not None
    below = combined_digest([one for one in THREE if one.range.end <= gone])
    assert below is not None
    line = replace(case.ledger, table_start=table_start, gone=GoneRecords(end=gone, digest=below) if gone else None)
    return [
        (finding.damage, finding.range.start, finding.range.end)
        for finding in check_coverage(replace(case, ledger=line))
        if finding.range is not None
    ]


STREAMS = [replace(THREE[0], is_streams=True), replace(THREE[1], is_streams=True), THREE[2]]


def test_what_is_gone_and_what_only_the_stream_has_are_as_the_ledger_says() -> None:
    assert past_horizons(STREAMS, table_start=20) == []
    assert past_horizons(STREAMS[1:], table_start=20, gone=10) == []
    assert past_horizons(THREE[2:], table_start=20, gone=20) == []


def test_what_should_be_gone_or_elsewhere_is_found() -> None:
    assert past_horizons(STREAMS[2:], table_start=20, gone=10) == [(Damage.LOST_RANGE, 10, 20)]
    assert past_horizons(STREAMS, table_start=20, gone=10) == [(Damage.LEDGER_MISMATCH, 0, 10)]
    assert past_horizons(THREE, table_start=10) == [(Damage.LEDGER_MISMATCH, 0, 10)]
    assert past_horizons(STREAMS, table_start=10) == [(Damage.LEDGER_MISMATCH, 10, 20)]


def test_digest_of_what_is_gone_counts() -> None:
    case = coverage(THREE, THREE[1:])
    assert case.ledger is not None
    wrong = replace(case.ledger, gone=GoneRecords(end=10, digest=THREE[1].digest or EMPTY_DIGEST))
    (finding,) = check_coverage(replace(case, ledger=wrong))
    assert "with what is gone below 10" in finding.message
