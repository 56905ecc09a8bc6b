"""The string format, held to the codec's conformance suite, and its UTF-8 kernel against Python's own decoder."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.formats.codec import CodecSpec
from engine.records.records import ByteSpans
from tests.engine.formats.conformance import ValueCodecConformance


class TestTextCodec(ValueCodecConformance):
    spec = CodecSpec(name="string")
    exact_values = (b"a", b"", "größer € 🧊".encode(), b"x" * 5000, b"\0") * 3
    inexact_values = (b"\xff", b"abc\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80")

    def test_bytes_that_are_no_text_say_so(self) -> None:
        decoded = self.open().decode(ByteSpans.from_list([b"\xff"]))
        assert decoded.reason_of(0) == "not UTF-8"


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.kernels
@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=6) | st.text(max_size=6).map(lambda value: value.encode("utf-8", "surrogatepass"))))
@example([b"\xe0\x9f\xbf", b"\xe0\xa0\x80", b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xc1\xbf"])
def test_utf8_kernel_agrees_with_python(values: list[bytes]) -> None:
    assert ByteSpans.from_list(list(values)).is_not_utf8.tolist() == [not _is_utf8(value) for value in values]
