"""JSON as Kafka Connect writes it with ``schemas.enable``: ``{"schema":…,"payload":…}``, the schema in every value.

A codec around the JSON codec, which then sees payloads only. The schema's text becomes a column: it is the same for
thousands of records, so it takes next to no room, and it is told by comparing bytes, not by reading it again each time.

Source: Apache Kafka, org.apache.kafka.connect.json.JsonConverter; it writes compact JSON, the schema first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numba import njit, types
from numpy.typing import NDArray

from engine.formats.arrow_columns import column_of, struct_of
from engine.formats.codec import Columns, Decoded, FieldProposal, ValueCodec, Verdict
from engine.kernels.memory import load_u8, load_u64
from engine.kernels.types import read_only, strided, writable
from engine.records.record_kernels import gather_spans
from engine.records.records import NULL_LENGTH, ByteSpans

SCHEMA_FIELD = pa.field("schema", pa.string())

HEAD, MIDDLE, TAIL = b'{"schema":', b',"payload":', b"}"
MAX_SCHEMAS = 32
"""Schemas told apart in one block; values with others stay whole, and so does what only looks like them."""

WHOLE, TO_TELL = -1, -2

_MARK = types.void(
    read_only(types.uint8), strided(types.int64), strided(types.int32), read_only(types.uint8),
    writable(types.int32), types.int32, types.int32,
)  # fmt: skip


@njit(_MARK, nogil=True, cache=True)
def _mark(data, start, length, prefix, told, before, after):  # type: ignore[no-untyped-def]
    """Rows that are told ``before``, begin with the prefix and end with a brace after it are told ``after``."""
    base, text, size = data.ctypes.data, prefix.ctypes.data, np.int64(prefix.shape[0])
    for row in range(start.shape[0]):
        at, end = start[row], start[row] + np.int64(length[row])
        if told[row] != before or at < 0 or end > data.shape[0] or end - at <= size or data[end - 1] != 125:
            continue
        done = np.int64(0)
        while size - done >= 8 and load_u64(base + at + done) == load_u64(text + done):
            done += 8
        while done < size and load_u8(base + at + done) == load_u8(text + done):
            done += 1
        if done == size:
            told[row] = after


def propose_fields(
    propose: Callable[[tuple[pa.Field, ...]], FieldProposal], existing: Sequence[pa.Field]
) -> FieldProposal:
    """What a format proposes for the payload, and the schema's column. A payload's own member of that name has none."""
    proposal = propose(payload_fields(existing))
    named = {field.name: field for field in (*proposal.fields, SCHEMA_FIELD)}
    kept = [named.pop(field.name, field) for field in existing]
    return replace(proposal, fields=(*kept, *named.values()))


def payload_fields(fields: Sequence[pa.Field]) -> tuple[pa.Field, ...]:
    return tuple(field for field in fields if field.name != SCHEMA_FIELD.name)


class ConnectSchemaCodec:
    """Hands the inner codec what lies under ``payload``; values of another form reach it whole."""

    def __init__(self, open_inner: Callable[[tuple[pa.Field, ...]], ValueCodec], fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._inner = open_inner(payload_fields(fields))
        self.name = self._inner.name
        self.version = self._inner.version

    def decode(self, values: ByteSpans) -> Decoded:
        told, texts = split_schemas(values)
        prefix = np.array([len(HEAD) + len(text.encode()) + len(MIDDLE) for text in texts] + [0], np.int64)
        cut = np.where(told >= 0, prefix[told], 0)
        length = values.length - np.where(told >= 0, cut + len(TAIL), 0)
        decoded = self._inner.decode(
            ByteSpans(data=values.data, start=values.start + cut, length=length.astype(np.int32))
        )
        shown = (told >= 0) & (decoded.verdict != Verdict.UNDECODABLE)
        schema = pa.array(texts, pa.string()).take(pa.array(np.where(shown, told, 0), mask=~shown))
        inner = dict(zip((field.name for field in self._inner.fields), decoded.columns.flatten(), strict=True))
        columns = [schema if field.name == SCHEMA_FIELD.name else inner[field.name] for field in self.fields]
        return replace(decoded, columns=struct_of(columns, self.fields, len(values)))

    def encode(self, columns: Columns, schema_id: pa.Array, wanted: NDArray[np.bool_]) -> ByteSpans:
        payload = self._inner.encode(columns, schema_id, wanted)
        column = column_of(columns, SCHEMA_FIELD.name)
        if column is None or column.null_count == len(column):
            return payload
        schema = ByteSpans.from_arrow(column)
        has_schema = (schema.length != NULL_LENGTH) & (payload.length != NULL_LENGTH)
        marks = np.frombuffer(HEAD + MIDDLE + TAIL, np.uint8)
        data = np.concatenate([marks, schema.data, payload.data])
        start = np.zeros((len(wanted), 5), np.int64)
        length = np.zeros((len(wanted), 5), np.int32)
        start[:, 1] = schema.start + len(marks)
        start[:, 2] = len(HEAD)
        start[:, 3] = payload.start + len(marks) + len(schema.data)
        start[:, 4] = len(HEAD) + len(MIDDLE)
        length[has_schema] = (len(HEAD), 0, len(MIDDLE), 0, len(TAIL))
        length[has_schema, 1] = schema.length[has_schema]
        length[:, 3] = np.maximum(payload.length, 0)
        offsets, out, _ = gather_spans(ByteSpans(data=data, start=start.ravel(), length=length.ravel()).arrays)
        bounds = offsets[::5]
        size = np.where(payload.length == NULL_LENGTH, NULL_LENGTH, np.diff(bounds))
        return ByteSpans(data=out, start=bounds[:-1].copy(), length=size.astype(np.int32))


def split_schemas(values: ByteSpans) -> tuple[NDArray[np.int32], list[str]]:
    """(int32[n] index into the schemas' texts, WHOLE for values of another form; the texts)."""
    told = np.full(len(values), WHOLE, np.int32)
    data = np.ascontiguousarray(values.data)

    def mark(prefix: bytes, before: int, after: int) -> None:
        _mark(data, values.start, values.length, np.frombuffer(prefix, np.uint8), told, before, after)

    mark(HEAD, WHOLE, TO_TELL)
    texts: list[str] = []
    for _ in range(2 * MAX_SCHEMAS):
        rows = np.flatnonzero(told == TO_TELL)
        if len(rows) == 0 or len(texts) == MAX_SCHEMAS:
            break
        text = _schema_text(values[int(rows[0])] or b"")
        if text is None:
            told[rows[0]] = WHOLE
        else:
            mark(HEAD + text.encode() + MIDDLE, TO_TELL, len(texts))
            texts.append(text)
    told[told == TO_TELL] = WHOLE
    return told, texts


def _schema_text(value: bytes) -> str | None:
    """The text of the first member, where the payload follows it at once."""
    try:
        text = value.decode(errors="surrogateescape")
        _, end = _DECODER.raw_decode(text, len(HEAD))
        text[len(HEAD) : end].encode()
    except (ValueError, RecursionError):
        return None
    return text[len(HEAD) : end] if text.startswith(MIDDLE.decode(), end) else None


_DECODER = json.JSONDecoder()
