"""A catalog in memory (pyiceberg's Catalog, as table/catalog/access.py uses it) whose answers can be made to lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.catalog import MetastoreCatalog, PropertiesUpdateSummary
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Properties

from tests.simulation.object_store import ObjectStore, endpoint_properties

Identifier = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """One version of a table: metadata never changes, the next commit makes the next one."""

    metadata: TableMetadata
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """A commit on its way to the catalog: what it asserts and what it changes."""

    name: Identifier
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]


@dataclass(slots=True)
class CatalogState:
    """The truth behind all clients. ``on_commit`` hears of every change with the table's name, before and after; the
    catalog writes metadata files into ``store`` by itself, as a catalog behind HTTP does."""

    store: ObjectStore
    namespaces: dict[Identifier, dict[str, str]] = field(default_factory=dict)
    tables: dict[Identifier, StoredTable] = field(default_factory=dict)
    on_commit: Callable[[Identifier, TableMetadata | None, TableMetadata], None] | None = None


class SimulatedCatalog(MetastoreCatalog):
    """One process's client. ``answer`` stands between it and the state: it gets the operation's name and the work to
    do, and may do it once, twice, later or never, and raise what a client would see."""

    def __init__(
        self,
        state: CatalogState,
        endpoint: str,
        answer: Callable[[str, Callable[[], Any]], Any] | None = None,
    ) -> None:
        super().__init__("simulated", **endpoint_properties(endpoint))
        self._state = state
        self._answer = answer or (lambda _, work: work())

    def load_table(self, identifier: str | Identifier) -> Table:
        name = self.identifier_to_tuple(identifier)
        return self._answer("load", lambda: self._table(name, self._stored(name)))

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        name = self.identifier_to_tuple(namespace)
        return self._answer("namespace", lambda: name in self._state.namespaces)

    def load_namespace_properties(self, namespace: str | Identifier) -> dict[str, str]:
        name = self.identifier_to_tuple(namespace)

        def properties() -> dict[str, str]:
            if name not in self._state.namespaces:
                raise NoSuchNamespaceError(f"Namespace does not exist: {name}")
            return dict(self._state.namespaces[name])

        return self._answer("namespace", properties)

    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        name = self.identifier_to_tuple(namespace)

        def update() -> PropertiesUpdateSummary:
            held = self._state.namespaces.get(name)
            if held is None:
                raise NoSuchNamespaceError(f"Namespace does not exist: {name}")
            gone = [key for key in removals or () if held.pop(key, None) is not None]
            held.update(updates)
            missing = sorted({*(removals or ())} - {*gone})
            return PropertiesUpdateSummary(removed=gone, updated=list(updates), missing=missing)

        return self._answer("namespace", update)

    def create_namespace(self, namespace: str | Identifier, properties: Any = None) -> None:
        name = self.identifier_to_tuple(namespace)

        def create() -> None:
            if name in self._state.namespaces:
                raise NamespaceAlreadyExistsError(f"Namespace {name} already exists")
            self._state.namespaces[name] = dict(properties or {})

        self._answer("create_namespace", create)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        within = self.identifier_to_tuple(namespace)

        def names() -> list[Identifier]:
            if within not in self._state.namespaces:
                raise NoSuchNamespaceError(f"Namespace does not exist: {within}")
            return sorted(name for name in self._state.tables if name[:-1] == within)

        return self._answer("list", names)

    def create_table(self, identifier: str | Identifier, schema: Any, *args: Any, **options: Any) -> Table:
        name = self.identifier_to_tuple(identifier)

        def create() -> Table:
            if name[:-1] not in self._state.namespaces:
                raise NoSuchNamespaceError(f"Namespace does not exist: {name[:-1]}")
            if name in self._state.tables:
                raise TableAlreadyExistsError(f"Table {name} already exists")
            staged = self._create_staged_table(identifier, schema, *args, **options)
            stored = StoredTable(metadata=staged.metadata, location=staged.metadata_location)
            self._publish(name, None, stored)
            return self._table(name, stored)

        return self._answer("create", create)

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        name, to = self.identifier_to_tuple(from_identifier), self.identifier_to_tuple(to_identifier)

        def rename() -> Table:
            stored = self._stored(name)
            if to in self._state.tables:
                raise TableAlreadyExistsError(f"Table {to} already exists")
            self._state.tables[to] = self._state.tables.pop(name)
            return self._table(to, stored)

        return self._answer("rename", rename)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        request = CommitRequest(name=tuple(table.name()), requirements=requirements, updates=updates)
        return self._answer("commit", lambda: self.apply(request))

    def apply(self, request: CommitRequest) -> CommitTableResponse:
        """What the catalog does when the request arrives. Raises CommitFailedException where an assertion fails."""
        stored = self._stored(request.name)
        current = self._table(request.name, stored)
        staged = self._update_and_stage_table(current, request.name, request.requirements, request.updates)
        if staged.metadata != stored.metadata:
            before, stored = stored, StoredTable(metadata=staged.metadata, location=staged.metadata_location)
            self._publish(request.name, before.metadata, stored)
        return CommitTableResponse(metadata=stored.metadata, metadata_location=stored.location)

    def _publish(self, name: Identifier, before: TableMetadata | None, stored: StoredTable) -> None:
        self._state.store.put(stored.location.removeprefix("s3://"), stored.metadata.model_dump_json().encode(), 0)
        if self._state.on_commit is not None:
            self._state.on_commit(name, before, stored.metadata)
        self._state.tables[name] = stored

    def _stored(self, name: Identifier) -> StoredTable:
        try:
            return self._state.tables[name]
        except KeyError:
            raise NoSuchTableError(f"Table does not exist: {name}") from None

    def _table(self, name: Identifier, stored: StoredTable) -> Table:
        return Table(
            identifier=name,
            metadata=stored.metadata,
            metadata_location=stored.location,
            io=self._load_file_io(stored.metadata.properties, stored.location),
            catalog=self,
        )

    def _delete_old_metadata(self, io: Any, base: TableMetadata, metadata: TableMetadata) -> None:
        """Metadata lives in the state alone: there are no files to remove."""

    def drop_table(self, identifier: str | Identifier) -> None:
        name = self.identifier_to_tuple(identifier)
        self._stored(name)
        del self._state.tables[name]

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        name = self.identifier_to_tuple(identifier)
        content = self._state.store.objects[metadata_location.removeprefix("s3://")]
        metadata = TableMetadataUtil.parse_raw(content.decode())
        self._state.tables[name] = StoredTable(metadata=metadata, location=metadata_location)
        return self.load_table(name)

    def _unused(self, *_: object, **__: object) -> Any:
        raise NotImplementedError("nothing of ours asks for this")

    drop_namespace = list_namespaces = _unused
    view_exists = list_views = load_view = drop_view = register_view = _unused
