"""The format of CSV lines: one record a value, columns as declared, any line that is not spelled as usual kept raw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import Corrupt, Invalid
from engine.formats.arrow_columns import add_fields, checked_spans, column_of, rows_in_order, struct_of
from engine.formats.codec import CodecSpec, Columns, Decoded, FieldProposal, KnownSchema, OnConflict, Verdict
from engine.formats.csv.dialect import CsvColumn, CsvDialect, csv_columns
from engine.formats.csv.fields import read_texts, spell, within_years
from engine.formats.csv.lines import CsvLines
from engine.formats.writer_schemas import Findings, distinct
from engine.records.records import NULL_LENGTH, ByteSpans

_HEADER_ROOM = 1 << 16
"""Bytes of a block that the names before its first line may take."""


class CsvCodec:
    """Cuts lines into the declared columns, and writes the same lines again."""

    name = "csv"
    version = 1

    def __init__(self, dialect: CsvDialect, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._dialect = dialect
        self._lines = CsvLines(dialect)
        types = {field.name: field.type for field in fields}
        for column in dialect.columns:
            if types.get(column.name) != column.type:
                raise Invalid(
                    f"a CSV topic's table needs a column {column.name} of type {column.type}, it has "
                    f"{types.get(column.name, 'none')}"
                )

    def decode(self, values: ByteSpans) -> Decoded:
        if values.size_bytes + len(values) + _HEADER_ROOM >= 2**31:
            raise Invalid("the values of one block pass 2 GiB", next_step="hand the codec smaller blocks")
        findings = Findings(len(values))
        inside = (values.start >= 0) & (values.start + values.length <= len(values.data))
        present = values.length != NULL_LENGTH
        findings.note(np.flatnonzero(present & ~inside), Verdict.UNDECODABLE, "CSV: it lies outside of its block")
        rows, columns = self._read(np.flatnonzero(present & inside), values, findings)
        whole = rows_in_order([(rows, columns)], self.fields, len(values))
        return findings.decoded(whole, pa.nulls(len(values), pa.int32()), frozenset())

    def _read(
        self, rows: NDArray[np.intp], values: ByteSpans, findings: Findings
    ) -> tuple[NDArray[np.intp], pa.StructArray]:
        """(the rows that can be cut into fields, their columns)."""
        lines, ends_well = self._lines.without_end(values.select(rows).to_arrow())
        special = self._lines.special(lines)
        for reason, bad in self._lines.broken(lines.filter(special)).items():
            findings.note(rows[special][bad], Verdict.UNDECODABLE, f"CSV: {reason}")
        whole = findings.verdict[rows] == Verdict.EXACT
        rows, lines = rows[whole], lines.filter(whole)
        texts, counts = self._lines.split(lines)
        for count in set(distinct(counts)) - {len(texts)}:
            _keep(findings, rows[counts == count], f"fields in the line: {count}, declared: {len(texts)}")
        _keep(findings, rows[~ends_well[whole]], "it does not end as lines of the topic do")
        arrays = {
            column.name: self._read_column(column, text, rows, findings)
            for column, text in zip(self._dialect.columns, texts, strict=True)
        }
        # Where the fields are spelled as usual, only quotes that are there, or ought to be, can still differ.
        may_differ = special[whole] | any(map(self._dialect.is_quoted, self._dialect.columns))
        may_differ &= findings.verdict[rows] == Verdict.EXACT
        again = self._lines.join([text.filter(may_differ) for text in texts])
        differs = np.asarray(pc.not_equal(again, lines.filter(may_differ)))
        _keep(findings, rows[may_differ][differs], "quotes stand where the topic has none, or the other way round")
        children = [arrays.get(field.name, pa.nulls(len(rows), field.type)) for field in self.fields]
        return rows, struct_of(children, self.fields, len(rows))

    def _read_column(
        self, column: CsvColumn, texts: pa.BinaryArray, rows: NDArray[np.intp], findings: Findings
    ) -> pa.Array:
        where = f"in column {column.name}"
        if pa.types.is_string(column.type):
            bad = ByteSpans.from_arrow(texts).is_not_utf8
            _keep(findings, rows[bad], f"a string is not UTF-8, {where}")
            return pc.if_else(bad, None, texts).view(pa.string())
        values, odd = read_texts(column, self._dialect.time_separator, texts.view(pa.string()))
        is_odd, is_value = np.asarray(odd), np.asarray(values.is_valid())
        _keep(findings, rows[is_odd & ~is_value], f"the text is none of the column's type, {where}")
        _keep(findings, rows[is_odd], f"the value is spelled in another way than it would be written, {where}")
        return values

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        del schema_id  # lines name no schema
        lines = self._lines.join([self._texts(column, columns, wanted) for column in self._dialect.columns])
        spans = ByteSpans.from_arrow(pc.binary_join_element_wise(lines, self._dialect.line_end.value, b""))
        length = np.where(wanted, spans.length, np.int32(NULL_LENGTH)).astype(np.int32)
        return ByteSpans(data=spans.data, start=spans.start, length=length)

    def _texts(self, column: CsvColumn, columns: Columns, wanted: NDArray[np.bool_]) -> pa.BinaryArray:
        """A column's values as they stand in lines, null where a row is not wanted. Raises Corrupt."""
        array = column_of(columns, column.name)
        if array is None:
            return pa.nulls(len(wanted), pa.binary())
        if pa.types.is_string(column.type):
            return checked_spans(array, column.name, wanted).to_arrow()
        if len(array) != len(wanted):
            raise Corrupt(f"the column {column.name} has {len(array)} rows, {len(wanted)} were asked about")
        if array.type != column.type:
            raise Corrupt(f"the column {column.name} is of type {array.type}, not {column.type}")
        values = pc.if_else(wanted, array, None)
        lost = pc.and_(values.is_valid(), within_years(values).is_null())
        if lost.true_count:
            raise Corrupt(f"the column {column.name} has a year of more than four digits in row {lost.index(True)}")
        return spell(column, self._dialect.time_separator, values).view(pa.binary())


def _keep(findings: Findings, rows: NDArray[np.intp], reason: str) -> None:
    """Rows whose bytes are kept: what was noted of them first stays."""
    findings.note(rows[findings.verdict[rows] == Verdict.EXACT], Verdict.KEEP_RAW, f"CSV: {reason}")


def open_codec(spec: CodecSpec, fields: tuple[pa.Field, ...]) -> CsvCodec:
    return CsvCodec(CsvDialect.of(spec.options), fields)


def propose_fields(
    schema_text: str, existing: tuple[pa.Field, ...], known: tuple[KnownSchema, ...], on_conflict: OnConflict
) -> FieldProposal:
    """``schema_text`` is the declaration of the columns: lines name no schema, and have none but this."""
    del known, on_conflict
    return add_fields(existing, *(column.field for column in csv_columns(schema_text)))
