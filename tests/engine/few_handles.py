"""A program of its own: reads a partition of many files, with few file handles, by several readers at once."""

from __future__ import annotations

import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from tests.engine.offset_table import OffsetTable, records_of

HANDLES = 80
FILES = 100
RECORDS = 10
"""A file."""
READERS = 8


def main(folder: Path) -> None:
    """Prints how many records the readers found together."""
    table = OffsetTable(folder)
    for at in range(0, FILES * RECORDS, RECORDS):
        table.add(OffsetRange(start=at, end=at + RECORDS), records_of(range(at, at + RECORDS)))
    resource.setrlimit(resource.RLIMIT_NOFILE, (HANDLES, HANDLES))
    index = FileIndex()
    reader = LogReader(file_index=index)
    whole = OffsetRange(start=0, end=FILES * RECORDS)

    def read(start: int) -> int:
        batches = reader.read(table.view, 0, offsets=whole, start=start)
        return sum(int.from_bytes(batch[57:61], "big") for batch in batches) + start

    with ThreadPoolExecutor(READERS) as pool:
        # Each begins elsewhere, and all go over all files that follow, at the same time.
        found = list(pool.map(read, range(0, READERS * 3 * RECORDS, 3 * RECORDS)))
    print(set(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
