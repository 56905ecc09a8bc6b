"""The format of CSV lines: one record a value, columns as declared, any line that is not spelled as usual kept raw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Corrupt, Invalid
from engine.formats.codec import (
    NO_REASON,
    CodecSpec,
    Columns,
    Decoded,
    FieldProposal,
    KnownSchema,
    OnConflict,
    Verdict,
    column_of,
    struct_of,
)
from engine.formats.csv import operations as op
from engine.formats.csv.dialect import CsvColumn, CsvDialect, CsvKind, CsvQuote, csv_columns
from engine.formats.csv.format_kernels import FIELD_ROOM, write_fields
from engine.formats.csv.join_kernel import JOIN_SLACK, join_lines
from engine.formats.csv.parse_kernels import read_fields, take_texts
from engine.formats.csv.split_kernel import split_lines
from engine.kernels.memory import SLACK
from engine.records.records import NULL_LENGTH, ByteSpans

_WORD_OF = {
    CsvKind.INT: np.int32,
    CsvKind.LONG: np.int64,
    CsvKind.DATE: np.int32,
    CsvKind.TIMESTAMP: np.int64,
    CsvKind.TIMESTAMPTZ: np.int64,
}


class CsvCodec:
    """Cuts lines into the declared columns, and writes the same lines again."""

    name = "csv"
    version = 1

    def __init__(self, dialect: CsvDialect, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._dialect = dialect
        self._separator = ord(dialect.time_separator)
        self._is_quoted = np.array([dialect.is_quoted(column) for column in dialect.columns], np.uint8)
        types = {field.name: field.type for field in fields}
        for column in dialect.columns:
            if types.get(column.name) != column.field.type:
                raise Invalid(
                    f"a CSV topic's table needs a column {column.name} of type {column.field.type}, it has "
                    f"{types.get(column.name, 'none')}"
                )

    def decode(self, values: ByteSpans) -> Decoded:
        count, dialect = len(values), self._dialect
        if values.size_bytes + SLACK >= 2**31:
            raise Invalid("the values of one block pass 2 GiB", next_step="hand the codec smaller blocks")
        data = np.ascontiguousarray(values.data)
        cells = count * len(dialect.columns)
        start, length = np.empty(cells, np.int64), np.empty(cells, np.int32)
        flags, issue = np.empty(cells, np.uint8), np.empty(count, np.int32)
        split_lines(
            data,
            values.start,
            values.length,
            ord(dialect.delimiter),
            dialect.quote is not CsvQuote.NONE,
            self._is_quoted,
            int(dialect.line_end),
            start,
            length,
            flags,
            issue,
        )
        arrays = {}
        for index, column in enumerate(dialect.columns):
            part = slice(index * count, (index + 1) * count)
            read = _read_texts if column.kind is CsvKind.STRING else self._read
            arrays[column.name] = read(column, index, data, start[part], length[part], flags[part], issue)
        children = [arrays.get(field.name) for field in self.fields]
        nulls = (pa.nulls(count, field.type) for field in self.fields)
        filled = [null if child is None else child for child, null in zip(children, nulls, strict=True)]
        return self._judged(struct_of(filled, self.fields, count), issue)

    def _read(
        self,
        column: CsvColumn,
        index: int,
        data: NDArray[np.uint8],
        start: NDArray[np.int64],
        length: NDArray[np.int32],
        flags: NDArray[np.uint8],
        issue: NDArray[np.int32],
    ) -> pa.Array:
        count = len(start)
        low, high, valid = np.empty(count, np.uint64), np.empty(count, np.uint64), np.empty(count, np.uint8)
        read_fields(
            int(column.kind),
            column.digits,
            column.fraction,
            self._separator,
            data,
            start,
            length,
            flags,
            index,
            low,
            high,
            valid,
            issue,
        )
        return _array_of(column, low, high, valid)

    def _judged(self, columns: pa.StructArray, issue: NDArray[np.int32]) -> Decoded:
        verdict = np.full(len(issue), Verdict.EXACT, np.uint8)
        reason = np.full(len(issue), NO_REASON, np.int32)
        found, at = np.unique(issue, return_inverse=True) if issue.any() else (np.empty(0, np.int32), reason)
        texts: list[str] = []
        for number, code in enumerate(found.tolist()):
            if code == 0:
                continue
            rows = at == number
            undecodable = code & ((1 << op.CODE_BITS) - 1) < op.FIRST_KEPT
            verdict[rows] = Verdict.UNDECODABLE if undecodable else Verdict.KEEP_RAW
            reason[rows] = len(texts)
            texts.append(self._reason(code))
        return Decoded(
            columns=columns,
            schema_id=pa.nulls(len(issue), pa.int32()),
            verdict=verdict,
            reason=reason,
            reasons=tuple(texts),
            missing_schema_ids=frozenset(),
        )

    def _reason(self, issue: int) -> str:
        code, detail = issue & ((1 << op.CODE_BITS) - 1), issue >> op.CODE_BITS
        if code == op.FIELD_COUNT:
            counted = f"more than {detail - 1}" if detail == op.MOST_COUNTED else str(detail)
            return f"CSV: fields in the line: {counted}, declared: {len(self._dialect.columns)}"
        if code < op.FIRST_KEPT or code == op.LINE_END:
            return f"CSV: {op.TEXT[code]}"
        return f"CSV: {op.TEXT[code]}, in column {self._dialect.columns[detail].name}"

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        del schema_id  # lines name no schema
        dialect, count = self._dialect, len(wanted)
        texts = [self._texts(column, column_of(columns, column.name), wanted) for column in dialect.columns]
        start = np.concatenate([text.start for text in texts])
        length = np.concatenate([text.length for text in texts])
        total = int(np.maximum(length, 0).sum(dtype=np.int64))
        out = np.empty(2 * total + (3 * len(texts) + 2) * count + JOIN_SLACK, np.uint8)
        ends = np.empty(count + 1, np.int64)
        unwritten = join_lines(
            np.array([text.data.ctypes.data for text in texts], np.int64),
            np.array([len(text.data) for text in texts], np.int64),
            np.array([column.kind is CsvKind.STRING for column in dialect.columns], np.uint8),
            self._is_quoted,
            start,
            length,
            ord(dialect.delimiter),
            dialect.quote is not CsvQuote.NONE,
            int(dialect.line_end),
            wanted.view(np.uint8),
            out,
            ends,
        )
        if unwritten >= 0:
            raise Corrupt(f"row {unwritten} has a text that no line without quotes can say")
        lengths = np.where(wanted, np.diff(ends), NULL_LENGTH).astype(np.int32)
        return ByteSpans(data=out[: ends[-1]], start=ends[:-1], length=lengths)

    def _texts(self, column: CsvColumn, array: pa.Array | None, wanted: NDArray[np.bool_]) -> ByteSpans:
        """A column's values as they stand in lines, null where a row is not wanted. Raises Corrupt."""
        if array is None:
            return ByteSpans.nulls(len(wanted))
        if len(array) != len(wanted):
            raise Corrupt(f"the column {column.name} has {len(array)} rows, {len(wanted)} were asked about")
        if column.kind is CsvKind.STRING:
            return _wanted_texts(column, array, wanted)
        if array.type != column.field.type:
            raise Corrupt(f"the column {column.name} is of type {array.type}, not {column.field.type}")
        low, high, valid = _words_of(column, array)
        valid &= wanted.view(np.uint8)
        out = np.empty(FIELD_ROOM * len(low), np.uint8)
        start, length = np.empty(len(low), np.int64), np.empty(len(low), np.int32)
        unwritten = write_fields(
            int(column.kind), column.fraction, self._separator, low, high, valid, out, start, length
        )
        if unwritten >= 0:
            raise Corrupt(f"the column {column.name} has a year of more than four digits in row {unwritten}")
        return ByteSpans(data=out, start=start, length=length)


