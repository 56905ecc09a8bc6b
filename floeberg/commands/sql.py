"""``floeberg sql``: queries over the tables by an engine that knows nothing of Floeberg."""

from __future__ import annotations

import contextlib
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.errors import Invalid
from floeberg.commands.context import CommandContext

if TYPE_CHECKING:
    from floeberg.sql.answer import SqlSession
    from floeberg.sql.answer_output import AnswerOutput
    from floeberg.sql.live_tail import LiveTails

ENGINES = ("duckdb", "spark")
ORDERS = ("last", "first")


def sql(
    context: typer.Context,
    query: Annotated[
        str | None,
        typer.Argument(help="Statements; without them and -f those of the standard input, or a shell at a terminal."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", exists=True, dir_okay=False, help="A file of statements.")
    ] = None,
    engine: Annotated[str, typer.Option(help="duckdb or spark.")] = "duckdb",
    form: Annotated[str, typer.Option("--format", help="table, csv, json, jsonl or parquet.")] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: --format json.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", dir_okay=False, help="A file for the rows, whole or not at all.")
    ] = None,
    vertical: Annotated[
        bool, typer.Option("--vertical", help="A line a column, as rows are shown that the terminal is too narrow for.")
    ] = False,
    max_rows: Annotated[
        int | None, typer.Option(min=0, help="Rows of a table that are shown, 0 for all; 40 at a terminal.")
    ] = None,
    kafka_columns: Annotated[
        str,
        typer.Option(
            envvar="FLOEBERG_SQL_KAFKA_COLUMNS",
            help="Where SELECT * has Kafka's own columns: last, or first as they are stored. For duckdb.",
        ),
    ] = "last",
    live: Annotated[
        bool, typer.Option("--live", help="With what the broker has beyond the tables, as of now. For duckdb.")
    ] = False,
    live_limit: Annotated[
        int,
        typer.Option(
            metavar="MIB",
            min=1,
            envvar="FLOEBERG_SQL_LIVE_LIMIT",
            help="How much that may be, of each table: it is held in memory.",
        ),
    ] = 256,
) -> None:
    """Query the tables with SQL, through the table door; tables are named as topics."""
    from floeberg.sql.answer_output import AnswerOutput
    from floeberg.sql.shell import run_shell

    _check_choice("--engine", engine, ENGINES)
    _check_choice("--kafka-columns", kafka_columns, ORDERS)
    if live and engine != "duckdb":
        raise Invalid("--live is for duckdb", next_step="leave --live or --engine out")
    out = AnswerOutput(form="json" if as_json else form, file=output, vertical=vertical, max_rows=max_rows)
    is_shell = query is None and file is None and output is None and sys.stdin.isatty()
    text = "" if is_shell else _text(query, file)
    command = CommandContext.of(context)
    with table_door(command, engine) as door:
        tails = _live_tails(command, live_limit << 20) if live else None
        with _session(
            engine, door, command.settings.namespace, kafka_columns_last=kafka_columns == "last", live=tails
        ) as session:
            if is_shell:
                run_shell(session, out)
            else:
                _run(session, text, out)


def _check_choice(option: str, given: str, choices: tuple[str, ...]) -> None:
    if given not in choices:
        raise Invalid(f"{option} can't be {given!r}", next_step=f"choose {' or '.join(choices)}")


def _text(query: str | None, file: Path | None) -> str:
    if query is not None and file is not None:
        raise Invalid("There are a query and a file of statements", next_step="give one of them")
    try:
        text = query if query is not None else sys.stdin.read() if file is None else file.read_text()
    except UnicodeDecodeError as error:
        raise Invalid(f"The statements are not UTF-8: {error}", file=None if file is None else str(file)) from error
    if not text.strip():
        raise Invalid(
            "The query is empty", next_step="floeberg sql 'SELECT count(*) FROM …'; tables are named as topics"
        )
    return text


def _run(session: SqlSession, text: str, out: AnswerOutput) -> None:
    with out:
        for statement in session.statements(text):
            with session.answer(statement) as answer:
                out.show(answer)


def _live_tails(command: CommandContext, limit_bytes: int) -> LiveTails:
    """Raises ``Unavailable``."""
    command.compile_kernels()
    from floeberg.sql.live_tail import LiveTails

    return LiveTails(command.settings, command.tables, limit_bytes=limit_bytes)


def _session(
    engine: str, door: OpenTableDoor, namespace: str, *, kafka_columns_last: bool, live: LiveTails | None
) -> SqlSession:
    """Raises ``Invalid``, ``Unavailable``."""
    if engine == "spark":
        from floeberg.sql.spark_session import SparkSession

        return SparkSession(door.url, token=door.token, namespace=namespace)
    from floeberg.sql.duckdb_session import DuckdbSession

    return DuckdbSession(
        door.url,
        token=door.token,
        ca_file=door.ca_file,
        namespace=namespace,
        kafka_columns_last=kafka_columns_last,
        live=live,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTableDoor:
    """``ca_file`` None: its certificate, if it has one, is known to the system."""

    url: str
    token: str | None
    ca_file: Path | None = None


@contextlib.contextmanager
def table_door(command: CommandContext, engine: str) -> Iterator[OpenTableDoor]:
    """The daemon's; or one of our own, while no daemon answers, or the engine can't be told whom to trust."""
    from floeberg.daemon.client import table_door_answers

    door = command.settings.table_door
    ca_file = None if door.tls is None else door.tls.ca_file
    # A JVM reads no PEM file, and with a trust store of our own it would not know the store of the tables' files.
    if (engine != "spark" or ca_file is None) and table_door_answers(command.settings):
        yield OpenTableDoor(url=door.url, token=next(iter(door.known_tokens), None), ca_file=ca_file)
        return
    from floeberg.http.server import HttpServer
    from floeberg.settings.doors import Listen
    from serving.tables.catalog_view import CatalogView
    from serving.tables.door import table_door_routes

    # Other users of the machine reach it as well.
    token = secrets.token_urlsafe()
    routes = table_door_routes(CatalogView(command.catalog), tokens=[token])
    with HttpServer(routes, Listen(host="127.0.0.1", port=0), setting="[table_door] listen") as server:
        yield OpenTableDoor(url=server.url, token=token)
