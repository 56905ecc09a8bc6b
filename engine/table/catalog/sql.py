"""pyiceberg's SQL catalog, quick on a long history; on SQLite, safe between processes, and honest about its file.

Parsed metadata is shared by those who copy it, and kept once a table by those who load it: a commit reads nothing but
the row that points at it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.update import RemoveSnapshotsUpdate, SetSnapshotRefUpdate, TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from sqlalchemy import bindparam, event, select, text
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError, SQLAlchemyError

from engine.bounded_cache import BoundedCache
from engine.errors import Unavailable
from engine.fault_points import FaultPoint, reach
from engine.table.catalog.metadata_errors import metadata_decoded

BUSY_MS_PROPERTY = "sqlite.busy-timeout-ms"
DEFAULT_BUSY_MS = 30_000
"""How long a commit waits for another process's: theirs takes milliseconds, a backup may take seconds."""

_REFUSALS = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    }
)
"""Codes after which the transaction did not happen (https://www.sqlite.org/rescode.html). An I/O error is not among
them: it may have come after the write that made the transaction durable."""

_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

FileIdentity = tuple[int, int]

KEPT_BYTES = 128 << 20
"""Of one process: some sixty tables with 500 snapshots each. What is not kept is parsed again, in 10 ms."""

_SNAPSHOT_BYTES = 4 << 10
_PROPERTY_BYTES = 512
_LEAST_BYTES = 64 << 10
"""Measured: a parsed table takes 66 KiB, and 3.6 more a snapshot."""


class _SharedMetadata(TableMetadataV2):
    """Shares its parts with its copies: nothing changes metadata once it is made, and the library copies all snapshots,
    deep, with every change of a commit that it looks at."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:  # noqa: ARG002
        copied: Self = super().model_copy(update=update)
        return copied


def shared(metadata: TableMetadata) -> TableMetadata:
    """The same, which shares its parts with its copies; other format versions as they are."""
    return _SharedMetadata.model_construct(**dict(metadata)) if type(metadata) is TableMetadataV2 else metadata


class KeptMetadata:
    """The newest metadata of each table, by the path of its file, which never changes. For all catalogs of a process;
    safe between its threads."""

    def __init__(self, *, capacity_bytes: int = KEPT_BYTES) -> None:
        self._held: BoundedCache[str, tuple[str, TableMetadata]] = BoundedCache(
            capacity=capacity_bytes, cost_of=lambda held: _cost_bytes(held[1])
        )

    def get(self, path: str) -> TableMetadata | None:
        held = self._held.get(_folder(path))
        return held[1] if held is not None and held[0] == path else None

    def put(self, path: str, metadata: TableMetadata) -> None:
        """In the place of what is kept of the table: its metadata files lie in one folder."""
        self._held.put(_folder(path), (path, metadata))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _cost_bytes(metadata: TableMetadata) -> int:
    return _LEAST_BYTES + _SNAPSHOT_BYTES * len(metadata.snapshots) + _PROPERTY_BYTES * len(metadata.properties)


class StagingCatalog(MetastoreCatalog):
    """Where this program, and no server, writes a commit's metadata (SQL, Glue): as careful as servers are."""

    @staticmethod
    def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        MetastoreCatalog._write_metadata(metadata, io, metadata_path)
        reach(FaultPoint.METADATA_DURABLE)

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        """The metadata's time never goes back with the machine's clock: Iceberg's Java readers refuse a table whose
        last change is older than its last snapshot."""
        if current_table is not None:
            _check_removable(current_table.metadata, updates)
        staged = super()._update_and_stage_table(current_table, table_identifier, requirements, updates)
        last_ms = 0 if current_table is None else current_table.metadata.last_updated_ms
        if staged.metadata.last_updated_ms < last_ms:
            staged.metadata = staged.metadata.model_copy(update={"last_updated_ms": last_ms + 1})
        return staged


def _check_removable(metadata: TableMetadata, updates: Sequence[TableUpdate]) -> None:
    """That snapshots which are to go are there, and that nobody has named one of them since: the library would take
    the branch or the tag along. Raises CommitFailedException."""
    named = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
    named |= {update.ref_name: update.snapshot_id for update in updates if isinstance(update, SetSnapshotRefUpdate)}
    removable = {snapshot.snapshot_id for snapshot in metadata.snapshots}.difference(named.values())
    for update in updates:
        if isinstance(update, RemoveSnapshotsUpdate) and not removable.issuperset(update.snapshot_ids):
            raise CommitFailedException("a snapshot that is to go is gone, or a branch or tag names it now")


