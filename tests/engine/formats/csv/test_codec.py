"""CSV lines: typed columns out of every line that Python's csv module writes, and no byte of any other lost."""

from __future__ import annotations

import datetime
import json
import math
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import Corrupt, Invalid
from engine.formats.codec import Verdict, open_codec
from engine.formats.csv.dialect import CsvDialect, csv_columns
from engine.records.records import ByteSpans
from tests.engine.formats.conformance import ValueCodecConformance, rebuilt
from tests.engine.formats.csv.topics import EVERY_KIND, codec_of, decode, spec_of

COLUMNS = json.dumps(EVERY_KIND)
moment = datetime.datetime.fromisoformat
FULL = b"1,shoe,12.50,2026-01-02T03:04:05.123Z,2026-01-02T03:04:05.000,2024-02-29,0.1,-7,true"


class TestCsvCodec(ValueCodecConformance):
    spec = spec_of()
    schema_text = COLUMNS
    exact_values = (
        FULL,
        b",,,,,,,,",
        b',"",,,,,,,',
        b'-9223372036854775808,"a ""b"", c",-0.05,9999-12-31T23:59:59.999999Z,,0001-01-01,-1e-05,0,false',
        b'9223372036854775807,"two\r\nlines",99999999.99,0001-01-01T00:00:00Z,,9999-12-31,nan,-2147483648,',
        "5,ø ✓ 𝄞,,,,,1.7976931348623157e+308,2147483647,".encode(),
    )
    inexact_values = (
        b"",
        b"1,2",
        FULL + b",one more",
        FULL + b"\n",
        FULL.replace(b"shoe", b'"shoe"'),
        FULL.replace(b"shoe", b'sh"oe'),
        FULL.replace(b"shoe", b"\xff"),
        FULL.replace(b"shoe", b'"open'),
        FULL.replace(b"shoe", b"two\nlines"),
        FULL.replace(b"-7", b"+7"),
        b"0" + FULL,
    )


@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        ("c:int", b"2147483647", 2147483647),
        ("c:long", b"-9223372036854775808", -(2**63)),
        ("c:decimal(38,0)", b"99999999999999999999999999999999999999", Decimal("9" * 38)),
        ("c:decimal(38,38)", b"-0." + b"9" * 38, Decimal("-0." + "9" * 38)),
        ("c:decimal(5,2)", b"0.00", Decimal("0.00")),
        ("c:double", b"5.0", 5.0),
        ("c:double", b"1e+16", 1e16),
        ("c:double", b"5e-324", 5e-324),
        ("c:double", b"-0.0", -0.0),
        ("c:double", b"inf", math.inf),
        ("c:double", b"12345678901.5", 12345678901.5),
        ("c:double", b"1000000000000000.0", 1e15),
        ("c:double", b"1.5e-05", 1.5e-5),
        ("c:decimal(20,10)", b"0.0000000100", Decimal("0.0000000100")),
        ("c:boolean", b"false", False),
        ("c:date", b"2000-02-29", datetime.date(2000, 2, 29)),
        ("c:timestamp", b"1969-12-31T23:59:59.999999", moment("1969-12-31T23:59:59.999999")),
        ("c:timestamp(0)", b"2026-01-02T03:04:05", moment("2026-01-02T03:04:05")),
        ("c:timestamp(6)", b"2026-01-02T03:04:05.100000", moment("2026-01-02T03:04:05.100000")),
    ],
)
def test_value_that_is_spelled_as_usual_is_exact(column: str, text: bytes, value: object) -> None:
    codec = codec_of([column])
    decoded = decode(codec, text)
    assert decoded.verdict.tolist() == [Verdict.EXACT]
    assert decoded.columns.field(0).to_pylist() == [value]
    assert rebuilt(codec, decoded) == [text]


