"""The JSON codec: values after Confluent's five-byte header or without one, columns and the form of their text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.bounded_cache import BoundedCache
from engine.errors import Corrupt, Invalid
from engine.formats.arrow_columns import column_of, columns_of, rows_in_order, struct_of
from engine.formats.codec import INFERENCE, OPEN, PLAIN_SCHEMA_ID, CodecSpec, Columns, Decoded, Verdict
from engine.formats.columns.binding import Binding
from engine.formats.columns.encoding import Encoder
from engine.formats.columns.operations import FIRST_KEPT
from engine.formats.confluent_framing import FRAMED, HEADER_BYTES, NULL_VALUE, header_of, read_headers
from engine.formats.format_facts import REST_COLUMN
from engine.formats.json import operations as op
from engine.formats.json.arena import JsonArena
from engine.formats.json.encode_kernel import LIST_WORDS, ROOM, encode_rows
from engine.formats.json.encode_program import EncodeProgram, compile_form
from engine.formats.json.fields import propose_fields
from engine.formats.json.form import form_of, text_of
from engine.formats.json.inference import MAX_VERSIONS, Inference
from engine.formats.json.mapping import form_column
from engine.formats.json.program import JsonProgram, compile_program
from engine.formats.writer_schemas import Findings, WriterSchemas, distinct, ids_of
from engine.records.records import NULL_LENGTH, ByteSpans

__all__ = ["JsonCodec", "open_codec", "propose_fields"]

_NO_FORM = -1


class _Block(Findings):
    """What becomes of one block's rows as it is put together.

    ``is_rest``: whose text is shown; ``does_not_fit``: who has what a schema that knew more would take; ``form``: index
    into ``form_texts``, -1 for none.
    """

    def __init__(self, row_count: int) -> None:
        super().__init__(row_count)
        self.is_rest = np.zeros(row_count, np.bool_)
        self.does_not_fit = np.zeros(row_count, np.bool_)
        self.form = np.full(row_count, _NO_FORM, np.int32)
        self.form_texts: list[str | None] = []

    def add(self, rows: NDArray[np.intp], codes: NDArray[np.int64], arena: JsonArena) -> None:
        """What an arena has just decoded, with the codes of its issues."""
        self.is_rest[rows] = (codes >= FIRST_KEPT) & (codes < op.FIRST_SPELLING)
        self.does_not_fit[rows] = np.isin(codes, _NOT_FITTING)
        self.form[rows] = np.where(arena.forms >= 0, arena.forms + len(self.form_texts), _NO_FORM)
        self.form_texts += [text_of(form, arena.program) for form in arena.book.forms]


class JsonCodec:
    """Decodes by a JSON Schema into the table's columns, and rebuilds the writer's own text from them."""

    name = "json"
    version = 1

    def __init__(self, spec: CodecSpec, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._form_column = form_column(fields)
        self._spec = spec
        self._forms: BoundedCache[tuple[int, str | None], EncodeProgram] = BoundedCache(capacity=_MAX_COMPILED)
        inferred = [schema_id for schema_id in spec.schemas if schema_id < 0]
        # The newest has all that those before it have; a block is written by one of them.
        self._plain_id = min(inferred, default=PLAIN_SCHEMA_ID)
        self._may_infer = spec.options.get(INFERENCE) == OPEN and len(inferred) < MAX_VERSIONS
        self._schemas = WriterSchemas(spec, self._open, infers=self._may_infer)

    def decode(self, values: ByteSpans) -> Decoded:
        schema_id, state = self._headers(values)
        has_header = schema_id >= 0
        body = values.select(slice(None))
        if has_header.any():
            skipped = np.where(has_header, HEADER_BYTES, 0)
            body = replace(values, start=values.start + skipped, length=(values.length - skipped).astype(np.int32))
        proposed = None
        if self._may_infer and self._plain_id not in self._spec.schemas:
            proposed = Inference(JsonCodec).first_schema(body.select(np.flatnonzero(state == FRAMED)))
        decoded, block = self._decode_block(body, schema_id, state)
        if self._may_infer and proposed is None and block.does_not_fit.any():
            rows = np.flatnonzero((schema_id == self._plain_id) & (state == FRAMED))
            odd = np.flatnonzero(block.does_not_fit & (schema_id == self._plain_id))
            known = self._spec.schemas.get(self._plain_id)
            if known is not None:
                proposed = Inference(JsonCodec).next_schema(known, body.select(rows), body.select(odd))
        return decoded if proposed is None else replace(decoded, proposed_schema=proposed)

    def _headers(self, values: ByteSpans) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """(schema id int32[n]: the header's, or that of values without one; state: FRAMED is what can be decoded)."""
        schema_id, state = read_headers(values)
        plain = state > NULL_VALUE
        if plain.any():
            inside = (values.length > 0) & (values.start >= 0) & (values.start < len(values.data))
            first = (
                values.data[np.where(inside, values.start, 0)] if len(values.data) else np.zeros(len(values), np.uint8)
            )
            plain &= ~(inside & (first == 0))
            schema_id[plain] = self._plain_id
            state[plain] = FRAMED
        return schema_id, state

    def _decode_block(
        self, body: ByteSpans, schema_id: NDArray[np.int32], state: NDArray[np.uint8]
    ) -> tuple[Decoded, _Block]:
        block = _Block(len(body))
        block.note_framing(state)
        readable = state == FRAMED
        parts: list[tuple[NDArray[np.intp], pa.StructArray]] = []
        for identifier, arena, rows in self._schemas.parts(schema_id, readable, block):
            issues = arena.decode(body if len(rows) == len(body) else body.select(rows), state[rows])
            arena.note_issues(issues, rows, identifier, block)
            block.add(rows, issues & 0xFF, arena)
            parts.append((rows, arena.columns(self.fields)))
        self._note_rest_of_unopened(body, block, readable)
        columns = self._with_own_columns(rows_in_order(parts, self.fields, len(body)), body, block)
        unknown = self._schemas.unknown(schema_id[readable])
        return block.decoded(columns, pa.array(schema_id, mask=~readable), unknown), block

    def _open(self, schema_id: int, text: str) -> JsonArena:
        return JsonArena(compile_program(text, self._spec.placements.get(schema_id, {}), self.fields))

    def _note_rest_of_unopened(self, body: ByteSpans, block: _Block, readable: NDArray[np.bool_]) -> None:
        """Text without a schema is shown too, where it is text."""
        rows = np.flatnonzero((block.verdict == Verdict.UNDECODABLE) & readable & ~block.is_rest)
        if len(rows):
            block.is_rest[rows] = ~body.select(rows).is_not_utf8

    def _with_own_columns(self, columns: pa.StructArray, body: ByteSpans, block: _Block) -> pa.StructArray:
        children = []
        for index, field in enumerate(self.fields):
            if field.name == self._form_column and field.type == pa.string():
                texts = pa.array([*block.form_texts, None], pa.string())
                children.append(texts.take(pa.array(np.where(block.form >= 0, block.form, len(texts) - 1))))
            elif field.name == REST_COLUMN and field.type == pa.string():
                children.append(_texts(body, block.is_rest))
            else:
                children.append(columns.field(index))
        return struct_of(children, self.fields, len(body))

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        ids = ids_of(schema_id, len(wanted))
        bound = columns_of(columns, self.fields, len(wanted))
        form, texts = _form_indices(column_of(columns, self._form_column), len(wanted))
        encoder = Encoder(len(wanted), ROOM)
        for identifier in distinct(ids[wanted]):
            program = self._schemas.to_encode(identifier).program
            of_schema = wanted & (ids == identifier)
            binding = Binding(program.arena, bound, len(wanted))
            header = header_of(identifier) if identifier >= 0 else b""
            for index in distinct(form[of_schema]):
                compiled = self._compiled_form(identifier, program, texts[index])
                tables = binding.tables(header, compiled.rows, LIST_WORDS * (program.arena.nesting + 2))
                encode = partial(encode_rows, tables, compiled.pool, compiled.traits)
                encoder.write(np.flatnonzero(of_schema & (form == index)), encode, program.arena, identifier)
        return encoder.spans()

    def _compiled_form(self, schema_id: int, program: JsonProgram, text: str | None) -> EncodeProgram:
        return self._forms.get_or_make((schema_id, text), lambda: compile_form(program, form_of(text, program)))


_MAX_COMPILED = 4096
# What a schema that knew more of the values would have taken.
_NOT_FITTING = np.array([op.NO_COLUMN, op.NO_MEMBER, op.OTHER_TYPE, op.NUMBER_RANGE, op.NOT_INTEGER])


def _texts(values: ByteSpans, shown: NDArray[np.bool_]) -> pa.Array:
    """The values that are ``shown`` as strings, null for the others; all that is shown is UTF-8."""
    if not shown.any():
        return pa.nulls(len(values), pa.string())
    length = np.where(shown, values.length, np.int32(NULL_LENGTH)).astype(np.int32)
    held = replace(values, length=length).to_arrow()
    if pa.types.is_large_binary(held.type):
        raise Invalid("the values of one block pass 2 GiB", next_step="hand the codec smaller blocks")
    return pa.Array.from_buffers(pa.string(), len(held), held.buffers(), held.null_count)


def _form_indices(column: pa.Array | None, count: int) -> tuple[NDArray[np.int64], list[str | None]]:
    """(index of each row's form, the forms' texts, None for the standard form)."""
    if column is None or column.null_count == len(column):
        return np.zeros(count, np.int64), [None]
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    texts = column.dictionary.to_pylist()
    indices = column.indices.cast(pa.int64()).fill_null(len(texts)).to_numpy(zero_copy_only=False)
    if len(indices) != count:
        raise Corrupt(f"the column of forms has {len(indices)} rows, {count} were asked about")
    if bool(((indices < 0) | (indices > len(texts))).any()):
        raise Corrupt("the column of forms points outside of its dictionary")
    return indices, [*texts, None]


def open_codec(spec: CodecSpec, fields: tuple[pa.Field, ...]) -> JsonCodec:
    return JsonCodec(spec, fields)
