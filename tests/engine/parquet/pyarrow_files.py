"""Table files as pyarrow's writer makes them: whole, with checksums of their own, and other rows or words inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from engine.parquet.checksums import CHECKSUMS_KEY, ChecksummedFile
from engine.table.data_file import FileDescription
from engine.table.proof.file_claims import FileClaims
from engine.table.proof.verification import open_rows, opened
from engine.warehouse.warehouse import Warehouse


def write_by_pyarrow(path: Path, rows: pa.Table, key_values: dict[str, str], *, plain: bool = False) -> None:
    """One row group, page index and page checksums; checksums of the file too, unless it is ``plain``."""
    with path.open("wb") as file:
        checked = ChecksummedFile(file.write)
        options = {"store_schema": False, "write_page_checksum": True, "write_page_index": True}
        with pq.ParquetWriter(pa.PythonFile(checked, "w"), rows.schema, **options) as writer:
            if rows.num_rows:
                writer.write_table(rows)
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


def false_claims_in(path: str) -> list[str]:
    """What a file says of itself that is not so, every column looked at closely."""
    source = opened(Warehouse(), path)
    footer = source.footer()
    every = frozenset(name for name, _ in footer.top_levels)
    with open_rows(Warehouse(), path, footer, closely=every) as file:
        schema = file.metadata.schema.to_arrow_schema()
        claims = FileClaims(source=source, footer=footer, shown=file.metadata, schema=schema, closely=every)
        groups = range(file.metadata.num_row_groups)
        found = [told for group in groups for told in claims.false_in_group(group, file.read_row_group(group))]
        return [*found, *claims.false_in_file()]


def described(description: FileDescription, path: Path) -> FileDescription:
    """What a writer would say of a file that was written again."""
    content = path.read_bytes()
    checksums = opened(Warehouse(), str(path)).footer().checksums
    assert checksums is not None
    return replace(
        description, size_bytes=len(content), checksum=crc32c.crc32c(content), footer_checksum=checksums.footer
    )
