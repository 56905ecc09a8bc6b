"""DuckDB on the tables, through the table door. With duckdb_condition.py all that knows DuckDB."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from engine.errors import Invalid, Unavailable
from floeberg.plain_value import as_written

CATALOG_NAME = "floeberg"
_EXTENSIONS = ("httpfs", "avro", "iceberg")
"""In the order they load: iceberg reads its manifests with avro and calls the catalog with httpfs."""

_ONLY_TEXT = frozenset({"INTERVAL", "TIMESTAMP_NS"})


class DuckdbSession:
    """A DuckDB connection with the catalog attached as ``floeberg``; a context manager.

    The extensions come from Python packages, so that nothing is downloaded at run time.
    Raises ``Invalid`` when a package is missing, ``Unavailable`` when the door does not answer.
    """

    def __init__(self, endpoint: str, *, token: str | None = None, namespace: str | None = None) -> None:
        import duckdb

        self._errors = duckdb.Error
        self._connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        for extension in _EXTENSIONS:
            self._connection.execute(f"LOAD {_quoted(str(extension_file(extension)))}")
        authorization = f"TOKEN {_quoted(token)}" if token else "AUTHORIZATION_TYPE 'none'"
        try:
            self._connection.execute(
                f"ATTACH '' AS {CATALOG_NAME} (TYPE iceberg, ENDPOINT {_quoted(endpoint)}, {authorization})"
            )
            if namespace is not None:
                self._connection.execute(f"USE {CATALOG_NAME}.{namespace}")
        except duckdb.Error as error:
            self._connection.close()
            raise Unavailable(
                f"DuckDB can't attach the table door at {endpoint}: {error}",
                next_step="see whether the daemon runs: floeberg status",
            ) from error

    def __enter__(self) -> DuckdbSession:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def query(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and all rows of a statement. Raises ``Invalid`` with DuckDB's own words when it refuses.

        What Python has no type for (months in an interval, nanoseconds) is the text that DuckDB writes.
        """
        try:
            answer = self._connection.sql(sql)
            if answer is None:
                return [], []  # a SET, or nothing but a comment
            names, types = answer.columns, [str(kind) for kind in answer.types]
            if any(kind in _ONLY_TEXT for kind in types):
                parts = (f"#{at}::VARCHAR" if kind in _ONLY_TEXT else f"#{at}" for at, kind in enumerate(types, 1))
                answer = answer.project(", ".join(parts))
            rows = answer.fetchall()
        except self._errors as error:
            raise Invalid(f"DuckDB refuses the query: {error}") from error
        is_float = ["FLOAT" in kind for kind in types]
        if any(is_float):
            rows = [
                tuple(as_written(value) if narrow else value for narrow, value in zip(is_float, row, strict=True))
                for row in rows
            ]
        return names, rows

    def close(self) -> None:
        self._connection.close()


def extension_file(name: str) -> Path:
    package = f"duckdb_extension_{name}"
    spec = importlib.util.find_spec(package)
    folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    found = next(folder.rglob("*.duckdb_extension"), None) if folder is not None else None
    if found is None:
        raise Invalid(f"The Python package {package} is missing", next_step=f"pip install {package.replace('_', '-')}")
    return found


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