@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        ("c:int", b"007", 7),
        ("c:int", b"-0", 0),
        ("c:int", b" 7", 7),
        ("c:long", b"+7", 7),
        ("c:decimal(5,2)", b"1.5", Decimal("1.50")),
        ("c:decimal(5,2)", b"1.500", Decimal("1.50")),
        ("c:decimal(5,2)", b"-0.00", Decimal("0.00")),
        ("c:double", b"5", 5.0),
        ("c:double", b"1E5", 1e5),
        ("c:double", b"0.1000000000000000055511151231257827", 0.1),
        ("c:double", b"Infinity", math.inf),
        ("c:int", b"0" * 60 + b"7", 7),
        ("c:decimal(5,2)", b"1.5" + b"0" * 60, Decimal("1.50")),
        ("c:decimal(38,0)", b"0" * 60 + b"5.000", Decimal(5)),
        ("c:boolean", b"TRUE", True),
        ("c:timestamp", b"2026-01-02T03:04:05.123456000", moment("2026-01-02T03:04:05.123456")),
        ("c:timestamp", b"2026-01-02 03:04:05", moment("2026-01-02T03:04:05")),
        ("c:timestamp", b"2026-01-02T03:04:05.100000", moment("2026-01-02T03:04:05.100000")),
        ("c:timestamp(3)", b"2026-01-02T03:04:05", moment("2026-01-02T03:04:05")),
        (
            "c:timestamptz",
            b"2026-01-02T03:04:05+02:00",
            moment("2026-01-02T01:04:05Z"),
        ),
    ],
)
def test_value_in_another_spelling_has_its_column_and_keeps_its_bytes(column: str, text: bytes, value: object) -> None:
    decoded = decode(codec_of([column]), text)
    assert decoded.verdict.tolist() == [Verdict.KEEP_RAW]
    assert decoded.columns.field(0).to_pylist() == [value]
    assert decoded.reason_of(0) == "CSV: the value is spelled in another way than it would be written, in column c"


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("c:int", b"2147483648"),
        ("c:int", b"1.0"),
        ("c:int", b"-"),
        ("c:int", b'"1""0"'),
        ("c:long", b"9223372036854775808"),
        ("c:long", b"99999999999999999999999999"),
        ("c:decimal(5,2)", b"1000.00"),
        ("c:decimal(5,2)", b"1.005"),
        ("c:decimal(5,2)", b"1."),
        ("c:decimal(5,2)", b".5"),
        ("c:decimal(5,2)", b"1e2"),
        ("c:double", b"1e400"),
        ("c:double", b"0x10"),
        ("c:double", b"1e"),
        ("c:double", b"nano"),
        ("c:int", b"0x10"),
        ("c:int", b"\xff1"),
        ("c:boolean", b"1"),
        ("c:timestamptz", b"9999-12-31T23:59:59-02:00"),
        ("c:date", b"2023-02-29"),
        ("c:date", b"0000-01-01"),
        ("c:date", b"2023-1-1"),
        ("c:timestamp", b"2026-01-02T24:00:00"),
        ("c:timestamp", b"2026-01-02T23:59:60"),
        ("c:timestamp", b"2026-01-02T03:04:05Z"),
        ("c:timestamp", b"2026-01-02T03:04:05.1234567"),
        ("c:timestamptz", b"2026-01-02T03:04:05"),
        ("c:timestamptz", b"2026-01-02T03:04:05+0200"),
        ("c:string", b"\xed\xa0\x80"),
    ],
)
def test_text_that_its_column_cannot_hold_is_null_there_alone(column: str, text: bytes) -> None:
    decoded = decode(codec_of(["before:int", column, "behind:string"]), b"1," + text + b",x")
    assert decoded.verdict.tolist() == [Verdict.KEEP_RAW]
    assert decoded.columns[0].as_py() == {"before": 1, "c": None, "behind": "x"}
    assert str(decoded.reason_of(0)).endswith("in column c")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'1,"open', "CSV: a quoted field does not end"),
        (b"1,a\n2,b", "CSV: it is more than one line"),
        (b'1,"a"\n2,b', "CSV: it is more than one line"),
    ],
)
def test_line_that_is_none_has_no_columns(line: bytes, reason: str) -> None:
    decoded = decode(codec_of(["a:int", "b:string"]), line, b"2,b")
    assert decoded.verdict.tolist() == [Verdict.UNDECODABLE, Verdict.EXACT]
    assert decoded.columns.to_pylist() == [{"a": None, "b": None}, {"a": 2, "b": "b"}]
    assert decoded.reason_of(0) == reason


def test_line_with_too_few_or_too_many_fields_has_those_that_are_there() -> None:
    decoded = decode(codec_of(["a:int", "b:string"]), b"1", b"1,x,y", b"")
    assert decoded.columns.to_pylist() == [{"a": 1, "b": None}, {"a": 1, "b": "x"}, {"a": None, "b": None}]
    assert [decoded.reason_of(row) for row in range(3)] == [
        f"CSV: fields in the line: {count}, declared: 2" for count in (1, 3, 1)
    ]


