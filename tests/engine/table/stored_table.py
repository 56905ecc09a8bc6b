"""A real table in a local warehouse, of appends of five offsets each, and what another process sees of it."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.table import Table

from engine.table.catalog.access import warehouse_of
from engine.table.commit.writer import TableWriter
from engine.table.loading import TableLoader
from engine.table.reachability import NamedFiles, ReachableFiles
from engine.table.topic_table import TopicTable
from tests.engine.table.table_examples import append_of, catalog_in, ensure_table, open_writer, outcomes, reopened


class Stored:
    """A table of appends of five offsets each, and what it names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer: TableWriter = open_writer(folder)
        self.table = ensure_table(self.writer)
        self.files: list[str] = []
        self.reach = ReachableFiles()

    def append(self) -> str:
        start = 5 * len(self.files)
        append = append_of(self.view(), start, start + 5)
        outcomes(self.writer, self.table, append)
        assert append.file is not None
        self.files.append(append.file.description.path)
        return self.files[-1]

    def iceberg(self) -> Table:
        return catalog_in(self.folder).load_table(self.table.identifier)

    def view(self) -> TopicTable:
        return reopened(self.folder)

    def named(self, reach: ReachableFiles | None = None) -> NamedFiles:
        catalog = catalog_in(self.folder)
        table = catalog.load_table(self.table.identifier)
        view = TableLoader(lambda: warehouse_of(catalog)).view(table)
        return (reach or self.reach).of(view, table.metadata)

    def on_disk(self) -> list[str]:
        return [file.path for file in self.view().warehouse.list(self.view().location)]

    def expire_all_but_newest(self) -> None:
        table = self.iceberg()
        old = [one.snapshot_id for one in table.snapshots() if one.snapshot_id != table.metadata.current_snapshot_id]
        with table.maintenance.expire_snapshots() as expiry:
            expiry.by_ids(old)
