"""The seam to pyiceberg's catalogs: opens them, names tables in them, commits, and translates their errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from pydantic import ValidationError as InvalidMetadata
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    TooManyRequestsError,
    UnauthorizedError,
    ValidationException,
)
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, TableUpdate, update_table_metadata
from requests import RequestException
from sqlalchemy.exc import SQLAlchemyError

from engine.errors import CommitUnknown, Corrupt, Invalid, Unavailable
from engine.table.catalog.metadata_errors import RESTORE_METADATA, UNDECODABLE
from engine.table.catalog.sqlite import SqliteCatalog, is_damage, is_refused
from engine.warehouse.warehouse import Warehouse

DEFAULT_NAMESPACE = "kafka"
DEFAULT_CATALOG_NAME = "floeberg"

_FILE_IO = "engine.warehouse.durable_file_io.DurableFileIO"
_REST_CATALOG = "engine.table.catalog.rest.BoundedRestCatalog"

_REFUSALS = (UnauthorizedError, AuthorizationExpiredError, ForbiddenError, TooManyRequestsError)
"""Answers that a catalog gives before it does anything."""

_LONGEST_PROBLEM = 300

_NO_ANSWER = (RESTError, SQLAlchemyError, RequestException, OSError, NotImplementedError)

Identifier = tuple[str, ...]


class CommitConflict(Unavailable):
    """Somebody else committed first: nothing was changed. Load the table again and decide again."""


def embedded_catalog_properties(data_dir: Path) -> dict[str, str]:
    """The default catalog: SQLite and a local warehouse below ``data_dir``."""
    return {
        "type": "sql",
        "uri": f"sqlite:///{(data_dir / 'catalog.db').absolute()}",
        "warehouse": (data_dir / "warehouse").absolute().as_uri(),
    }


def open_catalog(properties: Mapping[str, str]) -> Catalog:
    """A catalog from the settings' own properties, as pyiceberg names them (``name`` defaults to ``floeberg``).

    Raises Invalid for properties that describe no catalog, Unavailable when the catalog does not answer.
    """
    given = dict(properties)
    name = given.pop("name", DEFAULT_CATALOG_NAME)
    if urlparse(given.get("warehouse", "")).scheme in {"", "file"}:
        given.setdefault("py-io-impl", _FILE_IO)
    try:
        with translated_errors("the catalog can't be opened"):
            if given.get("uri", "").startswith("sqlite:"):
                return SqliteCatalog(name, **given)
            if given.get("type") == "rest" or ("type" not in given and given.get("uri", "").startswith("http")):
                given.pop("type", None)
                given.setdefault("py-catalog-impl", _REST_CATALOG)
            return load_catalog(name, **given)
    except (ValueError, KeyError, ModuleNotFoundError) as error:
        raise Invalid(
            f"the [catalog] settings describe no catalog: {error}", next_step="see pyiceberg's catalog configuration"
        ) from error


def table_identifier(namespace: str, topic: str) -> Identifier:
    """A topic's table in a catalog. Dots, which separate namespaces, become underscores.

    No two topics of one cluster meet here: Kafka itself refuses a topic whose name differs from another's only in
    dots against underscores.
    """
    return (*namespace.split("."), topic.replace(".", "_"))


def retired_identifier(identifier: Identifier, topic_id: str) -> Identifier:
    """Where the table of an earlier incarnation of a topic is kept."""
    return (*identifier[:-1], f"{identifier[-1]}__{topic_id}")


def warehouse_of(catalog: Catalog) -> Warehouse:
    """The warehouse a catalog's tables lie in, reached with the catalog's own properties."""
    return Warehouse(properties={key: str(value) for key, value in catalog.properties.items()})


def lock_file_of(catalog: Catalog) -> Path | None:
    """What processes of one machine that commit to the catalog may lock; None where they needn't be on one machine."""
    return catalog.lock_file if isinstance(catalog, SqliteCatalog) else None


def default_location(catalog: Catalog, identifier: Identifier, topic_id: str) -> str | None:
    """A location of its own for each incarnation of a topic; None where the catalog alone knows its warehouse."""
    root = str(catalog.properties.get("warehouse", ""))
    if "://" not in root and not root.startswith("/"):
        return None
    return f"{root.rstrip('/')}/{'/'.join(identifier)}-{topic_id}"


def check_database(catalog: Catalog) -> None:
    """That an embedded catalog's file is whole, also where no table is looked for. Raises Corrupt, Unavailable."""
    if not isinstance(catalog, SqliteCatalog):
        return
    with translated_errors("the catalog can't be checked"):
        found = catalog.damage()
    if found is not None:
        raise Corrupt(f"the catalog's database is damaged: {found}", file=str(catalog.properties.get("uri")))


def namespace_folder(catalog: Catalog, namespace: str) -> str | None:
    """Where ``default_location`` puts the tables of a namespace; None as there."""
    inside = default_location(catalog, table_identifier(namespace, ""), "")
    return None if inside is None else inside.rpartition("/")[0]


