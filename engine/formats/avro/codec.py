"""The Avro codec: values after Confluent's five-byte header, several writer schemas in one block."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.formats.arrow_columns import columns_of, rows_in_order
from engine.formats.avro import operations as op
from engine.formats.avro.decode_kernel import LIST_WORDS as DECODE_LIST_WORDS
from engine.formats.avro.decode_kernel import SchemaTables, decode_block
from engine.formats.avro.encode_kernel import LIST_WORDS, ROOM, encode_rows
from engine.formats.avro.fields import propose_fields
from engine.formats.avro.program import Program, compile_program
from engine.formats.codec import CodecSpec, Columns, Decoded
from engine.formats.columns.arena import ArrayArena
from engine.formats.columns.binding import Binding
from engine.formats.columns.encoding import Encoder
from engine.formats.columns.tables import Arena, Block
from engine.formats.confluent_framing import FRAMED, header_of, read_headers
from engine.formats.writer_schemas import Findings, WriterSchemas, distinct, ids_of
from engine.kernels.types import frozen
from engine.records.records import ByteSpans

__all__ = ["AvroCodec", "open_codec", "propose_fields"]


class AvroCodec:
    """Decodes with the writer's schema into the table's columns, and rebuilds the writer's bytes from them."""

    name = "avro"
    version = 2

    def __init__(self, spec: CodecSpec, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._spec = spec
        self._schemas = WriterSchemas(spec, self._compile)
        self._arenas: dict[int, AvroArena] = {}

    def decode(self, values: ByteSpans) -> Decoded:
        schema_id, state = read_headers(values)
        framed = state == FRAMED
        findings = Findings(len(values))
        findings.note_framing(state)
        parts: list[tuple[NDArray[np.intp], pa.StructArray]] = []
        for identifier, program, rows in self._schemas.parts(schema_id, framed, findings):
            arena = self._arenas.get(identifier) or self._arenas.setdefault(identifier, AvroArena(program))
            issues = arena.decode(values if len(rows) == len(values) else values.select(rows), state[rows])
            arena.note_issues(issues, rows, identifier, findings)
            parts.append((rows, arena.columns(self.fields)))
        columns = rows_in_order(parts, self.fields, len(values))
        return findings.decoded(columns, pa.array(schema_id, mask=~framed), self._schemas.unknown(schema_id[framed]))

    def _compile(self, schema_id: int, text: str) -> Program:
        return compile_program(text, self.fields, self._spec.placements.get(schema_id, {}))

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        ids = ids_of(schema_id, len(wanted))
        bound = columns_of(columns, self.fields, len(wanted))
        encoder = Encoder(len(wanted), ROOM)
        for identifier in distinct(ids[wanted]):
            program = self._schemas.to_encode(identifier)
            binding = Binding(program, bound, len(wanted))
            tables = binding.tables(header_of(identifier), program.rows, LIST_WORDS * (program.nesting + 1))
            rows = np.flatnonzero(wanted & (ids == identifier))
            encoder.write(rows, partial(encode_rows, tables), program, identifier)
        return encoder.spans()


class AvroArena(ArrayArena):
    """Drives the decode kernel over the arena that the formats with schemas share."""

    issue_text = op.ISSUE_TEXT
    no_column = op.NO_COLUMN

    def __init__(self, program: Program) -> None:
        super().__init__(program, stack_words=DECODE_LIST_WORDS * (program.nesting + 1))
        self._schema = SchemaTables(
            skips=frozen(program.skips.ravel()),
            children=frozen(program.skip_children),
            pool=frozen(program.pool),
            pool_start=frozen(program.pool_start),
            skip_stack=np.empty(2 * op.MAX_SKIP_DEPTH, np.int64),
        )

    def _decode(self, block: Block, arena: Arena, may_grow: bool) -> int:
        return int(decode_block(block, arena, self._schema, may_grow))


def open_codec(spec: CodecSpec, fields: tuple[pa.Field, ...]) -> AvroCodec:
    return AvroCodec(spec, fields)
