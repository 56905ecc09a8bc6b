"""``floeberg``, the command line: options before the command or after it, exit codes, errors for a person."""

from __future__ import annotations

import atexit
import gc
import sys
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from engine.errors import FloebergError, Invalid, Unavailable
from floeberg.commands.context import FOUND_SOMETHING, WRONG_USAGE, CommandContext
from floeberg.version import program_version

if TYPE_CHECKING:
    from collections.abc import Iterable

COMMANDS = {
    "init": "Ask the broker, and write the settings.",
    "run": "Tier, compact and serve the tables, until stopped.",
    "demo": "Show the whole path on a broker of its own.",
    "status": "Show what is in the tables, what waits and why.",
    "check": "Try every setting and connection.",
    "fsck": "Prove the tables against their files and the log.",
    "compact": "Put small files together.",
    "erase": "Take records of some keys out of a table for good.",
    "expire": "Let old snapshots go, and files that nothing names.",
    "repair": "Give records their columns that were stored without.",
    "cat": "Print records as a consumer would read them.",
    "snapshot": "Tell which snapshot was the first to have an offset.",
    "sql": "Query the tables.",
    "tier": "Tier what is ready now, and end.",
    "plugin": "Write the broker's plugin and the settings it needs.",
    "schema": "Tell what tables make of schemas.",
    "table": "Drop a topic's table.",
}
"""What the list of commands says of each; it is in the module of its name, which is imported when it is called."""


class _CommandsByName(TyperGroup):
    """Commands are listed without their modules: help and completion need none of what they import."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name=name, help=line) for name, line in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, None if name is None or listed is None else _imported(name), rest


def _imported(name: str) -> Any:
    """The command of that name, which takes the options of the root too."""
    found, holder = resolve_name(f"floeberg.commands.{name}:{name}"), _bare_app()
    command: Any
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
        command = get_command(holder).commands[name]  # type: ignore[attr-defined]  # a group, as what is in it
    else:
        holder.command(name)(found)
        command = get_command(holder)
    _take_options([command])
    return command


def _take_options(commands: Iterable[Any]) -> None:
    for command in commands:
        command.params += get_command(_options).params
        _take_options(getattr(command, "commands", {}).values())


def _bare_app() -> typer.Typer:
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def _remember(context: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """What was said last counts: after the command before what was said before it."""
    if value:
        context.obj = replace(context.find_object(CommandContext) or CommandContext(), **{str(param.name): value})
    return value


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"floeberg {program_version()}\n")
        raise typer.Exit


_Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        callback=_remember,
        expose_value=False,
        help="Settings file; else $FLOEBERG_CONFIG, ./floeberg.toml, /etc/floeberg.",
    ),
]
_Debug = Annotated[
    bool,
    typer.Option("--debug", callback=_remember, expose_value=False, help="Show the traceback of an error."),
]

_options = _bare_app()


@_options.command()
def _of_every_command(config: _Config = None, debug: _Debug = False) -> None:
    """Has the options that stand after any command."""


app = typer.Typer(
    name="floeberg",
    cls=_CommandsByName,
    help="The log of a Kafka broker as Parquet under Iceberg: one copy, read by offset and by SQL.",
    no_args_is_help=True,
    # Plain help takes a third of the time that boxes and colours take.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root(
    context: typer.Context,
    config: _Config = None,  # noqa: ARG001  # their callbacks do it
    debug: _Debug = False,  # noqa: ARG001
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    context.ensure_object(CommandContext)


def main() -> None:
    """The console script: 0 all is well, 1 something is wrong and was reported, 2 wrong usage or settings."""
    # At its end the interpreter would search what was imported for garbage: a quarter of a short command's time.
    atexit.register(gc.freeze)
    try:
        app()
    except FloebergError as error:
        _tell(error)
        sys.exit(WRONG_USAGE if isinstance(error, Invalid) else FOUND_SOMETHING)
    except Exception as error:  # noqa: BLE001  # the outermost guard: a person gets a line, not a traceback
        _tell(
            Unavailable(
                f"The command ended with an error that nobody foresaw: {error!r}",
                next_step="floeberg --debug … shows where; please report it",
            )
        )
        sys.exit(FOUND_SOMETHING)


def _tell(error: FloebergError) -> None:
    """To be called while an error is handled."""
    from floeberg.console import err, show_error

    if "--debug" in sys.argv:
        err.print_exception(show_locals=False)
    show_error(error)
