"""What ``floeberg sql`` prints of every type: for a person, for a pipe, as JSON."""

from __future__ import annotations

import io
import json
import resource
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from engine.errors import Invalid, Unavailable
from floeberg.cli import app
from floeberg.sql import answer_output
from floeberg.sql.answer import BATCH_ROWS, SqlAnswer, complete_statements, in_batches
from floeberg.sql.answer_formats import json_lines
from floeberg.sql.answer_output import AnswerOutput
from floeberg.sql.duckdb_session import DuckdbSession
from floeberg.sql.plain_value import plain, shown


class _NoCatalog(DuckdbSession):
    """DuckDB itself, without a table door."""

    def __init__(self, *_: object, **__: object) -> None:
        self._errors, self._namespace = duckdb.Error, None
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


class _Screen(Console):
    """Remembers what is shown; ``terminal``: 40 columns of one, else a pipe."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__(file=io.StringIO(), force_terminal=terminal, width=40, highlight=False, color_system=None)


def printed(answer: SqlAnswer, monkeypatch: pytest.MonkeyPatch, *, terminal: bool = False, **asked: Any) -> list[str]:
    """The lines of a table; what stands on standard error comes last."""
    screen = _Screen(terminal=terminal)
    monkeypatch.setattr(answer_output, "out", screen)
    monkeypatch.setattr(answer_output, "err", screen)
    monkeypatch.setattr(answer_output, "print_line", lambda line: screen.file.write(line + "\n"))
    with AnswerOutput(form="table", **asked) as output:
        output.show(answer)
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue().splitlines()


def answer_of(names: list[str], *rows: tuple[Any, ...]) -> SqlAnswer:
    return SqlAnswer(names=names, batches=in_batches(iter(rows)))


def test_pipe_gets_wide_rows_in_one_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"column_{number}" for number in range(30)]
    head, row = printed(answer_of(names, tuple(f"a value {number}" for number in range(30))), monkeypatch)
    assert head.split() == names
    assert row.split("  ")[-1].strip() == "a value 29"


def test_narrow_terminal_gets_a_line_a_column_and_a_wide_enough_one_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = answer_of(["text", "n"], ("x" * 50, Decimal("1.50")), (None, Decimal("2.00")))
    assert printed(wide, monkeypatch, terminal=True) == [
        "row 1", f"text  {'x' * 50}", "n     1.50", "row 2", "text  NULL", "n     2.00",
    ]  # fmt: skip
    short = answer_of(["text", "n"], ("a\nb", 1), (None, 20))
    assert printed(short, monkeypatch, terminal=True) == ["text   n", "a\\nb   1", "NULL  20"]
    asked = answer_of(["text", "n"], ("x", 1))
    assert printed(asked, monkeypatch, vertical=True) == ["row 1", "text  x", "n     1"]


def test_letters_of_two_columns_keep_the_table_straight(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(answer_of(["w", "n"], ("日本", 1), ("ab", 2)), monkeypatch) == ["w     n", "日本  1", "ab    2"]


@pytest.mark.parametrize(("asked", "expected"), [(None, 40), (3, 3), (0, 100), (100, 100)])
def test_terminal_shows_so_many_rows_and_says_that_there_are_more(
    asked: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = answer_of(["n"], *((number,) for number in range(100)))
    _, *rows = printed(answer, monkeypatch, terminal=True, max_rows=asked)
    assert [row.strip() for row in rows[:expected]] == [str(number) for number in range(expected)]
    assert " ".join(rows[expected:]).startswith(f"There are more than these {expected} rows" if expected < 100 else "")
    assert len(rows) == expected or expected < 100


def test_pipe_gets_all_rows_in_columns_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = answer_of(["n", "t"], *((number, "x") for number in range(BATCH_ROWS + 9_000)))
    _, *rows = printed(answer, monkeypatch)
    assert len(rows) == BATCH_ROWS + 9_000
    assert rows[0] == "   0  x"
    assert rows[-1] == f"{BATCH_ROWS + 8_999}  x"


def test_first_rows_are_there_before_the_last_are_read(session: DuckdbSession) -> None:
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with session.answer("SELECT i, repeat('x', 1000) FROM range(1_000_000_000_000) t(i)") as answer:
        for batch in islice(answer.batches, 200):
            assert len(batch) == BATCH_ROWS
    with session.answer("SELECT 1") as answer:
        assert list(answer.rows()) == [(1,)]
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun
    assert grown_kib < 100 << 10, "200 batches hold 200 MiB"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("csv", 'a,"b,c"\n1,"say ""x"""\n,""\n\\xFF,"[1, 2]"\n'),
        ("jsonl", '{"a": "1", "b,c": "say \\"x\\""}\n{"a": null, "b,c": ""}\n{"a": "/w==", "b,c": [1, 2]}\n'),
    ],
)
def test_rows_go_into_a_file_as_text(form: str, expected: str, tmp_path: Path) -> None:
    with AnswerOutput(form=form, file=tmp_path / "rows") as output:
        output.show(answer_of(["a", "b,c"], ("1", 'say "x"'), (None, ""), (b"\xff", [1, 2])))
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]
    assert (tmp_path / "rows").read_text() == expected


