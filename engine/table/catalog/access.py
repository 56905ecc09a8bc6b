"""The seam to pyiceberg's catalogs: opens them, names tables in them, and translates their errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError as InvalidMetadata
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table
from requests import RequestException
from sqlalchemy.exc import SQLAlchemyError

from engine.errors import Corrupt, Invalid, Unavailable
from engine.table.catalog.metadata_errors import RESTORE_METADATA, UNDECODABLE
from engine.table.catalog.sql import KeptMetadata, KeptSqlCatalog, SqliteCatalog, is_damage
from engine.warehouse.warehouse import Warehouse

DEFAULT_NAMESPACE = "kafka"
DEFAULT_CATALOG_NAME = "floeberg"

_FILE_IO = "engine.warehouse.durable_file_io.DurableFileIO"
_SQL_CATALOG = "engine.table.catalog.sql.KeptSqlCatalog"
_REST_CATALOG = "engine.table.catalog.rest.BoundedRestCatalog"
_GLUE_CATALOG = "engine.table.catalog.glue.GuardedGlueCatalog"

_LONGEST_PROBLEM = 300

_NAME_PREFIX = "floeberg.table."
"""Properties of the namespace: by topic, the name that its table was given in the place of the topic's own."""

_LONGEST_NAME = 255
_LONGEST_PROPERTY_NAME = 255
"""Of pyiceberg's SQL catalogs, and of Glue. A topic's name has 249 characters at most."""

_LONGEST_FOLDER_NAME = 200
"""Before the topic's id, which alone tells folders apart: file systems have 255 bytes, also for companion folders."""

NO_ANSWER = (
    RESTError,
    SQLAlchemyError,
    RequestException,
    BotoCoreError,
    ClientError,
    OSError,
    NotImplementedError,
)

Identifier = tuple[str, ...]


def embedded_catalog_properties(data_dir: Path) -> dict[str, str]:
    """The default catalog: SQLite and a local warehouse below ``data_dir``."""
    return {
        "type": "sql",
        "uri": f"sqlite:///{(data_dir / 'catalog.db').absolute()}",
        "warehouse": (data_dir / "warehouse").absolute().as_uri(),
    }


def open_catalog(properties: Mapping[str, str], kept: KeptMetadata | None = None) -> Catalog:
    """A catalog from the settings' own properties, as pyiceberg names them (``name`` defaults to ``floeberg``).

    ``kept``: parsed metadata that it shares with others. Raises Invalid for properties that describe no catalog,
    Unavailable when the catalog does not answer.
    """
    given = dict(properties)
    name = given.pop("name", DEFAULT_CATALOG_NAME)
    if urlparse(given.get("warehouse", "")).scheme in {"", "file"}:
        given.setdefault("py-io-impl", _FILE_IO)
    try:
        with translated_errors("the catalog can't be opened"):
            catalog = _opened(name, given)
            if kept is not None and isinstance(catalog, KeptSqlCatalog):
                catalog.kept = kept
            return catalog
    except ModuleNotFoundError as error:
        raise Invalid(
            f"the [catalog] settings need a package that is not installed: {error}",
            next_step="docs/catalogs.md says which; for PostgreSQL: pip install 'floeberg[postgres]'",
        ) from error
    except (ValueError, KeyError) as error:
        raise Invalid(
            f"the [catalog] settings describe no catalog: {error}", next_step="see pyiceberg's catalog configuration"
        ) from error


def _opened(name: str, given: dict[str, str]) -> Catalog:
    uri = given.get("uri", "")
    if uri.startswith("sqlite:"):
        return SqliteCatalog(name, **given)
    for kind, scheme, ours in (
        ("rest", "http", _REST_CATALOG),
        ("sql", "postgresql", _SQL_CATALOG),
        ("glue", "glue", _GLUE_CATALOG),
    ):
        if given.get("type") == kind or ("type" not in given and uri.startswith(scheme)):
            given.pop("type", None)
            given.setdefault("py-catalog-impl", ours)
    return load_catalog(name, **given)


def table_identifier(namespace: str, topic: str) -> Identifier:
    """A topic's table in a catalog. Dots, which separate namespaces, become underscores.

    No two topics of one cluster meet here: Kafka itself refuses a topic whose name differs from another's only in
    dots against underscores.
    """
    return (*namespace.split("."), topic.replace(".", "_"))


def given_identifier(catalog: Catalog, namespace: str, topic: str) -> Identifier | None:
    """The name that a topic's table was given by ``give_name``; None where it has the topic's. Raises Unavailable."""
    parts = tuple(namespace.split("."))
    with translated_errors("the catalog does not answer"):
        try:
            name = catalog.load_namespace_properties(parts).get(f"{_NAME_PREFIX}{topic}")
        except NoSuchNamespaceError:
            return None
    return None if name is None else (*parts, str(name))


