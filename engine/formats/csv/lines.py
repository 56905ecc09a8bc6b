"""CSV lines (RFC 4180) cut into the texts of their fields, and joined again: a block of lines at a time, by Arrow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.formats.csv.dialect import CsvDialect, CsvLineEnd, CsvQuote
from engine.records.records import ByteSpans

_MOST_BYTES = 2**31 - 1
_INSIDE_QUOTES = '[^"]*(?:""[^"]*)*'


class CsvLines:
    """The lines of one dialect: ``binary`` arrays of one line a row, and for each column of one field a row."""

    def __init__(self, dialect: CsvDialect) -> None:
        self._dialect = dialect
        self._width = len(dialect.columns)
        self._delimiter = dialect.delimiter.encode()
        self._has_quotes = dialect.quote is not CsvQuote.NONE
        mark = f"\\x{self._delimiter.hex()}"
        field = plain = rf"[^\r\n{mark}]*"
        if self._has_quotes:
            field = f'(?:"{_INSIDE_QUOTES}"(?:[^"\\r\\n{mark}]{plain})?|[^"\\r\\n{mark}]{plain}|)'
        self._line = f"^{field}(?:{mark}{field})*$"
        self._open_line = f'^(?:{field}{mark})*"{_INSIDE_QUOTES}$'
        self._quoted_field = f'(^|{mark})"{_INSIDE_QUOTES}"'
        self._field = re.compile(f"(?:^|{mark})({field})".encode())
        self._special = b'\r\n"' if self._has_quotes else b"\r\n"

    def without_end(self, lines: pa.BinaryArray) -> tuple[pa.BinaryArray, NDArray[np.bool_]]:
        """(the lines without the line end that they have, which of them end as the dialect wants)."""
        lf, crlf = pc.ends_with(lines, b"\n"), pc.ends_with(lines, b"\r\n")
        if lf.true_count:
            cut = pc.if_else(crlf, pc.binary_slice(lines, 0, -2), pc.binary_slice(lines, 0, -1))
            lines = pc.if_else(lf, cut, lines)
        found = np.asarray(lf).astype(int) + np.asarray(crlf)
        return lines, found == list(CsvLineEnd).index(self._dialect.line_end)

    def special(self, lines: pa.BinaryArray) -> NDArray[np.bool_]:
        """Which lines may have quotes or line ends in them. The others are whole, and no field of theirs is quoted."""
        return _rows_with(lines, self._special)

    def broken(self, lines: pa.BinaryArray) -> dict[str, NDArray[np.bool_]]:
        """Which of some ``special`` lines can't be cut into fields, by what is wrong with them."""
        bad = ~np.asarray(pc.match_substring_regex(lines, self._line))
        is_open = np.zeros(len(lines), np.bool_)
        if self._has_quotes and bad.any():
            is_open[bad] = pc.match_substring_regex(lines.filter(bad), self._open_line)
        return {"a quoted field does not end": is_open, "it is more than one line": bad & ~is_open}

    def split(self, lines: pa.BinaryArray) -> tuple[list[pa.BinaryArray], NDArray[np.int64]]:
        """(each column's fields, int64[n] how many fields each line has) of lines that are not ``broken``.

        Of a line with too many the first ones are taken, one with too few is filled up with nulls.
        """
        try:
            # An empty line is read as one of nulls, however many columns there are.
            return self._read(lines), np.where(pc.equal(pc.binary_length(lines), 0), 1, self._width)
        except pa.ArrowInvalid:
            unquoted = pc.replace_substring_regex(lines, self._quoted_field, r"\1") if self._has_quotes else lines
        counts = np.asarray(pc.count_substring(unquoted, self._delimiter)).astype(np.int64) + 1
        wrong = counts != self._width
        fitted = map(self._fit, lines.filter(wrong).to_pylist(), counts[wrong].tolist())
        return self._read(pc.replace_with_mask(lines, wrong, pa.array(fitted, pa.binary()))), counts

    def join(self, texts: Sequence[pa.BinaryArray]) -> pa.BinaryArray:
        """The lines of the columns' fields, without line ends. Raises Corrupt where a line can't say a text."""
        most = sum(2 * text.nbytes + 3 * len(text) for text in texts)
        kind = pa.binary() if most <= _MOST_BYTES else pa.large_binary()
        fields = [self._quoted(index, text.cast(kind)) for index, text in enumerate(texts)]
        return pc.binary_join_element_wise(*fields, self._delimiter, null_handling="replace")

    def _read(self, lines: pa.BinaryArray) -> list[pa.BinaryArray]:
        names = [str(index) for index in range(self._width)]
        # A line of our own comes first: Arrow leaves out a byte order mark at the beginning.
        header = pa.array([self._dialect.delimiter.join(names).encode()])
        block = pa.concat_arrays([header, lines, pa.array([b""])])
        text = pc.binary_join(pa.ListArray.from_arrays([0, len(block)], block), b"\n").buffers()[2]
        table = pa.csv.read_csv(
            pa.BufferReader(text),
            pa.csv.ReadOptions(use_threads=False, block_size=text.size),
            pa.csv.ParseOptions(
                delimiter=self._dialect.delimiter,
                quote_char='"' if self._has_quotes else False,
                newlines_in_values=True,
                ignore_empty_lines=False,
            ),
            pa.csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(names, pa.binary()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        assert len(table) == len(lines), "each value is one line"
        return [table.column(name).combine_chunks() for name in names]

    def _fit(self, line: bytes, count: int) -> bytes:
        """A line of ``count`` fields with as many as there are columns."""
        if count < self._width:
            return line + self._delimiter * (self._width - count)
        return self._delimiter.join(found[1] for found in islice(self._field.finditer(line), self._width))

    def _quoted(self, index: int, texts: pa.BinaryArray) -> pa.BinaryArray:
        column = self._dialect.columns[index]
        is_quoted = self._dialect.is_quoted(column)
        if not pa.types.is_string(column.type):
            return _in_quotes(texts) if is_quoted else texts
        needs = _rows_with(texts, self._special + self._delimiter)
        needs |= np.asarray(pc.equal(pc.binary_length(texts), 0).fill_null(False))
        if not self._has_quotes and needs.any():
            raise Corrupt(f"row {int(np.argmax(needs))} has a text that no line without quotes can say")
        if not needs.any():
            return _in_quotes(texts) if is_quoted else texts
        escaped = pc.replace_substring(texts.filter(needs), b'"', b'""')
        if is_quoted:
            return _in_quotes(pc.replace_with_mask(texts, needs, escaped))
        return pc.replace_with_mask(texts, needs, _in_quotes(escaped))


def _rows_with(texts: pa.BinaryArray, letters: bytes) -> NDArray[np.bool_]:
    """bool[n]: which texts have any of some letters in them."""
    spans = ByteSpans.from_arrow(texts)
    found = np.zeros(len(spans.data), np.bool_)
    for letter in letters:
        found |= spans.data == letter
    places = np.flatnonzero(found)
    return np.searchsorted(places, spans.start) < np.searchsorted(places, spans.start + np.maximum(spans.length, 0))


def _in_quotes(texts: pa.BinaryArray) -> pa.BinaryArray:
    return pc.binary_replace_slice(pc.binary_replace_slice(texts, 0, 0, b'"'), _MOST_BYTES, _MOST_BYTES, b'"')
