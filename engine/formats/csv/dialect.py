"""How a topic's CSV lines are written: their columns, delimiter, quotes and line ends, as codec options."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

import pyarrow as pa

from engine.errors import Invalid

CSV_COLUMNS = "columns"
CSV_DELIMITER = "delimiter"
CSV_QUOTE = "quote"
CSV_LINE_END = "line_end"
CSV_TIME_SEPARATOR = "time_separator"

MOST_COLUMNS = 4096
"""Far above any line that people write; each costs a column of the table."""

_COLUMN = re.compile(r"^(?P<name>.+?)\s*:\s*(?P<kind>[a-z]+)\s*(?:\((?P<arguments>[\d\s,]*)\))?$")
_MOST_FRACTION = 6
_MOST_DIGITS = 38
_Choice = TypeVar("_Choice", bound=IntEnum)

# A number, a date or a time never needs quotes then, and no line can be read in two ways.
_NO_DELIMITERS = frozenset('"\r\n+-.:')


class CsvKind(IntEnum):
    """A column's type, as the kernels know it."""

    STRING = 0
    INT = 1
    LONG = 2
    DOUBLE = 3
    BOOLEAN = 4
    DECIMAL = 5
    DATE = 6
    TIMESTAMP = 7
    TIMESTAMPTZ = 8


class CsvQuote(IntEnum):
    """When a field that is not null stands in quotes: where it needs some, if it is a string, always, never."""

    MINIMAL = 0
    STRINGS = 1
    ALL = 2
    NONE = 3


class CsvLineEnd(IntEnum):
    """What stands behind a line, as the kernels know it."""

    NONE = 0
    LF = 1
    CRLF = 2


AS_NEEDED = -1
"""A time's fraction has no digits, three or six: as many as it needs."""

_ARROW = {
    CsvKind.STRING: pa.string(),
    CsvKind.INT: pa.int32(),
    CsvKind.LONG: pa.int64(),
    CsvKind.DOUBLE: pa.float64(),
    CsvKind.BOOLEAN: pa.bool_(),
    CsvKind.DATE: pa.date32(),
    CsvKind.TIMESTAMP: pa.timestamp("us"),
    CsvKind.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvColumn:
    """One declared column. ``digits`` a decimal's precision; ``fraction`` a decimal's scale, or the digits behind a
    time's seconds, AS_NEEDED where they vary."""

    name: str
    kind: CsvKind
    digits: int = 0
    fraction: int = AS_NEEDED

    @property
    def field(self) -> pa.Field:
        if self.kind is CsvKind.DECIMAL:
            return pa.field(self.name, pa.decimal128(self.digits, self.fraction))
        return pa.field(self.name, _ARROW[self.kind])


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    columns: tuple[CsvColumn, ...]
    delimiter: str = ","
    quote: CsvQuote = CsvQuote.MINIMAL
    line_end: CsvLineEnd = CsvLineEnd.NONE
    time_separator: str = "T"

    def is_quoted(self, column: CsvColumn) -> bool:
        """Whether all values of a column stand in quotes, those that need none too."""
        return self.quote is CsvQuote.ALL or (self.quote is CsvQuote.STRINGS and column.kind is CsvKind.STRING)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> CsvDialect:
        """What a topic's options say. Raises Invalid, naming the option."""
        delimiter = options.get(CSV_DELIMITER, ",")
        is_plain = len(delimiter) == 1 and delimiter.isascii() and not delimiter.isalnum()
        if not is_plain or delimiter in _NO_DELIMITERS:
            raise Invalid(f"a CSV delimiter is one ASCII character that no number has in it, not {delimiter!r}")
        separator = options.get(CSV_TIME_SEPARATOR, "T")
        if separator not in {"T", " "} or separator == delimiter:
            raise Invalid(f"a CSV time_separator is T or a space, and not the delimiter, not {separator!r}")
        return cls(
            columns=csv_columns(options.get(CSV_COLUMNS, "")),
            delimiter=delimiter,
            quote=_named(CsvQuote, CSV_QUOTE, options.get(CSV_QUOTE, "minimal")),
            line_end=_named(CsvLineEnd, CSV_LINE_END, options.get(CSV_LINE_END, "none")),
            time_separator=separator,
        )


def _named(choices: type[_Choice], option: str, name: str) -> _Choice:
    found = {choice.name.lower(): choice for choice in choices}
    if name not in found:
        raise Invalid(f"a CSV {option} is one of {', '.join(found)}, not {name!r}")
    return found[name]


def csv_columns(text: str) -> tuple[CsvColumn, ...]:
    """The columns that a JSON list of ``name:type`` declares. Raises Invalid, naming the column."""
    try:
        declared = json.loads(text) if text else []
    except ValueError as error:
        raise Invalid(f"CSV columns are no JSON list: {error}") from error
    if not isinstance(declared, list) or not all(isinstance(one, str) for one in declared):
        raise Invalid("CSV columns are a JSON list of texts")
    if not 0 < len(declared) <= MOST_COLUMNS:
        raise Invalid(f"CSV lines have 1 to {MOST_COLUMNS} columns, {len(declared)} are declared")
    columns = tuple(map(_column, declared))
    seen: dict[str, str] = {}
    for column in columns:
        other = seen.setdefault(column.name.casefold(), column.name)
        if other is not column.name:
            raise Invalid(f"the CSV columns {other} and {column.name} have the same name")
    return columns


def _column(declared: str) -> CsvColumn:
    parts = _COLUMN.match(declared.strip())
    kinds = {kind.name.lower(): kind for kind in CsvKind}
    if parts is None or parts["kind"] not in kinds:
        raise Invalid(f'a CSV column is "name:type" with one of {", ".join(kinds)}, not {declared!r}')
    kind, name = kinds[parts["kind"]], parts["name"]
    arguments = _numbers(parts["arguments"], declared)
    if kind is CsvKind.DECIMAL:
        if len(arguments) != 2 or not 0 < arguments[0] <= _MOST_DIGITS or arguments[1] > arguments[0]:
            raise Invalid(f"a CSV decimal is decimal(precision, scale), up to 38 digits, not {declared!r}")
        return CsvColumn(name=name, kind=kind, digits=arguments[0], fraction=arguments[1])
    if kind in {CsvKind.TIMESTAMP, CsvKind.TIMESTAMPTZ} and len(arguments) == 1 and arguments[0] <= _MOST_FRACTION:
        return CsvColumn(name=name, kind=kind, fraction=arguments[0])
    if parts["arguments"] is not None:
        raise Invalid(f"a CSV {parts['kind']} takes no such numbers: {declared!r}")
    return CsvColumn(name=name, kind=kind)


def _numbers(text: str | None, declared: str) -> Sequence[int]:
    try:
        return [] if text is None else [int(number) for number in text.split(",")]
    except ValueError as error:
        raise Invalid(f"a CSV column's type has no such numbers: {declared!r}") from error
