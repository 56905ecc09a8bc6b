"""Records in memory: flat arrays that the log's kernels fill and the table's columns are made from, and back.

Both directions meet here. From a segment, keys, values and headers point into the decompressed batches; from a
table file they point into Arrow buffers and into the encoder's output. The digest, the row builder and the batch
writer see no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.kernels.types import frozen
from engine.records.record_kernels import RecordArrays, SpanArrays, find_not_utf8, gather_spans

NULL_LENGTH = -1

UNKNOWN_EPOCH = -1
"""Leader epoch of a record of which none is known."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ByteSpans:
    """``n`` byte strings, each null, empty or longer, that lie anywhere in one buffer.

    ``data`` uint8[m]; ``start`` int64[n], positions in ``data``; ``length`` int32[n], bytes, -1 for null.
    """

    data: NDArray[np.uint8]
    start: NDArray[np.int64]
    length: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, row: int) -> bytes | None:
        length = int(self.length[row])
        if length == NULL_LENGTH:
            return None
        start = int(self.start[row])
        return self.data[start : start + length].tobytes()

    def to_list(self) -> list[bytes | None]:
        return [self[row] for row in range(len(self))]

    @property
    def size_bytes(self) -> int:
        """Bytes of all strings together; nulls count nothing."""
        return int(np.maximum(self.length, 0).sum(dtype=np.int64))

    @classmethod
    def from_list(cls, values: Sequence[bytes | None]) -> Self:
        length = np.array([NULL_LENGTH if value is None else len(value) for value in values], np.int32)
        end = np.cumsum(np.maximum(length, 0), dtype=np.int64)
        data = np.frombuffer(b"".join(value or b"" for value in values), np.uint8)
        return cls(data=data, start=end - np.maximum(length, 0), length=length)

    @classmethod
    def nulls(cls, count: int) -> Self:
        return cls(
            data=np.empty(0, np.uint8), start=np.zeros(count, np.int64), length=np.full(count, NULL_LENGTH, np.int32)
        )

    def select(self, rows: slice | NDArray[np.intp] | NDArray[np.bool_]) -> Self:
        """The same buffer seen through some of the rows: no byte is copied."""
        return type(self)(data=self.data, start=self.start[rows], length=self.length[rows])

    @property
    def is_not_utf8(self) -> NDArray[np.bool_]:
        """bool[n]: which strings are not valid UTF-8 (nulls and empty ones are)."""
        invalid = np.empty(len(self), np.uint8)
        find_not_utf8(self.arrays, invalid)
        return invalid.view(np.bool_)

    @property
    def arrays(self) -> SpanArrays:
        return SpanArrays(frozen(self.data), frozen(self.start), frozen(self.length))

    def to_arrow(self) -> pa.Array:
        """A contiguous ``binary`` array (``large_binary`` where the bytes pass 2 GiB), nulls kept."""
        offsets, data, null_count = gather_spans(self.arrays)
        validity = None
        if null_count:
            validity = pa.py_buffer(np.packbits(self.length >= 0, bitorder="little"))
        kind = pa.large_binary()
        if offsets[-1] < 2**31:
            kind, offsets = pa.binary(), offsets.astype(np.int32)
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(kind, len(self), buffers, null_count)

    @classmethod
    def from_arrow(cls, array: pa.Array) -> Self:
        """View a binary or string array without a copy of its bytes.

        Of 32- or 64-bit offsets, any array offset, plain or dictionary-encoded. Raises Corrupt where a row points
        outside of its dictionary.
        """
        if pa.types.is_dictionary(array.type):
            return cls._through_dictionary(array)
        wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
        _, offsets_buffer, data_buffer = array.buffers()
        count = len(array)
        if count == 0:
            return cls.nulls(0)
        offsets = np.frombuffer(offsets_buffer, np.int64 if wide else np.int32)[array.offset :][: count + 1]
        length = np.diff(offsets).astype(np.int32)
        if array.null_count:
            length[array.is_null().to_numpy(zero_copy_only=False)] = NULL_LENGTH
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
        return cls(data=data, start=offsets[:-1].astype(np.int64), length=length)

    @classmethod
    def _through_dictionary(cls, array: pa.DictionaryArray) -> Self:
        entries = cls.from_arrow(array.dictionary)
        indices = array.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        present = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        outside = present & ((indices < 0) | (indices >= len(entries)))
        if bool(outside.any()):
            raise Corrupt(f"row {int(np.flatnonzero(outside)[0])} points outside of its dictionary")
        if len(entries) == 0:
            return cls.nulls(len(array))
        return cls(
            data=entries.data,
            start=entries.start[indices],
            length=np.where(present, entries.length[indices], np.int32(NULL_LENGTH)).astype(np.int32),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Headers:
    """The headers of ``n`` records: header ``h`` belongs to record ``r`` when ``first[r] <= h < first[r + 1]``.

    ``first`` int64[n + 1], not decreasing, ``first[0]`` may be above 0; ``key`` and ``value`` have one entry a header.
    A key is never null (the wire format has no null key).
    """

    first: NDArray[np.int64]
    key: ByteSpans
    value: ByteSpans

    @classmethod
    def from_lists(cls, headers: Iterable[Sequence[tuple[bytes, bytes | None]]]) -> Self:
        rows = [list(row) for row in headers]
        first = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=first[1:])
        flat = [header for row in rows for header in row]
        return cls(
            first=first,
            key=ByteSpans.from_list([key for key, _ in flat]),
            value=ByteSpans.from_list([value for _, value in flat]),
        )

    def of_record(self, row: int) -> list[tuple[bytes, bytes | None]]:
        return [(self.key[h] or b"", self.value[h]) for h in range(int(self.first[row]), int(self.first[row + 1]))]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Records:
    """``n`` records of one partition in rising offset order.

    ``offset`` int64[n]; ``timestamp_ms`` int64[n], milliseconds since the epoch, -1 where the producer set none;
    ``timestamp_type`` int8[n], 0 create time, 1 log append time; ``leader_epoch`` int32[n], -1 unknown;
    ``headers`` is None when no record has any; ``batch_bytes`` of the log's batches that were read for them, headers
    included, 0 where they don't come from a log.
    """

    offset: NDArray[np.int64]
    timestamp_ms: NDArray[np.int64]
    timestamp_type: NDArray[np.int8]
    leader_epoch: NDArray[np.int32]
    key: ByteSpans
    value: ByteSpans
    headers: Headers | None
    batch_bytes: int = 0

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def arrays(self) -> RecordArrays:
        headers = self.headers or NO_HEADERS
        return RecordArrays(
            frozen(self.offset),
            frozen(self.timestamp_ms),
            frozen(self.timestamp_type),
            frozen(self.leader_epoch),
            self.key.arrays,
            self.value.arrays,
            frozen(headers.first),
            headers.key.arrays,
            headers.value.arrays,
        )

    def slice(self, start: int, end: int) -> Self:
        """Rows ``start <= row < end``; buffers are shared."""
        rows = slice(start, end)
        headers = self.headers
        if headers is not None:
            headers = Headers(first=headers.first[start : end + 1], key=headers.key, value=headers.value)
        return type(self)(
            offset=self.offset[rows],
            timestamp_ms=self.timestamp_ms[rows],
            timestamp_type=self.timestamp_type[rows],
            leader_epoch=self.leader_epoch[rows],
            key=self.key.select(rows),
            value=self.value.select(rows),
            headers=headers,
        )

    def where(self, stays: NDArray[np.bool_]) -> Iterator[Self]:
        """The rows for which ``stays`` bool[n] is true, those side by side together; buffers are shared."""
        edges = np.flatnonzero(np.diff(np.concatenate([[False], stays, [False]]).astype(np.int8)))
        for start, end in edges.reshape(-1, 2).tolist():
            yield self.slice(start, end)


NO_HEADERS = Headers(first=np.empty(0, np.int64), key=ByteSpans.nulls(0), value=ByteSpans.nulls(0))

NO_RECORDS = Records(
    offset=np.empty(0, np.int64),
    timestamp_ms=np.empty(0, np.int64),
    timestamp_type=np.empty(0, np.int8),
    leader_epoch=np.empty(0, np.int32),
    key=ByteSpans.nulls(0),
    value=ByteSpans.nulls(0),
    headers=None,
)
