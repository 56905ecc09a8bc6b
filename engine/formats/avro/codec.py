"""The Avro codec: values behind Confluent's five-byte header, several writer schemas in one block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.formats.arrow_columns import columns_of, rows_in_order
from engine.formats.avro import operations as op
from engine.formats.avro.arena import Arena
from engine.formats.avro.encoder import encode_with
from engine.formats.avro.fields import propose_fields
from engine.formats.avro.program import Program, compile_program
from engine.formats.codec import CodecSpec, Columns, Decoded, Verdict
from engine.formats.columns.binding import Binding
from engine.formats.columns.operations import FIRST_KEPT
from engine.formats.columns.program import ISSUE_BITS
from engine.formats.confluent_framing import FRAMED, FRAMING_REASON, NULL_VALUE, read_headers
from engine.formats.writer_schemas import Findings, WriterSchemas, distinct, ids_of
from engine.records.records import NULL_LENGTH, ByteSpans

__all__ = ["AvroCodec", "open_codec", "propose_fields"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Opened:
    """A writer schema, compiled against the table: its program with memory."""

    program: Program
    arena: Arena


class AvroCodec:
    """Decodes with the writer's schema into the table's columns, and rebuilds the writer's bytes from them."""

    name = "avro"
    version = 2

    def __init__(self, spec: CodecSpec, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._spec = spec
        self._schemas = WriterSchemas(spec, self._open)

    def decode(self, values: ByteSpans) -> Decoded:
        schema_id, state = read_headers(values)
        findings = Findings(len(values))
        for code in distinct(state[state > NULL_VALUE]):
            findings.note(np.flatnonzero(state == code), Verdict.UNDECODABLE, FRAMING_REASON[code])
        framed = state == FRAMED
        present = distinct(schema_id if framed.all() else schema_id[framed])
        parts: list[tuple[NDArray[np.intp], pa.StructArray]] = []
        for identifier in present:
            # The rows without a header are null to the arena too: in most blocks all rows are one part.
            rows = np.arange(len(values)) if len(present) == 1 else np.flatnonzero(framed & (schema_id == identifier))
            opened = self._schemas.get(identifier)
            if opened is None:
                findings.note(rows[framed[rows]], Verdict.UNDECODABLE, self._schemas.problem_of(identifier))
            else:
                chosen = values if len(present) == 1 else values.select(rows)
                parts.append((rows, self._decode_with(identifier, opened, chosen, state[rows], rows, findings)))
        return Decoded(
            columns=rows_in_order(parts, self.fields, len(values)),
            schema_id=pa.array(schema_id, mask=~framed),
            verdict=findings.verdict,
            reason=findings.reason,
            reasons=findings.reasons,
            missing_schema_ids=self._schemas.unknown(present),
        )

    def _open(self, schema_id: int, text: str) -> _Opened:
        program = compile_program(text, self.fields, self._spec.placements.get(schema_id, {}))
        return _Opened(program=program, arena=Arena(program))

    def _decode_with(
        self,
        schema_id: int,
        opened: _Opened,
        values: ByteSpans,
        state: NDArray[np.uint8],
        rows: NDArray[np.intp],
        findings: Findings,
    ) -> pa.StructArray:
        """Decode ``values``, which are the block's ``rows``, by one schema."""
        issues = opened.arena.decode(values, state)
        if issues.any():
            for issue in distinct(issues[issues != 0]):
                code, step = issue & 0xFF, issue >> ISSUE_BITS
                verdict = Verdict.KEEP_RAW if code >= FIRST_KEPT else Verdict.UNDECODABLE
                text = _reason(schema_id, opened.program, code, step)
                findings.note(rows[issues == issue], verdict, text)
        return opened.arena.columns(self.fields)

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        ids = ids_of(schema_id, len(wanted))
        present = distinct(ids if wanted.all() else ids[wanted])
        start = np.zeros(len(wanted), np.int64)
        length = np.full(len(wanted), NULL_LENGTH, np.int32)
        bound = columns_of(columns, self.fields, len(wanted))
        out = np.empty(0, np.uint8)
        used = 0
        for identifier in present:
            program = self._schemas.to_encode(identifier).program
            rows = np.flatnonzero(wanted & (ids == identifier))
            binding = Binding(program, bound, len(wanted))
            out, ends = encode_with(program, binding, identifier, rows, out, used)
            if len(rows) == len(wanted):
                return ByteSpans(data=out[: ends[-1]], start=ends[:-1], length=np.diff(ends).astype(np.int32))
            start[rows], length[rows] = ends[:-1], np.diff(ends)
            used = int(ends[-1])
        return ByteSpans(data=out[:used], start=start, length=length)


def _reason(schema_id: int, program: Program, code: int, step: int) -> str:
    path = program.paths[step]
    what = op.ISSUE_TEXT[code]
    why = f" ({program.whys[step]})" if code == op.NO_COLUMN else ""
    return f"schema {schema_id}: {what}{why}, at {path}" if path else f"schema {schema_id}: {what}"


def open_codec(spec: CodecSpec, fields: tuple[pa.Field, ...]) -> AvroCodec:
    return AvroCodec(spec, fields)
