"""What a SQL engine answers to a statement: rows as they come, never all of them in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

BATCH_ROWS = 1024
"""Rows that are held at a time: little memory, and the first are shown soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAnswer:
    """``batches`` of up to ``BATCH_ROWS``, to be read once. ``write_parquet``: by the engine itself, in place of
    ``batches``; None where it can't.
    """

    names: Sequence[str]
    batches: Iterator[Sequence[tuple[Any, ...]]]
    write_parquet: Callable[[Path], None] | None = None

    def rows(self) -> Iterator[tuple[Any, ...]]:
        for batch in self.batches:
            yield from batch


def in_batches(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """As an answer has them."""
    return iter(lambda: list(islice(rows, BATCH_ROWS)), [])


class SqlSession(Protocol):
    """An engine with the catalog attached as ``floeberg``; a context manager."""

    def statements(self, text: str) -> list[str]:
        """The statements of a text. Raises Invalid where it can't be cut into some."""

    def answer(self, statement: str) -> AbstractContextManager[SqlAnswer]:
        """The answer, which is good inside the context; it has no names where the statement gives no rows.

        Raises Invalid, then or while it is read, with the engine's own words when it refuses.
        """

    def __enter__(self) -> SqlSession: ...

    def __exit__(self, *exc_info: object) -> None: ...


def complete_statements(text: str) -> list[str]:
    """A text cut at the semicolons that stand in no string and no comment; the last one needs none."""
    found, begun = [], ""
    for part in text.split(";"):
        begun += part + ";"
        if sqlite3.complete_statement(begun):
            found.append(begun.removesuffix(";").strip())
            begun = ""
    return [statement for statement in (*found, begun.removesuffix(";").strip()) if statement]
