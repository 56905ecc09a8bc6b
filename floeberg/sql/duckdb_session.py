"""DuckDB on the tables, through the table door. With duckdb_condition.py all that knows DuckDB."""

from __future__ import annotations

import importlib.util
import ssl
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.errors import Invalid, Unavailable
from engine.formats.format_facts import noted_columns
from floeberg.sql.answer import BATCH_ROWS, SqlAnswer
from floeberg.sql.plain_value import as_written

if TYPE_CHECKING:
    from floeberg.sql.live_tail import LiveTails

CATALOG_NAME = "floeberg"
_EXTENSIONS = ("httpfs", "avro", "iceberg")
"""In the order they load: iceberg reads its manifests with avro and calls the catalog with httpfs."""

_ONLY_TEXT = frozenset({"INTERVAL", "TIMESTAMP_NS"})

_TAIL_PREFIX = "live tail of "
_TAKEN = "floeberg_taken"
"""What rows on their way from Arrow are called, for one statement."""

_FIRST_COLUMN = "partition"
"""What the first column of a topic's table is called, after the prefix of Kafka's own columns."""


class DuckdbSession:
    """A DuckDB connection with the catalog attached as ``floeberg``; a context manager.

    The extensions come from Python packages, so that nothing is downloaded at run time. ``kafka_columns_last``: tables
    that a statement names without their namespace have the value's columns first; with it they are as they are stored.
    ``live``: they also have what the broker has beyond them when the statement begins.
    Raises ``Invalid`` when a package is missing, ``Unavailable`` when the door does not answer.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        token: str | None = None,
        ca_file: Path | None = None,
        namespace: str | None = None,
        kafka_columns_last: bool = False,
        live: LiveTails | None = None,
    ) -> None:
        import duckdb

        self._errors = duckdb.Error
        self._namespace = namespace
        self._kafka_columns_last = kafka_columns_last
        self._live = live
        self._connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        for extension in _EXTENSIONS:
            self._connection.execute(f"LOAD {_quoted(str(extension_file(extension)))}")
        if endpoint.startswith("https://"):
            # By itself DuckDB would give the token to whoever answers.
            self._connection.execute("SET enable_server_cert_verification = true")
            trusted = ca_file or ssl.get_default_verify_paths().cafile
            if trusted is not None:
                self._connection.execute(f"SET ca_cert_file = {_quoted(str(trusted))}")
        authorization = f"TOKEN {_quoted(token)}" if token else "AUTHORIZATION_TYPE 'none'"
        try:
            self._connection.execute(
                f"ATTACH '' AS {CATALOG_NAME} (TYPE iceberg, ENDPOINT {_quoted(endpoint)}, {authorization})"
            )
            if namespace is not None:
                # It comes with the first table.
                with suppress(duckdb.CatalogException):
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

    def statements(self, text: str) -> list[str]:
        with self._own_words():
            return [statement.query for statement in self._connection.extract_statements(text)]

    @contextmanager
    def answer(self, statement: str) -> Iterator[SqlAnswer]:
        """What Python has no type for (months in an interval, nanoseconds) is the text that DuckDB writes."""
        with self._own_words(), self._stand_ins(statement), self._interruptible():
            relation = self._connection.sql(statement)
            if relation is None:  # a SET, or nothing but a comment
                yield SqlAnswer(names=(), batches=iter(()))
                return
            yield SqlAnswer(
                names=relation.columns,
                batches=_batches(relation),
                write_parquet=lambda path: self._copy(relation.sql_query(), path),
            )

    def query(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and all rows of a statement, where they are few."""
        with self.answer(sql) as answer:
            return list(answer.names), list(answer.rows())

    def close(self) -> None:
        self._connection.close()

    def _copy(self, query: str, path: Path) -> None:
        # A relation's own method would hold the interpreter's lock, which a door in this process needs to answer.
        self._connection.execute(f"COPY ({query}) TO {_quoted(str(path))} (FORMAT parquet, USE_TMP_FILE false)")

    @contextmanager
    def _own_words(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise Invalid(f"DuckDB refuses the query: {error}") from error

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """DuckDB tells of Ctrl-C by an error that is not its own kind, and whoever uses or closes the connection next
        would first wait for the query that it left."""
        try:
            yield
        except (KeyboardInterrupt, RuntimeError) as error:
            self._connection.interrupt()
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise error.__cause__ from None
            raise

    @contextmanager
    def _stand_ins(self, statement: str) -> Iterator[None]:
        """Temporary views, which come before what they are named as, stand for the tables meanwhile."""
        with ExitStack() as made:
            for name in self._table_names(statement):
                table = f'{CATALOG_NAME}."{self._namespace}".{_identifier(name)}'
                rows = table if self._live is None else made.enter_context(self._with_tail(self._live, name, table))
                # No table of ours, or a temporary one of the user's own: it stays what it is.
                with suppress(self._errors):
                    columns = self._connection.sql(f"FROM {rows} LIMIT 0").columns
                    listed = ", ".join(map(_identifier, _value_first(columns) if self._kafka_columns_last else columns))
                    self._connection.execute(f"CREATE TEMP VIEW {_identifier(name)} AS SELECT {listed} FROM {rows}")
                    made.callback(self._connection.execute, f"DROP VIEW temp.{_identifier(name)}")
            yield

    @contextmanager
    def _with_tail(self, live: LiveTails, name: str, table: str) -> Iterator[str]:
        """A table together with what the broker has beyond it, in a temporary table, as what stands after FROM."""
        with live.of(name) as tail:
            if tail is None:
                yield table
                return
            held = f"temp.{_identifier(_TAIL_PREFIX + name)}"
            self._take(f"CREATE TEMP TABLE {held} AS FROM", pa.RecordBatch.from_pylist([], schema=tail.schema))
            try:
                for batch in tail.batches:
                    self._take(f"INSERT INTO {held} FROM", batch)
                # The snapshot that the tail continues: by now the table may have more of it.
                stored = f"AT (VERSION => {tail.snapshot_id})" if tail.snapshot_id is not None else "WHERE false"
                yield f"(FROM {table} {stored} UNION ALL BY NAME FROM {held})"
            finally:
                self._connection.execute(f"DROP TABLE {held}")

    def _take(self, statement: str, batch: pa.RecordBatch) -> None:
        self._connection.register(_TAKEN, batch)
        try:
            self._connection.execute(f"{statement} {_TAKEN}")
        finally:
            self._connection.unregister(_TAKEN)

    def _table_names(self, statement: str) -> frozenset[str]:
        if self._namespace is None or not (self._kafka_columns_last or self._live):
            return frozenset()
        import duckdb

        # Where no catalog is attached, names are only read: looking them up would hold the interpreter's lock, which a
        # door in this process needs to answer.
        with suppress(self._errors), duckdb.connect() as unattached:
            return frozenset(unattached.get_table_names(statement))
        return frozenset()


def _batches(relation: Any) -> Iterator[list[tuple[Any, ...]]]:
    types = [str(kind) for kind in relation.types]
    if any(kind in _ONLY_TEXT for kind in types):
        parts = (f"#{at}::VARCHAR" if kind in _ONLY_TEXT else f"#{at}" for at, kind in enumerate(types, 1))
        relation = relation.project(", ".join(parts))
    is_float = ["FLOAT" in kind for kind in types]
    while rows := relation.fetchmany(BATCH_ROWS):
        if any(is_float):
            rows = [
                tuple(as_written(value) if narrow else value for narrow, value in zip(is_float, row, strict=True))
                for row in rows
            ]
        yield rows


def _value_first(names: Sequence[str]) -> list[str]:
    """The value's columns, then Kafka's own and what is noted beside them; as they are in a table that is not ours."""
    if not names[0].endswith(_FIRST_COLUMN):
        return list(names)
    prefix, noted = names[0].removesuffix(_FIRST_COLUMN), noted_columns()
    return sorted(names, key=lambda name: name.startswith(prefix) or name in noted)


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


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