def load(catalog: Catalog, identifier: Identifier) -> Table | None:
    """The table as the catalog has it now, or None. Raises Unavailable, Corrupt (its metadata is damaged)."""
    with translated_errors("the catalog does not answer", table=identifier):
        try:
            return catalog.load_table(identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except (*_NO_ANSWER, Invalid, Corrupt, Unavailable):
            raise
        except UNDECODABLE as error:
            raise Corrupt(
                f"the table's metadata is damaged: {_line(error)}",
                file=".".join(identifier),
                next_step=RESTORE_METADATA,
            ) from error


def create(catalog: Catalog, identifier: Identifier, **arguments: Any) -> Table | None:
    """A new table, its namespace made where it is missing; None when somebody else was first. Raises Unavailable."""
    with translated_errors("the table can't be created", table=identifier):
        try:
            if not catalog.namespace_exists(identifier[:-1]):
                with contextlib.suppress(NamespaceAlreadyExistsError):
                    catalog.create_namespace(identifier[:-1])
            return catalog.create_table(identifier, **arguments)
        except TableAlreadyExistsError:
            return None


def rename(catalog: Catalog, identifier: Identifier, to: Identifier) -> None:
    """Give a table another name; nothing happens when somebody else did already. Raises Unavailable."""
    with (
        translated_errors("the table can't be renamed", table=identifier),
        contextlib.suppress(NoSuchTableError, TableAlreadyExistsError),
    ):
        catalog.rename_table(identifier, to)


class _Transaction(Transaction):
    """pyiceberg's, without copying the whole metadata each time a step looks at it.

    The library's property applies the staged updates to a deep copy on every access, 14 times a commit: half a second
    on a table with 1000 snapshots. Nothing that reads it changes it.
    """

    _applied: tuple[tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        if not self._updates:
            return self._table.metadata
        if self._applied is None or self._applied[0] is not self._updates:
            self._applied = (self._updates, update_table_metadata(self._table.metadata, self._updates))
        return self._applied[1]

    def _stage(self, updates: tuple[TableUpdate, ...], *others: Any, **named: Any) -> Transaction:
        return super()._stage(tuple(map(self._after_the_last, updates)), *others, **named)

    def _after_the_last(self, update: TableUpdate) -> TableUpdate:
        """A snapshot is later than the table's last change even where the clock has gone back.

        Iceberg's Java readers refuse the whole table when its snapshots are out of order by more than a minute
        (TableMetadata, "Expected sorted snapshot log entries").
        """
        last_ms = self._table.metadata.last_updated_ms
        if not isinstance(update, AddSnapshotUpdate) or update.snapshot.timestamp_ms > last_ms:
            return update
        return AddSnapshotUpdate(snapshot=update.snapshot.model_copy(update={"timestamp_ms": last_ms + 1}))


def begin(table: Table) -> Transaction:
    """A transaction to stage a change in. Stage the snapshot first: what follows it is then not looked at again."""
    return _Transaction(table)


def commit(table: Table, transaction: Transaction) -> None:
    """Commit once what the transaction has staged; ``table`` is then the committed state.

    The library's own ``commit_transaction`` is not used: on a conflict it would apply the append again to a state
    nobody validated, and it removes the manifests of a commit that was answered with a conflict even where a retry of
    the transport had landed it. Files that a failed attempt leaves behind are unreferenced and cost only space.

    Raises CommitConflict or Unavailable (nothing was changed), Invalid (the catalog refuses the request), Corrupt (its
    database is damaged), CommitUnknown. What each answer of a catalog means: docs/commit_protocol.md.
    """
    updates, requirements = transaction._updates, transaction._requirements
    where = table.metadata_location
    try:
        table._do_commit(updates, (*requirements, AssertTableUUID(uuid=table.metadata.table_uuid)))
    except (CommitFailedException, NoSuchTableError, ValidationException) as error:
        raise CommitConflict(f"another commit came first: {_line(error)}", file=where) from error
    except BadRequestError as error:
        raise Invalid(f"the catalog refuses the commit: {_line(error)}", file=where) from error
    except _REFUSALS as error:
        raise Unavailable(f"the catalog refuses the commit: {_line(error)}", file=where) from error
    except (*_NO_ANSWER, ValueError) as error:
        if isinstance(error, SQLAlchemyError) and is_refused(error):
            raise _database_error("the commit was not made", error, where) from error
        raise CommitUnknown(f"the commit was not answered: {_line(error)}", file=where) from error


def _database_error(problem: str, error: SQLAlchemyError, where: str | None) -> Unavailable | Corrupt:
    if is_damage(error):
        return Corrupt(f"{problem}: the catalog's database is damaged: {_line(error)}", file=where)
    return Unavailable(f"{problem}: {_line(error)}", file=where)


def _line(error: Exception) -> str:
    """A foreign error as part of one line: a proxy's answer may be a whole page."""
    text = " ".join(str(error).split())
    named = text if isinstance(error, RESTError) else f"{type(error).__name__}: {text}"
    return named if len(named) <= _LONGEST_PROBLEM else f"{named[:_LONGEST_PROBLEM]}…"


@contextlib.contextmanager
def translated_errors(problem: str, *, table: Identifier | None = None) -> Iterator[None]:
    """Give the library's errors the program's own kinds."""
    named = ".".join(table) if table else None
    try:
        yield
    except FileNotFoundError as error:
        raise Corrupt(f"{problem}: its metadata file is missing: {_line(error)}", file=named) from error
    except InvalidMetadata as error:
        raise Corrupt(f"{problem}: its metadata is damaged: {_line(error)}", file=named) from error
    except SQLAlchemyError as error:
        raise _database_error(problem, error, named) from error
    except _NO_ANSWER as error:
        raise Unavailable(f"{problem}: {_line(error)}", file=named) from error
