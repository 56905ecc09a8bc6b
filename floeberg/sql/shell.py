"""Statements typed at a terminal, one after the other, with a history."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.errors import FloebergError
from floeberg.console import err, show_error
from floeberg.sql.answer import SqlSession
from floeberg.sql.answer_output import AnswerOutput

_HELP = "A statement ends with ;  SHOW TABLES lists the tables, Ctrl-C stops a query, .quit or Ctrl-D ends."
_PROMPT, _GOES_ON = "floeberg> ", "     ...> "
_END = frozenset({".quit", ".exit", "quit", "exit"})

_HISTORY_LINES = 1000
"""Lines that are kept: weeks of questions, and nothing to read at each start."""


def run_shell(session: SqlSession, out: AnswerOutput) -> None:
    """Until the end of the input. An error ends its statement, not the shell."""
    err.print(f"[dim]{_HELP}[/dim]", soft_wrap=True)
    with _history():
        while True:
            try:
                text = _typed()
                if text is None:
                    return
                for statement in session.statements(text):
                    with session.answer(statement) as answer:
                        out.show(answer)
            except FloebergError as error:
                show_error(error)
            except KeyboardInterrupt:
                err.print("stopped")


def _typed() -> str | None:
    """What was typed up to a semicolon that ends a statement; None at the end."""
    text = ""
    while not sqlite3.complete_statement(text):
        try:
            line = input(_GOES_ON if text else _PROMPT)
        except EOFError:
            err.print()
            return None
        if not text and line.strip() in _END:
            return None
        text += f"{line}\n" if text or line.strip() else ""
    return text


@contextmanager
def _history() -> Iterator[None]:
    """Lines of earlier shells, for the arrow keys; without them where Python has no readline or the home no room."""
    file = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "floeberg" / "sql_history"
    try:
        import readline
    except ImportError:
        yield
        return
    with suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(_HISTORY_LINES)
    try:
        yield
    finally:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            # What was asked about is nobody else's business.
            file.touch(mode=0o600)
            readline.write_history_file(file)
