"""pyiceberg's SQL catalog on SQLite: safe between processes, and honest about its file."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError, SQLAlchemyError

from engine.errors import Unavailable
from engine.table.catalog.sql import KeptSqlCatalog

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
