"""What every value codec must do: a codec's tests inherit this class and name their values."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import Corrupt
from engine.formats.codec import CodecSpec, Decoded, ValueCodec, Verdict, open_codec, propose_fields
from engine.records.records import ByteSpans


class ValueCodecConformance:
    """Inherit, and set ``spec``, ``schema_text``, ``exact_values`` and ``inexact_values``."""

    spec: CodecSpec
    schema_text: str = ""
    exact_values: tuple[bytes, ...]
    inexact_values: tuple[bytes, ...] = ()

    def fields(self) -> tuple[pa.Field, ...]:
        return propose_fields(self.spec.name, self.schema_text, (), options=self.spec.options).fields

    def open(self) -> ValueCodec:
        return open_codec(self.spec, self.fields())

    def mixed(self) -> list[bytes | None]:
        values: list[bytes | None] = [None]
        for index, value in enumerate(self.exact_values):
            values += [value, self.inexact_values[index % len(self.inexact_values)] if self.inexact_values else None]
        return [*values, None]

    def test_exact_values_come_back_byte_for_byte(self) -> None:
        codec = self.open()
        decoded = codec.decode(ByteSpans.from_list(self.exact_values))
        assert decoded.verdict.tolist() == [Verdict.EXACT] * len(self.exact_values)
        assert (decoded.reason == -1).all()
        assert rebuilt(codec, decoded) == list(self.exact_values)

    def test_null_value_is_an_exact_row_of_nulls_without_a_schema(self) -> None:
        decoded = self.open().decode(ByteSpans.from_list([None, self.exact_values[0], None]))
        assert decoded.verdict.tolist() == [Verdict.EXACT] * 3
        assert decoded.schema_id.to_pylist()[::2] == [None, None]
        assert all(column.is_null().to_pylist()[::2] == [True, True] for column in decoded.columns.flatten())

    def test_inexact_value_has_a_reason_and_leaves_its_neighbours_alone(self) -> None:
        codec, values = self.open(), self.mixed()
        decoded = codec.decode(ByteSpans.from_list(values))
        decoded.columns.validate(full=True)
        exact = decoded.verdict == Verdict.EXACT
        assert exact.tolist() == [value not in self.inexact_values for value in values]
        assert all((decoded.reason_of(row) is None) == exact[row] for row in range(len(values)))
        wanted = exact & np.array([value is not None for value in values])
        expected = [value if good else None for value, good in zip(values, wanted.tolist(), strict=True)]
        assert codec.encode(decoded.columns, decoded.schema_id, wanted).to_list() == expected

    def test_block_without_rows_decodes_and_encodes_to_nothing(self) -> None:
        codec = self.open()
        decoded = codec.decode(ByteSpans.from_list([]))
        assert len(decoded.columns) == len(decoded) == 0
        assert codec.encode(decoded.columns, decoded.schema_id, np.empty(0, np.bool_)).to_list() == []

    def test_block_of_nulls_only_fills_the_tables_columns(self) -> None:
        decoded = self.open().decode(ByteSpans.nulls(9))
        assert decoded.columns.type == pa.struct(list(self.fields()))
        assert len(decoded.columns) == 9

    def test_columns_follow_the_tables_order_and_unknown_ones_are_null(self) -> None:
        extra = pa.field("of_another_time", pa.list_(pa.field("element", pa.struct([pa.field("x", pa.uuid())]))))
        fields = (extra, *reversed(self.fields()))
        codec = open_codec(self.spec, fields)
        decoded = codec.decode(ByteSpans.from_list(self.exact_values))
        assert codec.fields == fields
        assert [field.name for field in decoded.columns.type] == [field.name for field in fields]
        assert decoded.columns.field(0).null_count == len(self.exact_values)
        assert rebuilt(codec, decoded) == list(self.exact_values)

    @pytest.mark.parametrize("dictionary", [False, True])
    def test_columns_read_back_from_parquet_give_the_same_bytes(self, dictionary: bool) -> None:
        codec, values = self.open(), list(self.exact_values) * 3
        decoded = codec.decode(ByteSpans.from_list(values))
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_struct_array(decoded.columns), sink, row_group_size=7)
        file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
        leaves = [file.schema.column(index) for index in range(len(file.schema))]
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"] if dictionary else []
        stored = pq.read_table(pa.BufferReader(sink.getvalue()), read_dictionary=texts)
        assert sum(dictionaries_in(field.type) for field in stored.schema) == len(texts)
        columns = {name: stored.column(name) for name in stored.column_names}
        assert codec.encode(columns, decoded.schema_id, np.full(len(values), True)).to_list() == values

    def test_values_scattered_in_a_larger_buffer_decode_alike(self) -> None:
        codec, values = self.open(), ByteSpans.from_list(self.exact_values)
        scattered = values.select(np.arange(len(values))[::-3])
        assert rebuilt(codec, codec.decode(scattered)) == list(self.exact_values[::-3])

    def test_growing_blocks_never_run_out_of_room(self) -> None:
        codec = self.open()
        for count in (1, 2, 40, 3000, 5):
            values = (list(self.exact_values) * count)[:count]
            decoded = codec.decode(ByteSpans.from_list(values))
            assert (decoded.verdict == Verdict.EXACT).sum() == count
            assert rebuilt(codec, decoded) == values

    def test_slice_of_the_columns_gives_the_slice_of_the_values(self) -> None:
        codec, values = self.open(), list(self.exact_values) * 4
        decoded = codec.decode(ByteSpans.from_list(values))
        for start in (1, 3, 9):
            part = decoded.columns.slice(start, len(values) - start - 1)
            ids = decoded.schema_id.slice(start, len(part))
            assert codec.encode(part, ids, np.full(len(part), True)).to_list() == values[start:-1]

    def test_rows_that_are_not_wanted_come_back_null(self) -> None:
        codec = self.open()
        decoded = codec.decode(ByteSpans.from_list(self.exact_values))
        wanted = np.arange(len(self.exact_values)) % 2 == 0
        expected = [value if index % 2 == 0 else None for index, value in enumerate(self.exact_values)]
        assert codec.encode(decoded.columns, decoded.schema_id, wanted).to_list() == expected

    def test_wanted_row_of_other_length_than_the_columns_is_corrupt(self) -> None:
        codec = self.open()
        decoded = codec.decode(ByteSpans.from_list(self.exact_values))
        with pytest.raises(Corrupt):
            codec.encode(decoded.columns.slice(1), decoded.schema_id, np.full(len(self.exact_values), True))

    def test_specification_survives_json_and_pickle(self) -> None:
        assert CodecSpec.from_json(self.spec.to_json()) == self.spec
        assert pickle.loads(pickle.dumps(self.spec)) == self.spec

    def test_proposal_for_a_table_that_has_the_columns_changes_nothing(self) -> None:
        proposal = propose_fields(self.spec.name, self.schema_text, self.fields(), options=self.spec.options)
        assert proposal.fields == self.fields()
        assert proposal.conflicts == ()

    def test_column_of_another_type_is_a_conflict_that_names_it(self) -> None:
        name = self.fields()[0].name
        taken = (pa.field(name, pa.duration("s")),)
        proposal = propose_fields(self.spec.name, self.schema_text, taken, options=self.spec.options)
        assert len(proposal.conflicts) == 1
        assert name in proposal.conflicts[0]
        assert "duration" in proposal.conflicts[0]


def rebuilt(codec: ValueCodec, decoded: Decoded) -> list[bytes | None]:
    """All values again, from the columns alone; the columns are whole by Arrow's own full check."""
    decoded.columns.validate(full=True)
    return codec.encode(decoded.columns, decoded.schema_id, np.full(len(decoded), True)).to_list()


def dictionaries_in(kind: pa.DataType) -> int:
    """How many leaves of a column are dictionaries, at every level."""
    if pa.types.is_nested(kind):
        return sum(dictionaries_in(kind.field(index).type) for index in range(kind.num_fields))
    return int(pa.types.is_dictionary(kind))
