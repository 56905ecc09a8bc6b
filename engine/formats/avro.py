"""The Avro codec: values behind Confluent's five-byte header, several writer schemas in one block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Corrupt, Invalid
from engine.formats import avro_operations as op
from engine.formats.avro_arena import Arena
from engine.formats.avro_binding import Binding
from engine.formats.avro_decode_kernel import ISSUE_BITS
from engine.formats.avro_encoder import encode_with
from engine.formats.avro_fields import propose_fields
from engine.formats.avro_program import Program, compile_program
from engine.formats.confluent_framing import FRAMED, FRAMING_REASON, NULL_VALUE, read_headers
from engine.formats.findings import Findings, distinct
from engine.formats.value_codec import (
    CodecSpec,
    Columns,
    Decoded,
    Verdict,
    column_of,
    struct_of,
)
from engine.records import NULL_LENGTH, ByteSpans

__all__ = ["AvroCodec", "open_codec", "propose_fields"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Opened:
    """A writer schema, compiled against the table: its program with memory, or why there is none."""

    program: Program | None = None
    arena: Arena | None = None
    problem: str | None = None


class AvroCodec:
    """Decodes with the writer's schema into the table's columns, and rebuilds the writer's bytes from them."""

    name = "avro"
    version = 2

    def __init__(self, spec: CodecSpec, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._spec = spec
        self._opened: dict[int, _Opened] = {}

    def decode(self, values: ByteSpans) -> Decoded:
        schema_id, state = read_headers(values)
        findings = Findings(len(values))
        for code in distinct(state[state > NULL_VALUE]):
            findings.note(np.flatnonzero(state == code), Verdict.UNDECODABLE, FRAMING_REASON[code])
        framed = state == FRAMED
        present = distinct(schema_id if framed.all() else schema_id[framed])
        columns = None
        if len(present) == 1 and self._open(present[0]).arena is not None:
            columns = self._decode_with(present[0], values, state, np.arange(len(values)), findings)
        missing = self._note_unopened(present, schema_id, findings)
        if columns is None:
            columns = self._decode_each(present, values, schema_id, findings)
        return Decoded(
            columns=columns,
            schema_id=pa.array(schema_id, mask=~framed),
            verdict=findings.verdict,
            reason=findings.reason,
            reasons=findings.reasons,
            missing_schema_ids=missing,
        )

    def _open(self, schema_id: int) -> _Opened:
        """Compile a schema once. A schema that can't be used is a reason for its records, not an error of the block."""
        opened = self._opened.get(schema_id)
        if opened is None:
            opened = self._compile(schema_id)
            self._opened[schema_id] = opened
        return opened

    def _compile(self, schema_id: int) -> _Opened:
        text = self._spec.schemas.get(schema_id)
        if text is None:
            why = self._spec.unresolved.get(schema_id, "it is not known")
            return _Opened(problem=f"schema {schema_id} can't be had: {why}")
        try:
            program = compile_program(text, self.fields, self._spec.placements.get(schema_id, {}))
        except Invalid as error:
            return _Opened(problem=f"schema {schema_id} can't be used: {error.problem}")
        return _Opened(program=program, arena=Arena(program))

    def _note_unopened(
        self, present: Sequence[int], schema_id: NDArray[np.int32], findings: Findings
    ) -> frozenset[int]:
        for identifier in present:
            problem = self._open(identifier).problem
            if problem is not None:
                findings.note(np.flatnonzero(schema_id == identifier), Verdict.UNDECODABLE, problem)
        known = (self._spec.schemas, self._spec.unresolved)
        return frozenset(one for one in present if not any(one in ids for ids in known))

    def _decode_with(
        self,
        schema_id: int,
        values: ByteSpans,
        state: NDArray[np.uint8],
        rows: NDArray[np.intp],
        findings: Findings,
    ) -> pa.StructArray:
        """Decode ``values``, which are the block's ``rows``, by one schema."""
        opened = self._open(schema_id)
        assert opened.arena is not None, "only opened schemas decode"
        assert opened.program is not None, "an arena has a program"
        issues = opened.arena.decode(values, state)
        if issues.any():
            for issue in distinct(issues[issues != 0]):
                code, step = issue & 0xFF, issue >> ISSUE_BITS
                verdict = Verdict.KEEP_RAW if code >= op.FIRST_KEPT else Verdict.UNDECODABLE
                text = _reason(schema_id, opened.program, code, step)
                findings.note(rows[issues == issue], verdict, text)
        return opened.arena.columns(self.fields)

    def _decode_each(
        self, present: Sequence[int], values: ByteSpans, schema_id: NDArray[np.int32], findings: Findings
    ) -> pa.StructArray:
        """Decode each schema's rows apart, then put the rows back in their order; row 0 of the parts is all null."""
        nulls = struct_of([pa.nulls(1, field.type) for field in self.fields], self.fields, 1)
        parts, place, at = [nulls], np.zeros(len(values), np.int64), 1
        for identifier in present:
            if self._open(identifier).arena is None:
                continue
            rows = np.flatnonzero(schema_id == identifier)
            state = np.full(len(rows), FRAMED, np.uint8)
            parts.append(self._decode_with(identifier, values.select(rows), state, rows, findings))
            place[rows] = np.arange(at, at + len(rows))
            at += len(rows)
        children = [
            pa.concat_arrays([part.field(index) for part in parts]).take(pa.array(place))
            for index in range(len(self.fields))
        ]
        return struct_of(children, self.fields, len(values))

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        ids = schema_id.fill_null(-1).to_numpy(zero_copy_only=False)
        if len(ids) != len(wanted):
            raise Corrupt(f"there are {len(ids)} schema ids for {len(wanted)} rows")
        present = distinct(ids if wanted.all() else ids[wanted])
        start = np.zeros(len(wanted), np.int64)
        length = np.full(len(wanted), NULL_LENGTH, np.int32)
        held = [column_of(columns, field.name) for field in self.fields]
        pairs = zip(held, self.fields, strict=True)
        bound = [pa.nulls(len(wanted), field.type) if column is None else column for column, field in pairs]
        out = np.empty(0, np.uint8)
        used = 0
        for identifier in present:
            program = self._program_to_encode(identifier)
            rows = np.flatnonzero(wanted & (ids == identifier))
            binding = Binding(program, bound, len(wanted))
            out, ends = encode_with(program, binding, identifier, rows, out, used)
            if len(rows) == len(wanted):
                return ByteSpans(data=out[: ends[-1]], start=ends[:-1], length=np.diff(ends).astype(np.int32))
            start[rows], length[rows] = ends[:-1], np.diff(ends)
            used = int(ends[-1])
        return ByteSpans(data=out[:used], start=start, length=length)

    def _program_to_encode(self, schema_id: int) -> Program:
        """Raises Corrupt: rows that were decoded by a schema can't be there without it."""
        if schema_id < 0:
            raise Corrupt("a row whose value is rebuilt from its columns names no schema")
        opened = self._open(schema_id)
        if opened.program is None:
            raise Corrupt(f"a row's value can't be rebuilt: {opened.problem}")
        return opened.program


def _reason(schema_id: int, program: Program, code: int, step: int) -> str:
    path = program.paths[step]
    what = op.ISSUE_TEXT[code]
    why = f" ({program.whys[step]})" if code == op.NO_COLUMN else ""
    return f"schema {schema_id}: {what}{why}, at {path}" if path else f"schema {schema_id}: {what}"


def open_codec(spec: CodecSpec, fields: tuple[pa.Field, ...]) -> AvroCodec:
    return AvroCodec(spec, fields)
