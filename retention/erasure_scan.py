"""Whether any file in a table's folder still holds what was erased: every file is read, named by the table or not.

It proves what the bytes say that are there now, under these keys, and nothing of copies elsewhere (docs/erasure.md).
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import FloebergError, Invalid, Unavailable
from engine.offset_range import OffsetRange
from engine.parquet.ranged_file import ReadCount
from engine.table.adopted_range import ForeignFile
from engine.table.data_file import parse_file_name
from engine.table.foreign.rows import open_foreign
from engine.table.manifests import NO_PARTITION, TableFile
from engine.table.merge.copied_rows import in_schema
from engine.table.merge.stored_file import StoredFile
from engine.table.rows.rows import RowCodecs
from engine.table.topic_table import TopicTable
from engine.warehouse.warehouse import READ_PIECE_BYTES
from retention.erasure_condition import Condition, keys_of
from retention.erasure_report import ErasureReport

LEAST_KEY_BYTES = 4
"""Shorter ones stand anywhere by chance."""

_AVRO = b"Obj\x01"
_SYNC_BYTES = 16
_ZIPPED_METADATA = (".gz.metadata.json", ".metadata.json.gz")


@dataclass(slots=True, kw_only=True)
class Scan:
    """``records`` by path of the files that hold some, with how many; ``bytes_in`` paths of files in which the bytes of
    a key stand somewhere; ``unread`` why others could not be looked through; ``files`` how many were."""

    files: int = 0
    records: dict[str, int] = field(default_factory=dict)
    bytes_in: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        return not (self.records or self.bytes_in or self.unread)


class Matcher:
    """Finds a report's records again: by the keys' hashes; by offset where it was a condition; or, where it is given
    again, by what was asked then."""

    def __init__(self, table: TopicTable, report: ErasureReport, asked: Condition | None = None) -> None:
        """Raises Invalid where nothing tells the records."""
        self._layout = table.layout
        self._codec = RowCodecs.of(table).key
        self._report = report
        self._asked = asked
        if asked is None and not report.keys and any(one.offsets is None for one in report.partitions.values()):
            raise Invalid(
                "the report names no offsets, as there were too many", next_step="give the condition again: --where …"
            )

    def count(self, rows: pa.RecordBatch) -> int:
        """How many of the rows, in the table's columns, are such records."""
        if self._asked is not None:
            return len(self._asked.offsets(rows))
        if self._report.keys:
            keys = keys_of(rows, self._layout, self._codec).drop_null().value_counts()
            hashes = frozenset(self._report.keys)
            return sum(one["counts"] for one in keys.to_pylist() if self._report.hashed(one["values"]) in hashes)
        partitions = rows.column(self._layout.partition).to_numpy()
        offsets = rows.column(self._layout.offset).to_numpy()
        return sum(
            int(np.count_nonzero(_inside(offsets[partitions == number], one.offsets or ())))
            for number, one in self._report.partitions.items()
        )


def scan(
    table: TopicTable, matcher: Matcher, keys: Collection[bytes] = (), *, on_file: Callable[[], object] = lambda: None
) -> Scan:
    """Read every file in the table's folder; ``keys`` are also looked for as bytes, anywhere. Raises Unavailable."""
    found = Scan()
    searched = [key for key in keys if len(key) >= LEAST_KEY_BYTES]
    for stored in table.warehouse.list(table.location):
        on_file()
        try:
            if stored.path.endswith(".parquet"):
                _scan_rows(table, stored.path, stored.size_bytes, matcher, searched, found)
            if searched and _is_in_file(table, stored.path, searched) and stored.path not in found.bytes_in:
                found.bytes_in.append(stored.path)
            found.files += 1
        except Unavailable:
            raise
        except FloebergError as error:
            found.unread[stored.path] = error.problem
    return found


