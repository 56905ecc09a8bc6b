"""What ``floeberg sql`` prints of every type: for a person, for a pipe, as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from rich.console import Console
from typer.testing import CliRunner

from engine.errors import Invalid
from floeberg.cli import app
from floeberg.commands import sql as command
from floeberg.duckdb_session import DuckdbSession
from floeberg.plain_value import plain, shown


class _NoCatalog(DuckdbSession):
    """DuckDB itself, without a table door."""

    def __init__(self, *_: object, **__: object) -> None:
        self._errors = duckdb.Error
        self._connection = duckdb.connect()
        self._connection.execute("SET timezone = 'UTC'")


@pytest.fixture
def session() -> Iterator[DuckdbSession]:
    with _NoCatalog() as session:
        yield session


@pytest.mark.parametrize(
    ("expression", "text", "as_json"),
    [
        ("0.000012::DOUBLE", "1.2e-05", 1.2e-05),
        ("2026", "2026", 2026),
        ("1e300::DOUBLE", "1e+300", 1e300),
        ("0.1::FLOAT", "0.1", 0.1),
        ("[0.1::FLOAT, NULL]", "[0.1, null]", [0.1, None]),
        ("'NaN'::DOUBLE", "NaN", "NaN"),
        ("'inf'::FLOAT", "Infinity", "Infinity"),
        ("{'a': '-inf'::DOUBLE}", '{"a": "-Infinity"}', {"a": "-Infinity"}),
        ("0::DECIMAL(18, 9)", "0.000000000", "0.000000000"),
        ("0.00000001::DECIMAL(18, 9)", "0.000000010", "0.000000010"),
        ("170141183460469231731687303715884105727::HUGEINT", str((1 << 127) - 1), (1 << 127) - 1),
        ("true", "true", True),
        ("NULL", "NULL", None),
        ("''", "", ""),
        ("'\\x00a\\xFF\\x5C'::BLOB", "\\x00a\\xFF\\x5C", "AGH/XA=="),
        ("TIMESTAMPTZ '2024-01-02 03:04:05+02'", "2024-01-02T01:04:05+00:00", "2024-01-02T01:04:05+00:00"),
        ("TIMESTAMP_NS '2024-01-02 03:04:05.123456789'", *["2024-01-02 03:04:05.123456789"] * 2),
        ("INTERVAL '1 month 2 days'", "1 month 2 days", "1 month 2 days"),
        ("{'a': 1, 'b': [1, NULL]}", '{"a": 1, "b": [1, null]}', {"a": 1, "b": [1, None]}),
        ("MAP {'k': 1.5::DOUBLE}", '{"k": 1.5}', {"k": 1.5}),
        ("'grüße' || chr(27) || '[2J'", "grüße\\x1b[2J", "grüße\x1b[2J"),
    ],
)  # fmt: skip
def test_value_is_shown_whole_and_is_json(session: DuckdbSession, expression: str, text: str, as_json: Any) -> None:
    names, [[value]] = session.query(f"SELECT {expression} AS x")
    assert names == ["x"]
    assert shown(value) == text
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == as_json


def printed(names: list[str], rows: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=40, highlight=False, color_system=None)
    monkeypatch.setattr(command, "out", console)
    command._show(names, rows)
    return file.getvalue()


def test_pipe_gets_wide_rows_in_one_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"column_{number}" for number in range(30)]
    text = printed(names, [tuple(f"a value {number}" for number in range(30))], monkeypatch, terminal=False)
    head, row = text.splitlines()
    assert head.split() == names
    assert row.split("  ")[-1].strip() == "a value 29"


def test_narrow_terminal_gets_a_line_a_column_and_a_wide_enough_one_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = [("x" * 50, Decimal("1.50")), (None, Decimal("2.00"))]
    assert printed(["text", "n"], wide, monkeypatch, terminal=True).splitlines() == [
        "row 1", f"text  {'x' * 50}", "n     1.50", "row 2", "text  NULL", "n     2.00",
    ]  # fmt: skip
    short = printed(["text", "n"], [("x", 1), (None, 20)], monkeypatch, terminal=True)
    assert [line.split() for line in short.splitlines()] == [["text", "n"], ["x", "1"], ["NULL", "20"]]


def test_columns_of_one_name_are_all_in_the_json(session: DuckdbSession) -> None:
    names, rows = session.query("SELECT 1 AS a, INTERVAL '1 month' AS a, 3 AS a_1")
    assert command._told_apart(names) == ["a", "a_1", "a_1_1"]
    assert rows == [(1, "1 month", 3)]


@pytest.mark.parametrize("query", ["", "  \n"])
def test_empty_query_is_told(query: str) -> None:
    ended = CliRunner().invoke(app, ["sql", query])
    assert isinstance(ended.exception, Invalid)
    assert "query is empty" in str(ended.exception)


def test_statement_without_rows_shows_nothing(session: DuckdbSession) -> None:
    assert session.query("-- nothing") == ([], [])
    assert session.query("SET timezone = 'UTC'") == ([], [])
