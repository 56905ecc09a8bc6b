"""Reads a table file back from the warehouse and says what is truly in it: evidence, gathered where the file is.

Runs in a worker, far from the driver, and knows nothing of what the file should hold: the verifier compares.
"""

from __future__ import annotations

from dataclasses import dataclass

import crc32c
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.digest import EMPTY_DIGEST, RangeDigest, digest_of
from engine.errors import Corrupt, FloebergError
from engine.formats.type_promotion import is_promotion
from engine.offset_range import OffsetRange
from engine.records import Records
from engine.table.columns import FIELD_ID_KEY, field_id
from engine.table.data_file import FileFooter
from engine.table.page_reader import read_rows, whole_group
from engine.table.ranged_file import RangedFile, ReadCount, row_group_cache
from engine.table.row_codecs import RowCodecs
from engine.table.rows import records_from_rows
from engine.table.topic_table import TableFacts
from engine.table.warehouse import READ_PIECE_BYTES, Warehouse

_NOTHING_KEPT = 1
"""Bytes of the cache of row groups: each is read once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was found in a file: its bytes' size and CRC-32C, what its footer claims, and what its rows are.

    ``offsets`` from the first row's offset to behind the last one's, None without rows; ``digest`` of the records the
    rows give back. Plain and picklable: it proves nothing until the verifier has compared it.
    """

    path: str
    size_bytes: int
    checksum: int
    footer: FileFooter
    partition: int
    offsets: OffsetRange | None
    digest: RangeDigest


def verify_file(path: str, facts: TableFacts) -> Verification:
    """Read a file whole, twice: its bytes for the checksum, its rows for the digest.

    The rows are read as a consumer's are (page_reader), and decoded by pyarrow: nothing of what wrote the file has a
    part in it. Memory: one row group. Raises Corrupt when the file is missing, is no Parquet file, has a page whose
    checksum is wrong, or rows that this program did not write; Unavailable when the warehouse does not answer.
    """
    size_bytes, checksum = _checksum(facts.warehouse, path)
    try:
        footer = _footer(path, facts)
        source = RangedFile(
            warehouse=facts.warehouse,
            file=path,
            size_bytes=size_bytes,
            cache=row_group_cache(_NOTHING_KEPT),
            count=ReadCount(),
        )
        parsed = source.footer()
        rows = _RowEvidence(facts, RowCodecs.of(facts), path)
        for index in range(len(parsed.group_at)):
            group = parsed.row_group(index)
            rows.add(read_rows(source, parsed, group, None, whole_group(group, None), is_sequential=True))
    except Corrupt as error:
        raise Corrupt(
            error.problem, topic=facts.topic, partition=error.partition, offset=error.offset, file=path
        ) from error
    return Verification(
        path=path,
        size_bytes=size_bytes,
        checksum=checksum,
        footer=footer,
        partition=rows.partition,
        offsets=rows.offsets,
        digest=rows.digest,
    )


def _footer(path: str, facts: TableFacts) -> FileFooter:
    """What the footer claims, as pyarrow reads it: other programs do too."""
    with facts.warehouse.open_input(path) as source:
        try:
            file = pq.ParquetFile(source, pre_buffer=False)
            _check_columns(file.schema_arrow, facts, path)
            return FileFooter.from_key_values(file.metadata.metadata, file=path)
        except (pa.ArrowException, OSError) as error:
            raise Corrupt(f"a data file can't be read: {error}") from error


class _RowEvidence:
    """Folds row groups, in file order, into one account of the rows."""

    def __init__(self, facts: TableFacts, codecs: RowCodecs, path: str) -> None:
        self._facts = facts
        self._codecs = codecs
        self._path = path
        self.partition = -1
        self.offsets: OffsetRange | None = None
        self.digest = EMPTY_DIGEST

    def add(self, table: pa.Table) -> None:
        if table.num_rows == 0:
            return
        if self._facts.layout.partition not in table.column_names:
            raise self._corrupt("the rows of a data file name no partition")
        partitions = pc.min_max(table.column(self._facts.layout.partition)).as_py()
        if partitions["min"] != partitions["max"] or self.partition not in {-1, partitions["min"]}:
            raise self._corrupt("a data file has rows of several partitions")
        self.partition = partitions["min"]
        records = self._records(table)
        first, last = int(records.offset[0]), int(records.offset[-1])
        behind = self.offsets.end if self.offsets is not None else first
        if first < behind or bool((records.offset[1:] <= records.offset[:-1]).any()):
            raise self._corrupt("the rows of a data file are not in rising offset order", offset=first)
        start = self.offsets.start if self.offsets is not None else first
        self.offsets = OffsetRange(start=start, end=last + 1)
        self.digest = self.digest.then(digest_of(records))

    def _records(self, table: pa.Table) -> Records:
        try:
            return records_from_rows(self._facts.layout, table, self._codecs)
        except FloebergError as error:
            raise self._corrupt(f"the rows of a data file don't give records back: {error.problem}") from error

    def _corrupt(self, problem: str, *, offset: int | None = None) -> Corrupt:
        return Corrupt(
            problem, topic=self._facts.topic, partition=max(self.partition, 0), offset=offset, file=self._path
        )


def _check_columns(found: pa.Schema, facts: TableFacts, path: str) -> None:
    """A file has columns of its table: those of its time, some of which may have grown fields, or become wider, since.

    Under the table's field ids at every level: SQL engines know columns by nothing else.
    """
    expected = {field.name: field for field in facts.schema}
    for field in found:
        if field.name not in expected or not _is_part_of(field, expected[field.name]):
            raise Corrupt(
                f"a data file has a column {field.name} of type {field.type}, or under other field ids",
                topic=facts.topic,
                file=path,
            )
    required = {field.name for field in facts.layout.metadata_fields() if not field.nullable}
    missing = required - set(found.names)
    if missing or len(set(found.names)) < len(found.names):
        raise Corrupt(f"a data file lacks the columns {sorted(missing)}", topic=facts.topic, file=path)


def _is_part_of(found: pa.Field, expected: pa.Field) -> bool:
    kind, wanted = found.type, expected.type
    if (found.metadata or {}).get(FIELD_ID_KEY) != str(field_id(expected)).encode():
        return False
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        known = {child.name: child for child in wanted}
        return all(child.name in known and _is_part_of(child, known[child.name]) for child in kind)
    if pa.types.is_list(kind) and pa.types.is_list(wanted):
        return _is_part_of(kind.value_field, wanted.value_field)
    if pa.types.is_map(kind) and pa.types.is_map(wanted):
        return _is_part_of(kind.key_field, wanted.key_field) and _is_part_of(kind.item_field, wanted.item_field)
    return bool(kind == wanted) or is_promotion(kind, wanted)


def _checksum(warehouse: Warehouse, path: str) -> tuple[int, int]:
    """(bytes, CRC-32C) of the file as the warehouse gives it now."""
    size_bytes, checksum = 0, 0
    with warehouse.open_input(path) as file:
        while piece := file.read_buffer(READ_PIECE_BYTES):
            if piece.size == 0:
                break
            checksum = crc32c.crc32c(memoryview(piece), checksum)
            size_bytes += piece.size
    return size_bytes, checksum
