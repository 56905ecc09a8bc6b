"""The Protobuf codec: values after Confluent's header and message indexes, several schemas and messages in a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.formats.arrow_columns import columns_of, rows_in_order, struct_of
from engine.formats.codec import CodecSpec, Columns, Decoded, Verdict
from engine.formats.columns.encoding import Encoder
from engine.formats.confluent_framing import FRAMED, FRAMING_REASON, header_of, read_headers
from engine.formats.format_facts import MESSAGE_COLUMN
from engine.formats.protobuf.arena import ProtobufArena
from engine.formats.protobuf.binding import ProtobufBinding
from engine.formats.protobuf.encode_kernel import FRAME_WORDS, encode_rows
from engine.formats.protobuf.fields import propose_fields
from engine.formats.protobuf.message_indexes import (
    BAD_INDEXES,
    BAD_INDEXES_REASON,
    FIRST_MESSAGE,
    LONG_FIRST_KEY,
    key_of,
    read_indexes,
    write_indexes,
)
from engine.formats.protobuf.program import compile_program
from engine.formats.protobuf.schema import Root, parse_schema
from engine.formats.protobuf.write_kernels import ROOM
from engine.formats.writer_schemas import Findings, WriterSchemas, distinct, ids_of
from engine.records.records import ByteSpans

__all__ = ["ProtobufCodec", "open_codec", "propose_fields"]

_REASON = {**FRAMING_REASON, BAD_INDEXES: BAD_INDEXES_REASON}
_NO_MESSAGE_COLUMN = "the table has no column for which message it is"
_NO_SUCH_MESSAGE = "the message indexes lead to no message that values are"
_INDEXES_FORM = "the message indexes are not written in their usual form"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _OpenedRoot:
    """A message, compiled against the table."""

    root: Root
    arena: ProtobufArena


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Opened:
    """A writer schema's messages by their indexes; ``message_column`` says which one a row is, -1 where the table has
    no column for that."""

    roots: Mapping[tuple[int, ...], _OpenedRoot]
    message_column: int


class ProtobufCodec:
    """Decodes with the writer's schema into the table's columns, and rebuilds the writer's bytes from them."""

    name = "protobuf"
    version = 1

    def __init__(self, spec: CodecSpec, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._spec = spec
        self._schemas = WriterSchemas(spec, self._open)

    def decode(self, values: ByteSpans) -> Decoded:
        schema_id, state = read_headers(values)
        framed = state == FRAMED
        key, header = read_indexes(values, state)
        findings = Findings(len(values))
        findings.note_framing(state, _REASON)
        readable = state == FRAMED
        parts: list[tuple[NDArray[np.intp], pa.StructArray]] = []
        for identifier, opened, _ in self._schemas.parts(schema_id, framed, findings):
            of_schema = readable & (schema_id == identifier)
            for root, rows in _rows_of_roots(identifier, opened, key, of_schema, findings):
                # The rows that are not readable are null to the arena too: in most blocks all rows are one part.
                every = len(rows) == np.count_nonzero(readable)
                where = np.arange(len(values)) if every else rows
                part = self._decode_root(identifier, opened, root, where, values, header, state, findings)
                parts.append((where, part))
        columns = rows_in_order(parts, self.fields, len(values))
        return findings.decoded(columns, pa.array(schema_id, mask=~framed), self._schemas.unknown(schema_id[framed]))

    def _open(self, schema_id: int, text: str) -> _Opened:
        placement = self._spec.placements.get(schema_id, {})
        schema = parse_schema(text)
        roots = {}
        for root in schema.roots:
            arena = ProtobufArena(compile_program(root.message, self.fields, placement))
            roots[root.indexes] = _OpenedRoot(root=root, arena=arena)
        name = placement.get(MESSAGE_COLUMN, MESSAGE_COLUMN)
        found = [at for at, one in enumerate(self.fields) if one.name == name and one.type == pa.string()]
        return _Opened(roots=roots, message_column=found[0] if found and len(roots) > 1 else -1)

    def _decode_root(
        self,
        schema_id: int,
        opened: _Opened,
        root: _OpenedRoot,
        rows: NDArray[np.intp],
        values: ByteSpans,
        header: NDArray[np.int32],
        state: NDArray[np.uint8],
        findings: Findings,
    ) -> pa.StructArray:
        """The columns of the block's ``rows``, whose messages, where they can be read, are all of one kind."""
        issues = root.arena.decode_after(header[rows], values.select(rows), state[rows])
        root.arena.note_issues(issues, rows, schema_id, findings)
        columns = root.arena.columns(self.fields)
        column = opened.message_column
        if root.root.indexes == FIRST_MESSAGE or column < 0:
            return columns
        name = pa.scalar(root.root.message.full_name, pa.string())
        has_columns = pa.array((state[rows] == FRAMED) & (findings.verdict[rows] != Verdict.UNDECODABLE))
        children = columns.flatten()
        children[column] = pc.if_else(has_columns, name, pa.scalar(None, pa.string()))
        return struct_of(children, self.fields, len(rows))

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        ids = ids_of(schema_id, len(wanted))
        bound = columns_of(columns, self.fields, len(wanted))
        encoder = Encoder(len(wanted), ROOM, from_end=True)
        for identifier in distinct(ids[wanted]):
            of_schema = wanted & (ids == identifier)
            for message, which in self._messages_of(identifier, of_schema, bound):
                program = message.arena.program
                binding = ProtobufBinding(program, bound, len(wanted))
                prefix = header_of(identifier) + write_indexes(message.root.indexes)
                tables = binding.tables(prefix, program.rows, FRAME_WORDS * (program.nesting + 1))
                encoder.write(np.flatnonzero(which), partial(encode_rows, tables), program, identifier)
        return encoder.spans()

    def _messages_of(
        self, schema_id: int, of_schema: NDArray[np.bool_], bound: Sequence[pa.Array]
    ) -> list[tuple[_OpenedRoot, NDArray[np.bool_]]]:
        """Which message each of a schema's rows is. Raises Corrupt where none of the schema's is what a row says."""
        opened = self._schemas.to_encode(schema_id)
        if opened.message_column < 0:
            return [(opened.roots[FIRST_MESSAGE], of_schema)]
        messages = list(opened.roots.values())
        column = bound[opened.message_column]
        names = pa.array([one.root.message.full_name for one in messages[1:]], pa.string())
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        found = pc.index_in(column.cast(pa.string()), value_set=names)
        place = pc.if_else(column.is_null(), -1, found).fill_null(len(names)).to_numpy(zero_copy_only=False)
        if len(place) != len(of_schema) or bool((place[of_schema] == len(names)).any()):
            raise Corrupt(f"a row names a message that schema {schema_id} does not have, in {MESSAGE_COLUMN}")
        split = [(message, of_schema & (place == at - 1)) for at, message in enumerate(messages)]
        return [(message, which) for message, which in split if which.any()]


def _rows_of_roots(
    schema_id: int, opened: _Opened, key: NDArray[np.int64], of_schema: NDArray[np.bool_], findings: Findings
) -> list[tuple[_OpenedRoot, NDArray[np.intp]]]:
    """A schema's rows by the message that they are; what can be said of their message indexes is noted."""
    found = []
    rest = of_schema
    for indexes, root in opened.roots.items():
        which = rest & (key == key_of(write_indexes(indexes)))
        if indexes == FIRST_MESSAGE:
            unusual = rest & (key == LONG_FIRST_KEY)
            findings.note(np.flatnonzero(unusual), Verdict.KEEP_RAW, f"schema {schema_id}: {_INDEXES_FORM}")
            which |= unusual
        elif opened.message_column < 0:
            findings.note(np.flatnonzero(which), Verdict.KEEP_RAW, f"schema {schema_id}: {_NO_MESSAGE_COLUMN}")
        rows = np.flatnonzero(which)
        if len(rows):
            found.append((root, rows))
        if len(rows) == len(key):
            return found
        rest &= ~which
    findings.note(np.flatnonzero(rest), Verdict.UNDECODABLE, f"schema {schema_id}: {_NO_SUCH_MESSAGE}")
    return found


def open_codec(spec: CodecSpec, fields: tuple[pa.Field, ...]) -> ProtobufCodec:
    return ProtobufCodec(spec, fields)
