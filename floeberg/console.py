"""What commands write: reports to standard output, for a person or as JSON; errors and progress to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from engine.errors import FloebergError

if TYPE_CHECKING:
    from rich.console import RenderableType

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """``gives_way``: it is left out where there is no room for all, that of the lowest number first; None: never.
    What is long in a ``folded`` one goes on in the next line."""

    name: str
    is_number: bool = True
    gives_way: int | None = None
    folded: bool = False


_GAP = 2
_LEAST_FOLDED_WIDTH = 20


def fitted(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], *, width: int) -> Iterator[RenderableType]:
    """A table that fits, and, where there is no room for all columns, a line that names those that gave way."""
    widths = {column.name: _width(column, [row[at] for row in rows]) + _GAP for at, column in enumerate(columns)}
    by_turn = sorted((one for one in columns if one.gives_way is not None), key=lambda one: one.gives_way or 0)
    left_out: dict[str, int] = {}
    for column in by_turn:
        if sum(widths.values()) - _GAP <= width:
            break
        left_out[column.name] = widths.pop(column.name)
    shown = [at for at, column in enumerate(columns) if column.name in widths]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for at in shown:
        table.add_column(columns[at].name, justify="right" if columns[at].is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in (row[at] for at in shown)))
    yield table
    if left_out:
        yield Text(f"no room for: {', '.join(one.name for one in columns if one.name in left_out)}", style="dim")


def _width(column: Column, cells: Iterable[str | Text]) -> int:
    widest = max((cell.cell_len if isinstance(cell, Text) else cell_len(cell) for cell in cells), default=0)
    return max(len(column.name), min(widest, _LEAST_FOLDED_WIDTH) if column.folded else widest)


def show_error(error: FloebergError) -> None:
    """An error in one line, and a second with the next step."""
    where = f" [dim]({escape(error.where)})[/dim]" if error.where else ""
    err.print(f"[bold red]error:[/bold red] {escape(error.problem)}{where}", soft_wrap=True)
    if error.next_step:
        err.print(f"[bold]next:[/bold]  {escape(error.next_step)}", soft_wrap=True)
