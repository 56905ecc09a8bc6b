"""The JSON kernels against Python's own json and against orjson: any value, any bytes."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats.codec import CodecSpec, Verdict, open_codec, propose_fields
from engine.formats.json.codec import JsonCodec
from engine.formats.json.inference import Inference
from engine.records.records import ByteSpans
from tests.engine.formats.json.spellings import EXACT, KEPT, NOT_READ, SCHEMA, opened

pytestmark = pytest.mark.kernels

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LONGS = st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "i": st.none() | LONGS,
        "d": st.none() | DOUBLES,
        "s": st.none() | TEXT,
        "b": st.none() | st.booleans(),
        "o": st.none() | st.fixed_dictionaries({}, optional={"x": LONGS, "y": TEXT}),
        "l": st.none() | st.lists(st.none() | DOUBLES, max_size=4),
        "m": st.none() | st.dictionaries(TEXT, st.none() | LONGS, max_size=4),
    },
)
OPTIONS = orjson.OPT_APPEND_NEWLINE
WRITERS = st.sampled_from(
    [
        lambda value: json.dumps(value).encode(),
        lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(),
        orjson.dumps,
        lambda value: orjson.dumps(value, option=OPTIONS),
    ]
)


def same(one: Any, other: Any) -> bool:
    """Equal, each double in each bit."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def expected(record: dict[str, Any]) -> dict[str, Any]:
    row = {name: record.get(name) for name in SCHEMA["properties"] if name != "n"}
    if row["o"] is not None:
        row["o"] = {name: row["o"].get(name) for name in ("x", "y")}
    if row["m"] is not None:
        row["m"] = [list(pair) for pair in row["m"].items()]
    return row


@settings(max_examples=100, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=6), WRITERS)
def test_columns_are_what_the_libraries_read_and_the_bytes_come_back(records: list[dict[str, Any]], write: Any) -> None:
    codec, values = opened(), [write(record) for record in records]
    decoded = codec.decode(ByteSpans.from_list(values))
    decoded.columns.validate(full=True)
    for row, record in zip(decoded.columns.to_pylist(), records, strict=True):
        found = {name: row[name] for name in SCHEMA["properties"] if name != "n"}
        found["m"] = None if found["m"] is None else [list(pair) for pair in found["m"]]
        assert same(found, expected(record))
    exact = decoded.verdict == Verdict.EXACT
    # One object in a list of objects could contradict another: here no record can.
    assert exact.all(), decoded.reasons
    assert codec.encode(decoded.columns, decoded.schema_id, exact).to_list() == values


def accepts(value: bytes) -> bool:
    """Python's reader; bytes that are not UTF-8 are no JSON (RFC 8259), whatever it guesses them to be."""
    try:
        json.loads(value.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    return True


SPLICES = [b"", *(bytes([byte]) for byte in b'\0 "\\{}[],:-.eE019ntf\xff\xc3\xe2'), b"null", b"\\u00"]
DAMAGE = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2), st.sampled_from(SPLICES)), min_size=1, max_size=3)
SEEDS = [*EXACT, *(value for value, _ in KEPT), *(value for value, _ in NOT_READ if len(value) < 100)]


def damaged(value: bytes, damage: list[tuple[int, int, bytes]]) -> bytes:
    for at, size, splice in damage:
        value = value[:at] + splice + value[at + size :]
    return value


@settings(max_examples=100, deadline=None)
@given(st.lists(st.builds(damaged, st.sampled_from(SEEDS), DAMAGE), min_size=1, max_size=20))
def test_mutated_bytes_are_judged_as_the_library_does_and_spare_their_neighbours(values: list[bytes]) -> None:
    check_block(values)


def check_block(values: list[bytes]) -> None:
    """Judged as Python does; what is exact comes back, and records between come through whatever they lie between."""
    codec, sound = opened(), b'{"i":1,"s":"sound"}'
    block = [value for pair in zip(values, [sound] * len(values), strict=True) for value in pair]
    decoded = codec.decode(ByteSpans.from_list(block))
    decoded.columns.validate(full=True)
    assert (decoded.verdict[1::2] == Verdict.EXACT).all()
    wanted = decoded.verdict == Verdict.EXACT
    found = codec.encode(decoded.columns, decoded.schema_id, wanted).to_list()
    for row, value in enumerate(block):
        assert found[row] == (value if wanted[row] else None)
        if value[:1] != b"\0":
            assert (decoded.verdict[row] != Verdict.UNDECODABLE) == accepts(value), value


