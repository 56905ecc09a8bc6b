"""Table files as pyarrow's writer makes them: whole, with checksums of their own, and other rows or words inside."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from engine.table.data_file import FileDescription
from engine.table.file_checksums import CHECKSUMS_KEY, ChecksummedFile
from engine.table.verification import opened
from engine.table.warehouse import Warehouse


class _Sink(io.RawIOBase):
    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._to = write

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        content = bytes(memoryview(data))  # type: ignore[arg-type]
        self._to(content)
        return len(content)


def write_by_pyarrow(path: Path, rows: pa.Table, key_values: dict[str, str], *, plain: bool = False) -> None:
    """One row group, page index and page checksums; checksums of the file too, unless it is ``plain``."""
    with path.open("wb") as file:
        checked = ChecksummedFile(file.write)
        options = {"store_schema": False, "write_page_checksum": True, "write_page_index": True}
        with pq.ParquetWriter(pa.PythonFile(_Sink(checked.write), "w"), rows.schema, **options) as writer:
            if rows.num_rows:
                writer.write_table(rows)
                checked.end_row_group()
            writer.add_key_value_metadata(key_values if plain else {**key_values, **checked.key_value()})
        if not plain:
            checked.finish()


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """The same file with other rows, its footer's words kept and its checksums true."""
    file = pq.ParquetFile(path)
    words = {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}
    rows = change(file.read())
    del words[CHECKSUMS_KEY]
    write_by_pyarrow(path, rows, words)


def described(description: FileDescription, path: Path) -> FileDescription:
    """What a writer would say of a file that was written again."""
    content = path.read_bytes()
    checksums = opened(Warehouse(), str(path)).footer().checksums
    assert checksums is not None
    return replace(
        description, size_bytes=len(content), checksum=crc32c.crc32c(content), footer_checksum=checksums.footer
    )
