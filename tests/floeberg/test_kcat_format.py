"""kcat's format strings, and offsets as its ``-o`` takes them."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import Invalid
from engine.records.records import ByteSpans, Headers, Records
from floeberg.cat.kcat_format import formatted, parse_format
from floeberg.cat.offset_choice import OffsetChoice

RECORDS = Records(
    offset=np.array([7, 9]),
    timestamp_ms=np.array([1_700_000_000_123, -1]),
    timestamp_type=np.zeros(2, np.int8),
    leader_epoch=np.zeros(2, np.int32),
    key=ByteSpans.from_list([b"k\xff", None]),
    value=ByteSpans.from_list([b"", None]),
    headers=Headers.from_lists([[(b"a", b"1"), (b"a", None)], []]),
)


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("%t/%p@%o\\n", b"clicks/3@7\n", b"clicks/3@9\n"),
        ("%k=%s;", b"k\xff=;", b"=;"),
        ("%K %S %T", b"2 0 1700000000123", b"-1 -1 -1"),
        ("%R", b"\0\0\0\0", b"\xff\xff\xff\xff"),
        ("[%h]", b"[a=1,a=NULL]", b"[]"),
        ("100%% \\x41\\t\\\\ \\q", b"100% A\t\\ \\q", b"100% A\t\\ \\q"),
        ("grüße", "grüße".encode(), "grüße".encode()),
        ("", b"", b""),
    ],
)
def test_format_string_gives_the_bytes_that_kcat_gives(text: str, first: bytes, second: bytes) -> None:
    pieces = parse_format(text)
    assert [formatted(pieces, "clicks", 3, RECORDS, row) for row in range(2)] == [first, second]


@pytest.mark.parametrize("text", ["%", "%z", "abc %"])
def test_token_that_kcat_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="%s"):
        parse_format(text)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], OffsetChoice()),
        (["beginning"], OffsetChoice(start=0)),
        (["end"], OffsetChoice(before_end=0)),
        (["12"], OffsetChoice(start=12)),
        (["-12"], OffsetChoice(before_end=12)),
        (["s@1000", "e@2000"], OffsetChoice(start_ms=1000, end_ms=2000)),
        (["s@2024-01-02T03:04:05.678Z"], OffsetChoice(start_ms=1_704_164_645_678)),
        (["s@2024-01-02T04:04:05+01:00"], OffsetChoice(start_ms=1_704_164_645_000)),
        (["s@2024-01-02"], OffsetChoice(start_ms=1_704_153_600_000)),
    ],
)
def test_offsets_are_read_as_kcat_reads_them(texts: list[str], expected: OffsetChoice) -> None:
    assert OffsetChoice.of(texts) == expected


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["stored"], "beginning, end"),
        (["s@yesterday"], "2024-01-31"),
        (["1", "2"], "contradicts"),
        (["1", "-2"], "two starts"),
        (["beginning", "s@5"], "two starts"),
    ],
)
def test_offsets_that_say_nothing_or_two_things_are_refused(texts: list[str], told: str) -> None:
    with pytest.raises(Invalid, match=told):
        OffsetChoice.of(texts)


def test_start_and_end_are_said_once() -> None:
    assert OffsetChoice.of(["e@9"], start=3) == OffsetChoice(start=3, end_ms=9)
    with pytest.raises(Invalid, match="two starts"):
        OffsetChoice.of(["5"], start=3)
    with pytest.raises(Invalid, match="two ends"):
        OffsetChoice.of(["e@9"], end=3)
