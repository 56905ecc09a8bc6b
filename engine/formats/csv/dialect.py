"""How a topic's CSV lines are written: their columns, delimiter, quotes and line ends, as codec options."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
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
_Choice = TypeVar("_Choice", bound=Enum)

# A number, a date or a time never needs quotes then, and no line can be read in two ways.
_NO_DELIMITERS = frozenset('"\r\n+-.:\0')


class CsvQuote(Enum):
    """When a field that is not null stands in quotes: where it needs some, if it is a string, always, never."""

    MINIMAL = 0
    STRINGS = 1
    ALL = 2
    NONE = 3


class CsvLineEnd(Enum):
    """What stands after a line."""

    NONE = b""
    LF = b"\n"
    CRLF = b"\r\n"


AS_NEEDED = -1
"""A time's fraction has no digits, three or six: as many as it needs."""

_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "decimal": None,
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvColumn:
    """One declared column. ``fraction``: the digits after a time's seconds, AS_NEEDED where they vary."""

    name: str
    type: pa.DataType
    fraction: int = AS_NEEDED

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    columns: tuple[CsvColumn, ...]
    delimiter: str = ","
    quote: CsvQuote = CsvQuote.MINIMAL
    line_end: CsvLineEnd = CsvLineEnd.NONE
    time_separator: str = "T"

    def is_quoted(self, column: CsvColumn) -> bool:
        """Whether all values of a column stand in quotes, those that need none too."""
        return self.quote is CsvQuote.ALL or (self.quote is CsvQuote.STRINGS and pa.types.is_string(column.type))

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
    if parts is None or parts["kind"] not in _ARROW:
        raise Invalid(f'a CSV column is "name:type" with one of {", ".join(_ARROW)}, not {declared!r}')
    name, kind = parts["name"], _ARROW[parts["kind"]]
    arguments = _numbers(parts["arguments"], declared)
    if kind is None:
        if len(arguments) != 2 or not 0 < arguments[0] <= _MOST_DIGITS or arguments[1] > arguments[0]:
            raise Invalid(f"a CSV decimal is decimal(precision, scale), up to 38 digits, not {declared!r}")
        return CsvColumn(name=name, type=pa.decimal128(*arguments))
    if pa.types.is_timestamp(kind) and len(arguments) == 1 and arguments[0] <= _MOST_FRACTION:
        return CsvColumn(name=name, type=kind, fraction=arguments[0])
    if parts["arguments"] is not None:
        raise Invalid(f"a CSV {parts['kind']} takes no such numbers: {declared!r}")
    return CsvColumn(name=name, type=kind)


def _numbers(text: str | None, declared: str) -> Sequence[int]:
    try:
        return [] if text is None else [int(number) for number in text.split(",")]
    except ValueError as error:
        raise Invalid(f"a CSV column's type has no such numbers: {declared!r}") from error