def test_line_with_too_few_or_too_many_fields_may_have_any_bytes_and_quotes() -> None:
    codec = codec_of(["a:int", "b:string"])
    decoded = decode(codec, b"1,\xff,y", b'1,"x,\n""y""",z', b'2,"x"y,"a,b"', b"3,x", b'"4"')
    assert decoded.columns.to_pylist() == [
        {"a": 1, "b": None},
        {"a": 1, "b": 'x,\n"y"'},
        {"a": 2, "b": "xy"},
        {"a": 3, "b": "x"},
        {"a": 4, "b": None},
    ]
    assert decoded.verdict.tolist() == [Verdict.KEEP_RAW] * 3 + [Verdict.EXACT, Verdict.KEEP_RAW]


def test_text_after_a_closing_quote_is_read_with_it_and_keeps_its_bytes() -> None:
    decoded = decode(codec_of(["a:string", "b:int"]), b'"a,""b"c"d,1')
    assert decoded.columns.to_pylist() == [{"a": 'a,"bc"d', "b": 1}]
    assert decoded.reason_of(0) == "CSV: quotes stand where the topic has none, or the other way round"


def test_byte_order_mark_is_text_in_every_line() -> None:
    codec, lines = codec_of(["a:string"]), ["\ufeffx".encode()] * 2
    decoded = decode(codec, *lines)
    assert decoded.columns.field(0).to_pylist() == ["\ufeffx"] * 2
    assert rebuilt(codec, decoded) == lines


def test_value_outside_of_its_block_cannot_be_decoded() -> None:
    values = ByteSpans(data=np.frombuffer(b"1", np.uint8), start=np.array([0, -1, 1]), length=np.ones(3, np.int32))
    decoded = codec_of(["a:int"]).decode(values)
    assert decoded.verdict.tolist() == [Verdict.EXACT, Verdict.UNDECODABLE, Verdict.UNDECODABLE]
    assert decoded.reason_of(1) == "CSV: it lies outside of its block"


@pytest.mark.parametrize("line_end", ["none", "lf", "crlf"])
def test_line_end_is_the_topics_or_the_line_keeps_its_bytes(line_end: str) -> None:
    codec = codec_of(["a:int", "b:string"], line_end=line_end)
    lines = {"none": b"1,x", "lf": b"1,x\n", "crlf": b"1,x\r\n"}
    decoded = decode(codec, *lines.values())
    assert decoded.columns.to_pylist() == [{"a": 1, "b": "x"}] * 3
    assert [verdict == Verdict.EXACT for verdict in decoded.verdict] == [name == line_end for name in lines]
    wanted = decoded.verdict == Verdict.EXACT
    assert (
        codec.encode(decoded.columns, decoded.schema_id, wanted).to_list()[list(lines).index(line_end)]
        == (lines[line_end])
    )


def test_null_and_empty_text_differ_by_their_quotes() -> None:
    in_quotes = [b',"x"', b'"","x"']
    for quote, lines in (("minimal", [b",x", b'"",x']), ("strings", in_quotes), ("all", in_quotes)):
        codec = codec_of(["a:string", "b:string"], quote=quote)
        decoded = decode(codec, *lines)
        assert decoded.verdict.tolist() == [Verdict.EXACT] * 2
        assert decoded.columns.field(0).to_pylist() == [None, ""]
        assert rebuilt(codec, decoded) == lines


def test_texts_in_quotes_and_numbers_without_are_a_style_too() -> None:
    codec = codec_of(["a:string", "b:int", "c:date"], quote="strings")
    lines = [b'"x",1,2024-02-29', b"x,1,2024-02-29", b'"x","1",2024-02-29', b'"a ""b""",,']
    decoded = decode(codec, *lines)
    assert [verdict == Verdict.EXACT for verdict in decoded.verdict] == [True, False, False, True]
    assert decoded.columns.field(0).to_pylist() == ["x", "x", "x", 'a "b"']
    assert decoded.columns.field(1).to_pylist() == [1, 1, 1, None]
    wanted = decoded.verdict == Verdict.EXACT
    assert codec.encode(decoded.columns, decoded.schema_id, wanted).to_list() == [lines[0], None, None, lines[3]]