def give_name(catalog: Catalog, identifier: Identifier, topic: str) -> None:
    """Note for every process under which name a topic's table is to be looked for, also if it is made again. Raises
    Unavailable, Invalid (the topic's name is too long for that)."""
    namespace, prop = identifier[:-1], f"{_NAME_PREFIX}{topic}"
    if len(prop) > _LONGEST_PROPERTY_NAME:
        raise Invalid("A topic of so long a name can't have a table of another name", topic=topic)
    is_plain = identifier == table_identifier(".".join(namespace), topic)
    with translated_errors("the catalog does not take a namespace's property", table=identifier):
        if is_plain:
            catalog.update_namespace_properties(namespace, removals={prop})
        else:
            catalog.update_namespace_properties(namespace, updates={prop: identifier[-1]})


def retired_identifier(identifier: Identifier, topic_id: str) -> Identifier:
    """Where the table of an earlier incarnation of a topic is kept."""
    suffix = f"__{topic_id}"
    return (*identifier[:-1], f"{identifier[-1][: _LONGEST_NAME - len(suffix)]}{suffix}")


def is_retired(identifier: Identifier, topic_id: str) -> bool:
    """Whether this is the name of the table of an earlier incarnation of its topic."""
    # Some catalogs keep names in lower case.
    return identifier[-1].lower().endswith(f"__{topic_id.lower()}")


def latest_identifier(identifier: Identifier) -> Identifier:
    """The table that shows the newest record of each key of a topic, by the identifier of the topic's table."""
    return (*identifier[:-1], f"{identifier[-1]}__latest")


def warehouse_of(catalog: Catalog) -> Warehouse:
    """The warehouse a catalog's tables lie in, reached with the catalog's own properties."""
    return Warehouse(properties={key: str(value) for key, value in catalog.properties.items()})


def lock_file_of(catalog: Catalog, topic_id: str) -> Path | None:
    """What processes of one machine that commit to a topic's table may lock; None where they needn't be on one.

    Raises Unavailable while a catalog is away that was not there yet.
    """
    lock_file: Path | None = getattr(catalog, "lock_file", None)
    return lock_file and lock_file.with_name(f"{lock_file.name}-{topic_id}")


def default_location(catalog: Catalog, identifier: Identifier, topic_id: str) -> str | None:
    """A location of its own for each incarnation of a topic; None where the catalog alone knows its warehouse."""
    root = str(catalog.properties.get("warehouse", ""))
    if "://" not in root and not root.startswith("/"):
        return None
    *namespace, name = identifier
    return f"{root.rstrip('/')}/{'/'.join((*namespace, name[:_LONGEST_FOLDER_NAME]))}-{topic_id}"


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
        except (*NO_ANSWER, Invalid, Corrupt, Unavailable):
            raise
        except UNDECODABLE as error:
            raise Corrupt(
                f"the table's metadata is damaged: {line_of(error)}",
                file=".".join(identifier),
                next_step=RESTORE_METADATA,
            ) from error


def table_names(catalog: Catalog, namespace: Identifier) -> list[Identifier]:
    """Every table of a namespace, sorted; none where there is no such namespace. Raises Unavailable."""
    with translated_errors("the catalog does not list its tables", table=namespace):
        if not catalog.namespace_exists(namespace):
            return []
        return sorted(tuple(one) for one in catalog.list_tables(namespace))


def create(catalog: Catalog, identifier: Identifier, **arguments: Any) -> Table | None:
    """A new table, its namespace made where it is missing; None when somebody else was first. Raises Unavailable."""
    with translated_errors("the table can't be created", table=identifier):
        try:
            _make_namespace(catalog, identifier[:-1])
            return catalog.create_table(identifier, **arguments)
        except TableAlreadyExistsError:
            return None


def _make_namespace(catalog: Catalog, namespace: Identifier) -> None:
    """Where it is missing, and those it is in: not every catalog has a namespace in one that is not there."""
    if namespace and not catalog.namespace_exists(namespace):
        _make_namespace(catalog, namespace[:-1])
        with contextlib.suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(namespace)


def rename(catalog: Catalog, identifier: Identifier, to: Identifier) -> None:
    """Give a table another name; nothing happens when somebody else did already. Raises Unavailable."""
    with (
        translated_errors("the table can't be renamed", table=identifier),
        contextlib.suppress(NoSuchTableError, TableAlreadyExistsError),
    ):
        catalog.rename_table(identifier, to)


def drop(catalog: Catalog, identifier: Identifier) -> None:
    """Take a table's name from the catalog and leave its files; nothing happens where there is none. Raises
    Unavailable."""
    with translated_errors("the table can't be dropped", table=identifier), contextlib.suppress(NoSuchTableError):
        catalog.drop_table(identifier)


def database_error(problem: str, error: SQLAlchemyError, where: str | None) -> Unavailable | Corrupt:
    """An embedded database's error, where nothing was changed."""
    if is_damage(error):
        return Corrupt(f"{problem}: the catalog's database is damaged: {line_of(error)}", file=where)
    return Unavailable(f"{problem}: {line_of(error)}", file=where)


def line_of(error: Exception) -> str:
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
        raise Corrupt(f"{problem}: its metadata file is missing: {line_of(error)}", file=named) from error
    except InvalidMetadata as error:
        raise Corrupt(f"{problem}: its metadata is damaged: {line_of(error)}", file=named) from error
    except SQLAlchemyError as error:
        raise database_error(problem, error, named) from error
    except NO_ANSWER as error:
        raise Unavailable(f"{problem}: {line_of(error)}", file=named) from error
