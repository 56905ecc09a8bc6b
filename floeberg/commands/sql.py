"""``floeberg sql``: a query over the tables by an engine that knows nothing of Floeberg."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from engine.errors import Invalid
from floeberg.commands.context import CommandContext
from floeberg.console import out, print_json
from floeberg.plain_value import plain
from floeberg.settings import Listen, Settings

ENGINES = ("duckdb", "spark")


def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="For example: SELECT count(*) FROM orders")],
    engine: Annotated[str, typer.Option(help="duckdb or spark.")] = "duckdb",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a SQL query over the tables, through the table door."""
    if engine not in ENGINES:
        raise Invalid(f"There is no engine {engine!r}", next_step=f"choose {' or '.join(ENGINES)}")
    command = CommandContext.of(context)
    with table_door(command) as (url, token):
        names, rows = run_query(engine, query, url=url, token=token, namespace=command.settings.namespace)
    if as_json:
        print_json([{name: plain(value) for name, value in zip(names, row, strict=True)} for row in rows])
    else:
        out.print(result_table(names, rows))


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
    if _answers(settings, token):
        yield settings.table_door.listen.url, token
        return
    from floeberg.http_server import HttpServer
    from serving.tables.catalog_view import CatalogView
    from serving.tables.door import table_door_routes

    routes = table_door_routes(CatalogView(command.catalog))
    with HttpServer(routes, Listen(host="127.0.0.1", port=0), setting="[table_door] listen") as server:
        yield server.url, None


def _answers(settings: Settings, token: str | None) -> bool:
    import httpx

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{settings.table_door.listen.url}/v1/config", headers=headers, timeout=2.0).is_success
    return False


def result_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Rows for a person: numbers to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(names):
        numeric = bool(rows) and all(isinstance(row[index], (int, float, Decimal)) for row in rows)
        table.add_column(escape(name), justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(escape(_cell(value)) for value in row))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if isinstance(value, float) else str(plain(value))
