"""``floeberg sql``: a query over the tables by an engine that knows nothing of Floeberg."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from engine.errors import Invalid
from floeberg.commands.context import CommandContext
from floeberg.console import out, print_json
from floeberg.daemon_client import table_door_answers
from floeberg.plain_value import plain, shown

ENGINES = ("duckdb", "spark")
_WIDEST_TABLE = 1 << 20
"""Columns of text; beyond them even a file's lines are cut."""


def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="For example: SELECT count(*) FROM orders")],
    engine: Annotated[str, typer.Option(help="duckdb or spark.")] = "duckdb",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a SQL query over the tables, through the table door."""
    if engine not in ENGINES:
        raise Invalid(f"There is no engine {engine!r}", next_step=f"choose {' or '.join(ENGINES)}")
    if not query.strip():
        raise Invalid(
            "The query is empty", next_step="floeberg sql 'SELECT count(*) FROM …'; tables are named as topics"
        )
    command = CommandContext.of(context)
    with table_door(command) as (url, token):
        names, rows = run_query(engine, query, url=url, token=token, namespace=command.settings.namespace)
    if as_json:
        names = _told_apart(names)
        print_json([{name: plain(value) for name, value in zip(names, row, strict=True)} for row in rows])
    else:
        _show(names, rows)


def run_query(
    engine: str, query: str, *, url: str, token: str | None, namespace: str
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows. Raises ``Invalid`` for a query that the engine refuses, ``Unavailable``."""
    if engine == "spark":
        from floeberg.spark_session import SparkSession

        with SparkSession(url, token=token, namespace=namespace) as spark:
            return spark.query(query)
    from floeberg.duckdb_session import DuckdbSession

    with DuckdbSession(url, token=token, namespace=namespace) as duckdb:
        return duckdb.query(query)


@contextlib.contextmanager
def table_door(command: CommandContext) -> Iterator[tuple[str, str | None]]:
    """URL and token of the daemon's table door, or of one of our own while no daemon answers."""
    settings = command.settings
    token = settings.table_door.tokens[0] if settings.table_door.tokens else None
    if table_door_answers(settings):
        yield settings.table_door.listen.url, token
        return
    from floeberg.http_server import HttpServer
    from floeberg.settings import Listen
    from serving.tables.catalog_view import CatalogView
    from serving.tables.door import table_door_routes

    routes = table_door_routes(CatalogView(command.catalog))
    with HttpServer(routes, Listen(host="127.0.0.1", port=0), setting="[table_door] listen") as server:
        yield server.url, None


def result_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Rows for a person: numbers to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(names):
        kinds = {type(row[index]) for row in rows} - {type(None)}
        numeric = bool(kinds) and kinds <= {int, float, Decimal}
        table.add_column(escape(name), justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(shown(value)) for value in row))
    return table


def _show(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table as wide as its content, or, where the terminal is narrower, each row as lines of name and value."""
    if not names:
        return
    table = result_table(names, rows)
    unbounded = out.options.update(max_width=_WIDEST_TABLE)
    width = Measurement.get(out, unbounded, table).maximum
    if out.is_terminal and width > out.width:
        _print_records(names, rows)
    else:
        # What reads it from a pipe or a file finds every value in one piece.
        Console(file=out.file, width=max(1, width), highlight=False).print(table)


def _print_records(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows one after the other, a line a column."""
    longest = max(map(len, names), default=0)
    for number, row in enumerate(rows, 1):
        out.print(f"[dim]row {number}[/dim]")
        for name, value in zip(names, row, strict=True):
            out.print(f"[bold]{escape(name.ljust(longest))}[/bold]  {escape(shown(value))}", soft_wrap=True)


def _told_apart(names: Sequence[str]) -> list[str]:
    """Names as members of an object: the second ``a`` is ``a_1``, as DuckDB calls it in a subquery."""
    found: list[str] = []
    for name in names:
        number, unused = 0, name
        while unused in found:
            number += 1
            unused = f"{name}_{number}"
        found.append(unused)
    return found