def _read_texts(
    column: CsvColumn,
    index: int,
    data: NDArray[np.uint8],
    start: NDArray[np.int64],
    length: NDArray[np.int32],
    flags: NDArray[np.uint8],
    issue: NDArray[np.int32],
) -> pa.Array:
    count = len(start)
    total = int(np.maximum(length, 0).sum(dtype=np.int64))
    out, offsets = np.empty(total + SLACK, np.uint8), np.empty(count + 1, np.int32)
    valid = np.empty(count, np.uint8)
    used = take_texts(data, start, length, flags, index, offsets, out, valid, issue)
    buffers = [_validity(valid), pa.py_buffer(offsets), pa.py_buffer(out[:used])]
    return pa.Array.from_buffers(column.field.type, count, buffers)


def _array_of(
    column: CsvColumn, low: NDArray[np.uint64], high: NDArray[np.uint64], valid: NDArray[np.uint8]
) -> pa.Array:
    kind = column.kind
    values: NDArray[Any]
    if kind is CsvKind.DECIMAL:
        values = np.column_stack([low, high])
    elif kind is CsvKind.BOOLEAN:
        values = np.packbits(low != 0, bitorder="little")
    else:
        values = low if kind is CsvKind.DOUBLE else low.astype(_WORD_OF[kind])
    return pa.Array.from_buffers(column.field.type, len(low), [_validity(valid), pa.py_buffer(values)])


