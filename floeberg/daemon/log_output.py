"""Where the daemon's log goes: standard error, as text for a person or as JSON lines for a collector."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import Literal, TextIO, cast

import structlog

LogFormat = Literal["auto", "text", "json"]


class _Stream:
    """Where lines go: one that can't be written (its disk is full, its reader is gone) is lost, and nothing else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


def configure_logging(*, level: str = "info", log_format: LogFormat = "auto") -> None:
    """Set up structlog and the libraries' own loggers. ``auto`` is text on a terminal and JSON elsewhere."""
    number = logging.getLevelNamesMapping()[level.upper()]
    as_text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    renderer: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
        if as_text
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Stream(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    # Libraries speak up through logging: from warnings on, in the same stream.
    logging.basicConfig(
        level=max(number, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )
