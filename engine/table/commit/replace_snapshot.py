"""An Iceberg snapshot with the operation ``replace``: files go and files come, and the records stay what they are.

Source: the Iceberg table specification, "Snapshots". pyiceberg 0.12 has an overwrite, whose producer does all but the
name, and refuses to sum a replacement up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.typedef import Record

from engine.table.manifests import TableFile
from engine.table.sealed_snapshot import SealedProducer, checksum_io


class ReplaceFiles(SealedProducer, _OverwriteFiles):
    """Takes files out and puts others in. Manifests that held a file that goes are written again without it."""

    def __init__(self, table: Table, transaction: Transaction, summary: Mapping[str, str]) -> None:
        super().__init__(
            operation=Operation.OVERWRITE,
            transaction=transaction,
            io=checksum_io(table),
            snapshot_properties=dict(summary),
        )
        self._spec_id = table.spec().spec_id

    def take_out(self, files: Iterable[TableFile]) -> None:
        """Files of our own; what manifests say of them is looked up by path."""
        for file in files:
            entry = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=file.path,
                file_format=FileFormat.PARQUET,
                partition=Record(file.partition),
                record_count=file.record_count,
                file_size_in_bytes=file.size_bytes,
            )
            entry.spec_id = self._spec_id
            self.delete_data_file(entry)

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        summed_up = super()._summary(snapshot_properties or {})
        return Summary(operation=Operation.REPLACE, **summed_up.additional_properties)