def _validity(valid: NDArray[np.uint8]) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _words_of(column: CsvColumn, array: pa.Array) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8]]:
    """(low, high, valid) of an array whatever its offset, as ``write_fields`` reads them."""
    count, kind = len(array), column.kind
    valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.uint8)
    nothing = np.zeros(count, np.uint64)
    values = array.buffers()[1]
    if values is None or count == 0:
        return nothing, nothing, valid
    if kind is CsvKind.BOOLEAN:
        return array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64), nothing, valid
    if kind is CsvKind.DECIMAL:
        words = np.frombuffer(values, np.uint64)[2 * array.offset : 2 * (array.offset + count)]
        return np.ascontiguousarray(words[::2]), np.ascontiguousarray(words[1::2]), valid
    if kind is CsvKind.DOUBLE:
        return np.frombuffer(values, np.uint64)[array.offset : array.offset + count], nothing, valid
    numbers = np.frombuffer(values, _WORD_OF[kind])[array.offset : array.offset + count]
    return numbers.astype(np.int64).view(np.uint64), nothing, valid


def _wanted_texts(column: CsvColumn, array: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
    spans = ByteSpans.from_arrow(array)
    length = np.where(wanted, spans.length, NULL_LENGTH).astype(np.int32)
    end = spans.start + np.maximum(length, 0)
    if bool(((length < NULL_LENGTH) | (spans.start < 0) | (end > len(spans.data))).any()):
        raise Corrupt(f"the column {column.name} has offsets that leave its data")
    return ByteSpans(data=spans.data, start=spans.start, length=length)


def open_codec(spec: CodecSpec, fields: tuple[pa.Field, ...]) -> CsvCodec:
    return CsvCodec(CsvDialect.of(spec.options), fields)


def propose_fields(
    schema_text: str, existing: tuple[pa.Field, ...], known: tuple[KnownSchema, ...], on_conflict: OnConflict
) -> FieldProposal:
    """``schema_text`` is the declaration of the columns: lines name no schema, and have none but this."""
    del known, on_conflict
    present = {field.name: field.type for field in existing}
    wanted = [column.field for column in csv_columns(schema_text)]
    conflicts = tuple(
        f"field {field.name}: the table has {present[field.name]}, the line needs {field.type}"
        for field in wanted
        if present.get(field.name, field.type) != field.type
    )
    return FieldProposal(
        fields=(*existing, *(field for field in wanted if field.name not in present)), conflicts=conflicts
    )
