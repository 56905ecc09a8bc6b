"""Topics of every value format become columns, and their consumers get every byte back out of the columns alone."""

from __future__ import annotations

import io
import json
import struct

import duckdb
import fastavro
import pytest

from tests.native.clients import confluent
from tests.native.stage import TIERED, NativeStage, Sent
from tests.native.value_topics import KEY_SCHEMA, PRODUCERS, values_of

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("native")]
COUNT = 6_000
"""Of the smallest values, those of Avro, uncompressed, more than a segment."""
KEY_SCHEMA_ID = 2


def _key(number: int) -> bytes:
    written = io.BytesIO(struct.pack(">bI", 0, KEY_SCHEMA_ID))
    written.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(written, json.loads(KEY_SCHEMA), {"shop": number % 9, "number": number})
    return written.getvalue()


@pytest.mark.parametrize("topic", PRODUCERS)
def test_values_are_served_from_columns_to_consumers_and_to_sql(stage: NativeStage, topic: str) -> None:
    sent = [
        Sent(key=_key(number), value=None if number % 50 == 0 else value, timestamp_ms=1_750_000_000_000 + number)
        for number, value in enumerate(values_of(topic, COUNT))
    ]
    stage.create(topic, TIERED)
    stage.produce(topic, sent, codec="none")
    stage.await_history_gone(topic)
    read = confluent(stage.broker.bootstrap, topic, 0, COUNT, lambda _: None, False)
    assert read == list(enumerate(sent))

    assert stage.fsck(topic).is_healthy
    end = stage.table(topic).ledger[0].range.end
    assert end > COUNT // 3
    table = stage.table(topic)
    files = f"{table.location.removeprefix('file://')}/data/**/*.parquet"
    rows, tombstones, raw, customers, amounts = duckdb.sql(
        f"SELECT count(*), count(*) FILTER (kafka_is_null), count(kafka_value_raw), count(DISTINCT customer.city), "
        f"count(total) FROM read_parquet('{files}', union_by_name = true)"
    ).fetchall()[0]
    assert (rows, tombstones) == (end, len(range(0, end, 50)))
    assert raw == 0, duckdb.sql(f"SELECT DISTINCT kafka_error FROM read_parquet('{files}')").fetchall()[:5]
    assert customers > 1
    assert amounts == rows - tombstones
