"""Writes an adopted range, whose files another program wrote, as a file of our own."""

from __future__ import annotations

from engine.parquet.settings import ParquetSettings
from engine.table.data_file import FileDescription, FileName
from engine.table.foreign.adopted_rows import adopted_records
from engine.table.manifests import TableFile
from engine.table.rows.record_file import RecordFile
from engine.table.rows.rows import RowCodecs
from engine.table.topic_table import TopicTable


def write_own(
    table: TopicTable, file: TableFile, attempt: str
) -> tuple[FileDescription | None, ParquetSettings | None]:
    """(the new file, None where there is no record; its encodings). ``attempt`` makes its name its own.

    Memory: a window's records. Raises Corrupt, Unavailable; nothing was written then. Whoever commits the file compares
    its digest with the one that was proven of the range.
    """
    codecs = RowCodecs.of(table)
    epoch = table.ledger[file.partition].epoch
    name = FileName(partition=file.partition, range=file.range, leader_epoch=epoch, attempt=attempt)
    new = RecordFile(table.facts, name, codecs)
    try:
        for records in adopted_records(table, file, file.range):
            if len(records):
                new.add(records, *codecs.decode(records))
        return new.finish(), new.settings
    finally:
        new.close()
