"""The Avro codec: values after Confluent's five-byte header, several writer schemas in one block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.formats.arrow_columns import columns_of, rows_in_order
from engine.formats.avro import operations as op
from engine.formats.avro.decode_kernel import decode_block
from engine.formats.avro.encode_kernel import ROOM, encode_rows
from engine.formats.avro.fields import propose_fields
from engine.formats.avro.program import Program, compile_program
from engine.formats.codec import CodecSpec, Columns, Decoded, Verdict
from engine.formats.columns.arena import ArrayArena, Words
from engine.formats.columns.binding import Binding
from engine.formats.columns.encoding import encode_all
from engine.formats.columns.maps import TABLE_ENTRIES
from engine.formats.columns.operations import FIRST_KEPT
from engine.formats.columns.program import ISSUE_BITS
from engine.formats.confluent_framing import FRAMED, FRAMING_REASON, NULL_VALUE, read_headers
from engine.formats.writer_schemas import Findings, WriterSchemas, distinct, ids_of
from engine.records.records import NULL_LENGTH, ByteSpans

__all__ = ["AvroCodec", "open_codec", "propose_fields"]


class AvroCodec:
    """Decodes with the writer's schema into the table's columns, and rebuilds the writer's bytes from them."""

    name = "avro"
    version = 2

    def __init__(self, spec: CodecSpec, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._spec = spec
        self._schemas = WriterSchemas(spec, self._compile)
        self._arenas: dict[int, Arena] = {}

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
            program = self._schemas.get(identifier)
            if program is None:
                findings.note(rows[framed[rows]], Verdict.UNDECODABLE, self._schemas.problem_of(identifier))
            else:
                chosen = values if len(present) == 1 else values.select(rows)
                parts.append((rows, self._decode_with(identifier, program, chosen, state[rows], rows, findings)))
        return Decoded(
            columns=rows_in_order(parts, self.fields, len(values)),
            schema_id=pa.array(schema_id, mask=~framed),
            verdict=findings.verdict,
            reason=findings.reason,
            reasons=findings.reasons,
            missing_schema_ids=self._schemas.unknown(present),
        )

    def _compile(self, schema_id: int, text: str) -> Program:
        return compile_program(text, self.fields, self._spec.placements.get(schema_id, {}))

    def _decode_with(
        self,
        schema_id: int,
        program: Program,
        values: ByteSpans,
        state: NDArray[np.uint8],
        rows: NDArray[np.intp],
        findings: Findings,
    ) -> pa.StructArray:
        """Decode ``values``, which are the block's ``rows``, by one schema."""
        if schema_id not in self._arenas:
            self._arenas[schema_id] = Arena(program)
        arena = self._arenas[schema_id]
        issues = arena.decode(values, state)
        if issues.any():
            for issue in distinct(issues[issues != 0]):
                code, step = issue & 0xFF, issue >> ISSUE_BITS
                verdict = Verdict.KEEP_RAW if code >= FIRST_KEPT else Verdict.UNDECODABLE
                text = _reason(schema_id, program, code, step)
                findings.note(rows[issues == issue], verdict, text)
        return arena.columns(self.fields)

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        ids = ids_of(schema_id, len(wanted))
        present = distinct(ids if wanted.all() else ids[wanted])
        start = np.zeros(len(wanted), np.int64)
        length = np.full(len(wanted), NULL_LENGTH, np.int32)
        bound = columns_of(columns, self.fields, len(wanted))
        out = np.empty(0, np.uint8)
        used = 0
        for identifier in present:
            program = self._schemas.to_encode(identifier)
            rows = np.flatnonzero(wanted & (ids == identifier))
            binding = Binding(program, bound, len(wanted))
            out, ends = _encode_with(program, binding, identifier, rows, out, used)
            if len(rows) == len(wanted):
                return ByteSpans(data=out[: ends[-1]], start=ends[:-1], length=np.diff(ends).astype(np.int32))
            start[rows], length[rows] = ends[:-1], np.diff(ends)
            used = int(ends[-1])
        return ByteSpans(data=out[:used], start=start, length=length)


class Arena(ArrayArena):
    """Drives the decode kernel over the memory that the formats with schemas share."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._avro = program

    def _run(self, values: ByteSpans, state: NDArray[np.uint8], issues: Words, may_grow: bool) -> int:
        program = self._avro
        self._start_over()
        lists = np.empty(3 * program.nesting + 3, np.int64)
        map_table = np.empty(TABLE_ENTRIES if program.has_maps else 1, np.int32)
        stop = decode_block(
            np.ascontiguousarray(values.data),
            values.start,
            values.length,
            state,
            self._rows.ravel(),
            program.skips.ravel(),
            program.skip_children,
            program.pool,
            program.pool_start,
            self._buffer,
            self._counts,
            self._whole,
            self._capacity,
            lists,
            map_table,
            may_grow,
            issues,
        )
        return int(stop)


def _encode_with(
    program: Program,
    binding: Binding,
    schema_id: int,
    rows: NDArray[np.int64],
    out: NDArray[np.uint8],
    used: int,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Encode ``rows`` by one schema after the ``used`` bytes of ``out``, as ``encode_all`` does."""
    lists = np.empty(2 * program.nesting + 2, np.int64)
    steps, slots = program.rows.ravel(), binding.slots.ravel()
    return encode_all(
        lambda done, out, ends, trouble: int(
            encode_rows(rows, done, schema_id, steps, slots, lists, out, ends, trouble)
        ),
        lambda row, step: (
            f"row {rows[row]} can't be what schema {schema_id} wrote, at {program.paths[step] or 'the value'}"
        ),
        row_count=len(rows),
        room=ROOM,
        out=out,
        used=used,
    )


def _reason(schema_id: int, program: Program, code: int, step: int) -> str:
    path = program.paths[step]
    what = op.ISSUE_TEXT[code]
    why = f" ({program.whys[step]})" if code == op.NO_COLUMN else ""
    return f"schema {schema_id}: {what}{why}, at {path}" if path else f"schema {schema_id}: {what}"


def open_codec(spec: CodecSpec, fields: tuple[pa.Field, ...]) -> AvroCodec:
    return AvroCodec(spec, fields)
