"""CSV lines against Python's csv module and its numbers: what they write is exact, what they read is what is read."""

from __future__ import annotations

import csv
import datetime
import io
import math
import re
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats.codec import Verdict
from tests.engine.formats.conformance import rebuilt
from tests.engine.formats.csv.topics import codec_of, decode

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12) | st.text('",\r\n a', min_size=1)
moments = st.datetimes().map(lambda time: time.replace(fold=0))
rows = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    texts,
    st.decimals(Decimal("-99999999.99"), Decimal("99999999.99"), places=2),
    moments,
    moments.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
    st.dates(),
    st.floats(),
    st.integers(-(2**31), 2**31 - 1),
    st.booleans(),
)


def spelled(value: Any, column: int) -> str | None:
    """A value as a usual program writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        micros = value.microsecond
        as_needed = "seconds" if micros == 0 else "milliseconds" if micros % 1000 == 0 else "microseconds"
        zone = "Z" if column == 3 else ""
        return value.isoformat(timespec="milliseconds" if column == 4 else as_needed) + zone
    if isinstance(value, Decimal):
        return f"{abs(value) if value == 0 else value:.2f}"
    return None if value is None else str(value)


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.tuples(rows, st.integers(0, 2**9 - 1)), min_size=1, max_size=20),
    quote=st.sampled_from(["minimal", "all"]),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
)
def test_what_pythons_csv_module_writes_is_exact(
    values: list[tuple[tuple[Any, ...], int]], quote: str, delimiter: str
) -> None:
    lines, expected = [], []
    for row, nulls in values:
        kept = [None if quote == "minimal" and nulls >> at & 1 else value for at, value in enumerate(row)]
        out = io.StringIO()
        style = csv.QUOTE_MINIMAL if quote == "minimal" else csv.QUOTE_ALL
        csv.writer(out, delimiter=delimiter, quoting=style).writerow(map(spelled, kept, range(9)))
        lines.append(out.getvalue().encode())
        expected.append(kept)
    codec = codec_of(quote=quote, delimiter=delimiter, line_end="crlf")
    decoded = decode(codec, *lines)
    assert decoded.verdict.tolist() == [Verdict.EXACT] * len(lines)
    for found, wanted in zip(decoded.columns.to_pylist(), expected, strict=True):
        got = list(found.values())
        got[3] = got[3] and got[3].replace(tzinfo=None)
        assert list(map(repr, got)) == list(map(repr, wanted))
    assert rebuilt(codec, decoded) == lines


@settings(max_examples=120, deadline=None)
@given(lines=st.lists(st.text('ab",;\r\n\0 é', max_size=12).map(str.encode), min_size=1, max_size=30))
def test_fields_are_those_that_pythons_csv_module_reads(lines: list[bytes]) -> None:
    width = 4
    codec = codec_of([f"c{index}:string" for index in range(width)])
    decoded = decode(codec, *lines)
    decoded.columns.validate(full=True)
    for row, line in enumerate(lines):
        text = line.decode()
        try:
            read = list(csv.reader([text], strict=True))
        except csv.Error:
            assert decoded.verdict[row] != Verdict.EXACT, line
            continue
        if decoded.verdict[row] == Verdict.UNDECODABLE:
            # What the reader takes a lone line end in the middle for is its own.
            assert re.search(r'[\r\n]|"', text), line
            continue
        fields = read[0] if read else [""]
        shown = [value or "" for value in decoded.columns[row].as_py().values()]
        assert shown == (fields + [""] * width)[:width], line
    exact = (decoded.verdict == Verdict.EXACT) & np.array([line is not None for line in lines])
    again = codec.encode(decoded.columns, decoded.schema_id, exact).to_list()
    assert again == [line if good else None for line, good in zip(lines, exact, strict=True)]


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(st.text('a1",;\r\n\ufeff', max_size=10).map(str.encode) | st.binary(max_size=6), max_size=12),
    quote=st.sampled_from(["minimal", "strings", "all", "none"]),
    line_end=st.sampled_from(["none", "lf", "crlf"]),
)
def test_line_is_read_in_a_block_as_it_is_alone(lines: list[bytes], quote: str, line_end: str) -> None:
    codec = codec_of(["a:string", "b:int", "c:string"], quote=quote, line_end=line_end)
    block = decode(codec, *lines)
    for row, line in enumerate(lines):
        alone = decode(codec, line)
        assert block.columns[row] == alone.columns[0]
        assert (block.verdict[row], block.reason_of(row)) == (alone.verdict[0], alone.reason_of(0))
    exact = block.verdict == Verdict.EXACT
    again = codec.encode(block.columns, block.schema_id, exact).to_list()
    assert again == [line if good else None for line, good in zip(lines, exact, strict=True)]


NUMBERS = st.text("0123456789+-.eE ", max_size=24)
KINDS = ("int", "long", "double", "decimal(12,3)", "date", "timestamp", "timestamptz", "boolean")


def value_of(kind: str, text: str) -> Any:
    """What a text is for plain Python, None where it is nothing."""
    text = text.strip(" ")
    try:
        if kind in {"int", "long"}:
            number = int(text) if re.fullmatch(r"[+-]?\d+", text) else None
            bits = 31 if kind == "int" else 63
            return number if number is not None and -(2**bits) <= number < 2**bits else None
        if kind == "double":
            found = float(text) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) else None
            return None if found is None or math.isinf(found) else found
        if kind.startswith("decimal"):
            if not re.fullmatch(r"[+-]?\d+(\.\d+)?", text):
                return None
            value = Decimal(text)
            fits = value == round(value, 3) and abs(value) < 10**9
            return Decimal(f"{value:.3f}") if fits else None
    except (ValueError, ArithmeticError):
        return None
    return None


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(NUMBERS, min_size=1, max_size=40), kind=st.sampled_from(KINDS[:4]))
def test_numbers_are_those_that_python_reads(texts: list[str], kind: str) -> None:
    codec = codec_of([f"c:{kind}"])
    decoded = decode(codec, *(text.encode() for text in texts))
    for row, text in enumerate(texts):
        found, wanted = decoded.columns.field(0)[row].as_py(), value_of(kind, text)
        if kind == "double" and len(re.sub(r"[eE].*|\D", "", text)) > 19 and found is None:
            continue
        assert repr(found) == repr(wanted) or (found == 0 == wanted), (kind, text)
    exact = decoded.verdict == Verdict.EXACT
    again = codec.encode(decoded.columns, decoded.schema_id, exact).to_list()
    assert [a for a, good in zip(again, exact, strict=True) if good] == [
        text.encode() for text, good in zip(texts, exact, strict=True) if good
    ]
