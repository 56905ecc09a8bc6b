"""``floeberg run``: the daemon, in the foreground, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from engine.clock import SystemClock
from engine.errors import Invalid
from floeberg.commands.context import CommandContext
from floeberg.daemon.end_request import EndRequest
from floeberg.daemon.freed_memory import keep_freed_memory
from floeberg.daemon.log_output import configure_logging

_LEVELS = ("debug", "info", "warning", "error")
_FORMATS = ("auto", "text", "json")


def run(
    context: typer.Context,
    log_level: Annotated[
        str, typer.Option(envvar="FLOEBERG_LOG_LEVEL", help="debug, info, warning or error.")
    ] = "info",
    log_format: Annotated[str, typer.Option(help="text, json, or auto: text on a terminal, else JSON.")] = "auto",
) -> None:
    """Tier what is stable, serve it to the broker and to SQL engines, until stopped."""
    if log_level not in _LEVELS or log_format not in _FORMATS:
        raise Invalid(f"--log-level is one of {', '.join(_LEVELS)}; --log-format one of {', '.join(_FORMATS)}")
    settings = CommandContext.of(context).settings
    # Before all that takes seconds to import and to start.
    asked = EndRequest(signal.SIGTERM, signal.SIGINT)
    keep_freed_memory()
    configure_logging(level=log_level, log_format=log_format)  # type: ignore[arg-type]  # checked above
    from floeberg.kernels import compile_kernels, tell_log

    compile_kernels(settings.formats, tell=tell_log)
    from floeberg.daemon.daemon import Daemon

    with Daemon(settings, SystemClock()) as daemon:
        daemon.wait(asked)
