"""pyiceberg's catalog on AWS Glue: names as Glue keeps them, and a rename beside which no commit is lost."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import METADATA_LOCATION, TABLE_TYPE
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
from pyiceberg.table import Table

from engine.errors import Invalid, Unavailable
from engine.table.catalog.sql import StagingCatalog

_RETRIES = "glue.max-retries"
_DEFAULT_RETRIES = 3
"""Of one request, which may be silent for a minute: the library's own ten would keep a commit for ten."""

_RENAMED = "RENAMED_ICEBERG"
"""``table_type`` of a name that has been left and not removed: no Iceberg table any more, whoever asks."""

_KEPT_BY_A_RENAME = ("Description", "Owner", "Parameters", "StorageDescriptor", "TableType")
_RENAME_ATTEMPTS = 5


class GuardedGlueCatalog(StagingCatalog, GlueCatalog):
    """Glue's databases have one level, and its names are in lower case (Glue API reference, Table and Database)."""

    def __init__(self, name: str, **properties: Any) -> None:
        # The library hands it on as it is, and settings are text.
        super().__init__(name, **{**properties, _RETRIES: int(properties.get(_RETRIES, _DEFAULT_RETRIES))})

    @staticmethod
    def identifier_to_database(identifier: Any, err: Any = ValueError) -> str:  # noqa: ARG004  # the library's own
        """Raises Invalid for a namespace with levels."""
        parts = GlueCatalog.identifier_to_tuple(identifier)
        return _database(parts)

    @staticmethod
    def identifier_to_database_and_table(identifier: Any, err: Any = ValueError) -> tuple[str, str]:  # noqa: ARG004
        """Raises Invalid for a namespace with levels."""
        parts = GlueCatalog.identifier_to_tuple(identifier)
        return _database(parts[:-1]), str(parts[-1]).lower()

    def rename_table(self, from_identifier: Any, to_identifier: Any) -> Table:
        """As the library's, which makes the new name and removes the old one; but a commit to the old name in between
        would be gone with it. So the old name is no table's any more, if it is still as it was copied, before it is
        removed. Raises Unavailable where others commit all the while, and as the library's."""
        old, new = (self.identifier_to_database_and_table(one) for one in (from_identifier, to_identifier))
        for _ in range(_RENAME_ATTEMPTS):
            try:
                self._rename(old, new)
                return self.load_table(to_identifier)
            except CommitFailedException:
                self.drop_table(to_identifier)
        raise Unavailable("others commit to the table all the while: it keeps its name", file=".".join(old))

    def _rename(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """Raises CommitFailedException where both names are the table's now: somebody has committed to the old one."""
        found: Any = self._get_glue_table(*old)
        self._convert_glue_to_iceberg(found)
        copied = {key: found[key] for key in _KEPT_BY_A_RENAME if key in found}
        try:
            self._create_glue_table(*new, {**copied, "Name": new[1]})
        except TableAlreadyExistsError:
            # The same state: another rename was ended after its first step.
            if self._get_glue_table(*new)["Parameters"][METADATA_LOCATION] != found["Parameters"][METADATA_LOCATION]:
                raise
        left = {**copied, "Name": old[1], "Parameters": {**found["Parameters"], TABLE_TYPE: _RENAMED}}
        self._update_glue_table(*old, left, found["VersionId"])
        self.drop_table(old)

    def _create_glue_table(self, database_name: str, table_name: str, table_input: Any) -> None:
        try:
            super()._create_glue_table(database_name, table_name, table_input)
        except TableAlreadyExistsError:
            present = self._get_glue_table(database_name, table_name)
            if present.get("Parameters", {}).get(TABLE_TYPE) != _RENAMED:
                raise
            # A rename that was ended before its last step.
            self.drop_table((database_name, table_name))
            super()._create_glue_table(database_name, table_name, table_input)


def _database(namespace: tuple[str, ...]) -> str:
    if len(namespace) != 1:
        raise Invalid(
            f"Glue's namespaces have one level: {'.'.join(namespace)!r} can't be one",
            next_step="set [catalog] namespace to a name without dots",
        )
    return str(namespace[0]).lower()
