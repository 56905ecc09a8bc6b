"""Generated schemas one after the other, each written into a file with the columns of its time, all read in the end."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.formats.codec import CodecSpec, Verdict, open_codec
from engine.formats.evolution.promotion import promoted
from engine.formats.proposals import propose_schema, with_schema
from engine.records.records import ByteSpans
from tests.engine.formats.avro.avro_values import framed, schemas


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_value_of_every_schema_comes_back_from_the_file_of_its_time(data: st.DataObject) -> None:
    codec, fields = CodecSpec(name="avro"), ()
    known: list[tuple[int, Any]] = []
    files: list[tuple[list[bytes], bytes, pa.Array]] = []
    for schema_id in range(1, data.draw(st.integers(2, 4)) + 1):
        made = data.draw(schemas())
        text = json.dumps(made.schema)
        proposal = propose_schema(codec, fields, text, is_reserved=lambda _: False)
        codec, fields = with_schema(codec, schema_id, text, proposal), proposal.fields
        known.append((schema_id, made))
        written = [
            framed(one.schema, value, other)
            for other, one in known
            for value in data.draw(st.lists(one.values, min_size=1, max_size=3))
        ]
        decoded = open_codec(codec, fields).decode(ByteSpans.from_list(written))
        assert decoded.verdict.tolist() == [Verdict.EXACT] * len(written), decoded.reasons
        decoded.columns.validate(full=True)
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_struct_array(decoded.columns), sink)
        files.append((written, sink.getvalue(), decoded.schema_id))
    last = open_codec(codec, fields)
    for written, content, schema_ids in files:
        table = pq.read_table(pa.BufferReader(content)).combine_chunks()
        columns = {
            field.name: promoted(table.column(field.name).chunk(0), field.type)
            for field in fields
            if field.name in table.column_names
        }
        assert last.encode(columns, schema_ids, np.full(len(written), True)).to_list() == written
        again = last.decode(ByteSpans.from_list(written))
        assert again.verdict.tolist() == [Verdict.EXACT] * len(written), "what was exact stays so"
