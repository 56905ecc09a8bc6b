"""What the table door may see of a catalog: names and metadata, nothing that writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from engine.table.catalog.access import translated_errors

Namespace = tuple[str, ...]


class UnknownNamespace(LookupError):
    """The catalog has no such namespace."""


class UnknownTable(LookupError):
    """The catalog has no such table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetadata:
    """The current metadata of a table: where its file lies, and its JSON text (Iceberg spec, Table Metadata)."""

    location: str
    json: str


class CatalogView:
    """Read-only view of a catalog. Every method raises ``Unavailable`` when the catalog does not answer and
    ``Corrupt`` when a table's metadata is damaged."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def namespaces(self, parent: Namespace) -> list[Namespace]:
        """Namespaces right below ``parent``; the empty tuple is the root. Raises ``UnknownNamespace``."""
        with self._translated(parent):
            return [tuple(found) for found in self._catalog.list_namespaces(parent) if tuple(found) != parent]

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        """Raises ``UnknownNamespace``."""
        with self._translated(namespace):
            return {str(key): str(value) for key, value in self._catalog.load_namespace_properties(namespace).items()}

    def table_names(self, namespace: Namespace) -> list[str]:
        """Raises ``UnknownNamespace``."""
        with self._translated(namespace):
            # An empty answer alone does not tell an empty namespace from none: not every catalog checks.
            self._catalog.load_namespace_properties(namespace)
            return [str(found[-1]) for found in self._catalog.list_tables(namespace)]

    def table_exists(self, namespace: Namespace, name: str) -> bool:
        with self._translated(namespace):
            return bool(self._catalog.table_exists((*namespace, name)))

    def table(self, namespace: Namespace, name: str) -> TableMetadata:
        """Raises ``UnknownTable``."""
        with self._translated(namespace, name):
            table = self._catalog.load_table((*namespace, name))
            return TableMetadata(location=table.metadata_location, json=table.metadata.model_dump_json())

    @contextmanager
    def _translated(self, namespace: Namespace, table: str | None = None) -> Iterator[None]:
        try:
            with translated_errors(
                "the catalog does not answer", table=namespace if table is None else (*namespace, table)
            ):
                yield
        except NoSuchTableError as error:
            raise UnknownTable(f"Table does not exist: {'.'.join((*namespace, table or ''))}") from error
        except NoSuchNamespaceError as error:
            raise UnknownNamespace(f"Namespace does not exist: {'.'.join(namespace)}") from error