def test_duckdb_reads_its_rows_back_from_the_csv(session: DuckdbSession, tmp_path: Path) -> None:
    query = """SELECT * FROM (VALUES (1, 'a,"b', NULL, DATE '2024-01-02'), (2, '', 1.5, NULL)) t(i, t, d, w)"""
    with AnswerOutput(form="csv", file=tmp_path / "rows.csv") as output, session.answer(query) as answer:
        output.show(answer)
    assert (
        session.query(f"FROM read_csv('{tmp_path}/rows.csv', allow_quoted_nulls = false)")[1] == session.query(query)[1]
    )


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_json_is_one_array_however_many_rows(rows: int, tmp_path: Path) -> None:
    with AnswerOutput(form="json", file=tmp_path / "rows.json") as output:
        output.show(answer_of(["n", "n"], *((number, -number) for number in range(rows))))
    assert json.loads((tmp_path / "rows.json").read_text()) == [{"n": one, "n_1": -one} for one in range(rows)]


def test_parquet_has_the_rows_of_one_statement(session: DuckdbSession, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    with AnswerOutput(form="parquet", file=file) as output:
        for statement in session.statements("SET timezone = 'UTC'; SELECT i, [i] AS l FROM range(3) t(i); -- the end"):
            with session.answer(statement) as answer:
                output.show(answer)
    assert pq.read_table(file).to_pylist() == [{"i": one, "l": [one]} for one in range(3)]
    with AnswerOutput(form="parquet", file=tmp_path / "rows.parquet") as output, session.answer("SELECT 1") as answer:
        output.show(answer)
        with pytest.raises(Invalid, match="one statement"):
            output.show(answer)
    with pytest.raises(Invalid, match="No statement has rows"), AnswerOutput(form="parquet", file=file):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]
    assert pq.read_table(file).num_rows == 1, "the file of before stays where there is no new one"


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_statement_that_fails_in_its_middle_leaves_no_file(form: str, session: DuckdbSession, tmp_path: Path) -> None:
    query = "SELECT CASE WHEN i < 5000 THEN i ELSE error('the middle') END FROM range(10_000) t(i)"
    with (
        pytest.raises(Invalid, match="the middle"),
        AnswerOutput(form=form, file=tmp_path / "rows") as output,
        session.answer(query) as answer,
    ):
        output.show(answer)
    assert list(tmp_path.iterdir()) == []


def test_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no-folder"), AnswerOutput(form="csv", file=tmp_path / "no-folder" / "rows"):
        pass


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"form": "xml"}, "table, csv, json, jsonl, parquet"),
        ({"form": "parquet"}, "-o rows.parquet"),
        ({"form": "csv", "vertical": True}, "leave them out"),
    ],
)
def test_output_that_makes_no_sense_is_refused(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid, match=told):
        AnswerOutput(**asked)


def test_columns_of_one_name_are_all_in_the_json(session: DuckdbSession) -> None:
    with session.answer("SELECT 1 AS a, INTERVAL '1 month' AS a, 3 AS a_1") as answer:
        (line,) = json_lines(answer)
    assert json.loads(line) == {"a": 1, "a_1": "1 month", "a_1_1": 3}


@pytest.mark.parametrize("query", ["", "  \n"])
def test_empty_query_is_told(query: str, tmp_path: Path) -> None:
    (tmp_path / "empty.sql").write_text(query)
    for arguments in ([query], [], ["-f", str(tmp_path / "empty.sql")]):
        ended = CliRunner().invoke(app, ["sql", *arguments], input=query)
        assert isinstance(ended.exception, Invalid)
        assert "query is empty" in str(ended.exception)


def test_query_and_file_are_one_too_many(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text("SELECT 1")
    ended = CliRunner().invoke(app, ["sql", "SELECT 2", "-f", str(tmp_path / "one.sql")])
    assert isinstance(ended.exception, Invalid)


def test_statement_without_rows_shows_nothing(session: DuckdbSession) -> None:
    assert session.query("-- nothing") == ([], [])
    assert session.query("SET timezone = 'UTC'") == ([], [])


def test_text_is_cut_into_statements_at_semicolons_that_are_no_part_of_one(session: DuckdbSession) -> None:
    text = "SELECT ';' AS \"a;b\"; -- one; comment\nSELECT 2 /* ; */ + 1;\n\n;"
    for cut in (session.statements, complete_statements):
        answers = [session.query(statement) for statement in cut(text)]
        assert [answer for answer in answers if answer[0]] == [(["a;b"], [(";",)]), (["(2 + 1)"], [(3,)])]
    with pytest.raises(Invalid, match="unterminated"):
        session.statements("SELECT 'a; SELECT 1")