class KeptSqlCatalog(StagingCatalog, SqlCatalog):
    """A metadata file never changes, so a parsed one is kept by its path.

    ``kept``: where; one of its own until somebody gives it one that it shares.
    """

    def __init__(self, name: str, **properties: str) -> None:
        self.kept = KeptMetadata()
        super().__init__(name, **properties)
        columns = IcebergTables.metadata_location, IcebergTables.table_namespace, IcebergTables.table_name
        within = select(*columns).where(
            IcebergTables.catalog_name == self.name, IcebergTables.table_namespace == bindparam("namespace")
        )
        row, is_table = within.where(IcebergTables.table_name == bindparam("name")), self._iceberg_type_filter()
        self._row = row if is_table is None else row.where(is_table)
        self._any_row = within.limit(1)

    def load_table(self, identifier: str | Identifier) -> Table:
        """As the library's, by a statement that is made once, and without objects mapped to rows: a look at a table
        that has not changed is mostly that."""
        parts = Catalog.identifier_to_tuple(identifier)
        with self.engine.connect() as connection:
            row = connection.execute(self._row, {"namespace": ".".join(parts[:-1]), "name": parts[-1]}).first()
        if row is None:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(parts)}")
        return self._convert_orm_to_iceberg(row)

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """Asked before each listing and each look at a namespace's properties, mostly of one that has tables."""
        name = ".".join(Catalog.identifier_to_tuple(namespace))
        with self.engine.connect() as connection:
            if connection.execute(self._any_row, {"namespace": name}).first() is not None:
                return True
        return bool(super().namespace_exists(namespace))

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        response = super().commit_table(table, requirements, updates)
        reach(FaultPoint.CATALOG_CHANGED)
        self.kept.put(response.metadata_location, response.metadata)
        return response

    def _convert_orm_to_iceberg(self, orm_table: Any) -> Table:
        location = orm_table.metadata_location
        metadata = self.kept.get(location) if location else None
        if metadata is None:
            with metadata_decoded(str(location)):
                table = super()._convert_orm_to_iceberg(orm_table)
            table.metadata = shared(table.metadata)
            self.kept.put(table.metadata_location, table.metadata)
            return table
        identifier = (*Catalog.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name)
        return Table(
            identifier=identifier,
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(metadata.properties, location),
            catalog=self,
        )


class SqliteCatalog(KeptSqlCatalog):
    """A database file that somebody put in another's place is opened again: an open connection would go on writing to
    the file that has no name any more, and everything committed there would be gone with the process.
    """

    def __init__(self, name: str, **properties: str) -> None:
        self._path = _database_path(properties["uri"])
        self._busy_ms = int(properties.get(BUSY_MS_PROPERTY, DEFAULT_BUSY_MS))
        self.lock_file = self._path and self._path.with_name(f"{self._path.name}.commit-lock")
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(name, **properties)
        event.listen(self.engine, "do_connect", self._refuse_to_make_a_second_database)
        event.listen(self.engine, "connect", self._prepare_connection)
        event.listen(self.engine, "checkout", self._check_connection)
        self.engine.dispose()  # connections made so far were not prepared

    def damage(self) -> str | None:
        """What SQLite finds wrong with its whole file; None for a good one. Raises SQLAlchemyError."""
        with self.engine.connect() as connection:
            found = [str(row[0]) for row in connection.execute(text("PRAGMA integrity_check(1)"))]
        return None if found == ["ok"] else "; ".join(found)

    def _refuse_to_make_a_second_database(self, *_: object) -> None:
        """SQLite makes a file where there is none; an empty catalog would pass for one without tables."""
        if self._path is not None and _identity(self._path) is None:
            raise Unavailable(
                "the catalog's database file is gone",
                file=str(self._path),
                next_step="put it back; a new one is made when the program starts without it",
            )

    def _prepare_connection(self, connection: Any, record: Any) -> None:
        try:
            cursor = connection.cursor()
            cursor.execute(f"PRAGMA busy_timeout={self._busy_ms}")
            # Readers never block the writer; FULL survives a power cut, which WAL's usual NORMAL would not.
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=FULL")
            cursor.close()
        except sqlite3.Error as error:
            # What a listener raises is not made SQLAlchemy's own on the way.
            raise OperationalError("the database can't be opened", None, error) from error
        record.info["file"] = self._path and _identity(self._path)

    def _check_connection(self, _connection: object, record: Any, _proxy: object) -> None:
        if self._path is not None and record.info["file"] != _identity(self._path):
            raise DisconnectionError("another database file has taken this one's place")


def is_refused(error: SQLAlchemyError) -> bool:
    """Whether SQLite itself says that the transaction did not happen."""
    return _code(error) in _REFUSALS


def is_damage(error: SQLAlchemyError) -> bool:
    """Whether the database file is not one, or not whole."""
    return _code(error) in _DAMAGE


def _code(error: SQLAlchemyError) -> int | None:
    """SQLite's primary result code; None for another database's error."""
    original = error.orig if isinstance(error, DBAPIError) else None
    return original.sqlite_errorcode & 0xFF if isinstance(original, sqlite3.Error) else None


def _database_path(uri: str) -> Path | None:
    path = uri.removeprefix("sqlite:///").partition("?")[0]
    return Path(path) if path and not path.startswith((":", "file:")) else None


def _identity(path: Path) -> FileIdentity | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