def _scan_rows(
    table: TopicTable, path: str, size_bytes: int, matcher: Matcher, searched: Sequence[bytes], found: Scan
) -> None:
    count = 0
    for rows in _rows(table, path, size_bytes):
        count += matcher.count(rows)
        if path not in found.bytes_in and any(_has_bytes(column, searched) for column in rows.columns):
            found.bytes_in.append(path)
    if count:
        found.records[path] = count


def _rows(table: TopicTable, path: str, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """All rows of a file, in the table's columns."""
    facts = table.facts
    try:
        name = parse_file_name(path)
    except Invalid:
        part = ForeignFile(path=path, partition=NO_PARTITION, size_bytes=size_bytes, record_count=0)
        with open_foreign(facts.warehouse, part, facts.schema, facts.layout) as opened:
            for index in range(opened.group_count):
                yield from (in_schema(rows, facts.schema) for rows in opened.batches(index))
        return
    file = TableFile(
        partition=name.partition,
        range=name.range,
        path=path,
        size_bytes=size_bytes,
        record_count=0,
        leader_epoch=name.leader_epoch,
    )
    for group in StoredFile(table=facts, file=file, count=ReadCount()).groups():
        yield from (in_schema(rows, facts.schema) for rows in group.combine_chunks().to_batches())


def _inside(offsets: NDArray[np.int64], ranges: Sequence[OffsetRange]) -> NDArray[np.bool_]:
    starts = np.array([item.start for item in ranges], np.int64)
    ends = np.array([item.end for item in ranges], np.int64)
    return np.searchsorted(starts, offsets, "right") > np.searchsorted(ends, offsets, "right")


def _has_bytes(column: pa.Array, searched: Sequence[bytes]) -> bool:
    """Whether one of the byte strings stands in a text or binary of a column, however deep."""
    kind = column.type
    if pa.types.is_struct(kind):
        return any(_has_bytes(child, searched) for child in column.flatten())
    if pa.types.is_map(kind):
        return _has_bytes(column.keys, searched) or _has_bytes(column.items, searched)
    if pa.types.is_list(kind):
        return _has_bytes(column.flatten(), searched)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        plain = column.cast(pa.binary())
        return any(bool(pc.any(pc.match_substring(plain, key)).as_py()) for key in searched)
    return False


def _is_in_file(table: TopicTable, path: str, searched: Sequence[bytes]) -> bool:
    """Whether one of the byte strings stands in a file's bytes, or, of metadata, in what they were compressed from."""
    overlap = max(map(len, searched)) - 1
    before = b""
    with table.warehouse.open_input(path) as file:
        is_avro = False
        while piece := file.read(READ_PIECE_BYTES):
            is_avro |= not before and piece.startswith(_AVRO)
            together = before + piece
            if any(key in together for key in searched):
                return True
            before = together[-overlap:]
    if not is_avro and not path.endswith(_ZIPPED_METADATA):
        return False
    try:
        content = table.warehouse.read_bytes(path)
        parts = _avro_blocks(content) if is_avro else iter([gzip.decompress(content)])
        return any(key in part for part in parts for key in searched)
    except (zlib.error, OSError, EOFError, IndexError) as error:
        raise Invalid(f"its bytes can't be unpacked: {error}", file=path) from error


def _avro_blocks(content: bytes) -> Iterator[bytes]:
    """What the blocks of an Avro file hold (Avro specification, "Object Container Files")."""
    at, is_deflated = len(_AVRO), b"avro.codec\x0edeflate" in content
    sizes, at = _long(content, at)
    while sizes:
        for _ in range(2 * abs(sizes)):
            length, at = _long(content, at)
            at += length
        sizes, at = _long(content, at)
    at += _SYNC_BYTES
    while at < len(content):
        _, at = _long(content, at)
        length, at = _long(content, at)
        block = content[at : at + length]
        yield zlib.decompress(block, -zlib.MAX_WBITS) if is_deflated else block
        at += length + _SYNC_BYTES


def _long(content: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, and where it ends."""
    value, shift = 0, 0
    while True:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
