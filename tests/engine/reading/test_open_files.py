from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.reading.open_files import OpenFiles
from engine.table.manifests import TableFile
from tests.engine.table.table_examples import append_of, ensure_table, open_writer, outcomes, reopened


def file(path: str) -> TableFile:
    whole = OffsetRange(start=0, end=1)
    return TableFile(partition=0, range=whole, path=path, size_bytes=1, record_count=1, leader_epoch=0)


def test_files_are_open_from_the_first_part_to_the_last() -> None:
    opened = OpenFiles()
    parts = opened.while_read([file("a"), file("b")], iter([1, 2]))
    assert opened.paths() == frozenset()
    assert next(parts) == 1
    assert opened.paths() == {"a", "b"}
    assert list(parts) == [2]
    assert opened.paths() == frozenset()


def test_file_of_two_readers_is_open_until_both_let_go() -> None:
    opened = OpenFiles()
    one, other = (opened.while_read([file("a")], iter([1, 2])) for _ in range(2))
    next(one), next(other)
    one.close()  # type: ignore[attr-defined]  # a generator: whoever hung up
    assert opened.paths() == {"a"}
    other.close()  # type: ignore[attr-defined]
    assert opened.paths() == frozenset()


def test_file_that_can_not_be_read_is_not_open_any_more() -> None:
    def breaks() -> Iterator[int]:
        yield 1
        raise OSError

    opened = OpenFiles()
    parts = opened.while_read([file("a")], breaks())
    next(parts)
    try:
        next(parts)
    except OSError:
        assert opened.paths() == frozenset()


def test_reader_of_offsets_has_its_files_open_while_it_answers(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    for start in (0, 5):
        outcomes(writer, table, append_of(table, start, start + 5))
    table = reopened(tmp_path)
    reader = LogReader(file_index=FileIndex())
    answer = reader.read(table, 0, offsets=OffsetRange(start=0, end=10), start=6)
    next(answer)
    (path,) = reader.open_files()
    assert "00000000000000000005-" in path
    list(answer)
    assert reader.open_files() == frozenset()
    reader.close()
