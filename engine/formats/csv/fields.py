"""The texts of one CSV column as values, and the one spelling of each value, by Arrow's casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.formats.csv.dialect import AS_NEEDED, CsvColumn

_INTEGER = r"[+-]?\d+"
_DATE = r"\d{4}-\d{2}-\d{2}"
_TIME = _DATE + r"[T ]\d{2}:\d{2}:\d{2}(?:\.\d{1,6}0*)?"
_READABLE = {
    pa.int32(): _INTEGER,
    pa.int64(): _INTEGER,
    pa.float64(): r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?i:nan|inf|infinity))",
    pa.bool_(): "(?i:true|false)",
    pa.date32(): _DATE,
    pa.timestamp("us"): _TIME,
    pa.timestamp("us", "UTC"): _TIME + r"(?:Z|[+-]\d{2}:\d{2})",
}
"""The texts that are values of a type: Arrow's casts read some others too (hexadecimal numbers, 1 for true)."""
_FIRST_TIME, _LAST_TIME = pa.array(["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"]).cast(pa.timestamp("us"))
_MOST_ZEROS = 6
"""After a decimal's point: with more of them Arrow writes an exponent."""
_END = 1 << 10
"""Beyond the last character of a number's or a time's text."""


def read_texts(column: CsvColumn, separator: str, texts: pa.StringArray) -> tuple[pa.Array, pa.BooleanArray]:
    """(values, which of the texts are not their values' spelling): a text that the column can't hold is null.

    ``texts`` of a column that is no string; they need not be UTF-8. ``separator`` stands between date and time.
    """
    try:
        values = within_years(texts.cast(column.type))
    except pa.ArrowInvalid:
        values = _read_each(column.type, texts)
    exact = pc.equal(spell(column, separator, values), texts)
    odd = pc.and_not(texts.is_valid(), exact.fill_null(False))
    if odd.true_count:
        values = pc.replace_with_mask(values, odd, _read_each(column.type, texts.filter(odd)))
    return values, odd


def spell(column: CsvColumn, separator: str, values: pa.Array) -> pa.StringArray:
    """The text of each value as it stands in a line, without quotes."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return _spell_times(column.fraction, separator, values)
    texts = values.cast(pa.string())
    if pa.types.is_floating(kind):
        return _spell_doubles(texts, values)
    if pa.types.is_decimal(kind) and kind.scale > _MOST_ZEROS:
        return _respell(texts, np.asarray(pc.match_substring(texts, "E").fill_null(False)), values, "{:f}".format)
    return texts


def within_years(values: pa.Array) -> pa.Array:
    """Null for a date or a time outside of the years 1 to 9999, which four digits can't say."""
    if not pa.types.is_temporal(values.type):
        return values
    first, last = (bound.cast(values.type, safe=False) for bound in (_FIRST_TIME, _LAST_TIME))
    return pc.if_else(pc.and_(pc.greater_equal(values, first), pc.less_equal(values, last)), values, None)


def _readable(kind: pa.DataType) -> str:
    if not pa.types.is_decimal(kind):
        return _READABLE[kind]
    whole = rf"0*\d{{1,{kind.precision - kind.scale}}}" if kind.precision > kind.scale else "0+"
    return rf"[+-]?{whole}(?:\.\d{{0,{kind.scale}}}0*\b)?"  # the boundary: a point is not last


def _read_each(kind: pa.DataType, texts: pa.StringArray) -> pa.Array:
    """The value of each text that is one, however it is spelled."""
    texts = pc.ascii_trim(texts, " ")
    texts = pc.if_else(pc.match_substring_regex(texts, f"^(?:{_readable(kind)})$"), texts, None)
    texts = pc.ascii_ltrim(texts, "+")
    if pa.types.is_decimal(kind) or pa.types.is_timestamp(kind):
        # Zeros beyond the last place are no part of the value, but of what a cast overflows with or refuses.
        places = kind.scale if pa.types.is_decimal(kind) else 6
        texts = pc.replace_substring_regex(texts, rf"(\.\d{{{places}}})0+", r"\1")
    values = within_years(_cast_each(kind, texts))
    if pa.types.is_floating(kind):
        beyond = pc.and_(pc.is_inf(values), pc.match_substring_regex(texts, r"\d"))
        values = pc.if_else(beyond, None, values)
    return values


def _cast_each(kind: pa.DataType, texts: pa.StringArray) -> pa.Array:
    """A cast fails as a whole: halves are cast until each text that is no value stands alone, and is null."""
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.nulls(1, kind)
    half = len(texts) // 2
    return pa.concat_arrays([_cast_each(kind, texts[:half]), _cast_each(kind, texts[half:])])


def _spell_times(fraction: int, separator: str, values: pa.TimestampArray) -> pa.StringArray:
    # With a zone, each value would be looked up in the zone's history.
    texts = pc.binary_replace_slice(values.cast(pa.timestamp("us")).cast(pa.string()), 10, 11, separator)
    zone = "" if values.type.tz is None else "Z"
    if fraction != AS_NEEDED:
        return pc.binary_replace_slice(texts, 20 + fraction if fraction else 19, _END, zone)
    for zeros, length in (("000", 23), (".000", 19)):
        texts = pc.if_else(pc.ends_with(texts, zeros), pc.binary_replace_slice(texts, length, _END, ""), texts)
    return pc.binary_replace_slice(texts, _END, _END, zone)


def _spell_doubles(texts: pa.StringArray, values: pa.DoubleArray) -> pa.StringArray:
    """As Python's ``repr``: Arrow writes no point where none is needed, and exponents from 10^10 on."""
    numbers = values.fill_null(0.5).to_numpy()
    sizes = np.abs(numbers)
    has_exponent = (numbers != 0) & (sizes < 1e-4) | (sizes >= 1e10)
    whole = (numbers == np.floor(numbers)) & ~has_exponent
    if whole.any():
        texts = pc.if_else(whole, pc.binary_replace_slice(texts, _END, _END, ".0"), texts)
    return _respell(texts, has_exponent, values, repr)


def _respell(
    texts: pa.StringArray, rows: NDArray[np.bool_], values: pa.Array, spelled: Callable[[Any], str]
) -> pa.StringArray:
    """The texts, those of some few rows as Python spells their values."""
    if not rows.any():
        return texts
    return pc.replace_with_mask(texts, rows, pa.array(map(spelled, values.filter(rows).to_pylist()), pa.string()))
