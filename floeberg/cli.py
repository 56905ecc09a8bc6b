"""``floeberg``, the command line: options before the command, exit codes, errors for a person."""

from __future__ import annotations

import atexit
import gc
import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import FloebergError, Invalid, Unavailable
from floeberg.commands.cat import cat
from floeberg.commands.check import check
from floeberg.commands.compact import compact
from floeberg.commands.context import FOUND_SOMETHING, WRONG_USAGE, CommandContext
from floeberg.commands.demo import demo
from floeberg.commands.fsck import fsck
from floeberg.commands.plugin import plugin
from floeberg.commands.repair import repair
from floeberg.commands.run import run
from floeberg.commands.schema import schema
from floeberg.commands.sql import sql
from floeberg.commands.status import status
from floeberg.commands.tier import tier
from floeberg.console import err, show_error
from floeberg.version import program_version

app = typer.Typer(
    name="floeberg",
    help="The log of a Kafka broker as Parquet under Iceberg: one copy, read by offset and by SQL.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (run, demo, status, check, fsck, compact, repair, cat, sql, tier, plugin):
    app.command(command.__name__)(command)
app.add_typer(schema)


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"floeberg {program_version()}\n")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Settings file; else $FLOEBERG_CONFIG, ./floeberg.toml, /etc/floeberg."),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[  # noqa: ARG001  # its callback does it
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    context.obj = CommandContext(config=config, debug=debug)


def main() -> None:
    """The console script: 0 all is well, 1 something is wrong and was reported, 2 wrong usage or settings."""
    # At its end the interpreter would search what was imported for garbage: a quarter of a short command's time.
    atexit.register(gc.freeze)
    debug = "--debug" in sys.argv
    try:
        app()
    except FloebergError as error:
        if debug:
            err.print_exception(show_locals=False)
        show_error(error)
        sys.exit(WRONG_USAGE if isinstance(error, Invalid) else FOUND_SOMETHING)
    except Exception as error:  # noqa: BLE001  # the outermost guard: a person gets a line, not a traceback
        if debug:
            err.print_exception(show_locals=False)
        show_error(
            Unavailable(
                f"The command ended with an error that nobody foresaw: {error!r}",
                next_step="floeberg --debug … shows where; please report it",
            )
        )
        sys.exit(FOUND_SOMETHING)
