"""Whether a column chunk's page headers and page index are true of its pages and of the rows in them.

The library shows no page index, so it is read by our own parser: the readers', which has nothing of the writer's. What
it says is compared with the headers of the pages themselves, found by walking the chunk, and with the decoded values.
Bounds may be wider than the values, where they don't call themselves exact. Source: the Parquet format specification,
"Page index", and parquet.thrift.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.parquet import thrift_kernels as walk
from engine.parquet.footer import ColumnChunk
from engine.parquet.thrift import LIST, ThriftStruct, ThriftTape
from engine.table.proof.leaf_facts import LeafFacts, bound_value

_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_UNCOMPRESSED = 0
_INTEGERS = (1, 2)
_ORDERS = {1: operator.le, 2: operator.ge}
"""How a BoundaryOrder (ascending, descending) compares each bound with the next page's."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChunkPages:
    """The pages of one chunk as their own headers describe them: ``table`` has a column of ``walk_pages`` a row, and a
    page a column; those before ``first_data`` are a dictionary."""

    table: NDArray[np.int64]
    first_data: int

    @classmethod
    def walk(cls, chunk: ColumnChunk, content: memoryview, file: str) -> ChunkPages:
        """Raises Corrupt when the chunk is not made of whole pages, a dictionary first where there is one."""
        room = 64
        while True:
            found = np.empty((room, walk.PAGE_COLUMNS), np.int64)
            count = int(walk.walk_pages(np.frombuffer(content, np.uint8), found))
            if count != walk.TABLE_FULL:
                break
            room *= 8
        if count <= 0:
            raise Corrupt(f"column {'.'.join(chunk.column.path)}: its bytes are not whole pages", file=file)
        kinds = found[:count, walk.TYPE].tolist()
        first = int(kinds[0] == _DICTIONARY_PAGE)
        if first == count or not {_DATA_PAGE, _DATA_PAGE_V2}.issuperset(kinds[first:]):
            raise Corrupt(f"column {'.'.join(chunk.column.path)}: it has pages that don't belong there", file=file)
        return cls(table=np.ascontiguousarray(found[:count].T), first_data=first)

    @property
    def values(self) -> NDArray[np.int64]:
        """Entries of each data page."""
        return self.table[walk.VALUES, self.first_data :]

    @property
    def locations(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Byte of the chunk where each data page begins, and its size with its header."""
        data = self.table[:, self.first_data :]
        return data[walk.START], data[walk.BODY] - data[walk.START] + data[walk.STORED_BYTES]

    def encodings(self) -> Counter[tuple[int, int]]:
        """How many pages have (type, encoding)."""
        return Counter(zip(self.table[walk.TYPE].tolist(), self.table[walk.ENCODING].tolist(), strict=True))


def false_chunk_claims(chunk: ColumnChunk, metadata: ThriftStruct, pages: ChunkPages) -> Iterator[str]:
    """What a chunk's metadata says of its pages, and the pages of themselves, that is not so; one sentence each."""
    name, table = ".".join(chunk.column.path), pages.table
    if not table[walk.HAS_CHECKSUM].all():
        yield f"column {name}: a page has no checksum"
    if table[walk.UNCOMPRESSED_BYTES].min() < 0 or table[walk.VALUES].min() < 0:
        yield f"column {name}: a page's header lacks its size or its count of values"
    if metadata[4] == _UNCOMPRESSED and not np.array_equal(table[walk.UNCOMPRESSED_BYTES], table[walk.STORED_BYTES]):
        yield f"column {name}: a page that is not compressed has two sizes"
    sums = table.sum(axis=1).tolist()
    claims = (
        ("values", chunk.value_count, int(pages.values.sum())),
        (
            "bytes before compression",
            chunk.uncompressed_bytes,
            sums[walk.UNCOMPRESSED_BYTES] + sums[walk.BODY] - sums[walk.START],
        ),
        ("as its first page's place", chunk.first_page_start, chunk.data.start + int(pages.locations[0][0])),
        ("as its dictionary's place", chunk.dictionary_start, chunk.data.start if pages.first_data else None),
    )
    for what, claimed, found in claims:
        if claimed != found:
            yield f"column {name}: the footer says {claimed} {what}, it is {found}"
    encodings = pages.encodings()
    if not {encoding for _, encoding in encodings} <= set(metadata[2]):
        yield f"column {name}: pages have an encoding that the footer does not name"
    counted = {(entry.get(1), entry.get(2)): entry.get(3) for entry in metadata.get(13, ())}
    if counted and counted != encodings:
        yield f"column {name}: the footer counts other encodings of pages than there are"


def first_rows(locations: NDArray[np.int64], row_count: int) -> NDArray[np.int64] | None:
    """First row of each page as the offset index says, the row group's end last; None where they are no such rows."""
    rows = np.append(locations[:, 2], row_count)
    if len(rows) == 1 or rows[0] != 0 or bool((rows[1:] < rows[:-1]).any()):
        return None
    return rows


def false_locations(locations: NDArray[np.int64], chunk: ColumnChunk, pages: ChunkPages) -> Iterator[str]:
    """What the offset index says of the pages' places and, where rows are entries, first rows, that is not so."""
    name, values = ".".join(chunk.column.path), pages.values
    if len(locations) != len(values):
        yield f"column {name}: the offset index lists {len(locations)} pages, there are {len(values)}"
        return
    starts, sizes = pages.locations
    if not np.array_equal(locations[:, 0] - chunk.data.start, starts) or not np.array_equal(locations[:, 1], sizes):
        yield f"column {name}: the offset index says that pages lie where they don't"
    if not chunk.column.repeated and not np.array_equal(locations[:, 2], np.cumsum(values) - values):
        yield f"column {name}: the offset index says that pages begin at other rows than they do"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnIndex:
    """A column index: an entry a page each; ``null_counts`` None where it has none. The bounds are unpacked later."""

    null_pages: list[bool]
    order: int
    null_counts: list[int] | None
    tape: ThriftTape
    at: tuple[int, int]

    @classmethod
    def parse(cls, data: memoryview, file: str) -> ColumnIndex:
        """Raises Corrupt when it lacks one of its fields or has one twice as long as another."""
        tape = ThriftTape.read(np.frombuffer(data, np.uint8), file=file, what="column index")
        fields = tape.fields_of(0)
        lists = [fields.get(number, 0) for number in (1, 2, 3, *((5,) if 5 in fields else ()))]
        sizes = {int(tape.value[entry]) for entry in lists}
        # Items hold nothing, so that as many entries follow.
        if any(tape.kind[entry] != LIST for entry in lists) or len(sizes) != 1 or 4 not in fields:
            raise Corrupt("the column index is damaged: it lacks bounds, null pages or their order", file=file)
        counts = None if 5 not in fields else _items(tape, fields[5])
        return cls(
            null_pages=[bool(null) for null in _items(tape, fields[1])],
            order=int(tape.value[fields[4]]),
            null_counts=counts,
            tape=tape,
            at=(fields[2], fields[3]),
        )

    def bounds(self) -> list[tuple[bytes, bytes]]:
        """Least and greatest of each page as they are encoded."""
        low, high = (self.tape.unpack(entry) for entry in self.at)
        return list(zip(low, high, strict=True))


def _items(tape: ThriftTape, entry: int) -> list[int]:
    found: list[int] = tape.value[entry + 1 : int(tape.after[entry])].tolist()
    return found


def false_column_index(name: str, index: ColumnIndex, entries: list[int], null_count: int) -> Iterator[str]:
    """What a column index says of nulls that is not so, by the pages' entries and the row group's nulls alone."""
    nulls = index.null_counts
    if len(index.null_pages) != len(entries):
        yield f"column {name}: the column index has {len(index.null_pages)} pages, there are {len(entries)}"
    elif nulls is None:
        return
    elif sum(nulls) != null_count or any(not 0 <= count <= most for count, most in zip(nulls, entries, strict=True)):
        yield f"column {name}: the column index counts {sum(nulls)} nulls, there are {null_count}"
    elif [count == most for count, most in zip(nulls, entries, strict=True)] != index.null_pages:
        yield f"column {name}: the column index calls other pages null than are"


def false_page_bounds(
    name: str, index: ColumnIndex, facts: Sequence[LeafFacts], kind: pa.DataType, physical_type: int
) -> Iterator[str]:
    """What a column index says page by page that is not so of the values; pages and index are equally many."""
    if index.null_pages != [each.null_count == each.value_count for each in facts]:
        yield f"column {name}: the column index calls other pages null than are"
        return
    if index.null_counts is not None and index.null_counts != [each.null_count for each in facts]:
        yield f"column {name}: the column index counts other nulls in a page than there are"
    bounds: list[tuple[Any, Any]] = []
    before: tuple[tuple[bytes, bytes], Any, Any] | None = None
    if all(index.null_pages):
        return
    for page, (null, raw, each) in enumerate(zip(index.null_pages, index.bounds(), facts, strict=True)):
        if null:
            continue
        if (raw, each.least, each.greatest) == before:  # as in every page of a column with one value
            continue
        before = raw, each.least, each.greatest
        low, high = (stored_value(kind, physical_type, bound) for bound in raw)
        bounds.append((low, high))
        if each.least is not None:
            yield from false_bounds(f"column {name}: the column index, page {page}", low, high, each)
    follows = _ORDERS.get(index.order)
    if follows is not None and not _are_ordered(bounds, follows):
        yield f"column {name}: the column index says that its pages are in order, and they are not"


def _are_ordered(bounds: Sequence[Sequence[Any]], follows: Any) -> bool:
    try:
        return all(
            follows(one, other) for before, after in pairwise(bounds) for one, other in zip(before, after, strict=True)
        )
    except TypeError:
        return False


def false_bounds(
    whose: str, low: Any, high: Any, facts: LeafFacts, *, low_is_exact: bool = False, high_is_exact: bool = False
) -> Iterator[str]:
    """One sentence for each bound that excludes a value, or that is exact and no value."""
    sides = (
        ("lower", low, facts.least, operator.le, low_is_exact),
        ("upper", high, facts.greatest, operator.ge, high_is_exact),
    )
    for what, bound, extreme, encloses, is_exact in sides:
        if bound is None or not encloses(bound, extreme):
            yield f"{whose}: the {what} bound {bound!r} excludes the value {extreme!r}"
        elif is_exact and bound != extreme:
            yield f"{whose}: the {what} bound {bound!r} is called exact, and is no value"


def stored_value(kind: pa.DataType, physical_type: int, raw: bytes) -> Any:
    """A bound in Parquet's encoding as a value that compares as ``LeafFacts`` do; None when it is none of that type."""
    if pa.types.is_boolean(kind):
        return bool(raw[0]) if len(raw) == 1 else None
    if pa.types.is_decimal(kind) and physical_type in _INTEGERS:
        return int.from_bytes(raw, "little", signed=True) if raw else None
    return bound_value(kind, raw)