def test_random_damage_to_real_records_leaves_their_neighbours_alone() -> None:
    random = np.random.default_rng(11)
    records = [
        json.dumps({"i": n, "d": n / 7, "s": "ä\n" * n, "l": [n, None], "o": {"x": n}}).encode() for n in range(30)
    ]
    for _ in range(40):
        block = []
        for record in records:
            value = np.frombuffer(record, np.uint8).copy()
            value[random.integers(0, len(value), random.integers(1, 4))] = random.integers(0, 256)
            block.append(value.tobytes()[: random.integers(1, 2 * len(value))])
        check_block(block)


def test_doubles_of_every_size_are_the_nearest_and_spelled_shortest() -> None:
    random = np.random.default_rng(3)
    bits = random.integers(0, 0x7FF0000000000000, 4000)
    doubles = [
        *bits.view(np.float64).tolist(),
        *(2.0 ** np.arange(-1074, 1024)).tolist(),
        *random.random(2000).tolist(),
    ]
    codec = opened({"type": "number"})
    values = [repr(double).encode() for double in doubles]
    decoded = codec.decode(ByteSpans.from_list(values))
    assert decoded.columns.field("value").to_pylist() == doubles
    exact = decoded.verdict == Verdict.EXACT
    assert exact.all(), decoded.reasons
    assert codec.encode(decoded.columns, decoded.schema_id, exact).to_list() == values
    long = [b"%d.%de%d" % tuple(random.integers([0, 0, -340], [10**17, 10**17, 290]).tolist()) for _ in range(4000)]
    read = codec.decode(ByteSpans.from_list(long)).columns.field("value").to_pylist()
    within = [abs(found - float(text)) <= math.ulp(found) for found, text in zip(read, long, strict=True)]
    assert all(within)


def test_hostile_values_take_bounded_memory() -> None:
    nested = b'{"z":' + b'{"z":[' * 500 + b"1" + b"]}" * 500 + b"}"
    many = b'{"m":{' + b",".join(b'"%d":1' % number for number in range(70_000)) + b"}}"
    members = b'{"l":[' + b"null," * 200_000 + b"1]}"
    long = b'{"s":"' + b"\\u0041" * 400_000 + b'"}'
    digits = b'{"d":' + b"9" * 400_000 + b"}"
    codec = opened()
    before = pa.total_allocated_bytes()
    values = [nested, many, members, long, digits, b'{"i":2}']
    decoded = codec.decode(ByteSpans.from_list(values))
    assert decoded.verdict.tolist() == [Verdict.KEEP_RAW, Verdict.KEEP_RAW, 0, Verdict.KEEP_RAW, Verdict.KEEP_RAW, 0]
    assert pa.total_allocated_bytes() - before < 64 << 20
    assert codec.encode(decoded.columns, decoded.schema_id, decoded.verdict == 0).to_list()[-1] == values[-1]


ANYTHING = st.recursive(
    st.none() | st.booleans() | LONGS | DOUBLES | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcd.", max_size=2), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ANYTHING, min_size=1, max_size=5))
def test_schema_inferred_from_anything_takes_and_returns_it(values: list[Any]) -> None:
    texts = [json.dumps(value).encode() for value in values]
    schema = Inference(JsonCodec).first_schema(ByteSpans.from_list(texts))
    if schema is None:
        assert all(value is None for value in values)
        return
    proposal = propose_fields("json", schema, ())
    codec = open_codec(
        CodecSpec(name="json", schemas={-1: schema}, placements={-1: proposal.placement}), proposal.fields
    )
    decoded = codec.decode(ByteSpans.from_list(texts))
    decoded.columns.validate(full=True)
    assert not (decoded.verdict == Verdict.UNDECODABLE).any()
    wanted = decoded.verdict == Verdict.EXACT
    found = codec.encode(decoded.columns, decoded.schema_id, wanted).to_list()
    assert found == [text if good else None for text, good in zip(texts, wanted.tolist(), strict=True)]
