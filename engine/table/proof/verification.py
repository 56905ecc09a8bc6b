"""Reads a table file back from the warehouse and says what is truly in it: evidence, gathered where the file is.

Runs in a worker, far from the driver, and knows nothing of what the file should hold: the verifier compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import crc32c
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.errors import Corrupt, FloebergError, Unavailable
from engine.formats.evolution.promotion import is_promotion
from engine.offset_range import OffsetRange
from engine.parquet.footer import MAGIC, ByteRange, ParquetFooter
from engine.parquet.leaves import FIELD_ID_KEY, field_id
from engine.parquet.ranged_file import RangedFile, ReadCount, row_group_cache
from engine.records.digest import RangeDigest
from engine.table.data_file import FileFooter
from engine.table.proof.file_claims import FileClaims
from engine.table.proof.leaf_facts import Leaf, LeafFacts
from engine.table.proof.row_order import OffsetOrder, SortOrder
from engine.table.rows.rows import RowCodecs, records_from_rows
from engine.table.topic_table import TableFacts
from engine.warehouse.warehouse import READ_PIECE_BYTES, Warehouse

_NOTHING_KEPT = 1
"""Bytes of the cache of row groups: each is read once."""

_SMALL_DICTIONARY_BYTES = 64 * 1024
"""Strings with a dictionary up to this size in the file are decoded as indexes into it, which is cheaper."""

_FEW_ROWS = 4096
"""It takes longer to find out which columns these are than to decode so many rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was found in a file: its bytes' size and CRC-32C, its footer's, what that claims, and what its rows are.

    ``offsets`` from the first row's offset to after the last one's, None without rows; ``digest`` of the records the
    rows give back; ``columns`` by field id, what is true of Kafka's own columns. Plain and picklable: it proves nothing
    until the verifier has compared it.
    """

    path: str
    size_bytes: int
    checksum: int
    footer_checksum: int | None
    footer: FileFooter
    partition: int
    offsets: OffsetRange | None
    digest: RangeDigest
    columns: Mapping[Leaf, LeafFacts]


def verify_file(path: str, facts: TableFacts) -> Verification:
    """Read a file whole, twice: its bytes for the checksum, its rows for the digest.

    The rows are read by pyarrow through the file's own footer, as any engine reads them, page checksums on; what footer
    and page index say of them is compared (file_claims.py). Nothing of what wrote the file has a part in it. Memory:
    one row group, and one window of a clustered file. Raises Corrupt when the file is missing, is no Parquet file, has
    a page whose checksum is wrong, says of itself what is false, or has rows that this program did not write;
    Unavailable when the warehouse is away.
    """
    size_bytes, checksum = _checksum(facts.warehouse, path)
    try:
        source = opened(facts.warehouse, path, size_bytes)
        check_magic(source)
        parsed = source.footer()
        source.prove()  # before anybody decodes them
        own = frozenset(name for name, _ in parsed.top_levels if facts.layout.is_metadata(name))
        with open_rows(facts.warehouse, path, parsed, closely=own) as file:
            schema = file.metadata.schema.to_arrow_schema()
            _check_columns(schema, facts, path)
            footer = FileFooter.from_key_values(file.metadata.metadata, file=path)
            starts = footer.window_starts(len(parsed.group_at), file=path)
            rows = _RowEvidence(facts, OffsetOrder(starts=starts), path)
            claims = FileClaims(source=source, footer=parsed, shown=file.metadata, schema=schema, closely=own)
            order = SortOrder(windows=footer.windows)
            for index in range(len(parsed.group_at)):
                table = file.read_row_group(index, use_threads=False)
                rows.add(table)
                for problem in chain(claims.false_in_group(index, table), order.false_in_group(index, table)):
                    raise _untrue(problem, path)
            for problem in claims.false_in_file():
                raise _untrue(problem, path)
    except Corrupt as error:
        raise Corrupt(
            error.problem, topic=facts.topic, partition=error.partition, offset=error.offset, file=path
        ) from error
    return Verification(
        path=path,
        size_bytes=size_bytes,
        checksum=checksum,
        footer_checksum=None if parsed.checksums is None else parsed.checksums.footer,
        footer=footer,
        partition=rows.partition,
        offsets=rows.order.offsets,
        digest=rows.order.digest,
        columns={leaf: found for leaf, found in claims.facts.items() if leaf.path.partition(".")[0] in own},
    )


def opened(warehouse: Warehouse, path: str, size_bytes: int | None = None) -> RangedFile:
    """A file whose bytes are read once, as long as it is now. Raises Corrupt, Unavailable."""
    return RangedFile(
        warehouse=warehouse,
        file=path,
        size_bytes=warehouse.size_bytes(path) if size_bytes is None else size_bytes,
        cache=row_group_cache(_NOTHING_KEPT),
        count=ReadCount(),
    )


def check_magic(source: RangedFile) -> None:
    """Raises Corrupt when the file does not begin as Parquet does; nothing else in it says how it begins."""
    if bytes(source.read([ByteRange(start=0, size=min(len(MAGIC), source.size_bytes))])[0]) != MAGIC:
        raise Corrupt("the file doesn't begin as Parquet does", file=source.file)


@contextmanager
def open_rows(
    warehouse: Warehouse, path: str, parsed: ParquetFooter, *, closely: frozenset[str] = frozenset()
) -> Iterator[pq.ParquetFile]:
    """A file opened by pyarrow, page checksums on; what it can't read inside the body is Corrupt, or Unavailable where
    the warehouse is remote and may have gone away.

    ``parsed`` tells which columns have small dictionaries; they stay so, but for those that are looked at ``closely``:
    Arrow gets slices of dictionaries in maps wrong. Raises Corrupt when pyarrow finds other row groups in it.
    """
    with warehouse.open_input(path) as source:
        try:
            with pq.ParquetFile(
                source,
                pre_buffer=not is_local(path),
                page_checksum_verification=True,
                read_dictionary=_small_dictionaries(parsed, closely),
            ) as file:
                if file.metadata.num_row_groups != len(parsed.group_at):
                    raise Corrupt("two readers of the footer find different row groups", file=path)
                yield file
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise Corrupt(f"the file can't be read as Parquet: {_first_line(error)}", file=path) from error
        except OSError as error:
            # Arrow reports damaged pages and a warehouse that went away alike; a local file does not go away.
            if is_local(path):
                raise Corrupt(f"the file can't be read as Parquet: {_first_line(error)}", file=path) from error
            raise Unavailable(f"the file can't be read: {_first_line(error)}", file=path) from error


def is_local(path: str) -> bool:
    return "://" not in path or path.startswith("file:")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _small_dictionaries(parsed: ParquetFooter, closely: frozenset[str]) -> list[str]:
    """Byte arrays whose dictionary is small in the first row group; a wrong guess costs time, and nothing else.

    Not by pyarrow: its accessors end the process on some damaged footers.
    """
    if parsed.row_count < _FEW_ROWS:
        return []
    chunks = parsed.row_group(0).chunks if parsed.group_at else ()
    return [
        ".".join(chunk.column.path)
        for chunk in chunks
        if chunk.is_byte_array
        and chunk.column.top not in closely
        and chunk.dictionary_start is not None
        and chunk.first_page_start - chunk.dictionary_start <= _SMALL_DICTIONARY_BYTES
    ]


def _untrue(problem: str, path: str) -> Corrupt:
    return Corrupt(f"a data file says what is not so: {problem}", file=path)


class _RowEvidence:
    """Folds row groups, in file order, into one account of the rows."""

    def __init__(self, facts: TableFacts, order: OffsetOrder, path: str) -> None:
        self._facts = facts
        self._codecs = RowCodecs.of(facts)
        self._path = path
        self.partition = -1
        self.order = order

    def add(self, table: pa.Table) -> None:
        if table.num_rows == 0:
            return
        if self._facts.layout.partition not in table.column_names:
            raise self._corrupt("the rows of a data file name no partition")
        partitions = pc.min_max(table.column(self._facts.layout.partition)).as_py()
        if partitions["min"] != partitions["max"] or self.partition not in {-1, partitions["min"]}:
            raise self._corrupt("a data file has rows of several partitions")
        self.partition = partitions["min"]
        try:
            records = records_from_rows(self._facts.layout, table, self._codecs)
        except FloebergError as error:
            raise self._corrupt(f"the rows of a data file don't give records back: {error.problem}") from error
        for problem in self.order.misplaced(records):
            raise self._corrupt(f"the rows of a data file are misplaced: {problem}", offset=int(records.offset[0]))

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
