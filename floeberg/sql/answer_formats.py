"""Rows of an answer as text: a table for a person, lines of name and value, CSV, JSON, JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from textwrap import indent
from typing import Any

from rich.cells import cell_len

from floeberg.sql.answer import SqlAnswer
from floeberg.sql.plain_value import plain, shown

_GAP = "  "


def table_lines(answer: SqlAnswer) -> Iterator[str]:
    """A line with the names, then one a row. Numbers stand to the right.

    Columns are as wide as the rows so far need them: of a long answer, later ones may be wider than the first.
    """
    widths = [cell_len(name) for name in answer.names]
    to_the_right = [False] * len(widths)
    first = next(answer.batches, ())
    for column in range(len(widths)):
        kinds = {type(row[column]) for row in first} - {type(None)}
        to_the_right[column] = bool(kinds) and kinds <= {int, float, Decimal}

    def line(cells: Sequence[str]) -> str:
        padded = (
            f"{' ' * (width - cell_len(cell))}{cell}" if right else f"{cell}{' ' * (width - cell_len(cell))}"
            for cell, width, right in zip(cells, widths, to_the_right, strict=True)
        )
        return _GAP.join(padded).rstrip()

    is_first = True
    for batch in chain([first], answer.batches):
        rows = [[shown(value).replace("\n", "\\n") for value in row] for row in batch]
        for column, width in enumerate(widths):
            widths[column] = max(width, *(cell_len(row[column]) for row in rows)) if rows else width
        if is_first:
            yield line(answer.names)
            is_first = False
        yield from map(line, rows)


def vertical_lines(answer: SqlAnswer) -> Iterator[str]:
    """Rows one after the other, a line a column."""
    longest = max(map(cell_len, answer.names), default=0)
    for number, row in enumerate(answer.rows(), 1):
        yield f"row {number}"
        for name, value in zip(answer.names, row, strict=True):
            yield f"{name}{' ' * (longest - cell_len(name))}{_GAP}{shown(value)}"


def csv_lines(answer: SqlAnswer) -> Iterator[str]:
    """As DuckDB writes it: NULL is nothing and an empty text is ``""``; bytes are ASCII, or ``\\xFF``."""
    yield ",".join(map(_csv_cell, answer.names))
    for row in answer.rows():
        yield ",".join("" if value is None else _csv_cell(_csv_text(value)) for value in row)


def _csv_text(value: Any) -> str:
    return value if isinstance(value, str) else shown(value)


def _csv_cell(text: str) -> str:
    needs_quotes = not text or any(letter in text for letter in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if needs_quotes else text


def json_lines(answer: SqlAnswer) -> Iterator[str]:
    """One object a line."""
    for row in _objects(answer):
        yield json.dumps(row, ensure_ascii=False, allow_nan=False)


def json_array(answer: SqlAnswer) -> Iterator[str]:
    """One array of objects."""
    last = ""
    for row in _objects(answer):
        yield f"{last}," if last else "["
        last = indent(json.dumps(row, indent=2, ensure_ascii=False, allow_nan=False), "  ")
    yield f"{last}\n]" if last else "[]"


def _objects(answer: SqlAnswer) -> Iterator[dict[str, Any]]:
    names = _told_apart(answer.names)
    for row in answer.rows():
        yield {name: plain(value) for name, value in zip(names, row, strict=True)}


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


TEXT_FORMATS: Mapping[str, Callable[[SqlAnswer], Iterator[str]]] = {
    "table": table_lines,
    "csv": csv_lines,
    "json": json_array,
    "jsonl": json_lines,
}
