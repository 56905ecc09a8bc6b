"""The kernels against Google's runtime on generated schemas and data, byte for byte both ways, and on damaged bytes.

``FLOEBERG_PROTOBUF_EXAMPLES=20000 pytest tests/engine/formats/protobuf/test_against_runtime.py`` tries more of them.
"""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.formats.codec import ValueCodec, Verdict
from engine.formats.protobuf.descriptors import load_file
from engine.records.records import ByteSpans
from tests.engine.formats.conformance import rebuilt
from tests.engine.formats.protobuf.schemas import messages, schema_texts
from tests.engine.formats.protobuf.values import HEADER, framed, opened, shown

pytestmark = pytest.mark.kernels

EXAMPLES = int(os.environ.get("FLOEBERG_PROTOBUF_EXAMPLES", "40"))
SLOW = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@SLOW
@given(st.data())
def test_generated_messages_show_what_the_runtime_wrote_and_come_back_byte_for_byte(data: st.DataObject) -> None:
    text = data.draw(schema_texts())
    made = data.draw(st.lists(messages(text), min_size=1, max_size=4))
    written = [framed(message) for message in made]
    codec = opened(text)
    decoded = codec.decode(ByteSpans.from_list(written))
    assert decoded.verdict.tolist() == [Verdict.EXACT] * len(made), decoded.reasons
    assert decoded.columns.to_pylist(maps_as_pydicts="strict") == [shown(message) for message in made]
    assert rebuilt(codec, decoded) == written


_FRAGMENTS = st.sampled_from(
    [
        b"",
        b"\xff" * 9 + b"\x01",
        b"\xff" * 10,
        b"\x80\x00",
        b"\x0b" * 120,
        b"\x0b\x08\x01\x0c",
        b"\x0c",
        b"\x0a\xff\xff\xff\xff\x07",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x12\x03\xed\xa0\x80",
        b"\x00\x00",
        b"\x0f\x06",
        b"\xfa\xff\xff\xff\x0f\x00",
        b"\x80\x80\x80\x80\x10\x00",
    ]
)


@st.composite
def damaged(draw: st.DrawFn, value: bytes) -> bytes:
    """A message's bytes with something changed, or with another one's behind: merged as the runtime does."""
    raw = bytearray(value)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(raw)))
        until = draw(st.integers(at, min(len(raw), at + 12)))
        how = draw(st.sampled_from(["flip", "cut", "insert", "again", "twice", "fragment"]))
        if how == "flip" and at < len(raw):
            raw[at] ^= 1 << draw(st.integers(0, 7))
        elif how == "cut":
            del raw[at:until]
        elif how == "insert":
            raw[at:at] = draw(st.binary(max_size=5))
        elif how == "again":
            raw[at:at] = bytes(raw[at:until])
        elif how == "twice":
            raw *= 2
        else:
            raw[at:at] = draw(_FRAGMENTS)
    return bytes(raw)


def check_damaged(text: str, codec: ValueCodec, good: bytes, bodies: list[bytes]) -> None:
    """Bad records spare their neighbours; what the columns show of them is what the runtime reads, or null."""
    message = GetMessageClass(load_file(text).message_types_by_name["Top"])
    values = [value for body in bodies for value in (good, HEADER + body)] + [good]
    decoded = codec.decode(ByteSpans.from_list(values))
    decoded.columns.validate(full=True)
    exact = decoded.verdict == Verdict.EXACT
    assert exact[::2].all(), decoded.reasons
    wanted = [value if is_exact else None for value, is_exact in zip(values, exact.tolist(), strict=True)]
    assert codec.encode(decoded.columns, decoded.schema_id, exact).to_list() == wanted
    neighbours, rows = decoded.columns.take(np.arange(0, len(values), 2)), decoded.columns
    assert neighbours.equals(neighbours.take([0] * len(neighbours)))
    has_closed = load_file(text).enum_types_by_name["E"].is_closed
    for index, body in enumerate(bodies):
        row = 2 * index + 1
        try:
            expected = shown(message.FromString(body))
        except DecodeError:
            assert not exact[row], body
            continue
        except (OverflowError, UnicodeDecodeError):
            continue
        assert decoded.verdict[row] != Verdict.UNDECODABLE, (body, decoded.reason_of(row))
        if not has_closed:
            found = rows[row].as_py(maps_as_pydicts="strict")
            assert agrees(found, expected, may_be_null=not exact[row]), (found, expected, decoded.reason_of(row))


def agrees(found: object, expected: object, *, may_be_null: bool) -> bool:
    if found is None:
        return expected is None or may_be_null
    if isinstance(found, dict) and isinstance(expected, dict):
        # The runtime drops a map's entry for an unknown field in it; others of Google's runtimes keep it.
        same_keys = expected.keys() <= found.keys() if may_be_null else expected.keys() == found.keys()
        return same_keys and all(agrees(found[key], expected[key], may_be_null=may_be_null) for key in expected)
    if isinstance(found, list) and isinstance(expected, list):
        pairs = zip(found, expected, strict=False)
        return len(found) == len(expected) and all(agrees(*pair, may_be_null=may_be_null) for pair in pairs)
    both_nan = isinstance(found, float) and isinstance(expected, float) and math.isnan(found) and math.isnan(expected)
    return both_nan or found == expected


@SLOW
@given(st.data())
def test_damaged_messages_of_any_schema_are_read_as_the_runtime_reads_them_or_keep_their_bytes(
    data: st.DataObject,
) -> None:
    text = data.draw(schema_texts())
    made = data.draw(st.lists(messages(text, without_columns=True), min_size=1, max_size=3))
    good = framed(data.draw(messages(text)))
    bodies = [data.draw(damaged(framed(message)[len(HEADER) :])) for message in made]
    check_damaged(text, opened(text), good, bodies)