def test_without_quoting_a_quote_is_a_letter() -> None:
    codec = codec_of(["a:string", "b:int"], quote="none", delimiter="\t")
    lines = [b'5" pipe, "new"\t1', b"\t", b'""\t2']
    decoded = decode(codec, *lines)
    assert decoded.columns.field(0).to_pylist() == ['5" pipe, "new"', None, '""']
    assert rebuilt(codec, decoded) == lines


@pytest.mark.parametrize("text", ["", "a\tb", "a\nb"])
def test_text_that_no_line_without_quotes_can_say_is_corrupt(text: str) -> None:
    codec = codec_of(["a:string"], quote="none", delimiter="\t")
    columns = pa.StructArray.from_arrays([pa.array([text])], names=["a"])
    with pytest.raises(Corrupt, match="without quotes"):
        codec.encode(columns, pa.nulls(1, pa.int32()), np.array([True]))


def test_year_of_five_digits_is_corrupt() -> None:
    codec = codec_of(["a:date"])
    columns = pa.StructArray.from_arrays([pa.array([2_932_897], pa.int32()).cast(pa.date32())], names=["a"])
    with pytest.raises(Corrupt, match="four digits"):
        codec.encode(columns, pa.nulls(1, pa.int32()), np.array([True]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": ""}, "1 to"),
        ({"columns": "id:long"}, "no JSON list"),
        ({"columns": '["id"]'}, "name:type"),
        ({"columns": '["id:float"]'}, "name:type"),
        ({"columns": '["id:decimal"]'}, "precision, scale"),
        ({"columns": '["id:decimal(39,2)"]'}, "precision, scale"),
        ({"columns": '["id:decimal(2,3)"]'}, "precision, scale"),
        ({"columns": '["id:timestamp(7)"]'}, "no such numbers"),
        ({"columns": '["id:int(3)"]'}, "no such numbers"),
        ({"columns": '["id:int(,)"]'}, "no such numbers"),
        ({"columns": '["id:int", "ID:long"]'}, "same name"),
        ({"columns": '["id:int"]', "delimiter": "7"}, "delimiter"),
        ({"columns": '["id:int"]', "delimiter": '"'}, "delimiter"),
        ({"columns": '["id:int"]', "delimiter": "||"}, "delimiter"),
        ({"columns": '["id:int"]', "delimiter": "\0"}, "delimiter"),
        ({"columns": '["id:int"]', "quote": "some"}, "quote is one of"),
        ({"columns": '["id:int"]', "line_end": "cr"}, "line_end is one of"),
        ({"columns": '["id:int"]', "delimiter": " ", "time_separator": " "}, "time_separator"),
    ],
)
def test_dialect_that_cannot_be_is_refused_and_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(Invalid, match=re.escape(said)):
        CsvDialect.of(options)


def test_table_without_the_lines_columns_is_refused() -> None:
    with pytest.raises(Invalid, match="needs a column id of type int64"):
        open_codec(spec_of(["id:long"]), (pa.field("id", pa.string()),))


def test_damaged_lines_leave_their_neighbours_alone() -> None:
    chance = np.random.default_rng(11)
    lines = [bytearray(FULL) for _ in range(3000)]
    damaged = np.arange(len(lines)) % 3 == 1
    for row in np.flatnonzero(damaged):
        for _ in range(chance.integers(1, 5)):
            line, at = lines[row], int(chance.integers(0, len(lines[row])))
            kind = chance.integers(0, 3)
            if kind == 0:
                line[at] = chance.integers(0, 256)
            elif kind == 1:
                del line[at:]
                line += b"x"
            else:
                line[at:at] = bytes(chance.choice(list(b'",\r\n\0\xff'), 2).tolist())
    values = [bytes(line) for line in lines]
    for quote in ("minimal", "strings", "none"):
        codec = codec_of(quote=quote)
        decoded = decode(codec, *values)
        decoded.columns.validate(full=True)
        assert (decoded.verdict[~damaged] == (Verdict.KEEP_RAW if quote == "strings" else Verdict.EXACT)).all()
        exact = decoded.verdict == Verdict.EXACT
        again = codec.encode(decoded.columns, decoded.schema_id, exact).to_list()
        assert again == [value if good else None for value, good in zip(values, exact, strict=True)]


def test_columns_are_read_with_spaces_around_their_parts() -> None:
    (column,) = csv_columns('[" unit price : decimal( 10 , 2 ) "]')
    assert column.field == pa.field("unit price", pa.decimal128(10, 2))
