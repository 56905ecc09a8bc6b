"""The raw format, held to the codec's conformance suite."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import Corrupt, Invalid
from engine.formats.codec import CodecSpec, open_codec
from tests.engine.formats.conformance import ValueCodecConformance


class TestRawCodec(ValueCodecConformance):
    spec = CodecSpec(name="raw")
    exact_values = (b"a", b"", b"\xff\x00", b"long" * 900, b"\0" * 7) * 3

    def test_dictionary_index_outside_of_its_dictionary_is_corrupt(self) -> None:
        indices = pa.array([0, 5], pa.int32())
        column = pa.DictionaryArray.from_arrays(indices, pa.array([b"x"]), safe=False)
        with pytest.raises(Corrupt, match="row 1"):
            self.open().encode({"value": column}, pa.nulls(2, pa.int32()), np.full(2, True))

    def test_null_in_a_wanted_row_is_corrupt(self) -> None:
        with pytest.raises(Corrupt, match="row 1"):
            self.open().encode({"value": pa.array([b"x", None])}, pa.nulls(2, pa.int32()), np.full(2, True))

    def test_offsets_that_leave_the_data_are_corrupt(self) -> None:
        offsets = pa.py_buffer(np.array([0, 900, 2], np.int32))
        column = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, pa.py_buffer(b"xy")])
        with pytest.raises(Corrupt, match="offsets"):
            self.open().encode({"value": column}, pa.nulls(2, pa.int32()), np.full(2, True))


def test_table_without_the_value_column_is_refused() -> None:
    with pytest.raises(Invalid, match="value"):
        open_codec(CodecSpec(name="raw"), [pa.field("value", pa.string())])


def test_format_that_does_not_exist_is_refused_with_the_ones_that_do() -> None:
    with pytest.raises(Invalid, match="avro, csv, json, protobuf, raw, string"):
        open_codec(CodecSpec(name="xml"), [])
