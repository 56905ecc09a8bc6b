"""Where the rows of answers go, and in which format: to the standard output, or into a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import IO

from rich.cells import cell_len
from rich.text import Text

from engine.durable_file import TEMPORARY_SUFFIX, name_durably
from engine.errors import Invalid, Unavailable
from floeberg.console import err, out, print_line
from floeberg.sql.answer import SqlAnswer, in_batches
from floeberg.sql.answer_formats import TEXT_FORMATS, table_lines, vertical_lines

PARQUET = "parquet"
FORMATS = (*TEXT_FORMATS, PARQUET)

_ROWS_AT_A_TERMINAL = 40
"""Of a table, unless another number is asked for: more would push what matters off the screen."""


class AnswerOutput:
    """A context manager; a file has its name once all is in it.

    ``max_rows``: of a table; 0 for all, None for all but at a terminal. Raises ``Invalid`` for what doesn't go
    together, ``Unavailable`` where the file can't be written.
    """

    def __init__(self, *, form: str, file: Path | None = None, vertical: bool = False, max_rows: int | None = None):
        if form not in FORMATS:
            raise Invalid(f"There is no format {form!r}", next_step=f"choose one of {', '.join(FORMATS)}")
        if form == PARQUET and file is None:
            raise Invalid("Parquet goes into a file", next_step="name it: -o rows.parquet")
        if (vertical or max_rows is not None) and form != "table":
            raise Invalid(f"--vertical and --max-rows are for tables, not for {form}", next_step="leave them out")
        self._form, self._file, self._vertical, self._max_rows = form, file, vertical, max_rows
        self._is_terminal = file is None and out.is_terminal
        self._written: IO[bytes] | None = None
        # Now: once the settings are read, files are for those who may read the tables, and this one is the user's.
        self._mode = 0o666 & ~_umask()

    def __enter__(self) -> AnswerOutput:
        if self._file is not None:
            try:
                self._written = self._temporary.open("wb")
            except OSError as error:
                raise self._unwritten(error) from error
        return self

    def __exit__(self, kind: object, *exc_info: object) -> None:
        if self._written is None or self._file is None:
            return
        with self._written:
            is_empty = self._form == PARQUET and not self._has_rows
            if kind is not None or is_empty:
                self._temporary.unlink(missing_ok=True)
            else:
                try:
                    os.fchmod(self._written.fileno(), self._mode)
                    name_durably(self._written, self._temporary, self._file)
                except OSError as error:
                    raise self._unwritten(error) from error
        if kind is None and is_empty:
            raise Invalid("No statement has rows for the Parquet file", next_step="give one that has some columns")

    def show(self, answer: SqlAnswer) -> None:
        """An answer without columns shows nothing."""
        if not answer.names:
            return
        if self._form == PARQUET:
            self._write_parquet(answer)
        elif self._form != "table":
            self._write(TEXT_FORMATS[self._form](answer))
        else:
            self._show_table(answer)

    def _show_table(self, answer: SqlAnswer) -> None:
        limit = self._max_rows if self._max_rows is not None else _ROWS_AT_A_TERMINAL if self._is_terminal else 0
        rows = answer.rows()
        shown = replace(answer, batches=in_batches(islice(rows, limit) if limit else rows))
        first = next(shown.batches, [])
        widest = max(map(cell_len, table_lines(replace(shown, batches=iter([first])))))
        shown = replace(shown, batches=chain([first], shown.batches))
        # A pipe and a file get every row in one piece.
        if self._vertical or (self._is_terminal and widest > out.width):
            self._write(vertical_lines(shown))
        else:
            self._write(table_lines(shown), has_head=True)
        if limit and next(rows, None) is not None:
            err.print(f"[dim]There are more than these {limit} rows: --max-rows 0 shows all.[/dim]", soft_wrap=True)

    def _write(self, lines: Iterator[str], *, has_head: bool = False) -> None:
        if self._written is None:
            if has_head and self._is_terminal:
                out.print(Text(next(lines), style="bold"), soft_wrap=True)
            for line in lines:
                print_line(line)
            return
        try:
            self._written.writelines(f"{line}\n".encode() for line in lines)
        except OSError as error:
            raise self._unwritten(error) from error

    def _write_parquet(self, answer: SqlAnswer) -> None:
        assert self._written is not None, "checked when it was made"
        if answer.write_parquet is None:
            raise Invalid("This engine hands out no Parquet", next_step="--engine duckdb does")
        if self._has_rows:
            raise Invalid("A Parquet file has the rows of one statement", next_step="give one that has rows")
        answer.write_parquet(self._temporary)

    @property
    def _has_rows(self) -> bool:
        return self._written is not None and self._written.seek(0, os.SEEK_END) > 0

    @property
    def _temporary(self) -> Path:
        assert self._file is not None, "there is a file"
        return self._file.with_name(f"{self._file.name}.{os.getpid()}{TEMPORARY_SUFFIX}")

    def _unwritten(self, error: OSError) -> Unavailable:
        return Unavailable(f"The file can't be written: {error}", file=str(self._file))


def _umask() -> int:
    """The process's, which can't be asked for without being set."""
    found = os.umask(0o077)
    os.umask(found)
    return found
