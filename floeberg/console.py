"""What commands write: reports to standard output, for a person or as JSON; errors and progress to standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.markup import escape

from engine.errors import FloebergError

PLAIN_WIDTH = 120
"""Columns where the output is no terminal: tables in a log file should not fold at 80."""


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else PLAIN_WIDTH, highlight=False, soft_wrap=False)


out = _console(stderr=False)
err = _console(stderr=True)


def print_json(value: Any) -> None:
    """One JSON document on standard output; not-a-number and infinities must be text already."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def print_line(text: str) -> None:
    """One line on standard output, as it is: no markup, no folding."""
    sys.stdout.write(text + "\n")


def show_error(error: FloebergError) -> None:
    """An error in one line, and a second with the next step."""
    where = f" [dim]({escape(error.where)})[/dim]" if error.where else ""
    err.print(f"[bold red]error:[/bold red] {escape(error.problem)}{where}", soft_wrap=True)
    if error.next_step:
        err.print(f"[bold]next:[/bold]  {escape(error.next_step)}", soft_wrap=True)
