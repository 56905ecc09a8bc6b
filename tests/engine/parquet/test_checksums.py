"""Every bit of a file is covered by a checksum, and the footer's stands in the table."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile

from engine.errors import Corrupt
from engine.fsck.report import Damage
from engine.offset_range import OffsetRange
from engine.parquet.checksums import BLOCK_BYTES, CHECKSUMS_KEY
from engine.parquet.footer import TRAILER_BYTES, ByteRange
from engine.parquet.ranged_file import RangedFile, ReadCount, row_group_cache
from engine.reading.file_index import FileIndex
from engine.table.data_file import CHECKSUM_COLUMN_ID, FileDescription
from engine.table.proof.verification import check_magic, opened
from engine.table.proof.verifier import Verifier
from engine.table.topic_table import TopicTable
from engine.warehouse.warehouse import Warehouse
from tests.engine.parquet.pyarrow_files import described, rewritten, write_by_pyarrow
from tests.engine.stored_orders import StoredOrders, check_orders, damages
from tests.engine.table.table_examples import ensure_table, open_writer, records_of, write_file

COVERED = OffsetRange(start=0, end=300)
CACHED_BYTES = 1 << 20


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    return ensure_table(open_writer(tmp_path))


@pytest.fixture
def path(table: TopicTable) -> Path:
    written = write_file(table.facts, records_of([b"value %d" % at for at in range(300)]), covered=COVERED)
    return Path(written.path.removeprefix("file://"))


def prove(path: Path) -> None:
    source = opened(Warehouse(), str(path))
    assert source.footer().checksums is not None
    check_magic(source)
    source.prove()


def by_floeberg(_: Path) -> None:
    """As it was written."""


def by_pyarrow(path: Path) -> None:
    """As another writer writes it, through the same checksums."""
    rewritten(path, lambda rows: rows)


@pytest.mark.parametrize("write", [by_floeberg, by_pyarrow])
def test_flipped_bit_is_seen_wherever_it_lies(path: Path, write: Callable[[Path], None]) -> None:
    write(path)
    prove(path)
    whole = path.read_bytes()
    for at in [*range(0, len(whole), 17), len(whole) - 6, len(whole) - 1]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        # The key's own name: without it a file is one of an earlier version, and the table knows better.
        with pytest.raises((Corrupt, AssertionError)):
            prove(path)


@pytest.mark.parametrize(
    "grow", [lambda whole: b"PAR1" + whole, lambda whole: whole + b"PAR1", lambda whole: whole * 2]
)
def test_file_that_has_grown_is_seen(path: Path, grow: Callable[[bytes], bytes]) -> None:
    path.write_bytes(grow(path.read_bytes()))
    with pytest.raises(Corrupt):
        prove(path)


@pytest.mark.parametrize("is_remote", [False, True])
def test_bytes_are_read_only_where_all_of_their_block_is_as_it_was_written(table: TopicTable, is_remote: bool) -> None:
    def read(start: int) -> int:
        count = ReadCount()
        source = RangedFile(
            warehouse=Warehouse(),
            file=str(path),
            size_bytes=len(whole),
            cache=row_group_cache(CACHED_BYTES),
            count=count,
            is_remote=is_remote,
        )
        source.footer()
        before = count.read_bytes
        for at in (start, start + 20):
            assert bytes(source.read([ByteRange(start=at, size=10)])[0]) == whole[at : at + 10]
        return count.read_bytes - before

    noise = [random.Random(at).randbytes(1000) for at in range(300)]
    written = write_file(table.facts, records_of(noise), covered=COVERED)
    path = Path(written.path.removeprefix("file://"))
    whole = path.read_bytes()
    end = len(whole) - TRAILER_BYTES - int.from_bytes(whole[-TRAILER_BYTES:-4], "little")
    assert read(100) == BLOCK_BYTES + 10
    assert read(4 * BLOCK_BYTES - 5) == 2 * BLOCK_BYTES + 10
    assert read(end - 30) < BLOCK_BYTES, "the page index has parts of its own"
    path.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    with pytest.raises(Corrupt, match=f"bytes 0 to {BLOCK_BYTES} are not"):
        read(100)
    read(4 * BLOCK_BYTES)
    path.write_bytes(whole[: end - 1] + bytes([whole[end - 1] ^ 1]) + whole[end:])
    with pytest.raises(Corrupt, match=f"to {end} are not"):
        read(end - 30)


def other_file(orders: StoredOrders) -> FileDescription:
    """A whole file with its own checksums under the name of another with the same rows; the table knows its size."""
    file = orders.files[0][1]
    path = orders.path_of(file)
    rewritten(path, lambda rows: rows)
    other = replace(described(file, path), footer_checksum=file.footer_checksum)
    orders.replace_entry(file, other)
    return other


def test_whole_file_in_anothers_place_is_refused_and_named(orders: StoredOrders) -> None:
    other = other_file(orders)
    assert damages(check_orders(orders)) == {Damage.SWAPPED_FILE}
    table, index = orders.table(), FileIndex()
    (file,) = index.covering(table, 0, other.range)
    with pytest.raises(Corrupt, match="not the one that the table was given"):
        index.open(table, file)
    with pytest.raises(Corrupt, match="another checksum"):
        Verifier().verified_range(table, 0, other.range)


def test_file_of_an_earlier_version_has_no_checksums_and_is_no_finding(orders: StoredOrders) -> None:
    file = orders.files[0][1]
    path = orders.path_of(file)
    words = {key.decode(): value.decode() for key, value in pq.read_metadata(path).metadata.items()}
    del words[CHECKSUMS_KEY]
    write_by_pyarrow(path, pq.ParquetFile(path).read(), words, plain=True)

    def earlier(entry: DataFile) -> DataFile:
        del entry.column_sizes[CHECKSUM_COLUMN_ID]
        return entry

    orders.drop_entry(file)
    orders.add_entry(replace(file, size_bytes=path.stat().st_size), earlier)
    assert check_orders(orders).findings == ()
    table, index = orders.table(), FileIndex()
    (listed,) = index.covering(table, 0, file.range)
    assert index.open(table, listed).footer.checksums is None
    assert Verifier().verified_range(table, 0, file.range) is not None


def test_file_whose_checksums_are_gone_is_not_taken_for_one_of_an_earlier_version(orders: StoredOrders) -> None:
    file = orders.files[0][1]
    path = orders.path_of(file)
    content = path.read_bytes()
    path.write_bytes(content.replace(CHECKSUMS_KEY.encode(), CHECKSUMS_KEY.encode()[:-1] + b"r"))
    assert damages(check_orders(orders)) == {Damage.SWAPPED_FILE}
    table, index = orders.table(), FileIndex()
    (listed,) = index.covering(table, 0, file.range)
    with pytest.raises(Corrupt, match="not the one that the table was given"):
        index.open(table, listed)
